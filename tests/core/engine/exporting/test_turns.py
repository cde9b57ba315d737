"""Well-known chat templates as the pieces around each turn, and as templates of Ollama's."""

import pytest

from core.engine.data.chat_tokens import CHATML
from core.engine.export.formats import Messages, SystemIn, Turns, find_turns, renderer
from tests.fakes.chat_templates import ASKS_FOR_THOUGHTS, BRACKETS, DIARY, LAST_ENDS, NEVER_ASKS, PLAIN
from tests.fakes.tiny_tokenizer import tiny_tokenizer

LLAMA_3 = (
    "{% for m in messages %}{{ ('<|begin_of_text|>' if loop.first else '') + '<|start_header_id|>' + m.role"
    " + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA = (
    "{% set first = '' %}{% if messages[0].role == 'system' %}{% set first = messages[0].content + '\n\n' %}"
    "{% set messages = messages[1:] %}{% endif %}{% for m in messages %}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\n' }}"
    "{{ first if loop.first else '' }}{{ m.content | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
MISTRAL = (
    "{% set said = '' %}{% if messages[0].role == 'system' %}{% set said = messages[0].content %}"
    "{% set messages = messages[1:] %}{% endif %}{% for m in messages %}{% if m.role == 'user' %}"
    "{{ '[INST] ' + (said + '\n\n' if loop.last and said else '') + m.content + '[/INST]' }}"
    "{% else %}{{ ' ' + m.content + '</s>' }}{% endif %}{% endfor %}"
)
WITH_DEFAULT = (
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou are a helper.<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def turns_of(template: str, begin: str = "") -> Turns | None:
    more = {"bos_token": begin, "special": (begin,)} if begin else {}
    return find_turns(renderer(tiny_tokenizer(template, **more)))


@pytest.mark.parametrize(
    ("template", "begin", "system"),
    [
        (PLAIN, "", SystemIn.TURN),
        (CHATML, "", SystemIn.TURN),
        (WITH_DEFAULT, "", SystemIn.TURN),
        (LLAMA_3, "<|begin_of_text|>", SystemIn.TURN),
        (GEMMA, "", SystemIn.FIRST),
        (MISTRAL, "", SystemIn.LAST),
        (BRACKETS, "", SystemIn.NOWHERE),
        (LAST_ENDS, "", SystemIn.TURN),
        (ASKS_FOR_THOUGHTS, "", SystemIn.TURN),
        (NEVER_ASKS, "", SystemIn.TURN),
    ],
)
def test_a_template_is_taken_apart(template: str, begin: str, system: SystemIn) -> None:
    turns = turns_of(template, begin)
    assert turns is not None
    assert turns.system_in is system
    talk: Messages = (("user", "One?"), ("assistant", "Two."), ("user", "Three?"))
    if system is not SystemIn.NOWHERE:
        talk = (("system", "Count."), *talk)
    assert turns.write(talk) == renderer(tiny_tokenizer(template, **_begin(begin)))(talk, True)


def _begin(begin: str) -> dict[str, object]:
    return {"bos_token": begin, "special": (begin,)} if begin else {}


def test_one_that_writes_more_than_that_is_not() -> None:
    assert turns_of(DIARY) is None
    assert turns_of(PLAIN.replace("m.content +", "m.content + loop.index | string +")) is None


def test_as_a_template_of_ollamas() -> None:
    gemma = turns_of(GEMMA)
    assert gemma is not None
    assert gemma.as_go() == (
        "{{ $first := true }}{{ range .Messages }}"
        '{{ if eq .Role "user" }}<start_of_turn>user\n'
        "{{ if and $first $.System }}{{ $.System }}\n\n{{ end }}{{ $first = false }}{{ .Content }}<end_of_turn>\n"
        '{{ else if eq .Role "assistant" }}<start_of_turn>model\n{{ .Content }}<end_of_turn>\n{{ end }}{{ end }}'
        "<start_of_turn>model\n"
    )
    default = turns_of(WITH_DEFAULT)
    assert default is not None
    assert default.as_go().startswith(
        "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n"
        "{{ else }}<|im_start|>system\nYou are a helper.<|im_end|>\n{{ end }}{{ range .Messages }}"
    )
    mistral = turns_of(MISTRAL)
    assert mistral is not None
    assert (
        "{{ range $place, $_ := .Messages }}"
        '{{ if eq .Role "user" }}[INST] {{ if and (eq (len (slice $.Messages $place)) 1) $.System }}{{ $.System }}\n\n'
        "{{ end }}{{ .Content }}[/INST]"
    ) in mistral.as_go()
    braces = turns_of(PLAIN.replace("'<assistant>'", "'{{assistant}}'"))
    assert braces is not None
    assert '{{ "{{" }}assistant' in braces.as_go()
