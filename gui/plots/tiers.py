"""The lowest and the highest of every 64 rows of a column, and of every 4,096: a long line drawn without reading it.

NaN counts only where there is nothing else, as in `gui.plots.reduction`.
"""

from dataclasses import dataclass

import numpy as np

from gui.plots.columns import Column
from gui.plots.reduction import Floats, Places, extremes

FACTOR = 64
LEVELS = 2


@dataclass(frozen=True)
class Extremes:
    """The lowest and the highest of so many groups of rows: what they are, and in which row. Each of shape (n,)."""

    lows: Floats
    low_rows: Places
    highs: Floats
    high_rows: Places

    def __len__(self) -> int:
        return len(self.lows)

    def part(self, first: int, last: int) -> "Extremes":
        """Those of the groups from `first` up to `last`, which is left out."""
        one = slice(first, last)
        return Extremes(self.lows[one], self.low_rows[one], self.highs[one], self.high_rows[one])

    def of_every(self, count: int) -> "Extremes":
        """Those of as many groups together; there is a whole number of them."""
        low, _ = extremes(self.lows.reshape(-1, count))
        _, high = extremes(self.highs.reshape(-1, count))
        begins = np.arange(0, len(self), count)
        low, high = low + begins, high + begins
        return Extremes(self.lows[low], self.low_rows[low], self.highs[high], self.high_rows[high])

    def points(self) -> tuple[Places, Floats]:
        """Rows and values of all, in the order of the rows."""
        is_low_first = self.low_rows <= self.high_rows
        rows = np.stack((self.low_rows, self.high_rows), axis=1)
        values = np.stack((self.lows, self.highs), axis=1)
        rows[~is_low_first] = rows[~is_low_first, ::-1]
        values[~is_low_first] = values[~is_low_first, ::-1]
        return rows.ravel(), values.ravel()


def together(parts: list[Extremes]) -> Extremes:
    """One after the other."""
    return Extremes(
        np.concatenate([part.lows for part in parts]),
        np.concatenate([part.low_rows for part in parts]),
        np.concatenate([part.highs for part in parts]),
        np.concatenate([part.high_rows for part in parts]),
    )


class _Tier:
    """Extremes of groups, in arrays that grow."""

    def __init__(self) -> None:
        self._values: Floats = np.empty((2, FACTOR))
        self._rows: Places = np.empty((2, FACTOR), np.intp)
        self.length = 0

    def all(self) -> Extremes:
        values, rows = self._values[:, : self.length], self._rows[:, : self.length]
        return Extremes(values[0], rows[0], values[1], rows[1])

    def extend(self, found: Extremes) -> None:
        end = self.length + len(found)
        if end > self._values.shape[1]:
            self._values = _grown(self._values, self.length, end)
            self._rows = _grown(self._rows, self.length, end)
        self._values[:, self.length : end] = found.lows, found.highs
        self._rows[:, self.length : end] = found.low_rows, found.high_rows
        self.length = end


class Tiers:
    """Extremes of groups of 64 and 4,096 rows of a column. Made up to date when they are asked for.

    Args:
        column: What they are of. Call `keep_up` after adding to it, and `cut` after cutting it.
    """

    def __init__(self, column: Column) -> None:
        self._column = column
        self._tiers = [_Tier() for _ in range(LEVELS)]

    def keep_up(self) -> None:
        """Take in rows before they become so many that a chart which nobody saw for long would have to wait."""
        if len(self._column) // FACTOR - self._tiers[0].length >= FACTOR:
            self._update()

    def cut(self) -> None:
        """Forget the rows that are gone."""
        length = len(self._column)
        for tier in self._tiers:
            length //= FACTOR
            tier.length = min(tier.length, length)

    def picked(self, first: int, last: int, size: int) -> tuple[Places, Floats]:
        """Rows and values that draw the rows from `first` up to `last`: two of every `size` rows.

        Groups begin at multiples of `size`, a power of two: a growing or moving picture doesn't shimmer.
        """
        self._update()
        begin, end = -(-first // size) * size, last // size * size
        if begin > end:
            return self.extremes(first, last).points()
        parts = [] if first == begin else [self.extremes(first, begin)]
        if begin < end:
            level = sum(size >= FACTOR**tier for tier in range(1, LEVELS + 1))
            unit = FACTOR**level
            parts.append(self._groups(level, begin // unit, end // unit).of_every(size // unit))
        if end < last:
            parts.append(self.extremes(end, last))
        return together(parts).points()

    def extremes(self, first: int, last: int) -> Extremes:
        """The lowest and the highest of the rows from `first` up to `last`, as one group; there is at least one row."""
        self._update()
        found = self._covering(0, first, last)
        return found.of_every(len(found))

    def _update(self) -> None:
        """Take in the rows that came since."""
        for level, tier in enumerate(self._tiers):
            below = self._tiers[level - 1].length if level else len(self._column)
            if below // FACTOR > tier.length:
                part = self._groups(level, tier.length * FACTOR, below // FACTOR * FACTOR)
                tier.extend(part.of_every(FACTOR))

    def _covering(self, level: int, first: int, last: int) -> Extremes:
        """Groups that cover those of a level from `first` up to `last`, as few as may be."""
        begin, end = -(-first // FACTOR), last // FACTOR
        if level == LEVELS or begin >= end:
            return self._groups(level, first, last)
        return together(
            [
                self._groups(level, first, begin * FACTOR),
                self._covering(level + 1, begin, end),
                self._groups(level, end * FACTOR, last),
            ]
        )

    def _groups(self, level: int, first: int, last: int) -> Extremes:
        """Groups of a level; at level 0 each row is one."""
        if level:
            return self._tiers[level - 1].all().part(first, last)
        values, rows = self._column.rows(first, last), np.arange(first, last)
        return Extremes(values, rows, values, rows)


def _grown(array: np.ndarray, used: int, needed: int) -> np.ndarray:
    grown = np.empty((2, max(needed, 2 * array.shape[1])), array.dtype)
    grown[:, :used] = array[:, :used]
    return grown
