"""How long samples are, as bars, and a line where they are cut off."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from core.data_report import Lengths
from gui.theme import SPACING, Theme

HEIGHT_LINES = 9
GAP = 1.0
ROOM_BEYOND = 1.3
"""The limit is drawn where it is no further than this beyond the longest sample; else the bars would be squashed."""


class LengthBars(QWidget):
    """A histogram. What is longer than the limit is grey: it is not seen.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._lengths: Lengths | None = None
        self._limit: int | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.changed.connect(self.update)

    def show_lengths(self, lengths: Lengths | None, limit: int | None) -> None:
        """Show these lengths, and a line at `limit`, in the same unit; None: no line."""
        self._lengths, self._limit = lengths, limit
        self.update()

    @property
    def limit(self) -> int | None:
        """Where the line is."""
        return self._limit

    @property
    def has_line(self) -> bool:
        """Whether the line is near enough to be drawn."""
        limit, lengths = self._limit, self._lengths
        return limit is not None and lengths is not None and limit <= ROOM_BEYOND * lengths.edges[-1]

    def sizeHint(self) -> QSize:
        """Some lines of text high."""
        return QSize(30 * self.fontMetrics().averageCharWidth(), HEIGHT_LINES * self.fontMetrics().height())

    def minimumSizeHint(self) -> QSize:
        """Two thirds of it."""
        return QSize(10 * self.fontMetrics().averageCharWidth(), 2 * self.sizeHint().height() // 3)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint bars, axis and line."""
        if self._lengths is None or not self._lengths.counts:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        plot = self._plot()
        self._paint_bars(painter, plot, self._lengths)
        self._paint_axis(painter, plot, self._lengths)
        if self.has_line:
            self._paint_line(painter, plot)

    def _plot(self) -> QRectF:
        line = self.fontMetrics().height()
        return QRectF(1, line + SPACING / 2, self.width() - 2, self.height() - 2 * line - SPACING)

    def _paint_bars(self, painter: QPainter, plot: QRectF, lengths: Lengths) -> None:
        tokens, highest = self._theme.tokens, max(lengths.counts) or 1
        painter.setPen(Qt.PenStyle.NoPen)
        for index, count in enumerate(lengths.counts):
            left, right = (self._x(plot, edge) for edge in lengths.edges[index : index + 2])
            height = max(2.0, plot.height() * count / highest) if count else 0.0
            bar = QRectF(min(left, right), plot.bottom() - height, abs(right - left), height)
            bar.adjust(GAP / 2, 0, -GAP / 2, 0)
            is_cut = self._limit is not None and lengths.edges[index] >= self._limit
            painter.setBrush(QColor(tokens.others if is_cut else tokens.run))
            painter.drawRect(bar)

    def _paint_axis(self, painter: QPainter, plot: QRectF, lengths: Lengths) -> None:
        tokens, metrics = self._theme.tokens, self.fontMetrics()
        painter.setPen(QColor(tokens.line))
        painter.drawLine(plot.bottomLeft(), plot.bottomRight())
        painter.setPen(QColor(tokens.muted))
        taken = 0.0
        for value in _round_values(lengths.edges[0], self._end(lengths)):
            text, x = f"{value:,}", self._x(plot, value)
            width = metrics.horizontalAdvance(text)
            left = min(max(0.0, x - width / 2), self.width() - width)
            if taken and abs(left - taken) < 2 * width:
                continue
            taken = left
            painter.drawText(QPointF(left, plot.bottom() + metrics.ascent() + 2), text)

    def _paint_line(self, painter: QPainter, plot: QRectF) -> None:
        assert self._limit is not None
        tokens, metrics = self._theme.tokens, self.fontMetrics()
        x = self._x(plot, self._limit)
        painter.setPen(QPen(QColor(tokens.bad), 1.5, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, plot.top() - 2), QPointF(x, plot.bottom()))
        text = self.tr("cut off at {limit:,}").format(limit=self._limit)
        width = metrics.horizontalAdvance(text)
        left = min(max(0.0, x - width / 2), self.width() - width)
        painter.setPen(QColor(tokens.bad))
        painter.drawText(QPointF(left, metrics.ascent()), text)

    def _end(self, lengths: Lengths) -> int:
        return max(lengths.edges[-1], self._limit or 0) if self.has_line else lengths.edges[-1]

    def _x(self, plot: QRectF, value: float) -> float:
        assert self._lengths is not None
        first, last = self._lengths.edges[0], self._end(self._lengths)
        share = (value - first) / max(1, last - first)
        if self.layoutDirection() is Qt.LayoutDirection.RightToLeft:
            share = 1 - share
        return plot.left() + share * plot.width()


def _round_values(first: int, last: int) -> list[int]:
    """Some four or five round values between two."""
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    step = next(step for step in steps if (last - first) / step <= 6)
    return list(range(-(-first // step) * step, last + 1, step))


def cut_by(lengths: Lengths, limit: int) -> tuple[int, bool]:
    """How many samples are longer than `limit`, and whether that is exact: within a bar it is shared out evenly."""
    if lengths.limit == limit:
        return lengths.cut, True
    if limit >= lengths.longest:
        return 0, True
    longer, exact = 0.0, True
    for index, count in enumerate(lengths.counts):
        start, end = lengths.edges[index], lengths.edges[index + 1]
        if start > limit:
            longer += count
        elif end > limit + 1 and count:
            longer += count * (end - limit - 1) / (end - start)
            exact = False
    return round(longer), exact
