"""A chat template that a stranger wrote is rendered in a sandbox: it reaches nothing of Python."""

from pathlib import Path

import pytest

from core.base.errors import ModelError
from core.engine.data.chat_tokens import Renderer, TemplateRefused
from core.engine.data.conversation_shapes import Conversation, Message
from core.options.choices import Speaker
from tests.fakes.tiny_tokenizer import tiny_tokenizer

TRICKS = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.system('touch MARK') }}",
    "{{ lipsum.__globals__['os'].popen('touch MARK').read() }}",
    "{{ messages.__class__.__base__.__subclasses__() }}",
    "{% set _ = messages.append({'role': 'user'}) %}{{ messages }}",
    "{{ raise_exception.__globals__['json'] }}",
)


@pytest.mark.parametrize("trick", TRICKS)
def test_a_template_runs_nothing(trick: str, tmp_path: Path) -> None:
    mark = tmp_path / "it-ran"
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = trick.replace("MARK", str(mark))
    row = Conversation(1, (Message(Speaker.USER, "a"), Message(Speaker.ASSISTANT, "b")))
    with pytest.raises((ModelError, TemplateRefused)):
        Renderer(tokenizer).render(row)
    assert not mark.exists()
