"""Columns of numbers that grow: what a chart draws from."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

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
