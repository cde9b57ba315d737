"""One line of a chart: what it draws, in which colour, and how."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

from gui.plots.series import Series
from gui.theme import Tokens

FEW_POINTS = 400
"""Up to here a line is drawn antialiased; beyond, antialiasing costs far more than it shows."""

FAINT_ALPHA = 90


class Look(Enum):
    """How a line is drawn."""

    LINE = "line"
    FAINT = "faint"
    DASHED = "dashed"
    DOTS = "dots"
    AREA = "area"


@dataclass(frozen=True)
class Line:
    """What a line draws. `colour` names a field of `gui.theme.Tokens`; an empty `name` stays out of the legend.

    `strength` is the share of the colour in an area, the rest being that of the card.
    """

    name: str
    series: Series
    colour: str
    look: Look = Look.LINE
    strength: float = 1.0


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

    def draw(self, low: float, high: float, columns: int) -> tuple[float, float] | None:
        """Draw the part from `low` to `high`; returns the lowest and highest value in it, None without any."""
        x, y = self.line.series.reduced(low, high, columns)
        # pyqtgraph fills an area in pieces, and antialiasing shows the seams between them.
        self.item.opts["antialias"] = len(x) <= FEW_POINTS and self.line.look is not Look.AREA
        finite = y[np.isfinite(y)]
        if self.line.look is Look.LINE:
            self.item.setSymbol("o" if len(finite) == 1 else None)  # one point makes no line
        self.item.setData(x, y)
        return (float(finite.min()), float(finite.max())) if finite.size else None
