"""Points that grow in number without end, and the lines that draw them with two points a pixel column."""

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Literal, Optional, TypeAlias

import numpy as np
import numpy.typing as npt
import pyqtgraph as pg
from PySide6.QtGui import QColor

from gui.base.tokens import Tokens

Floats: TypeAlias = npt.NDArray[np.float64]

BLOCK = 64
"""Points whose lowest, highest, sum and count are kept, so that a long line is drawn without reading all of it."""

REDUCTIONS = (np.fmin, np.fmax, np.add, np.add)


class GrowingArray:
    """A numpy array that rows are added to at the end, or cut off there."""

    def __init__(self, dtype: npt.DTypeLike = np.float64, columns: int = 1) -> None:
        self._dtype, self._columns = np.dtype(dtype), columns
        self._data = self._allocate(64)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def rows(self) -> npt.NDArray[Any]:
        """All rows; a view. Shape (n,), or (n, columns) where there are several."""
        return self._data[: self._length]

    def extend(self, rows: npt.NDArray[Any]) -> None:
        end = self._length + len(rows)
        if end > len(self._data):
            grown = self._allocate(max(end, 2 * len(self._data)))
            grown[: self._length] = self.rows
            self._data = grown
        self._data[self._length : end] = rows
        self._length = end

    def cut(self, length: int) -> None:
        self._length = min(length, self._length)

    def _allocate(self, rows: int) -> npt.NDArray[Any]:
        """Allocate pages of its own: an outgrown array goes back to the system and leaves no hole in the heap."""
        pages = mmap.mmap(-1, rows * self._columns * self._dtype.itemsize)
        found = np.frombuffer(pages, self._dtype)
        return found if self._columns == 1 else found.reshape(-1, self._columns)


