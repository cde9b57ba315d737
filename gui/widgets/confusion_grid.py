"""Which labels were taken for which others, as a grid: rows are the right labels, columns what the model said."""

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from core.events import ConfusionCounted
from gui.theme import SPACING, Theme
from gui.widgets.plain_tip import plain_tip

CELL = 30
SMALLEST_CELL = 8
LARGEST_CELL = 56
WIDEST_NAME = 16
"""Letters of a label's name."""
READABLE = 22
"""Pixels from which a cell has room for its number."""


class ConfusionGrid(QWidget):
    """Painted cells, the more samples the stronger; what is right in one colour, what is wrong in another.

    The numbers stand in the cells where they fit, and in each cell's tip.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: ConfusionCounted | None = None
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.changed.connect(self.update)

    def show_confusion(self, found: ConfusionCounted | None) -> None:
        """Show a matrix."""
        if found is self._shown:
            return
        self._shown = found
        self.setAccessibleName(self.tr("Which labels were taken for which"))
        self.setAccessibleDescription(self._spoken())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Room for every cell at its usual size."""
        count = len(self._shown.labels) if self._shown else 2
        names = self._names_width()
        return QSize(names + count * CELL + SPACING, names + count * CELL + 2 * self.fontMetrics().height())

    def minimumSizeHint(self) -> QSize:
        """Room for every cell at its smallest."""
        count = len(self._shown.labels) if self._shown else 2
        names = self._names_width()
        return QSize(names + count * SMALLEST_CELL, 3 * self.fontMetrics().height() + count * SMALLEST_CELL)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint names and cells."""
        if self._shown is None:
            return
        painter = QPainter(self)
        side, left, top = self._cell(), self._names_width(), self._top()
        totals = [max(1, sum(row)) for row in self._shown.counts]
        for row, counts in enumerate(self._shown.counts):
            for column, count in enumerate(counts):
                box = QRectF(left + column * side, top + row * side, side - 1, side - 1)
                self._paint_cell(painter, box, count, count / totals[row], is_right=row == column)
        self._paint_names(painter, side, left, top)

    def event(self, event: QEvent) -> bool:
        """Say what a cell counts, below the mouse."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), plain_tip(self.words_at(event.pos())), self)
            return True
        return super().event(event)

    def words_at(self, place: QPoint) -> str:
        """What the cell at a place counts; empty where there is none."""
        column, row = place.x() - self._names_width(), place.y() - self._top()
        return self._words(int(row // self._cell()), int(column // self._cell()))

    def _words(self, row: int, column: int) -> str:
        shown = self._shown
        if shown is None or not (0 <= row < len(shown.labels) and 0 <= column < len(shown.labels)):
            return ""
        count, right, said = shown.counts[row][column], shown.labels[row], shown.labels[column]
        if row == column:
            return self.tr("{count} of “{right}” were told right").format(count=f"{count:,}", right=right)
        return self.tr("{count} of “{right}” were taken for “{said}”").format(
            count=f"{count:,}", right=right, said=said
        )

    def _spoken(self) -> str:
        """The worst confusions in words, for a screen reader."""
        shown = self._shown
        if shown is None:
            return ""
        wrong = sorted(
            (
                (count, row, column)
                for row, counts in enumerate(shown.counts)
                for column, count in enumerate(counts)
                if row != column and count
            ),
            reverse=True,
        )
        return "; ".join(self._words(row, column) for _, row, column in wrong[:5])

    def _paint_cell(
        self, painter: QPainter, box: QRectF, count: int, share: float, *, is_right: bool
    ) -> None:
        tokens = self._theme.tokens
        colour = QColor(tokens.activations if is_right else tokens.bad)
        colour.setAlphaF(min(1.0, 0.08 + 0.8 * share) if count else 0.0)
        painter.fillRect(box, QColor(tokens.grid))
        painter.fillRect(box, colour)
        words = f"{count:,}"
        if count and box.width() >= max(READABLE, self.fontMetrics().horizontalAdvance(words) + 4):
            painter.setPen(QColor(tokens.text))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, words)

    def _paint_names(self, painter: QPainter, side: float, left: int, top: int) -> None:
        assert self._shown is not None
        metrics = self.fontMetrics()
        painter.setPen(QColor(self._theme.tokens.muted))
        if side < metrics.height() - 4:
            return
        for place, label in enumerate(self._shown.labels):
            name = metrics.elidedText(" ".join(label.split()), Qt.TextElideMode.ElideRight, left - SPACING)
            row = QRectF(0, top + place * side, left - SPACING, side)
            painter.drawText(row, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
            above = metrics.elidedText(name, Qt.TextElideMode.ElideRight, int(side) - 4)
            column = QRectF(left + place * side, top - metrics.height() - 2, side, metrics.height())
            painter.drawText(column, Qt.AlignmentFlag.AlignCenter, above)

    def _top(self) -> int:
        return self.fontMetrics().height() + SPACING

    def _cell(self) -> float:
        count = len(self._shown.labels) if self._shown else 1
        room = min((self.width() - self._names_width()) / count, (self.height() - self._top()) / count)
        return max(SMALLEST_CELL, min(LARGEST_CELL, room))

    def _names_width(self) -> int:
        metrics: QFontMetrics = self.fontMetrics()
        labels = self._shown.labels if self._shown else ()
        widest = max((metrics.horizontalAdvance(" ".join(label.split())) for label in labels), default=0)
        return min(widest, WIDEST_NAME * metrics.averageCharWidth()) + SPACING
