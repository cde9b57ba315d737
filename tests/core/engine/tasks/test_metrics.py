"""Metrics of classifiers, of numbers and of labelled words, and confusion matrices."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from core.engine.tasks.metrics import (
    Entity,
    TagScheme,
    classification_metrics,
    confusion,
    confusion_of,
    most_likely,
    ranks,
    regression_metrics,
    tag_metrics,
)


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


def test_a_class_nobody_guesses_counts_as_zero():
    assert metrics([0, 0], [1, 1], classes=2) == {"accuracy": 0.0, "f1": 0.0, "matthews": 0.0}


def test_a_model_that_returns_more_than_logits():
    assert metrics([1, 0], [1, 0], classes=2, as_tuple=True)["accuracy"] == 1.0


def test_of_more_than_five_classes_the_likeliest_five_are_looked_at():
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


def test_equal_numbers_share_their_rank():
    assert ranks(np.array([0.5, 7.0, 0.5, 9.0])).tolist() == [1.5, 3.0, 1.5, 4.0]
    # ranks 1.5 1.5 3 4 against 1 2 3 4: deviations -1, -1, 0.5, 1.5 and -1.5, -0.5, 0.5, 1.5
    assert scored([1, 1, 3, 4], [1, 2, 3, 4])["spearman"] == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


@pytest.mark.parametrize(("guesses", "truth"), [([0.1] * 3, [1, 2, 3]), ([1, 2, 3], [2, 2, 2]), ([1], [1])])
@pytest.mark.filterwarnings("error")
def test_what_does_not_vary_has_no_correlation(guesses, truth):
    found = scored(guesses, truth)
    assert np.isnan([found["pearson"], found["spearman"]]).all()
    assert found["mae"] == pytest.approx(np.mean(np.abs(np.float32(guesses) - np.array(truth))))


@pytest.mark.filterwarnings("error")
def test_a_guess_that_is_no_number_leaves_none_of_them():
    assert np.isnan(list(scored([1, float("nan"), 3], [1, 2, 3]).values())).all()


@pytest.mark.parametrize(
    ("answered", "true", "labels", "counts"),
    [
        (
            [0, 1, 1, 2, 0],
            [0, 0, 1, 2, 2],
            "abc",
            ((1, 1, 0), (0, 1, 0), (1, 0, 1)),
        ),  # rows are what is right
        ([2], [2], "abc", ((0, 0, 0), (0, 0, 0), (0, 0, 1))),
        ([], [], "ab", ((0, 0), (0, 0))),
        ([0, 1, 1], [0, -100, 1], "ab", ((1, 0), (0, 1))),  # what carries no label is passed over
    ],
)
def test_confusion(answered, true, labels, counts):
    found = confusion(answered, true, tuple(labels))
    assert (found.labels, found.counts, found.left_out) == (tuple(labels), counts, 0)


def test_of_many_labels_the_worst_are_kept_in_their_order():
    labels = [f"label {index}" for index in range(60)]
    true = [*range(60), 7, 7, 40]
    answered = [*range(60), 59, 59, 3]
    found = confusion(answered, true, labels, most=4)
    assert found.labels == ("label 3", "label 7", "label 40", "label 59")
    assert found.counts == ((1, 0, 0, 0), (0, 1, 0, 2), (1, 0, 1, 0), (0, 0, 0, 1))
    assert found.left_out == 56
    assert len(confusion(answered, true, labels).labels) == 50


def test_from_what_trainer_predicts():
    logits = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    for predictions in (logits, (logits, "hidden states")):
        prediction = SimpleNamespace(predictions=predictions, label_ids=np.array([0, 1, 1]))
        assert confusion_of(prediction, ("no", "yes")).counts == ((1, 0), (1, 1))


LABELS = ("B-LOC", "B-PER", "E-PER", "I-LOC", "I-PER", "O", "S-LOC", "S-PER")


def names(tags: str, labels: tuple[str, ...] = LABELS) -> list[tuple[str, int, int]]:
    """Kind, first and last word of each name."""
    found = TagScheme(labels).entities(tags.split())
    return sorted(
        ((entity.kind, entity.first, entity.last) for entity in found), key=lambda entity: entity[1]
    )


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),  # BIO
        ("B-PER B-PER I-PER", [("PER", 0, 0), ("PER", 1, 2)]),
        ("I-PER I-PER O I-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),  # IOB1: B only between neighbours of a kind
        ("I-PER B-PER I-PER", [("PER", 0, 0), ("PER", 1, 2)]),
        ("I-PER I-LOC", [("PER", 0, 0), ("LOC", 1, 1)]),
        ("B-PER I-LOC I-LOC", [("PER", 0, 0), ("LOC", 1, 2)]),
        ("B-PER I-PER E-PER S-LOC O S-PER", [("PER", 0, 2), ("LOC", 3, 3), ("PER", 5, 5)]),  # IOBES
        ("S-PER S-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("B-PER E-PER I-PER", [("PER", 0, 1), ("PER", 2, 2)]),
        ("E-PER E-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("O O", []),
        ("", []),
    ],
)
def test_prefixes_tell_where_a_name_begins_and_ends(tags, expected):
    assert names(tags) == expected


@pytest.mark.parametrize(
    ("labels", "tags", "expected"),
    [
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
def test_other_schemes(labels, tags, expected):
    assert names(tags, labels) == expected


def judged(guesses: list[str], truth: list[str], labels: tuple[str, ...]) -> dict[str, float]:
    """The metrics of texts whose tags are given; `-` is a token without a label."""

    def indices(texts: list[str], unlabelled: int) -> np.ndarray:
        rows = [[unlabelled if tag == "-" else labels.index(tag) for tag in text.split()] for text in texts]
        width = max(map(len, rows))
        return np.array([row + [-100] * (width - len(row)) for row in rows])

    prediction = SimpleNamespace(predictions=indices(guesses, 0), label_ids=indices(truth, -100))
    return tag_metrics(labels)(prediction)


def test_a_name_counts_where_kind_and_both_ends_are_right() -> None:
    # true: PER 1-2, LOC 4, PER 0 of the second text; guessed: PER 1-2, PER 4, PER 0: two of three both ways
    found = judged(
        ["- O B-PER I-PER - O B-PER", "B-PER O"],
        ["- O B-PER I-PER - O B-LOC", "B-PER O"],
        LABELS,
    )
    assert found == {
        "f1": pytest.approx(2 / 3),
        "precision": pytest.approx(2 / 3),
        "recall": pytest.approx(2 / 3),
        "token_accuracy": pytest.approx(6 / 7),
    }


def test_half_a_name_is_none() -> None:
    # guessed PER 0 and PER 2, true PER 0-1 and PER 2: one right of two guessed and two true
    found = judged(["B-PER O B-PER O"], ["B-PER I-PER B-PER O"], LABELS)
    assert (found["precision"], found["recall"], found["f1"]) == (0.5, 0.5, 0.5)
    more = judged(["B-PER B-LOC B-LOC"], ["B-PER O O"], LABELS)
    assert (more["precision"], more["recall"], more["f1"]) == (pytest.approx(1 / 3), 1.0, 0.5)


def test_texts_without_names_have_nothing_to_find():
    found = judged(["O O"], ["O O"], LABELS)
    assert found == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "token_accuracy": 1.0}


def test_names_do_not_reach_from_text_to_text():
    found = judged(["B-PER I-PER", "I-PER O"], ["B-PER I-PER", "I-PER O"], LABELS)
    assert (found["f1"], TagScheme(LABELS).entities(["I-PER", "O"])) == (1.0, {Entity("PER", 0, 0)})


def test_logits_are_told_by_the_class_they_favour():
    logits = torch.tensor([[[0.1, 0.9, 0.0], [3.0, 1.0, 2.0]]])
    assert most_likely(logits, None).tolist() == [[1, 0]]
    assert most_likely((logits, "more"), None).tolist() == [[1, 0]]