class Series:
    """Points (x, y) in the order of x. NaN in y is a gap in the line.

    Args:
        dtype: How y is kept; float32 has 7 digits.
        beside: A series with the same x, whose array is used. Both are extended and cut one after the other.
    """

    def __init__(self, dtype: npt.DTypeLike = np.float64, *, beside: Optional["Series"] = None) -> None:
        self._x: GrowingArray = GrowingArray() if beside is None else beside._x
        self._y = GrowingArray(dtype)
        self._blocks = GrowingArray(columns=len(REDUCTIONS))  # statistics of each whole block

    def __len__(self) -> int:
        return len(self._y)

    @property
    def x(self) -> Floats:
        """All positions; a copy."""
        return np.array(self._x.rows, np.float64)

    @property
    def y(self) -> npt.NDArray[Any]:
        """All values as they are kept; a copy."""
        return self._y.rows.copy()

    @property
    def last(self) -> float | None:
        """The newest value; None before the first."""
        return float(self._y.rows[-1]) if len(self) else None

    @property
    def last_x(self) -> float | None:
        """Position of the newest point; None before the first."""
        return float(self._x.rows[-1]) if len(self) else None

    def append(self, x: float, y: float) -> None:
        """Add a point; `x` is at or beyond the last one."""
        self.extend(np.array((x,)), np.array((y,)))

    def extend(self, x: Floats, y: Floats) -> None:
        """Add points, the first at or beyond the last one. Shapes (n,)."""
        self._y.extend(y)
        if new := max(0, len(self._y) - len(self._x)):  # none where the series beside was extended first
            self._x.extend(x[-new:])
        whole = self._y.rows[len(self._blocks) * BLOCK : len(self) // BLOCK * BLOCK]
        self._blocks.extend(_statistics(whole, np.arange(0, len(whole), BLOCK)))

    def cut_after(self, x: float) -> None:
        """Forget the points beyond `x`: a later attempt of the run starts again from there."""
        length = self._count(x, "right")
        self._y.cut(length)
        self._x.cut(length)
        self._blocks.cut(length // BLOCK)

    def at(self, x: float | None) -> float | None:
        """The value of the point nearest to `x`, or the newest where `x` is None; None outside the series."""
        if x is None or not len(self):
            return self.last
        known = self._x.rows
        if not known[0] <= x <= known[-1]:
            return None
        right = self._count(x, "left")
        left = max(0, right - 1)
        return float(self._y.rows[left if x - known[left] < known[right] - x else right])

    def up_to(self, x: float | None) -> float | None:
        """The value of the last point at or before `x`, or the newest where `x` is None; None where there is none."""
        count = len(self) if x is None else self._count(x, "right")
        return float(self._y.rows[count - 1]) if count else None

    def along(self, x: Floats) -> Floats:
        """The values at `x` on straight lines between the points, held to the first and last. Shape (n,)."""
        return np.interp(x, self._x.rows, self._y.rows)

    def between(self, x: float) -> float | None:
        """The value at `x` as `along` gives it; None where the series is empty."""
        return float(self.along(np.array(x))) if len(self) else None

    def place_of(self, y: float) -> float | None:
        """The position at which a rising series passes `y`, held to the first and last point; None without any."""
        return float(np.interp(y, self._y.rows, self._x.rows)) if len(self) else None

    def extremes(self) -> tuple[float, float] | None:
        """The lowest and the highest value; None where there is none but NaN."""
        found = self._grouped(0, len(self), max(BLOCK, 1 << len(self).bit_length()))[1]
        return (float(found[0, 0]), float(found[0, 1])) if len(found) and found[0, 3] else None

    def reduced(self, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
        """What draws the part from `low` to `high` in so many pixel columns.

        Returns:
            At most two points a column, its lowest and highest value at the column's middle, and the newest point.
            Where the points are at most two a column: all of them, and one more at either side, so that the line runs
            out of the picture. NaN is a gap.
        """
        first, last = self._visible(low, high)
        if last - first <= 2 * columns:
            return np.array(self._x.rows[first:last]), self._y.rows[first:last].astype(np.float64)
        x, found = self._grouped(first, last, group_size(first, last, columns))
        return (
            np.append(np.repeat(np.clip(x, low, high), 2), self._x.rows[last - 1]),
            np.append(found[:, :2].ravel(), self._y.rows[last - 1]),
        )

    def means(self, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
        """Means of neighbours from `low` to `high`, and of one point more at either side.

        Returns:
            At most one a column: the middle of each group of points and the mean of those that aren't NaN; NaN where
            all are. The points themselves where they are at most two a column. Series that have the same positions
            have the same groups.
        """
        first, last = self._visible(low, high)
        if last - first <= 2 * columns:
            return np.array(self._x.rows[first:last]), self._y.rows[first:last].astype(np.float64)
        x, found = self._grouped(first, last, group_size(first, last, columns))
        means: Floats = np.full(len(found), np.nan)
        np.divide(found[:, 2], found[:, 3], out=means, where=found[:, 3] > 0)
        return x, means

    def _grouped(self, first: int, last: int, size: int) -> tuple[Floats, Floats]:
        """The middles of the groups of `size` rows from `first` up to `last`, and `_statistics` of each."""
        begins = np.arange(first // size * size, last, size)
        if not len(begins):
            return np.empty(0), np.empty((0, len(REDUCTIONS)))
        ends: npt.NDArray[np.intp] = np.append(begins[1:], last)
        x = (self._x.rows[begins] + self._x.rows[ends - 1]) / 2
        if size < BLOCK:
            return x, _statistics(self._y.rows[begins[0] : last], begins - begins[0])
        end = last // BLOCK
        rest = self._y.rows[end * BLOCK : last]
        blocks = np.vstack(
            (self._blocks.rows[begins[0] // BLOCK : end], _statistics(rest, np.arange(len(rest))[:1]))
        )
        starts = (begins - begins[0]) // BLOCK
        columns = (
            reduce.reduceat(column, starts) for reduce, column in zip(REDUCTIONS, blocks.T, strict=True)
        )
        return x, np.stack(tuple(columns), axis=1)

    def _count(self, x: float, side: Literal["left", "right"]) -> int:
        """How many points lie below `x`; with the side `right` also those at `x`."""
        return int(np.searchsorted(self._x.rows, x, side))

    def _visible(self, low: float, high: float) -> tuple[int, int]:
        """The rows from `low` to `high`, and one more at either side; the last one is left out."""
        return max(0, self._count(low, "left") - 1), min(len(self), self._count(high, "right") + 1)


def group_size(first: int, last: int, columns: int) -> int:
    """Of the rows from `first` up to `last`, how many share a pixel column so that there are no more than `columns`.

    A power of two, of which groups begin at multiples: those of a line that grows or moves stay as they are, and the
    picture doesn't shimmer.
    """
    size = 1 << (-(-(last - first) // columns) - 1).bit_length()
    while (last - 1) // size - first // size >= columns:
        size *= 2
    return size


def _statistics(values: Floats, starts: npt.NDArray[np.intp]) -> Floats:
    """Lowest, highest, sum and count of what isn't NaN in the groups that begin at `starts`. Shape (n, 4)."""
    if not len(starts):
        return np.empty((0, len(REDUCTIONS)))
    known = ~np.isnan(values)
    columns = values, values, np.where(known, values, 0.0), known
    found = (
        reduce.reduceat(column, starts, dtype=np.float64)
        for reduce, column in zip(REDUCTIONS, columns, strict=True)
    )
    return np.stack(tuple(found), axis=1)


FEW_POINTS = 400
"""Up to here a line is drawn antialiased; beyond, antialiasing costs far more than it shows."""

FAINT_ALPHA = 90

MEANS = 60
"""A line of means, which is calm where its series isn't, has about so many points in the picture."""


class Look(Enum):
    """How a line is drawn."""

    LINE = auto()
    FAINT = auto()
    MEANS = auto()
    DASHED = auto()
    DOTS = auto()
    AREA = auto()
    HIDDEN = auto()


@dataclass(frozen=True)
class Line:
    """A series and how it is drawn. `colour` names a field of `gui.base.theme.Tokens`.

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
        self.item = pg.PlotDataItem(
            connect="finite",
            skipFiniteCheck=False,
            fillLevel=0.0 if line.look is Look.AREA else None,
            symbol="o" if line.look is Look.DOTS else None,
        )

    def paint_with(self, tokens: Tokens) -> None:
        colour, look = QColor(getattr(tokens, self.line.colour)), self.line.look
        if look is Look.AREA:
            self.item.setPen(None)
            self.item.setFillBrush(pg.mkBrush(mixed(colour, QColor(tokens.surface), self.line.strength)))
            return
        if look is Look.FAINT:
            colour.setAlpha(FAINT_ALPHA)
        self.item.setPen(pg.mkPen(colour, width=1, dash=[5, 4] if look is Look.DASHED else None))
        self.item.setSymbolSize(7 if look is Look.DOTS else 5)
        self.item.setSymbolBrush(pg.mkBrush(colour))
        self.item.setSymbolPen(pg.mkPen(tokens.surface if look is Look.DOTS else colour, width=1))

    def draw(
        self,
        low: float,
        high: float,
        columns: int,
        *,
        to_axis: Callable[[Floats], Floats] = np.asarray,
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
        if self.line.look is Look.MEANS:
            x, y = self.line.series.means(low, high, MEANS)
        else:
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
