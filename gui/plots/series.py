"""Columns of numbers that grow: what a chart draws from."""

import math

import numpy as np

from gui.plots.reduction import Floats, reduce, visible_slice

_FIRST_ROWS = 1024


class Series:
    """Points (x, y) in the order of x, appended one by one at amortised constant cost.

    NaN in y is kept: it is a gap in the line, and a fact about the run.
    """

    def __init__(self) -> None:
        self._rows: Floats = np.empty((2, _FIRST_ROWS))
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def x(self) -> Floats:
        """The positions; a view, valid until the next append."""
        return self._rows[0, : self._length]

    @property
    def y(self) -> Floats:
        """The values; a view, valid until the next append."""
        return self._rows[1, : self._length]

    @property
    def last(self) -> float | None:
        """The newest value; None before the first."""
        return float(self._rows[1, self._length - 1]) if self._length else None

    @property
    def last_x(self) -> float | None:
        """Where the newest point lies; None before the first."""
        return float(self._rows[0, self._length - 1]) if self._length else None

    def append(self, x: float, y: float) -> None:
        """Add a point; `x` is at or beyond the last one."""
        if self._length == self._rows.shape[1]:
            grown = np.empty((2, 2 * self._length))
            grown[:, : self._length] = self._rows
            self._rows = grown
        self._rows[0, self._length] = x
        self._rows[1, self._length] = y
        self._length += 1

    def cut_after(self, x: float) -> None:
        """Forget the points beyond `x`: a later attempt of the run starts again from there."""
        self._length = int(np.searchsorted(self.x, x, side="right"))

    def read(self, x: float | None) -> float | None:
        """The value nearest to `x`, or the newest where `x` is None."""
        return self.last if x is None else self.at(x)

    def at(self, x: float) -> float | None:
        """The value of the point nearest to `x`; None where the series is empty or `x` lies outside it."""
        if not self._length or not self.x[0] <= x <= self.x[-1]:
            return None
        right = min(int(np.searchsorted(self.x, x)), self._length - 1)
        left = max(0, right - 1)
        nearest = left if x - self.x[left] < self.x[right] - x else right
        return float(self.y[nearest])

    def reduced(self, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
        """What draws the part from `low` to `high` in so many pixel columns.

        Returns:
            At most two points a column, its lowest and highest, and the newest; one more point at either side of the
            part, where there is one, so that the line runs out of the picture. NaN is a gap.
        """
        part = visible_slice(self.x, low, high)
        return reduce(self.x[part], self.y[part], columns)

    def extremes(self, low: float = -math.inf, high: float = math.inf) -> tuple[float, float] | None:
        """The lowest and the highest value from `low` to `high`; None where there is none but NaN."""
        y = self.y[np.searchsorted(self.x, low, "left") : np.searchsorted(self.x, high, "right")]
        known = y[np.isfinite(y)]
        return (float(known.min()), float(known.max())) if known.size else None

    def between(self, x: float) -> float | None:
        """The value at `x` on the straight line between two points, held to the first and last; None without any."""
        return float(np.interp(x, self.x, self.y)) if self._length else None

    def place_of(self, y: float) -> float | None:
        """Where a series that only ever rises passes `y`, held to the first and last point; None without any."""
        return float(np.interp(y, self.y, self.x)) if self._length else None
