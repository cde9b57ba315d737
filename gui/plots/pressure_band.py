"""A thin band along the foot of a chart: where the operating system said that memory was short."""

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QBrush

from gui.plots.reduction import Floats
from gui.plots.series import Series
from gui.theme import Tokens

HEIGHT = 5
"""Pixels."""

LAST_SECONDS = 1.0
"""How long the newest sample stands."""


def stretches(x: Floats, levels: Floats) -> tuple[Floats, Floats, Floats]:
    """Where a level above 0 stands: from, to and how high it is, a row each.

    Args:
        x: When each level was sampled, ascending; it stands until the next one is.
        levels: The levels; NaN is not known, and no more drawn than 0.
    """
    held = np.nan_to_num(levels)
    starts = np.flatnonzero(np.diff(held, prepend=np.nan) != 0)
    begins, values = x[starts], held[starts]
    ends: Floats = np.append(begins[1:], x[-1:] + LAST_SECONDS)
    is_short = values > 0
    return begins[is_short], ends[is_short], values[is_short]


class PressureBand(pg.BarGraphItem):
    """Amber where memory was short (level 1), red where it was critically so (2), nothing where it was neither."""

    def __init__(self) -> None:
        super().__init__(x0=[0.0], x1=[0.0], y0=[0.0], y1=[0.0], pen=None)
        self.setZValue(10)
        self._colours: dict[float, QBrush] = {}
        self.hide()

    def paint_with(self, tokens: Tokens) -> None:
        """Take the colours in force."""
        self._colours = {1.0: pg.mkBrush(tokens.warn), 2.0: pg.mkBrush(tokens.bad)}

    def draw(
        self, pressure: Series, x: tuple[float, float], y: tuple[float, float], size: tuple[int, int]
    ) -> None:
        """Draw what lies within the picture.

        Args:
            pressure: Levels over time.
            x: From and to of the picture.
            y: From and to of the picture.
            size: Its columns and rows, in pixels.
        """
        self.show_stretches(stretches(*pressure.reduced(*x, size[0])), x, y, size)

    def show_stretches(
        self,
        shown: tuple[Floats, Floats, Floats],
        x: tuple[float, float],
        y: tuple[float, float],
        size: tuple[int, int],
    ) -> None:
        """Draw stretches: where they begin and end, and the level of each; the rest is as in `draw`."""
        begins, ends, levels = shown
        self.setVisible(len(levels) > 0)
        if not len(levels):
            return
        pixel = (x[1] - x[0]) / size[0]
        top = y[0] + (y[1] - y[0]) * HEIGHT / size[1]
        self.setOpts(
            x0=begins,
            x1=np.maximum(ends, begins + pixel),
            y0=np.full(len(begins), y[0]),
            y1=np.full(len(begins), top),
            brushes=[self._colours[float(level)] for level in levels],
        )
