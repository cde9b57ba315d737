"""Accuracy, F1 and correlations against figures counted by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from core.engine.metrics import classification_metrics, ranks, regression_metrics


def metrics(
    guesses: list[int], truth: list[int], classes: int, *, as_tuple: bool = False
) -> dict[str, float]:
    logits = np.eye(classes)[guesses]
    predictions = (logits, np.zeros(3)) if as_tuple else logits
    return classification_metrics(SimpleNamespace(predictions=predictions, label_ids=np.array(truth)))


def test_two_classes_are_judged_by_class_one() -> None:
    # class 1: 2 found, 1 wrongly, 1 missed: precision 2/3, recall 2/3; Matthews (2 * 2 - 1 * 1) / (3 * 3)
    found = metrics([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], classes=2)
    assert found == {
        "accuracy": pytest.approx(4 / 6),
        "f1": pytest.approx(2 / 3),
        "matthews": pytest.approx(1 / 3),
    }


def test_more_classes_count_alike_however_many_samples_they_have() -> None:
    # class 0: 3 of 4, none wrongly: F1 6/7; class 1: 1 of 1, 1 wrongly: F1 2/3; class 2: 1 of 1: F1 1
    found = metrics([0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 1, 2], classes=3)
    assert found == {"accuracy": pytest.approx(5 / 6), "f1": pytest.approx((6 / 7 + 2 / 3 + 1) / 3)}


def test_a_class_nobody_guesses_counts_as_zero() -> None:
    assert metrics([0, 0], [1, 1], classes=2) == {"accuracy": 0.0, "f1": 0.0, "matthews": 0.0}


def test_a_model_that_returns_more_than_logits() -> None:
    assert metrics([1, 0], [1, 0], classes=2, as_tuple=True)["accuracy"] == 1.0


def test_of_more_than_five_classes_the_likeliest_five_are_looked_at() -> None:
    logits = np.array([[6.0, 5, 4, 3, 2, 1], [6.0, 5, 4, 3, 2, 1]])
    found = classification_metrics(SimpleNamespace(predictions=logits, label_ids=np.array([4, 5])))
    assert found["top5_accuracy"] == 0.5
    assert found["accuracy"] == 0.0
    assert "top5_accuracy" not in metrics([0, 1], [0, 1], classes=5)


def scored(guesses: list[float], truth: list[float]) -> dict[str, float]:
    predictions = np.array(guesses, dtype=np.float32)[:, None]
    return regression_metrics(SimpleNamespace(predictions=predictions, label_ids=np.array(truth)))


def test_numbers_are_judged_by_their_correlations_and_their_distance() -> None:
    # deviations -1.5, -0.5, 0.5, 1.5 and -2.5, -1.5, -0.5, 4.5: covariance 11, norms sqrt(5) and sqrt(29)
    found = scored([1, 2, 3, 8], [1, 2, 3, 4])
    assert found == {
        "pearson": pytest.approx(11 / (5 * 29) ** 0.5),
        "spearman": pytest.approx(1.0),
        "mae": pytest.approx(1.0),
    }
    assert scored([4, 3, 2, 1], [1, 2, 3, 4])["pearson"] == pytest.approx(-1.0)


def test_equal_numbers_share_their_rank() -> None:
    assert ranks(np.array([0.5, 7.0, 0.5, 9.0])).tolist() == [1.5, 3.0, 1.5, 4.0]
    # ranks 1.5 1.5 3 4 against 1 2 3 4: deviations -1, -1, 0.5, 1.5 and -1.5, -0.5, 0.5, 1.5
    assert scored([1, 1, 3, 4], [1, 2, 3, 4])["spearman"] == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


@pytest.mark.parametrize(("guesses", "truth"), [([0.1] * 3, [1, 2, 3]), ([1, 2, 3], [2, 2, 2]), ([1], [1])])
@pytest.mark.filterwarnings("error")
def test_what_does_not_vary_has_no_correlation(guesses: list[float], truth: list[float]) -> None:
    found = scored(guesses, truth)
    assert np.isnan([found["pearson"], found["spearman"]]).all()
    assert found["mae"] == pytest.approx(np.mean(np.abs(np.float32(guesses) - np.array(truth))))


@pytest.mark.filterwarnings("error")
def test_a_guess_that_is_no_number_leaves_none_of_them() -> None:
    assert np.isnan(list(scored([1, float("nan"), 3], [1, 2, 3]).values())).all()
