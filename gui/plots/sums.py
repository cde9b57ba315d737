"""The sum of every 64 rows of a column: what a long line is on average, without reading it."""

import numpy as np

from gui.plots.columns import Column
from gui.plots.reduction import Floats

FACTOR = 64
AT_ONCE = FACTOR * 1024
"""Rows that are summed up in one go."""


class Sums:
    """Sums of groups of 64 rows, and how many of the rows are no NaN. Made up to date when they are asked for.

    Args:
        column: What they are of. Call `cut` after cutting it.
    """

    def __init__(self, column: Column) -> None:
        self._column = column
        self._groups: Floats = np.empty((2, 0))
        self._length = 0

    def cut(self) -> None:
        """Forget the rows that are gone."""
        self._length = min(self._length, len(self._column) // FACTOR)

    def means(self, first: int, last: int, size: int) -> Floats:
        """Means of the rows from `first` up to `last` in groups that begin at multiples of `size`, a power of two.

        NaN where there is nothing else.
        """
        begin, end = -(-first // size) * size, last // size * size
        if begin > end:
            return _divided(_summed(self._column.rows(first, last), last - first))
        parts = [
            _summed(self._column.rows(first, begin), begin - first),
            self._whole(begin, end, size),
            _summed(self._column.rows(end, last), last - end),
        ]
        return _divided(np.concatenate(parts, axis=1))

    def _whole(self, begin: int, end: int, size: int) -> Floats:
        if size < FACTOR:
            return _summed(self._column.rows(begin, end), size)
        self._update()
        groups = self._groups[:, begin // FACTOR : end // FACTOR]
        return groups.reshape(2, -1, size // FACTOR).sum(axis=2)

    def _update(self) -> None:
        """Take in the rows that came since."""
        groups = len(self._column) // FACTOR
        if groups > self._groups.shape[1]:
            grown = np.empty((2, max(groups, 2 * self._groups.shape[1])))
            grown[:, : self._length] = self._groups[:, : self._length]
            self._groups = grown
        for first in range(self._length * FACTOR, groups * FACTOR, AT_ONCE):
            last = min(first + AT_ONCE, groups * FACTOR)
            self._groups[:, first // FACTOR : last // FACTOR] = _summed(
                self._column.rows(first, last), FACTOR
            )
        self._length = groups


def _summed(rows: Floats, size: int) -> Floats:
    """Sums of groups of rows and how many of them are no NaN. Shape (2, number of groups)."""
    if not len(rows):
        return np.empty((2, 0))
    groups = rows.reshape(-1, size)
    known = ~np.isnan(groups)
    return np.stack((np.where(known, groups, 0.0).sum(axis=1), known.sum(axis=1)))


def _divided(sums: Floats) -> Floats:
    """Means from sums and counts."""
    found: Floats = np.full(sums.shape[1], np.nan)
    np.divide(sums[0], sums[1], out=found, where=sums[1] > 0)
    return found
