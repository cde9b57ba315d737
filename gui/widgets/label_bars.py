"""How many samples each label has, as small bars."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from gui.theme import SPACING, Theme

MOST_BARS = 8


class LabelBars(QWidget):
    """One line a label: its name, a bar, its count; the most frequent first, at most eight."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._counts: list[tuple[str, int]] = []
        self._largest = 1
        self._more = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def set_counts(self, counts: dict[str, int]) -> None:
        """Show these counts; none hides the bars."""
        ordered = sorted(counts.items(), key=lambda pair: -pair[1])
        self._counts = ordered[:MOST_BARS]
        self._more = len(ordered) - len(self._counts)
        self._largest = max((count for _, count in self._counts), default=1)
        spoken = ", ".join(f"{label}: {count:,}" for label, count in self._counts)
        self.setAccessibleName(self.tr("Samples per label: {counts}").format(counts=spoken))
        self.setVisible(bool(counts))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """A line of text high for each bar."""
        lines = len(self._counts) + (1 if self._more else 0)
        return QSize(20 * self.fontMetrics().averageCharWidth(), lines * self._line_height())

    def minimumSizeHint(self) -> QSize:
        """As high as it wants to be."""
        return QSize(10 * self.fontMetrics().averageCharWidth(), self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint names, bars and counts."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for index, (label, count) in enumerate(self._counts):
            self._paint_line(painter, index * self._line_height(), label, count)
        if self._more:
            top = len(self._counts) * self._line_height()
            painter.setPen(QColor(self._theme.tokens.muted))
            text = self.tr("and {count} more").format(count=self._more)
            painter.drawText(
                QRectF(0, top, self.width(), self._line_height()), Qt.AlignmentFlag.AlignVCenter, text
            )

    def _paint_line(self, painter: QPainter, top: int, label: str, count: int) -> None:
        tokens, metrics, height = self._theme.tokens, self.fontMetrics(), self._line_height()
        names = min(self.width() // 3, max(metrics.horizontalAdvance(name) for name, _ in self._counts) + 2)
        numbers = metrics.horizontalAdvance(f"{self._largest:,}") + SPACING
        room = max(1, self.width() - names - numbers - SPACING)
        painter.setPen(QColor(tokens.muted))
        name = metrics.elidedText(label, Qt.TextElideMode.ElideRight, names)
        painter.drawText(self._mirrored(0, top, names, height), Qt.AlignmentFlag.AlignVCenter, name)
        bar = self._mirrored(names + SPACING, top + height / 2 - 3, max(3.0, room * count / self._largest), 6)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(tokens.run))
        painter.drawRoundedRect(bar, 3, 3)
        painter.setPen(QColor(tokens.muted))
        end = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(self._mirrored(self.width() - numbers, top, numbers, height), end, f"{count:,}")

    def _mirrored(self, left: float, top: float, width: float, height: float) -> QRectF:
        if self.layoutDirection() is Qt.LayoutDirection.RightToLeft:
            left = self.width() - left - width
        return QRectF(left, top, width, height)

    def _line_height(self) -> int:
        return self.fontMetrics().height() + 3
