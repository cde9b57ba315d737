"""Random tokens: as many and as long as asked, never longer than the model sees, never evaluated."""

from collections import Counter
from typing import Any

import pytest

from core.base.errors import DataError
from core.engine.data.synthetic import load_random_texts, random_tokens
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions


def options(**data: Any) -> RunOptions:
    return RunOptions(task=Task.TEXT_CLASSIFICATION, data=DataOptions(**data))


def refusal(**data: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        load_random_texts(options(**data), vocab_size=100, longest=512)
    return caught.value


def test_synthetic_text_has_both_labels_and_repeats_with_its_seed() -> None:
    data = random_tokens(64, 16, vocab_size=100, seed=7)
    assert len(data) == 64
    assert Counter(data["labels"]) == {0: 32, 1: 32}
    assert all(len(row["input_ids"]) == len(row["attention_mask"]) == 16 for row in data)
    assert max(max(ids) for ids in data["input_ids"]) < 100
    assert random_tokens(64, 16, 100, 7)["input_ids"][:] == data["input_ids"][:]
    assert random_tokens(64, 16, 100, 8)["input_ids"][:] != data["input_ids"][:]


@pytest.mark.parametrize("task", [Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION])
def test_texts_of_a_range_have_every_length_of_it_about_as_often(task: Task) -> None:
    same = random_tokens(400, 9, 100, 7, task)
    data = random_tokens(400, 9, 100, 7, task, shortest=6)
    lengths = Counter(len(row["input_ids"]) for row in data)
    assert set(lengths) == {6, 7, 8, 9}
    assert min(lengths.values()) > 70
    for row, whole in zip(data, same, strict=True):
        size = len(row["input_ids"])
        assert row["input_ids"] == whole["input_ids"][:size]
        assert row["attention_mask"] == [1] * size
        by_token = task is Task.TOKEN_CLASSIFICATION
        assert row["labels"] == (whole["labels"][:size] if by_token else whole["labels"])


def test_a_range_is_cut_at_what_the_model_sees() -> None:
    error = refusal(train="synthetic:4x64-600")
    assert [fix.changes for fix in error.fixes] == [{"data.train": "synthetic:4x64-512"}]
    found = load_random_texts(options(train="synthetic:40x2-4"), vocab_size=100, longest=512)
    assert found is not None
    assert {len(row["input_ids"]) for row in found.train} == {2, 3, 4}


def test_real_data_is_left_to_others() -> None:
    assert load_random_texts(options(train="reviews.csv"), vocab_size=100, longest=512) is None


def test_as_long_as_the_model_sees_and_no_longer() -> None:
    found = load_random_texts(options(train="synthetic:4x512"), vocab_size=100, longest=512)
    assert found is not None
    assert (len(found.train), found.eval, found.labels) == (4, None, ("0", "1"))
    error = refusal(train="synthetic:4x600")
    assert "600 tokens are too long" in error.title
    assert [fix.changes for fix in error.fixes] == [{"data.train": "synthetic:4x512"}]


def test_no_more_than_asked() -> None:
    found = load_random_texts(
        options(train="synthetic:6x16", max_train_samples=5), vocab_size=100, longest=512
    )
    assert found is not None
    assert len(found.train) == 5


@pytest.mark.parametrize("source", ["reviews.csv", "synthetic:6x16"])
def test_random_training_data_is_never_evaluated(source: str) -> None:
    error = refusal(train="synthetic:6x16", eval=source)
    assert source in error.detail
    assert [fix.changes for fix in error.fixes] == [{"data.eval": None}]
