"""Points that grow in number without end, and the lines that draw them with two points a pixel column."""

import math
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Optional, TypeAlias

import numpy as np
import numpy.typing as npt
import pyqtgraph as pg
from PySide6.QtGui import QColor

from gui.base.tokens import Tokens

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.intp]

BLOCK = 64
"""Points whose lowest, highest and sum are kept, so that a long line is drawn without reading all of it."""


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
        """Pages of its own: an array that is outgrown goes back to the system, and leaves no hole in the heap."""
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
        self._extremes = GrowingArray(np.intp, 2)  # of each block: the rows of the lowest and the highest
        self._sums = GrowingArray(np.float64, 2)  # of each block: sum and count of what isn't NaN

    def __len__(self) -> int:
        return len(self._y)

    @property
    def x(self) -> Floats:
        """All positions; a copy."""
        return np.array(self._x.rows, np.float64)

    @property
    def y(self) -> Floats:
        """All values; a copy."""
        return np.array(self._y.rows, np.float64)

    @property
    def last(self) -> float | None:
        """The newest value; None before the first."""
        return float(self._y.rows[-1]) if len(self) else None

    @property
    def last_x(self) -> float | None:
        """Where the newest point lies; None before the first."""
        return float(self._x.rows[-1]) if len(self) else None

    def append(self, x: float, y: float) -> None:
        """Add a point; `x` is at or beyond the last one."""
        self.extend(np.array((x,)), np.array((y,)))

    def extend(self, x: Floats, y: Floats) -> None:
        """Add points, the first at or beyond the last one. Shapes (n,)."""
        self._y.extend(y)
        if new := max(0, len(self._y) - len(self._x)):  # none where the series beside was extended first
            self._x.extend(x[-new:])
        first = len(self._sums) * BLOCK
        values = self._y.rows[first : len(self._y) // BLOCK * BLOCK]
        if len(values):
            starts = np.arange(0, len(values), BLOCK)
            self._extremes.extend(first + np.sort(_extremes(values, starts), axis=0).T)
            self._sums.extend(_sums(values, starts).T)

    def cut_after(self, x: float) -> None:
        """Forget the points beyond `x`: a later attempt of the run starts again from there."""
        length = self._count(x, "right")
        self._y.cut(length)
        self._x.cut(length)
        self._extremes.cut(length // BLOCK)
        self._sums.cut(length // BLOCK)

    def read(self, x: float | None) -> float | None:
        """The value nearest to `x`, or the newest where `x` is None."""
        return self.last if x is None else self.at(x)

    def at(self, x: float) -> float | None:
        """The value of the point nearest to `x`; None where the series is empty or `x` lies outside it."""
        known = self._x.rows
        if not len(self) or not known[0] <= x <= known[-1]:
            return None
        right = self._count(x, "left")
        left = max(0, right - 1)
        return float(self._y.rows[left if x - known[left] < known[right] - x else right])

    def up_to(self, x: float | None) -> float | None:
        """The value of the last point at or before `x`, or the newest where `x` is None; None where there is none."""
        if x is None:
            return self.last
        count = self._count(x, "right")
        return float(self._y.rows[count - 1]) if count else None

    def along(self, x: Floats) -> Floats:
        """The values at `x` on straight lines between the points, held to the first and last. Shape (n,)."""
        return np.interp(x, self._x.rows, self._y.rows)

    def between(self, x: float) -> float | None:
        """The value at `x` as `along` gives it; None where the series is empty."""
        return float(np.interp(x, self._x.rows, self._y.rows)) if len(self) else None

    def place_of(self, y: float) -> float | None:
        """Where a series that only ever rises passes `y`, held to the first and last point; None without any."""
        return float(np.interp(y, self._y.rows, self._x.rows)) if len(self) else None

    def extremes(self, low: float = -math.inf, high: float = math.inf) -> tuple[float, float] | None:
        """The lowest and the highest value from `low` to `high`; None where there is none but NaN."""
        rows = self._candidates(self._count(low, "left"), self._count(high, "right"), BLOCK)
        values = self._y.rows[rows]
        values = values[~np.isnan(values)]
        return (float(values.min()), float(values.max())) if len(values) else None

    def reduced(self, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
        """What draws the part from `low` to `high` in so many pixel columns.

        Returns:
            At most two points a column, its lowest and highest, and the newest; one more point at either side of the
            part, where there is one, so that the line runs out of the picture. NaN is a gap.
        """
        first, last = self._visible(low, high)
        if last - first <= 2 * columns:
            rows = np.arange(first, last)
        else:
            size = group_size(first, last, columns)
            rows = self._candidates(first, last, size)
            picked = _extremes(self._y.rows[rows], _starts(rows, size))
            rows = np.union1d(rows[picked.ravel()], last - 1)
        return self._x.rows[rows], self._y.rows[rows].astype(np.float64)

    def means(self, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
        """What is usual from `low` to `high`, and one point more at either side: means of neighbours.

        Returns:
            At most two a column: the middle of each group of points and the mean of those that aren't NaN; NaN where
            all are. The points themselves where they are few enough. Series that have the same positions have the
            same groups.
        """
        first, last = self._visible(low, high)
        if last - first <= 2 * columns:
            return np.array(self._x.rows[first:last]), self._y.rows[first:last].astype(np.float64)
        size = group_size(first, last, columns)
        begins = np.arange(first // size * size, last, size)
        begins[0] = first
        ends: Places = np.append(begins[1:], last)
        middles = (self._x.rows[begins] + self._x.rows[ends - 1]) / 2
        if size < BLOCK:
            sums = _sums(self._y.rows[first:last], begins - first)
        else:  # whole blocks, with the loose rows before and after them
            begin, end = -(-first // BLOCK), last // BLOCK
            loose = (np.arange(first, begin * BLOCK), np.arange(end * BLOCK, last))
            before, after = (_sums(self._y.rows[rows], np.arange(len(rows))) for rows in loose)
            parts = np.concatenate((before, self._sums.rows[begin:end].T, after), axis=1)
            places = np.concatenate((loose[0], np.arange(begin, end) * BLOCK, loose[1]))
            sums = np.add.reduceat(parts, np.searchsorted(places, begins), axis=1)
        found: Floats = np.full(len(begins), np.nan)
        np.divide(sums[0], sums[1], out=found, where=sums[1] > 0)
        return middles, found

    def _count(self, x: float, side: Literal["left", "right"]) -> int:
        """How many points lie below `x`; with the side `right` also those at `x`."""
        return int(np.searchsorted(self._x.rows, x, side))

    def _visible(self, low: float, high: float) -> tuple[int, int]:
        """The rows from `low` to `high`, and one more at either side; the last one is left out."""
        return max(0, self._count(low, "left") - 1), min(len(self), self._count(high, "right") + 1)

    def _candidates(self, first: int, last: int, size: int) -> Places:
        """Rows from `first` up to `last`, among them the extremes of each group of `size`; ascending."""
        begin, end = -(-first // BLOCK), last // BLOCK
        if size < BLOCK or begin >= end:
            return np.arange(first, last)
        blocks = self._extremes.rows[begin:end].ravel()
        return np.concatenate((np.arange(first, begin * BLOCK), blocks, np.arange(end * BLOCK, last)))


def group_size(first: int, last: int, columns: int) -> int:
    """Of the rows from `first` up to `last`, how many share a pixel column so that there are no more than `columns`.

    A power of two, of which groups begin at multiples: those of a line that grows or moves stay as they are, and the
    picture doesn't shimmer.
    """
    size = 1 << (-(-(last - first) // columns) - 1).bit_length()
    while (last - 1) // size - first // size >= columns:
        size *= 2
    return size


def _starts(rows: Places, size: int) -> Places:
    """Where a new group of `size` begins among ascending rows."""
    return np.flatnonzero(np.diff(rows // size, prepend=-1))


def _extremes(values: Floats, starts: Places) -> Places:
    """Places of the lowest and highest value of each group; of a group of nothing but NaN, its first. Shape (2, n)."""
    found = np.stack((starts, starts))
    lengths = np.diff(starts, append=len(values))
    groups: Places = np.repeat(np.arange(len(starts)), lengths)
    for number, reduction in enumerate((np.fmin, np.fmax)):
        matches = np.flatnonzero(values == reduction.reduceat(values, starts)[groups])
        found[number, groups[matches[::-1]]] = matches[::-1]  # where several are as low, the first
    return found


def _sums(values: Floats, starts: Places) -> Floats:
    """Sum and count of what isn't NaN in each group. Shape (2, n)."""
    known = ~np.isnan(values)
    rows = np.stack((np.where(known, values, 0.0), known.astype(np.float64)))
    return np.add.reduceat(rows, starts, axis=1) if len(starts) else np.empty((2, 0))


FEW_POINTS = 400
"""Up to here a line is drawn antialiased; beyond, antialiasing costs far more than it shows."""

FAINT_ALPHA = 90

MEANS = 60
"""A line of means, which is calm where its series isn't, has about so many points in the picture."""


class Look(Enum):
    """How a line is drawn."""

    LINE = "line"
    FAINT = "faint"
    MEANS = "means"
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
            case Look.LINE | Look.MEANS:
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
