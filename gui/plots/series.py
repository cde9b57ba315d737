"""Points that grow in number without end: what a chart draws from, however many there are."""

import math

import numpy as np
import numpy.typing as npt

from gui.plots.columns import Column, Positions
from gui.plots.reduction import Floats, Places, group_size
from gui.plots.sums import Sums
from gui.plots.tiers import Tiers


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
