"""Real conversations and pairs as samples: none is lost without a word, and what is learned are the answers."""

import json
from pathlib import Path

import pytest

from core.engine.data.chat_samples import load_conversations
from core.engine.data.chat_tokens import Renderer, set_template
from core.engine.data.token_cache import NO_LABEL, lengths_of
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from tests.fakes.tiny_tokenizer import tiny_tokenizer


def renderer() -> Renderer:
    tokenizer = tiny_tokenizer()
    set_template(tokenizer)
    return Renderer(tokenizer)


@pytest.mark.data
def test_every_alpaca_answer_is_learned(shared_data: Path) -> None:
    path = shared_data / "instruct" / "alpaca_en_demo.json"
    asked = RunOptions(task=Task.CHAT, data=DataOptions(train=str(path), eval_fraction=0.1))
    rendering = renderer()
    found = load_conversations(asked, rendering, 1_000_000)
    assert found.eval is not None
    assert (len(found.train), len(found.eval), found.findings) == (899, 100, ())
    assert found.turn_end == rendering.tokenizer.eos_token_id
    learned = [
        rendering.tokenizer.decode([token for token in sample["labels"] if token != NO_LABEL])
        for part in (found.train, found.eval)
        for sample in part
    ]
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert sorted(learned) == sorted(f"{row['output']}<|im_end|><|endoftext|>" for row in rows)


@pytest.mark.data
def test_every_pair_is_kept_or_counted(shared_data: Path) -> None:
    path = shared_data / "instruct" / "dpo_en_demo.json"
    asked = RunOptions(task=Task.PREFERENCE, data=DataOptions(train=str(path), eval_fraction=0.1))
    whole = load_conversations(asked, renderer(), 1_000_000)
    assert whole.eval is not None
    assert (len(whole.train), len(whole.eval), whole.findings) == (270, 30, ())
    cut = load_conversations(asked, renderer(), 512)
    counted = {finding.code: finding.count for finding in cut.findings}
    assert len(cut.train) + len(cut.eval or ()) + counted["answers-gone"] == 300
    assert max(lengths_of(cut.train) or ()) <= 512
