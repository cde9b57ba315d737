"""Names found in tags, and how two taggings are compared, against cases worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from core.engine.metrics import Entity, TagScheme, most_likely, tag_metrics

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
def test_prefixes_tell_where_a_name_begins_and_ends(tags: str, expected: list[tuple[str, int, int]]) -> None:
    assert names(tags) == expected


def test_bilou_and_underscores_read_alike() -> None:
    labels = ("O", "B_PER", "I_PER", "L_PER", "U_PER")
    assert names("B_PER I_PER L_PER U_PER", labels) == [("PER", 0, 2), ("PER", 3, 3)]


def test_tags_without_a_kind() -> None:
    assert names("B I O B B", ("B", "I", "O")) == [("", 0, 1), ("", 3, 3), ("", 4, 4)]


def test_plain_tags_join_neighbours_where_words_are_outside() -> None:
    assert names("PER PER O LOC PER", ("LOC", "O", "PER")) == [("PER", 0, 1), ("LOC", 3, 3), ("PER", 4, 4)]


def test_each_word_stands_for_itself_where_all_have_a_tag() -> None:
    assert names("NOUN NOUN VERB", ("NOUN", "VERB")) == [("NOUN", 0, 0), ("NOUN", 1, 1), ("VERB", 2, 2)]


def test_a_name_with_a_hyphen_is_no_prefix() -> None:
    assert not TagScheme(("O", "BRAND-NAME", "B-LIST")).has_prefixes
    assert names("B-LIST", ("O", "BRAND-NAME", "B-LIST")) == [("B-LIST", 0, 0)]


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


def test_texts_without_names_have_nothing_to_find() -> None:
    found = judged(["O O"], ["O O"], LABELS)
    assert found == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "token_accuracy": 1.0}


def test_names_do_not_reach_from_text_to_text() -> None:
    found = judged(["B-PER I-PER", "I-PER O"], ["B-PER I-PER", "I-PER O"], LABELS)
    assert (found["f1"], TagScheme(LABELS).entities(["I-PER", "O"])) == (1.0, {Entity("PER", 0, 0)})


def test_logits_are_told_by_the_class_they_favour() -> None:
    logits = torch.tensor([[[0.1, 0.9, 0.0], [3.0, 1.0, 2.0]]])
    assert most_likely(logits, None).tolist() == [[1, 0]]
    assert most_likely((logits, "more"), None).tolist() == [[1, 0]]
