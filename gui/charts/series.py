"""Series that grow without limit, and lines that draw them with at most two points per pixel column."""

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
Span: TypeAlias = tuple[float, float]

BLOCK = 64
"""Number of points whose minimum, maximum, sum and count are stored, to draw a long line without reading all of it."""

REDUCTIONS = (np.fmin, np.fmax, np.add, np.add)


class GrowingArray:
    """A numpy array that rows are appended to or cut off from."""

    def __init__(self, dtype: npt.DTypeLike = np.float64, columns: int = 1) -> None:
        self._dtype, self._columns = np.dtype(dtype), columns
        self._data = self._allocate(64)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def rows(self) -> npt.NDArray[Any]:
        """All rows; a view. Shape (n,), or (n, columns) if there are several."""
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
        """Allocate separate pages: an outgrown array is returned to the system and leaves no hole in the heap."""
        pages = mmap.mmap(-1, rows * self._columns * self._dtype.itemsize)
        values = np.frombuffer(pages, self._dtype)
        return values if self._columns == 1 else values.reshape(-1, self._columns)


class Series:
    """Points (x, y) with ascending x. NaN in y is a gap in the line.

    Args:
        dtype: Of y; float32 has 7 digits.
        x_of: A series with the same x, whose array is shared. Both have to be extended and cut together.
    """

    def __init__(self, dtype: npt.DTypeLike = np.float64, *, x_of: Optional["Series"] = None) -> None:
        self._x: GrowingArray = GrowingArray() if x_of is None else x_of._x
        self._y = GrowingArray(dtype)
        self._blocks = GrowingArray(columns=len(REDUCTIONS))  # statistics of each whole block

    def __len__(self) -> int:
        return len(self._y)

    @property
    def x(self) -> Floats:
        """A copy of all positions."""
        return np.array(self._x.rows, np.float64)

    @property
    def y(self) -> npt.NDArray[Any]:
        """A copy of all values."""
        return self._y.rows.copy()

    @property
    def last(self) -> float | None:
        """Returns None if empty."""
        return float(self._y.rows[-1]) if len(self) else None

    @property
    def last_x(self) -> float | None:
        """Returns None if empty."""
        return float(self._x.rows[-1]) if len(self) else None

    def append(self, x: float, y: float) -> None:
        """Add a point; `x` is at or beyond the last one."""
        self.extend(np.array((x,)), np.array((y,)))

    def extend(self, x: Floats, y: Floats) -> None:
        """Add points, the first at or beyond the last one. Shapes (n,)."""
        self._y.extend(y)
        if new := max(0, len(self._y) - len(self._x)):  # 0 if the series that shares x was extended first
            self._x.extend(x[-new:])
        whole = self._y.rows[len(self._blocks) * BLOCK : len(self) // BLOCK * BLOCK]
        self._blocks.extend(_statistics(whole, np.arange(0, len(whole), BLOCK)))

    def cut_after(self, x: float) -> None:
        """Remove the points beyond `x`."""
        length = self._count(x, "right")
        self._y.cut(length)
        self._x.cut(length)
        self._blocks.cut(length // BLOCK)

    def at(self, x: float | None) -> float | None:
        """The value of the point nearest to `x`, or the newest if `x` is None; None outside the series."""
        if x is None or not len(self):
            return self.last
        known = self._x.rows
        if not known[0] <= x <= known[-1]:
            return None
        right = self._count(x, "left")
        left = max(0, right - 1)
        return float(self._y.rows[left if x - known[left] < known[right] - x else right])

    def up_to(self, x: float | None) -> float | None:
        """The value of the last point at or before `x`, or the newest if `x` is None; None if there is none."""
        count = len(self) if x is None else self._count(x, "right")
        return float(self._y.rows[count - 1]) if count else None

    def interpolate(self, x: Floats) -> Floats:
        """Values between the points, clamped to the first and last; `x` itself if empty. Shape (n,)."""
        return np.interp(x, self._x.rows, self._y.rows) if len(self) else x

    def between(self, x: float) -> float | None:
        """The interpolated value at `x`; None if empty."""
        return float(np.interp(x, self._x.rows, self._y.rows)) if len(self) else None

    def inverse(self, y: float) -> float | None:
        """The position at which an ascending series reaches `y`, clamped to its ends; None if empty."""
        return float(np.interp(y, self._y.rows, self._x.rows)) if len(self) else None

    def extremes(self) -> Span | None:
        """The lowest and highest value; None if there is none but NaN."""
        stats = self._grouped(0, len(self), max(BLOCK, 1 << len(self).bit_length()))[1]
        return (float(stats[0, 0]), float(stats[0, 1])) if len(stats) and stats[0, 3] else None

    def reduced(self, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
        """Points that draw the part from `low` to `high` in so many pixel columns.

        Returns:
            At most two points per column, its minimum and maximum at the column's middle, and the newest point. If
            there are at most two points per column: all of them, and one more at either side, so that the line
            continues beyond the plot. NaN is a gap.
        """
        first, last = self._visible(low, high)
        if last - first <= 2 * columns:
            return np.array(self._x.rows[first:last]), self._y.rows[first:last].astype(np.float64)
        x, stats = self._grouped(first, last, group_size(first, last, columns))
        return (
            np.append(np.repeat(np.clip(x, low, high), 2), self._x.rows[last - 1]),
            np.append(stats[:, :2].ravel(), self._y.rows[last - 1]),
        )

    def means(self, low: float, high: float, columns: int) -> tuple[Floats, Floats]:
        """Means of groups of points from `low` to `high`, and of one more point at either side.

        Returns:
            At most one point per column: the middle of the group and the mean without NaN; NaN if all are. All points
            if they are at most two per column. Series with the same positions have the same groups.
        """
        first, last = self._visible(low, high)
        if last - first <= 2 * columns:
            return np.array(self._x.rows[first:last]), self._y.rows[first:last].astype(np.float64)
        x, stats = self._grouped(first, last, group_size(first, last, columns))
        means: Floats = np.full(len(stats), np.nan)
        np.divide(stats[:, 2], stats[:, 3], out=means, where=stats[:, 3] > 0)
        return x, means

    def _grouped(self, first: int, last: int, size: int) -> tuple[Floats, Floats]:
        """The middles of groups of `size` rows from `first` up to `last`, and `_statistics` of each."""
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
        stats = [f.reduceat(column, starts) for f, column in zip(REDUCTIONS, blocks.T, strict=True)]
        return x, np.stack(stats, axis=1)

    def _count(self, x: float, side: Literal["left", "right"]) -> int:
        """Count the points below `x`; with side `right` also those at `x`."""
        return int(np.searchsorted(self._x.rows, x, side))

    def _visible(self, low: float, high: float) -> tuple[int, int]:
        """First and last row (exclusive) from `low` to `high`, and one more at either side."""
        return max(0, self._count(low, "left") - 1), min(len(self), self._count(high, "right") + 1)


def group_size(first: int, last: int, columns: int) -> int:
    """Rows per group such that those from `first` up to `last` form at most `columns` groups.

    A power of two; groups begin at its multiples, so that those of a growing or moving line stay the same and the
    plot doesn't shimmer.
    """
    size = 1 << (-(-(last - first) // columns) - 1).bit_length()
    while (last - 1) // size - first // size >= columns:
        size *= 2
    return size


def _statistics(values: Floats, starts: npt.NDArray[np.intp]) -> Floats:
    """Minimum, maximum, sum and count without NaN of the groups that begin at `starts`. Shape (n, 4)."""
    if not len(starts):
        return np.empty((0, len(REDUCTIONS)))
    known = ~np.isnan(values)
    columns = values, values, np.where(known, values, 0.0), known
    stats = [
        f.reduceat(column, starts, dtype=np.float64) for f, column in zip(REDUCTIONS, columns, strict=True)
    ]
    return np.stack(stats, axis=1)


FEW_POINTS = 400
"""Lines of more points are drawn without antialiasing, which would cost far more than it shows."""

FAINT_SHARE = 0.35
"""Of its colour over the card in a faint line. It is opaque, which is faster."""

MEANS = 60
"""Number of points in a line of means."""


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
class ChartLine:
    """A series and how it is drawn.

    `colour` names a field of `gui.base.tokens.Tokens`, of which an area has the share `strength` over the card. Values
    are multiplied by `factor`. `column` names the series in a saved table; without it, it isn't saved. `symbol` is
    pyqtgraph's, of dots that are `size` pixels wide.
    """

    name: str
    series: Series
    colour: str
    look: Look = Look.LINE
    strength: float = 1.0
    factor: float = 1.0
    column: str = ""
    symbol: str = "o"
    size: int = 7


def mixed(colour: QColor, ground: QColor, strength: float) -> QColor:
    """An opaque blend: `strength` (0 to 1) of a colour over `ground`."""
    rest = 1.0 - strength
    return QColor.fromRgbF(
        strength * colour.redF() + rest * ground.redF(),
        strength * colour.greenF() + rest * ground.greenF(),
        strength * colour.blueF() + rest * ground.blueF(),
    )


class DrawnLine:
    """A line and the item that draws it."""

    def __init__(self, line: ChartLine) -> None:
        self.line = line
        self.item = pg.PlotDataItem(
            connect="finite",
            skipFiniteCheck=False,
            fillLevel=0.0 if line.look is Look.AREA else None,
            symbol=line.symbol if line.look is Look.DOTS else None,
        )

    def paint_with(self, tokens: Tokens) -> None:
        colour, look = QColor(getattr(tokens, self.line.colour)), self.line.look
        if look is Look.AREA:
            self.item.setPen(None)
            self.item.setFillBrush(pg.mkBrush(mixed(colour, QColor(tokens.surface), self.line.strength)))
            return
        if look is Look.FAINT:
            colour = mixed(colour, QColor(tokens.surface), FAINT_SHARE)
        self._pen = pg.mkPen(colour, width=1, dash=[5, 4] if look is Look.DASHED else None)
        self.item.setPen(self._pen)
        self.item.setSymbolSize(self.line.size if look is Look.DOTS else 5)
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
        thickness: float = 1.0,
    ) -> tuple[Floats, Floats]:
        """Draw the part from `low` to `high` of the series in so many pixel columns.

        Args:
            to_axis: Converts positions in the series to those on the x axis.
            is_log: Whether to draw decimal logarithms; a value without one is a gap.
            thickness: Of the line, in pixels of the device.

        Returns:
            The points that are seen, as positions on both axes. Shapes (n,).
        """
        if self.line.look is Look.HIDDEN:
            return np.empty(0), np.empty(0)
        if self.line.look is Look.MEANS:
            x, y = self.line.series.means(low, high, MEANS)
        else:
            x, y = self.line.series.reduced(low, high, columns)
        y = np.log10(y, out=np.full(len(y), np.nan), where=y > 0) if is_log else y * self.line.factor
        # pyqtgraph fills an area in pieces, and antialiasing shows the seams between them; of a thick line that goes
        # up and down it takes five times as long.
        is_rough = self.line.look is Look.AREA or (self.line.look is Look.FAINT and thickness > 1)
        self.item.opts["antialias"] = len(x) <= FEW_POINTS and not is_rough
        finite = np.isfinite(y)
        if self.line.look is Look.LINE:
            self.item.setSymbol("o" if np.count_nonzero(finite) == 1 else None)  # one point makes no line
        drawn = to_axis(x)
        if self.line.look is not Look.AREA and thickness != self._pen.widthF():
            self._pen.setWidthF(thickness)
            self.item.setPen(pg.mkPen(self._pen))
            # a path of more than one pixel takes ten times as long as its segments, which have no dashes
            is_path = thickness <= 1 or self.line.look is Look.DASHED
            self.item.curve.setSegmentedLineMode("off" if is_path else "on")
        self.item.setData(drawn, y)
        inside = finite & (x >= low) & (x <= high)  # points beyond only continue the line
        seen = inside if inside.any() else finite
        return drawn[seen], y[seen]


FENCE, FENCE_KEPT = 4.0, 3.0
"""Values farther beyond the usual ones than so many times their spread are outliers; the second once there are some, so
that the scale of a live chart doesn't jump to and fro."""

FEWEST_VALUES = 4
"""Among fewer values none is an outlier."""


def usual_span(curves: Floats, dots: Floats, *, fence: float) -> Span | None:
    """The range beyond which values are outliers; None if there are too few to tell.

    Usual are the middle 90 % of `curves` and the lower half of `dots`, as the few evaluations of an overfitted model
    are far above its training loss, and those of an untrained one once. Shapes (n,), finite.
    """
    curves, dots = np.sort(curves), np.sort(dots)
    if len(curves) + len(dots) < FEWEST_VALUES:
        return None
    usual = np.concatenate(
        (curves[len(curves) // 20 : len(curves) - len(curves) // 20], dots[: len(dots) // 2])
    )
    low, high = float(usual.min()), float(usual.max())
    margin = fence * max(high - low, 0.1 * abs(high))
    return low - margin, high + margin
