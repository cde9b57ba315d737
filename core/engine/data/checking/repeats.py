"""Rows of the same content, found by 64 bits of each: 12 bytes a row are kept, whatever its length."""

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

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
