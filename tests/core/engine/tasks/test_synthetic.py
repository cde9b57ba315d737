"""Random tokens: as many and as long as chosen, never longer than the model sees, never evaluated."""

from collections import Counter
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data import NO_LABEL
from core.engine.tasks.text import random_samples
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import TrainingOptions


def made(train: str, task: Task = Task.TEXT_CLASSIFICATION, seed: int = 7, **data: Any) -> Any:
    training = TrainingOptions(seed=seed)
    options = RunOptions(task=task, data=DataOptions(train=train, **data), training=training)
    return random_samples(options, vocabulary=100, longest=512)


def test_texts_have_both_labels_and_are_the_same_for_one_seed():
    found = made("synthetic:64x16")
    assert Counter(found["labels"]) == {0: 32, 1: 32}
    assert all(len(row["input_ids"]) == len(row["attention_mask"]) == 16 for row in found)
    assert max(max(ids) for ids in found["input_ids"]) < 100
    assert made("synthetic:64x16")[:] == found[:]
    assert made("synthetic:64x16", seed=8)["input_ids"][:] != found["input_ids"][:]
    assert len(made("synthetic:6x512", max_train_samples=5)) == 5
    assert made("reviews.csv") is None


@pytest.mark.parametrize("task", [Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION])
def test_a_range_has_every_length_about_as_often(task):
    found = made("synthetic:400x6-9", task)
    lengths = Counter(map(len, found["input_ids"]))
    assert set(lengths) == {6, 7, 8, 9}
    assert min(lengths.values()) > 70
    for row in found:
        assert row["attention_mask"] == [1] * len(row["input_ids"])
        assert task is Task.TEXT_REGRESSION or len(row["labels"]) == len(row["input_ids"])


def test_half_of_a_row_is_the_prompt_of_conversations_and_pairs():
    assert made("synthetic:4x8", Task.CAUSAL_LM).column_names == ["input_ids"]
    for row in made("synthetic:4x8", Task.CHAT):
        assert row["labels"] == [NO_LABEL] * 4 + row["input_ids"][4:]
    for row in made("synthetic:4x9", Task.PREFERENCE):
        assert [len(row[name]) for name in ("prompt_ids", "chosen_ids", "rejected_ids")] == [4, 5, 5]


@pytest.mark.parametrize(
    ("train", "data", "changes"),
    [
        ("synthetic:4x600", {}, {"data.train": "synthetic:4x512"}),
        ("synthetic:4x64-600", {}, {"data.train": "synthetic:4x64-512"}),
        ("synthetic:6x16", {"eval": "reviews.csv"}, {"data.eval": None}),
    ],
)
def test_texts_too_long_for_the_model_and_their_evaluation_are_refused(train, data, changes):
    with pytest.raises(DataError) as caught:
        made(train, **data)
    assert [fix.changes for fix in caught.value.fixes] == [changes]
