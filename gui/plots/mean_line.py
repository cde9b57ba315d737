"""A calm line through a restless one: what is usual, beside the lowest and highest that a line shows."""

import pyqtgraph as pg

from gui.plots.lines import logarithms
from gui.plots.series import Series
from gui.plots.x_scale import XScale
from gui.theme import Tokens

MEANS = 60
"""About so many in the picture; where there are hardly more points, the line is these."""


class MeanLine:
    """Means of neighbouring points.

    Args:
        series: What it runs through; may be changed later.
        colour: Names a field of `gui.theme.Tokens`.
    """

    def __init__(self, series: Series, colour: str) -> None:
        self.series = series
        self._colour = colour
        self.item = pg.PlotDataItem(connect="finite")
        self.item.setZValue(2)

    def paint_with(self, tokens: Tokens) -> None:
        """Take the colours in force."""
        self.item.setPen(pg.mkPen(getattr(tokens, self._colour), width=1))

    def draw(self, low: float, high: float, scale: XScale, *, is_log: bool = False) -> None:
        """Draw it from `low` to `high` of the series."""
        x, y = self.series.means(low, high, MEANS)
        self.item.setData(scale.to_axis(x), logarithms(y) if is_log else y)
