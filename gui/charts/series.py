"""Points that grow in number without end: what a chart draws from, however many there are."""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyqtgraph as pg
from PySide6.QtGui import QColor

from gui.base.tokens import Tokens

# --- A long line drawn with few points: the lowest and the highest of each pixel column


Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.intp]


def group_size(first: int, last: int, columns: int) -> int:
    """Of the rows from `first` up to `last`, how many share a pixel column so that there are no more than `columns`.

    A power of two, of which groups begin at multiples: those of a line that grows or moves stay as they are, and the
    picture doesn't shimmer.
    """
    size = 1 << (-(-(last - first) // columns) - 1).bit_length()
    while (last - 1) // size - first // size >= columns:
        size *= 2
    return size


def extremes(groups: Floats) -> tuple[Places, Places]:
    """Places of the lowest and the highest value in each row; NaN counts only where there is nothing else."""
    gaps = np.isnan(groups)
    if not gaps.any():
        return groups.argmin(axis=1), groups.argmax(axis=1)
    return np.where(gaps, np.inf, groups).argmin(axis=1), np.where(gaps, -np.inf, groups).argmax(axis=1)


# --- Columns of numbers that grow without ever being moved: blocks


BLOCK = 65_536
"""Rows of a block."""

FIRST_ROWS = 1024
"""Rows that the open block begins with; it doubles until it is full, so that a short column is small."""

_NOTHING: Floats = np.empty(0)


class Column:
    """Numbers that are only ever added at the end, or cut off there.

    Args:
        dtype: How they are kept: float32 has 7 digits and takes half as much as float64.
    """

    def __init__(self, dtype: npt.DTypeLike = np.float64) -> None:
        self._dtype = np.dtype(dtype)
        self._blocks: list[npt.NDArray[Any]] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> float:
        """The number in a row, counted from 0."""
        return float(self._blocks[row // BLOCK][row % BLOCK])

    def extend(self, values: Floats) -> None:
        """Add numbers. Shape (n,)."""
        while len(values):
            used = self._length % BLOCK
            some = values[: BLOCK - used]
            self._with_room(used, used + len(some))[used : used + len(some)] = some
            self._length += len(some)
            values = values[len(some) :]

    def cut(self, length: int) -> None:
        """Keep only the first `length` numbers."""
        del self._blocks[-(-length // BLOCK) :]
        self._length = length

    def rows(self, first: int, last: int) -> Floats:
        """The numbers from row `first` up to `last`, which is left out; a copy."""
        found = np.empty(last - first)
        for number in range(first // BLOCK, -(-last // BLOCK)):
            begin = number * BLOCK
            low, high = max(first, begin), min(last, begin + BLOCK)
            found[low - first : high - first] = self._block(number)[low - begin : high - begin]
        return found

    def take(self, places: Places) -> Floats:
        """The numbers in these rows. Shape as `places`."""
        numbers, offsets = places // BLOCK, places % BLOCK
        found = np.empty(len(places))
        for number in np.unique(numbers):
            chosen = numbers == number
            found[chosen] = self._block(int(number))[offsets[chosen]]
        return found

    def find(self, value: float) -> int:
        """How many numbers there are up to `value`, in a column whose numbers never fall."""
        return bisect.bisect_right(range(self._length), value, key=self.__getitem__)

    def _block(self, number: int) -> npt.NDArray[Any]:
        return self._blocks[number]

    def _with_room(self, used: int, needed: int) -> npt.NDArray[Any]:
        """The open block, grown so that it has room for as many rows as are `needed`."""
        if not used:
            self._blocks.append(np.empty(_room_for(needed), self._dtype))
        elif len(self._blocks[-1]) < needed:
            grown = np.empty(_room_for(needed), self._dtype)
            grown[:used] = self._blocks[-1][:used]
            self._blocks[-1] = grown
        return self._blocks[-1]


class Positions(Column):
    """Numbers that never fall. A full block of evenly spaced whole ones, as steps are, takes no memory."""

    def __init__(self) -> None:
        super().__init__()
        self._firsts: list[float] = []
        self._strides: list[float] = []
        self._seen = 0

    def __getitem__(self, row: int) -> float:
        number, offset = divmod(row, BLOCK)
        if self._strides[number]:
            return self._firsts[number] + self._strides[number] * offset
        return super().__getitem__(row)

    def extend(self, values: Floats) -> None:
        """Add numbers. Shape (n,)."""
        super().extend(values)
        self._take_stock()

    def cut(self, length: int) -> None:
        """Keep only the first `length` numbers."""
        number, used = divmod(length, BLOCK)
        if used and self._strides[number]:
            self._blocks[number] = self._block(number)
            self._strides[number] = 0.0
        super().cut(length)
        self._seen = min(self._seen, number)
        del self._firsts[len(self._blocks) :]
        del self._strides[len(self._blocks) :]

    def take(self, places: Places) -> Floats:
        """The numbers in these rows. Shape as `places`."""
        if not len(places):
            return np.empty(0)
        numbers, offsets = places // BLOCK, places % BLOCK
        begin = int(numbers.min())
        part = slice(begin, int(numbers.max()) + 1)
        strides = np.array(self._strides[part])[numbers - begin]
        found: Floats = np.array(self._firsts[part])[numbers - begin] + strides * offsets
        uneven = strides == 0.0
        found[uneven] = super().take(places[uneven])
        return found

    def count(self, x: float, *, is_right: bool) -> int:
        """How many numbers lie below `x`; with `is_right` also those that are `x`."""
        number = (bisect.bisect_right if is_right else bisect.bisect_left)(self._firsts, x) - 1
        if number < 0:
            return 0
        begin, stride = number * BLOCK, self._strides[number]
        if not stride:
            block = self._blocks[number][: self._length - begin]
            return begin + int(np.searchsorted(block, x, "right" if is_right else "left"))
        share = (x - self._firsts[number]) / stride
        if share > BLOCK - 1:
            return begin + BLOCK
        return begin + (int(share // 1) + 1 if is_right else int(-(-share // 1)))

    def counts(self, x: Floats) -> Places:
        """How many numbers there are up to each `x`, those that are it included. Shape as `x`."""
        firsts, strides = np.array(self._firsts), np.array(self._strides)
        numbers = np.searchsorted(firsts, x, "right") - 1
        block = np.maximum(numbers, 0)
        stride = strides[block]
        is_even = stride > 0
        found = np.minimum((x - firsts[block]) // np.where(is_even, stride, 1.0) + 1, BLOCK).astype(np.intp)
        for number in np.unique(block[~is_even]):
            chosen = block == number
            rows = self._blocks[number][: self._length - number * BLOCK]
            found[chosen] = np.searchsorted(rows, x[chosen], "right")
        return np.where(numbers < 0, 0, block * BLOCK + found)

    def _block(self, number: int) -> npt.NDArray[Any]:
        stride = self._strides[number]
        return self._firsts[number] + stride * np.arange(BLOCK) if stride else self._blocks[number]

    def _take_stock(self) -> None:
        """Note where new blocks begin, and let go of full ones that are evenly spaced."""
        while len(self._firsts) < len(self._blocks):
            self._firsts.append(float(self._blocks[len(self._firsts)][0]))
            self._strides.append(0.0)
        for number in range(self._seen, self._length // BLOCK):
            stride = _stride_of(self._blocks[number])
            if stride:
                self._strides[number], self._blocks[number] = stride, _NOTHING
        self._seen = self._length // BLOCK


def _stride_of(block: Floats) -> float:
    """What evenly spaced whole numbers rise by; 0 where they aren't that."""
    first, stride = float(block[0]), float(block[1] - block[0])
    if not (first.is_integer() and stride.is_integer() and stride > 0):
        return 0.0
    return stride if bool((block == first + stride * np.arange(BLOCK)).all()) else 0.0


def _room_for(rows: int) -> int:
    return max(FIRST_ROWS, min(BLOCK, 1 << (rows - 1).bit_length()))


# --- The sum of every 64 rows of a column: what a long line is on average, without reading it


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


# --- The lowest and the highest of every 64 rows of a column, and of every 4,096

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


# --- Points that grow in number without end: what a chart draws from, however many there are


class Series:
    """Points (x, y) in the order of x. Adding costs the same however many there are, drawing nearly so.

    NaN in y is kept: it is a gap in the line, and a fact about the run.

    Args:
        dtype: How y is kept; float32 has 7 digits.
    """

    def __init__(self, dtype: npt.DTypeLike = np.float64) -> None:
        self._x = Positions()
        self._y = Column(dtype)
        self._tiers = Tiers(self._y)
        self._sums = Sums(self._y)
        self._waiting: list[tuple[float, float]] = []

    def __len__(self) -> int:
        return len(self._y) + len(self._waiting)

    @property
    def x(self) -> Floats:
        """All positions; a copy, which takes milliseconds where there are a million."""
        return self.rows(0)[0]

    @property
    def y(self) -> Floats:
        """All values; a copy, which takes milliseconds where there are a million."""
        return self.rows(0)[1]

    def rows(self, first: int) -> tuple[Floats, Floats]:
        """Positions and values of all points but the first so many; copies."""
        self._settle()
        return self._x.rows(first, len(self)), self._y.rows(first, len(self))

    @property
    def last(self) -> float | None:
        """The newest value; None before the first."""
        self._settle()
        return self._y[len(self) - 1] if len(self) else None

    @property
    def last_x(self) -> float | None:
        """Where the newest point lies; None before the first."""
        if self._waiting:
            return self._waiting[-1][0]
        return self._x[len(self) - 1] if len(self) else None

    def append(self, x: float, y: float) -> None:
        """Add a point; `x` is at or beyond the last one."""
        self._waiting.append(
            (x, y)
        )  # arrays take points in one go as fast as one alone: when next they are read

    def extend(self, x: Floats, y: Floats) -> None:
        """Add points, the first at or beyond the last one. Shapes (n,)."""
        self._settle()
        self._x.extend(x)
        self._y.extend(y)
        self._tiers.keep_up()

    def cut_after(self, x: float) -> None:
        """Forget the points beyond `x`: a later attempt of the run starts again from there."""
        self._settle()
        length = self._x.count(x, is_right=True)
        self._x.cut(length)
        self._y.cut(length)
        self._tiers.cut()
        self._sums.cut()

    def read(self, x: float | None) -> float | None:
        """The value nearest to `x`, or the newest where `x` is None."""
        return self.last if x is None else self.at(x)

    def at(self, x: float) -> float | None:
        """The value of the point nearest to `x`; None where the series is empty or `x` lies outside it."""
        self._settle()
        if not len(self) or not self._x[0] <= x <= self._x[len(self) - 1]:
            return None
        right = min(self._x.count(x, is_right=False), len(self) - 1)
        left = max(0, right - 1)
        return self._y[left if x - self._x[left] < self._x[right] - x else right]

    def up_to(self, x: float | None) -> float | None:
        """The value of the last point at or before `x`, or the newest where `x` is None; None where there is none."""
        if x is None:
            return self.last
        count = self._x.count(x, is_right=True)
        return self._y[count - 1] if count else None

    def reduced(self, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
        """What draws the part from `low` to `high` in so many pixel columns.

        Returns:
            At most two points a column, its lowest and highest, and the newest; one more point at either side of the
            part, where there is one, so that the line runs out of the picture. NaN is a gap.
        """
        first, last = self._visible(low, high)
        columns = max(1, columns)
        if last - first <= 2 * columns:
            return self._x.rows(first, last), self._y.rows(first, last)
        rows, values = self._tiers.picked(first, last, group_size(first, last, columns))
        if rows[-1] != last - 1:
            rows, values = np.append(rows, last - 1), np.append(values, self._y[last - 1])
        return self._x.take(rows), values

    def means(self, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
        """What is usual from `low` to `high`, and one point more at either side: means of neighbours.

        Returns:
            At most two a column: the middle of each group of points and the mean of those that aren't NaN; NaN where
            all are. The points themselves where they are few enough. Series that have the same positions have the
            same groups.
        """
        first, last = self._visible(low, high)
        columns = max(1, columns)
        if last - first <= 2 * columns:
            return self._x.rows(first, last), self._y.rows(first, last)
        size = group_size(first, last, columns)
        begins = np.arange(first // size * size, last, size)
        begins[0] = first
        ends: Places = np.append(begins[1:], last)
        return (self._x.take(begins) + self._x.take(ends - 1)) / 2, self._sums.means(first, last, size)

    def extremes(self, low: float = -math.inf, high: float = math.inf) -> tuple[float, float] | None:
        """The lowest and the highest value from `low` to `high`; None where there is none but NaN."""
        self._settle()
        first, last = self._x.count(low, is_right=False), self._x.count(high, is_right=True)
        if first >= last:
            return None
        found = self._tiers.extremes(first, last)
        lowest, highest = float(found.lows[0]), float(found.highs[0])
        return None if math.isnan(lowest) else (lowest, highest)

    def between(self, x: float) -> float | None:
        """The value at `x` on the straight line between two points, held to the first and last; None without any."""
        return float(self.along(np.array([x]))[0]) if len(self) else None

    def along(self, x: Floats) -> Floats:
        """The values at several `x` as `between` gives them; the series has a point. Shape (n,)."""
        self._settle()
        right = np.clip(self._x.counts(x), min(1, len(self) - 1), len(self) - 1)
        left = np.maximum(0, right - 1)
        return _interpolated(
            x, self._x.take(left), self._x.take(right), self._y.take(left), self._y.take(right)
        )

    def place_of(self, y: float) -> float | None:
        """Where a series that only ever rises passes `y`, held to the first and last point; None without any."""
        if not len(self):
            return None
        self._settle()
        right = min(max(1, self._y.find(y)), len(self) - 1)
        left = max(0, right - 1)
        x, values = (self._x[left], self._x[right]), (self._y[left], self._y[right])
        return float(np.interp(y, values, x)) if right else x[0]

    def _settle(self) -> None:
        """Take in the points that wait."""
        if self._waiting:
            points, self._waiting = np.array(self._waiting), []
            self.extend(points[:, 0], points[:, 1])

    def _visible(self, low: float, high: float) -> tuple[int, int]:
        """The rows from `low` to `high`, and one more at either side; the last one is left out."""
        self._settle()
        first, last = self._x.count(low, is_right=False), self._x.count(high, is_right=True)
        return max(0, first - 1), min(len(self), last + 1)


def _interpolated(x: Floats, x0: Floats, x1: Floats, y0: Floats, y1: Floats) -> Floats:
    width = x1 - x0
    share = np.clip((x - x0) / np.where(width > 0, width, 1.0), 0.0, 1.0)
    return y0 + share * (y1 - y0)


# --- One line of a chart: what it draws, in which colour, and how


FEW_POINTS = 400
"""Up to here a line is drawn antialiased; beyond, antialiasing costs far more than it shows."""

FAINT_ALPHA = 90


def _as_it_is(values: Floats) -> Floats:
    return values


class Look(Enum):
    """How a line is drawn."""

    LINE = "line"
    FAINT = "faint"
    DASHED = "dashed"
    DOTS = "dots"
    AREA = "area"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class Line:
    """What a line draws. `colour` names a field of `gui.base.theme.Tokens`; an empty `name` stays out of the legend.

    `strength` is the share of the colour in an area, the rest being that of the card. Values are drawn `factor`
    times as high as they are. `column` names the series where the chart's data is saved; empty: it is not.
    """

    name: str
    series: Series
    colour: str
    look: Look = Look.LINE
    strength: float = 1.0
    factor: float = 1.0
    column: str = ""


def mixed(colour: QColor, ground: QColor, strength: float) -> QColor:
    """A colour as it looks over `ground` with so much strength (0 to 1), itself opaque."""
    rest = 1.0 - strength
    return QColor.fromRgbF(
        strength * colour.redF() + rest * ground.redF(),
        strength * colour.greenF() + rest * ground.greenF(),
        strength * colour.blueF() + rest * ground.blueF(),
    )


class DrawnLine:
    """A line as pyqtgraph draws it."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.item = pg.PlotDataItem(connect="finite", skipFiniteCheck=False)
        if line.look is Look.AREA:
            self.item.setFillLevel(0.0)

    def paint_with(self, tokens: Tokens) -> None:
        """Take the colours in force. Pens stay one pixel wide: Qt draws wider ones ten times slower."""
        colour = QColor(getattr(tokens, self.line.colour))
        match self.line.look:
            case Look.AREA:
                self.item.setPen(pg.mkPen(None))
                self.item.setFillBrush(pg.mkBrush(mixed(colour, QColor(tokens.surface), self.line.strength)))
            case Look.DOTS:
                self.item.setPen(pg.mkPen(colour, width=1))
                self.item.setSymbol("o")
                self.item.setSymbolSize(7)
                self.item.setSymbolBrush(pg.mkBrush(colour))
                self.item.setSymbolPen(pg.mkPen(tokens.surface, width=1))
            case Look.DASHED:
                self.item.setPen(pg.mkPen(colour, width=1, dash=[5, 4]))
            case Look.FAINT:
                colour.setAlpha(FAINT_ALPHA)
                self.item.setPen(pg.mkPen(colour, width=1))
            case Look.LINE:
                self.item.setPen(pg.mkPen(colour, width=1))
                self.item.setSymbolSize(5)
                self.item.setSymbolBrush(pg.mkBrush(colour))
                self.item.setSymbolPen(pg.mkPen(colour, width=1))

    def draw(
        self,
        low: float,
        high: float,
        columns: int,
        *,
        to_axis: Callable[[Floats], Floats] = _as_it_is,
        is_log: bool = False,
    ) -> tuple[float, float] | None:
        """Draw the part from `low` to `high` of the series in so many pixel columns.

        Args:
            low: Where the picture begins, as the series counts.
            high: Where it ends.
            columns: Pixel columns at hand.
            to_axis: Turns places in the series into places on the x axis.
            is_log: Whether the y axis counts decimal logarithms; what has none is a gap.

        Returns:
            The lowest and highest place on the y axis, None without any.
        """
        if self.line.look is Look.HIDDEN:
            return None
        x, y = self.line.series.reduced(low, high, columns)
        y = logarithms(y) if is_log else y * self.line.factor
        # pyqtgraph fills an area in pieces, and antialiasing shows the seams between them.
        self.item.opts["antialias"] = len(x) <= FEW_POINTS and self.line.look is not Look.AREA
        finite = np.isfinite(y)
        if self.line.look is Look.LINE:
            self.item.setSymbol("o" if np.count_nonzero(finite) == 1 else None)  # one point makes no line
        self.item.setData(to_axis(x), y)
        inside = finite & (x >= low) & (x <= high)  # the points beyond only lead the line out of the picture
        seen = y[inside] if inside.any() else y[finite]
        return (float(seen.min()), float(seen.max())) if seen.size else None


def logarithms(values: Floats) -> Floats:
    """Decimal logarithms; NaN, a gap, where there is none."""
    found: Floats = np.full(len(values), np.nan)
    np.log10(values, out=found, where=values > 0)
    return found
