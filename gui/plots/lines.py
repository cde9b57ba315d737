"""One line of a chart: what it draws, in which colour, and how."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

from gui.plots.reduction import Floats
from gui.plots.series import Series
from gui.theme import Tokens

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
    """What a line draws. `colour` names a field of `gui.theme.Tokens`; an empty `name` stays out of the legend.

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
