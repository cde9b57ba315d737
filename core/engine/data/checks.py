"""What the counts of labels tell: some too few to be learned, some far fewer than others, some never trained on."""

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from core.services.inspect import Finding, FindingKind, FindingLevel

# --- What can be found in rows of texts with answers and lets a run pass; what stops it


_WARNING = FindingLevel.WARNING

EMPTY = FindingKind("empty", _WARNING, "{rows} {have} no “{detail}” and {are} left out.")
DUPLICATES = FindingKind("duplicates", _WARNING, "{rows} {are} the same as an earlier one.")
CONTRADICTIONS = FindingKind(
    "contradictions",
    _WARNING,
    "{rows} {have} the text of an earlier one and another answer: one of the two must be wrong.",
)
IN_BOTH = FindingKind(
    "in-both",
    _WARNING,
    "{rows} of the evaluation data {are} trained on, too: the result will look better than it is.",
    "Remove them from one of the two",
)
FEW_ROWS = FindingKind(
    "few-rows", _WARNING, "There {are} only {rows} to learn from; a model takes some hundred."
)
LITTLE_TEXT = FindingKind(
    "little-text",
    _WARNING,
    "{detail}: there is nearly nothing to learn from. A style takes some hundred thousand.",
)
RARE_LABEL = FindingKind("rare-label", _WARNING, "{detail}: too few to learn it from.")
UNEVEN_LABELS = FindingKind(
    "uneven-labels",
    _WARNING,
    "{detail}: the model may seldom give the rarer answers. Look at F1, which heeds them.",
)
SIMILAR_LABELS = FindingKind(
    "similar-labels",
    _WARNING,
    "{detail} differ in capitals or spaces only, and are learned as different labels.",
    "Write them alike where they mean the same",
)
TEXTS_CUT = FindingKind("texts-cut", _WARNING, "{rows} {are} cut off at {detail}.")
LINES_LEFT_OUT = FindingKind("lines-left-out", _WARNING, "{detail}")
OTHER_ENCODING = FindingKind("other-encoding", _WARNING, "{detail}")


# --- Rows of the same content, found by 64 bits of each: 12 bytes a row are kept


Prints = np.ndarray[Any, np.dtype[np.int64]]
Places = np.ndarray[Any, np.dtype[np.intp]]

_ANSWER_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Repeated:
    """Places of rows that repeat an earlier one: text and answer, or the text with an answer that is new to it."""

    same: Places
    other: Places


class Prints64:
    """What is kept of rows as they go by: a number for what is read, and one for the answer.

    Numbers are Python's hashes, which differ from process to process: they are compared in this one only.
    """

    def __init__(self) -> None:
        self._read = array("q")
        self._answers = array("I")

    def add(self, read: Iterable[Hashable], answers: Iterable[Hashable]) -> None:
        """Take further rows in."""
        self._read.extend(map(hash, read))
        self._answers.extend(hash(answer) & _ANSWER_BITS for answer in answers)

    @property
    def prints(self) -> Prints:
        """What was read, a number a row."""
        return np.frombuffer(self._read, np.int64)

    def repeated(self) -> Repeated:
        """The rows whose text an earlier one has."""
        prints = self.prints
        suspects = np.flatnonzero(_are_among(prints, _shared(prints)))
        prints, answers = prints[suspects], np.frombuffer(self._answers, np.uint32)[suspects]
        _, first, group = np.unique(prints, return_index=True, return_inverse=True)
        is_later = np.arange(len(prints)) != first[group]
        _, first_of_both = np.unique((group << 32) | answers, return_index=True)
        is_new: Any = np.zeros(len(prints), dtype=bool)
        is_new[first_of_both] = True
        return Repeated(suspects[~is_new], suspects[is_later & is_new])

    def also_in(self, other: "Prints64") -> Places:
        """Places of the rows whose text the other rows have, too."""
        return np.flatnonzero(_are_among(self.prints, np.sort(other.prints)))


def first_of_equals(read: Iterable[Hashable], answers: Iterable[Hashable]) -> Places:
    """Places of the rows that repeat no earlier one, given what is read of each and its answer."""
    prints = Prints64()
    prints.add(read, answers)
    return np.setdiff1d(np.arange(len(prints.prints)), prints.repeated().same, assume_unique=True)


def _are_among(prints: Prints, ordered: Prints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which numbers are among others, which are in order; `np.isin` would take five times the memory."""
    if not len(ordered):
        return np.zeros(len(prints), dtype=bool)
    places: Any = np.searchsorted(ordered, prints)
    places[places == len(ordered)] = 0
    return ordered[places] == prints


def _shared(prints: Prints) -> Prints:
    """The numbers that more than one row has."""
    ordered = np.sort(prints)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


# --- Whether there is hardly anything to learn from


FEWEST_ROWS = 10


def few_rows(usable: int, row_word: str) -> Iterator[Finding]:
    """A warning where there is hardly anything to learn from."""
    if 0 < usable < FEWEST_ROWS:
        yield FEW_ROWS.finding(usable, row_word)


# --- What the counts of labels tell: some too few to be learned, some far fewer than others


FEWEST = 8
"""Rows of a label from which something can be learned of it."""
IMBALANCE = 20
"""The largest label has at most so many times the rows of another before that is told."""
NAMED = 5


def told_of(labels: Mapping[str, int], noun: str = "row") -> Iterator[Finding]:
    """Warnings about how often labels come."""
    counts = Counter(labels).most_common()
    if len(counts) < 2:
        return  # stops a run
    most, largest = counts[0]
    rarest = counts[::-1]
    few = [(name, count) for name, count in rarest if count < FEWEST]
    if few:
        yield _finding(RARE_LABEL, few, noun)
    uneven = [(name, count) for name, count in rarest if count >= FEWEST and count * IMBALANCE < largest]
    if uneven:
        yield _finding(UNEVEN_LABELS, [(most, largest), *uneven], noun)


def similar(labels: Mapping[str, int]) -> Iterator[Finding]:
    """A warning about labels that are the same but for capitals and spaces."""
    groups: dict[str, list[str]] = {}
    for name in labels:
        groups.setdefault(" ".join(name.split()).casefold(), []).append(name)
    alike = [names for names in groups.values() if len(names) > 1]
    if not alike:
        return
    kind, counts = SIMILAR_LABELS, sum(labels[name] for names in alike for name in names)
    shown = "; ".join(" and ".join(f"“{name}”" for name in names) for names in alike[:NAMED])
    more = f" (and {len(alike) - NAMED:,} more such)" if len(alike) > NAMED else ""
    message = kind.message(counts, detail=f"The labels {shown}{more}")
    yield Finding(code=kind.code, level=kind.level, message=message, count=len(alike), fixes=kind.fixes)


def _finding(kind: FindingKind, counts: list[tuple[str, int]], noun: str) -> Finding:
    parts = [f"“{name}” has {_counted(count, noun)}" for name, count in islice(counts, NAMED)]
    more = f" and {len(counts) - NAMED:,} labels more" if len(counts) > NAMED else ""
    return Finding(
        code=kind.code,
        level=kind.level,
        message=kind.message(len(counts), noun, f"{', '.join(parts)}{more}"),
        count=len(counts),
        fixes=kind.fixes,
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
