"""Values of options as a person reads them."""

from typing import Any

import pytest

from core.options.catalogue import options_by_path, unit_beside, value_words, with_unit
from core.options.choices import Method


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("training.warmup", 0.05, "5 %"),
        ("training.warmup", 0.025, "2.5 %"),
        ("training.warmup", 100.0, "100 steps"),
        ("training.warmup", 1.0, "1 step"),
        ("training.warmup", 0.0, "0 steps"),
        ("data.eval_fraction", 0.1, "10 %"),
        ("data.eval_fraction", 0.0, "0 %"),
        ("training.beta2", 0.999, "0.999"),
        ("training.epochs", 3.0, "3"),
        ("training.max_steps", 1200, "1,200 steps"),
        ("memory.gradient_accumulation_steps", 1, "1 batch"),
        ("memory.gradient_accumulation_steps", 4, "4 batches"),
        ("data.workers", 1, "1 process"),
        ("data.workers", None, "not set"),
        ("training.learning_rate", 2e-5, "2e-5"),
        ("model.method", Method.LORA, "LoRA"),
        ("model.pretrained", False, "Off"),
        ("model.lora_targets", ("query", "value"), "query, value"),
        ("model.lora_targets", (), "not set"),
        ("data.columns", {"prompt": "question"}, "prompt = question"),
        ("data.columns", {}, "not set"),
        ("output.name", "", "not set"),
    ],
)
def test_a_value_is_told_with_what_it_counts(path: str, value: Any, told: str) -> None:
    assert with_unit(options_by_path()[path], value) == told


def test_behind_a_field_a_share_is_of_the_run() -> None:
    option = options_by_path()["training.warmup"]
    assert [unit_beside(option, value) for value in (0.05, 1.0, 20.0, None, "0.0x")] == [
        *("of the run", "step", "steps"),
        *("steps", "steps"),
    ]
    assert value_words(option, 0.05) == "5 %"
