"""A level that memory doesn't get beyond, as a line across a chart with words on it."""

import pyqtgraph as pg
from PySide6.QtGui import QFont, QFontMetrics

from gui import numbers
from gui.theme import Tokens

LINES_IN_WAY = 2.5
"""A ceiling no further below the top than so many lines of text has its words in the topmost of them."""


class CeilingLine(pg.InfiniteLine):
    """Drawn where it is in the picture. Red is for ceilings.

    Args:
        place: Where the words stand along the line, 0 to 1.
    """

    def __init__(self, place: float) -> None:
        self._above, self._below = [(place, 1.0)] * 2, [(place, 0.0)] * 2
        self._words = ""
        super().__init__(angle=0, label="", labelOpts={"position": place, "anchors": self._above})
        self.label.textItem.document().setDocumentMargin(1)
        self.setZValue(6)

    def paint_with(self, tokens: Tokens, font: QFont) -> None:
        """Take the colours in force, and the font of the chart's figures."""
        self.setPen(pg.mkPen(tokens.bad, width=1, dash=[6, 4]))
        self.label.setColor(tokens.bad)
        self.label.fill = pg.mkBrush(tokens.surface)
        self.label.textItem.setFont(font)

    def draw(self, level: int | None, words: str, y: tuple[float, float], rows: int) -> None:
        """Draw the line, or nothing where it isn't in the picture.

        Args:
            level: Bytes; None: there is no ceiling.
            words: What to say of it, with a place for the figure.
            y: From and to of the picture.
            rows: Its height in pixels.
        """
        self.setVisible(level is not None and level <= y[1])
        if level is None:
            return
        self.setValue(level)
        room_above = (y[1] - level) / (y[1] - y[0]) * rows
        needed = QFontMetrics(self.label.textItem.font()).height()
        self._words = words.format(numbers.memory_tick(level))
        self.label.anchors = self._above if room_above > needed else self._below
        self.label.setFormat(self._words)
        self.label.updatePosition()

    def taken_at_top(self, y: tuple[float, float], rows: int) -> int:
        """Pixels that its words take in the topmost line of a picture from and to `y`, `rows` pixels high."""
        metrics = QFontMetrics(self.label.textItem.font())
        below_top = (y[1] - self.value()) / (y[1] - y[0]) * rows
        is_in_way = self.isVisible() and below_top < LINES_IN_WAY * metrics.height()
        return metrics.horizontalAdvance(self._words) if is_in_way else 0
