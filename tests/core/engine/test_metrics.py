"""Accuracy and F1 against figures counted by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from core.engine.metrics import classification_metrics


def metrics(
    guesses: list[int], truth: list[int], classes: int, *, as_tuple: bool = False
) -> dict[str, float]:
    logits = np.eye(classes)[guesses]
    predictions = (logits, np.zeros(3)) if as_tuple else logits
    return classification_metrics(SimpleNamespace(predictions=predictions, label_ids=np.array(truth)))


def test_two_classes_are_judged_by_class_one() -> None:
    # class 1: 2 found, 1 wrongly, 1 missed: precision 2/3, recall 2/3
    found = metrics([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], classes=2)
    assert found == {"accuracy": pytest.approx(4 / 6), "f1": pytest.approx(2 / 3)}


def test_more_classes_count_alike_however_many_samples_they_have() -> None:
    # class 0: 3 of 4, none wrongly: F1 6/7; class 1: 1 of 1, 1 wrongly: F1 2/3; class 2: 1 of 1: F1 1
    found = metrics([0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 1, 2], classes=3)
    assert found == {"accuracy": pytest.approx(5 / 6), "f1": pytest.approx((6 / 7 + 2 / 3 + 1) / 3)}


def test_a_class_nobody_guesses_counts_as_zero() -> None:
    assert metrics([0, 0], [1, 1], classes=2) == {"accuracy": 0.0, "f1": 0.0}


def test_a_model_that_returns_more_than_logits() -> None:
    assert metrics([1, 0], [1, 0], classes=2, as_tuple=True)["accuracy"] == 1.0
