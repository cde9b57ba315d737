"""Metrics of classification, regression, token classification and text generation, and confusion matrices."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from core.engine.tasks.metrics import (
    Entity,
    TagScheme,
    ValidationSize,
    classification_metrics,
    confusion,
    confusion_of,
    constant_baseline,
    most_likely,
    perplexity_metrics,
    ranks,
    regression_metrics,
    tag_metrics,
)


def prediction(predictions: Any, labels: Any) -> Any:
    return SimpleNamespace(predictions=predictions, label_ids=np.array(labels))


@pytest.mark.parametrize(
    ("guesses", "truth", "classes", "expected"),
    [
        # class 1: 2 found, 1 wrongly, 1 missed: precision 2/3, recall 2/3; Matthews (2 * 2 - 1 * 1) / (3 * 3)
        ([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], 2, {"accuracy": 4 / 6, "f1": 2 / 3, "matthews": 1 / 3}),
        # class 0: 3 of 4, none wrongly: F1 6/7; class 1: 1 of 1, 1 wrongly: F1 2/3; class 2: 1 of 1: F1 1
        ([0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 1, 2], 3, {"accuracy": 5 / 6, "f1": (6 / 7 + 2 / 3 + 1) / 3}),
        ([0, 0], [1, 1], 2, {"accuracy": 0.0, "f1": 0.0, "matthews": 0.0}),
    ],
)
def test_classes(guesses, truth, classes, expected):
    logits = np.eye(classes)[guesses]
    for predictions in (logits, (logits, "hidden states")):
        assert classification_metrics(prediction(predictions, truth)) == pytest.approx(expected)


def test_of_twenty_classes_or_more_the_likeliest_five_are_counted():
    logits = np.array([np.arange(20.0, 0, -1)] * 2)
    found = classification_metrics(prediction(logits, [4, 5]))
    assert (found["top5_accuracy"], found["accuracy"]) == (0.5, 0.0)
    assert "top5_accuracy" not in classification_metrics(prediction(logits[:, :19], [0, 1]))


def scored(guesses: list[float], truth: list[float]) -> dict[str, float]:
    return regression_metrics(prediction(np.array(guesses, dtype=np.float32)[:, None], truth))


def test_numbers_are_judged_by_their_correlations_and_their_distance():
    # deviations -1.5, -0.5, 0.5, 1.5 and -2.5, -1.5, -0.5, 4.5: covariance 11, norms sqrt(5) and sqrt(29)
    expected = {"pearson": 11 / (5 * 29) ** 0.5, "spearman": 1.0, "mae": 1.0}
    assert scored([1, 2, 3, 8], [1, 2, 3, 4]) == pytest.approx(expected)
    assert scored([4, 3, 2, 1], [1, 2, 3, 4])["pearson"] == pytest.approx(-1.0)
    assert ranks(np.array([0.5, 7.0, 0.5, 9.0])).tolist() == [1.5, 3.0, 1.5, 4.0]
    # ranks 1.5 1.5 3 4 against 1 2 3 4: deviations -1, -1, 0.5, 1.5 and -1.5, -0.5, 0.5, 1.5
    assert scored([1, 1, 3, 4], [1, 2, 3, 4])["spearman"] == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


@pytest.mark.parametrize(
    ("guesses", "truth", "mae"),
    [
        ([0.1] * 3, [1, 2, 3], 1.9),
        ([1, 2, 3], [2, 2, 2], 2 / 3),
        ([1], [1], 0.0),
        ([1, float("nan"), 3], [1, 2, 3], float("nan")),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_does_not_vary_or_is_no_number_has_no_correlation(guesses, truth, mae):
    found = scored(guesses, truth)
    assert np.isnan([found["pearson"], found["spearman"]]).all()
    assert found["mae"] == pytest.approx(mae, nan_ok=True)


@pytest.mark.parametrize(
    ("answered", "true", "labels", "counts"),  # rows are the true labels
    [
        ([0, 1, 1, 2, 0], [0, 0, 1, 2, 2], "abc", ((1, 1, 0), (0, 1, 0), (1, 0, 1))),
        ([], [], "ab", ((0, 0), (0, 0))),
        ([0, 1, 1], [0, -100, 1], "ab", ((1, 0), (0, 1))),
    ],
)
def test_confusion(answered, true, labels, counts):
    found = confusion(answered, true, tuple(labels))
    assert (found.labels, found.counts, found.left_out) == (tuple(labels), counts, 0)


def test_of_many_labels_those_with_most_errors_are_kept_in_their_order():
    labels = [f"label {index}" for index in range(60)]
    true, answered = [*range(60), 7, 7, 40], [*range(60), 59, 59, 3]
    found = confusion(answered, true, labels, most=4)
    assert found.labels == ("label 3", "label 7", "label 40", "label 59")
    assert found.counts == ((1, 0, 0, 0), (0, 1, 0, 2), (1, 0, 1, 0), (0, 0, 0, 1))
    assert found.left_out == 56
    assert len(confusion(answered, true, labels).labels) == 50


def test_confusion_of_logits_and_of_indices():
    logits = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    for predictions in (logits, (logits, "hidden states"), np.array([0, 1, 0])):
        assert confusion_of(prediction(predictions, [0, 1, 1]), ("no", "yes")).counts == ((1, 0), (1, 1))
    scores = torch.tensor([[[0.1, 0.9, 0.0], [3.0, 1.0, 2.0]]])
    assert most_likely(scores, None).tolist() == most_likely((scores, "more"), None).tolist() == [[1, 0]]


LABELS = ("B-LOC", "B-PER", "E-PER", "I-LOC", "I-PER", "O", "S-LOC", "S-PER")


@pytest.mark.parametrize(
    ("labels", "tags", "expected"),
    [
        (LABELS, "B-PER I-PER O B-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),  # BIO
        (LABELS, "B-PER B-PER I-PER", [("PER", 0, 0), ("PER", 1, 2)]),
        (LABELS, "I-PER I-PER O I-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),  # IOB1: B only between neighbours
        (LABELS, "I-PER B-PER I-PER", [("PER", 0, 0), ("PER", 1, 2)]),
        (LABELS, "I-PER I-LOC", [("PER", 0, 0), ("LOC", 1, 1)]),
        (LABELS, "B-PER I-LOC I-LOC", [("PER", 0, 0), ("LOC", 1, 2)]),
        (LABELS, "B-PER I-PER E-PER S-LOC O S-PER", [("PER", 0, 2), ("LOC", 3, 3), ("PER", 5, 5)]),  # IOBES
        (LABELS, "S-PER S-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        (LABELS, "B-PER E-PER I-PER", [("PER", 0, 1), ("PER", 2, 2)]),
        (LABELS, "E-PER E-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        (LABELS, "O O", []),
        (LABELS, "", []),
        (
            ("O", "B_PER", "I_PER", "L_PER", "U_PER"),
            "B_PER I_PER L_PER U_PER",
            [("PER", 0, 2), ("PER", 3, 3)],
        ),
        (("B", "I", "O"), "B I O B B", [("", 0, 1), ("", 3, 3), ("", 4, 4)]),  # without a kind
        # plain tags join neighbours where words are outside, and stand for themselves where all have one
        (("LOC", "O", "PER"), "PER PER O LOC PER", [("PER", 0, 1), ("LOC", 3, 3), ("PER", 4, 4)]),
        (("NOUN", "VERB"), "NOUN NOUN VERB", [("NOUN", 0, 0), ("NOUN", 1, 1), ("VERB", 2, 2)]),
        (("O", "BRAND-NAME", "B-LIST"), "B-LIST", [("B-LIST", 0, 0)]),  # a hyphen is no prefix
    ],
)
def test_entities(labels, tags, expected):
    assert TagScheme(labels).entities(tags.split()) == {Entity(*entity) for entity in expected}


def judged(guesses: list[str], truth: list[str]) -> list[float]:
    """Precision, recall, F1 and token accuracy of texts whose tags are given; `-` is a token without a label."""

    def indices(texts: list[str], unlabelled: int) -> np.ndarray:
        rows = [[unlabelled if tag == "-" else LABELS.index(tag) for tag in text.split()] for text in texts]
        width = max(map(len, rows))
        return np.array([row + [-100] * (width - len(row)) for row in rows])

    found = tag_metrics(LABELS)(prediction(indices(guesses, 0), indices(truth, -100)))
    return [found[name] for name in ("precision", "recall", "f1", "token_accuracy")]


@pytest.mark.parametrize(
    ("guesses", "truth", "expected"),
    [
        # true: PER 1-2, LOC 4, PER 0 of the second text; guessed: PER 1-2, PER 4, PER 0: two of three both ways
        (
            ["- O B-PER I-PER - O B-PER", "B-PER O"],
            ["- O B-PER I-PER - O B-LOC", "B-PER O"],
            [2 / 3, 2 / 3, 2 / 3, 6 / 7],
        ),
        # guessed PER 0 and PER 2, true PER 0-1 and PER 2: one right of two guessed and two true
        (["B-PER O B-PER O"], ["B-PER I-PER B-PER O"], [0.5, 0.5, 0.5, 3 / 4]),
        (["B-PER B-LOC B-LOC"], ["B-PER O O"], [1 / 3, 1.0, 0.5, 1 / 3]),
        (["O O"], ["O O"], [0.0, 0.0, 0.0, 1.0]),
        (["B-PER I-PER", "I-PER O"], ["B-PER I-PER", "I-PER O"], [1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_an_entity_counts_where_kind_and_both_ends_are_right(guesses, truth, expected):
    assert judged(guesses, truth) == pytest.approx(expected)


# --- Text generation


def test_perplexity_and_bits_per_character_follow_from_the_loss():
    assert perplexity_metrics(0.0) == {"perplexity": 1.0}
    assert perplexity_metrics(1e4)["perplexity"] == math.inf
    assert math.isnan(perplexity_metrics(math.nan)["perplexity"])
    found = perplexity_metrics(2.0, ValidationSize(tokens=300, characters=900))
    assert found["nats_per_character"] == pytest.approx(2 / 3)
    assert found["bits_per_character"] == pytest.approx(2 / 3 / math.log(2))


@pytest.mark.parametrize(
    ("truth", "baseline"),
    [([0, 0, 1, 2], 0.5), ([0.0, 0.0, 3.0], 4 / 3), ([[0, 1], [1, -100]], None), ([], None)],
)
def test_a_constant_prediction_is_the_baseline(truth, baseline):
    found = constant_baseline(prediction(np.zeros(1), truth))
    assert found == (None if baseline is None else pytest.approx(baseline))
