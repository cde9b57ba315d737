"""Values of options as a person reads them, and the reference page."""

from pathlib import Path

import pytest

from core.options.catalogue import all_options, as_markdown, as_text, options_by_path, unit_beside, with_unit
from core.options.choices import Method

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("training.warmup", 0.025, "2.5 %"),
        ("training.warmup", 100.0, "100 steps"),
        ("training.warmup", 1.0, "1 step"),
        ("training.warmup", 0.0, "0 steps"),
        ("data.eval_fraction", 0.1, "10 %"),
        ("training.beta2", 0.999, "0.999"),
        ("training.max_steps", 1200, "1,200 steps"),
        ("memory.gradient_accumulation_steps", 1, "1 batch"),
        ("memory.gradient_accumulation_steps", 4, "4 batches"),
        ("data.workers", None, "not set"),
        ("training.learning_rate", 2e-5, "2e-5"),
        ("model.method", Method.LORA, "LoRA"),
        ("model.pretrained", False, "Off"),
        ("model.lora_targets", ("query", "value"), "query, value"),
        ("data.columns", {"prompt": "question"}, "prompt = question"),
    ],
)
def test_a_value_has_its_unit(path, value, words):
    assert with_unit(options_by_path()[path], value) == words


def test_behind_a_field_a_share_is_of_the_run():
    option = options_by_path()["training.warmup"]
    units = [unit_beside(option, value) for value in (0.05, 1.0, 20.0, None, "0.0x")]
    assert units == ["of the run", "step", "steps", "steps", "steps"]


def test_the_page_in_the_docs_is_current_and_has_every_option():
    assert (DOCS / "options.md").read_text(encoding="utf-8") == as_markdown(), (
        "run: .venv/bin/python -m gui options --markdown > docs/options.md"
    )
    for text in (as_markdown(), as_text()):
        assert all(option.help in text and option.name in text for option in all_options()[1:])


def test_choices_of_equal_value_keep_the_help_of_their_own_option():
    """Equal strings of two enumerations are equal keys: `auto` of all once showed the sentence of the last."""
    choices = {
        (option.value_type, choice): choice.help for option in all_options() for choice in option.choices
    }
    assert len(set(choices.values())) == len({(kind, choice.value) for kind, choice in choices})
    assert all(kind(choice.value).help == words != "" for (kind, choice), words in choices.items())
