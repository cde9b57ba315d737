"""How many samples each label has, as small bars."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from gui.theme import SPACING, Theme
from gui.widgets.direction import mirrored

MOST_BARS = 10
FEW = 4
BAR = 5


class LabelBars(QWidget):
    """One line a label: its name, a bar, its count; the most frequent first, at most ten."""

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
        self._counts = [(" ".join(label.split()), count) for label, count in ordered[:MOST_BARS]]
        self._more = len(ordered) - len(self._counts)
        self._largest = max((count for _, count in self._counts), default=1)
        spoken = ", ".join(f"{label}: {count:,}" for label, count in self._counts)
        self.setAccessibleName(self.tr("Rows per label: {counts}").format(counts=spoken))
        self.setVisible(bool(counts))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """As high as its lines of text."""
        lines = self._lines_per_column() + (1 if self._more else 0)
        return QSize(20 * self.fontMetrics().averageCharWidth(), lines * self._line_height())

    def minimumSizeHint(self) -> QSize:
        """As high as it wants to be."""
        return QSize(10 * self.fontMetrics().averageCharWidth(), self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint names, bars and counts."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        lines = self._lines_per_column()
        gap = 3 * SPACING
        width = (self.width() - gap) // 2 if len(self._counts) > lines else self.width()
        for index, (label, count) in enumerate(self._counts):
            column, line = divmod(index, lines)
            self._paint_line(
                painter, column * (width + gap), line * self._line_height(), width, (label, count)
            )
        if self._more:
            painter.setPen(QColor(self._theme.tokens.muted))
            text = self.tr("and {count} more").format(count=self._more)
            below = QRectF(0, lines * self._line_height(), self.width(), self._line_height())
            painter.drawText(below, Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_line(self, painter: QPainter, left: int, top: int, width: int, line: tuple[str, int]) -> None:
        (label, count), tokens, height = line, self._theme.tokens, self._line_height()
        metrics = self.fontMetrics()
        names = min(width // 3, max(metrics.horizontalAdvance(name) for name, _ in self._counts) + 2)
        numbers = metrics.horizontalAdvance(f"{self._largest:,}") + SPACING
        room = max(1, width - names - numbers - SPACING)
        painter.setPen(QColor(tokens.muted))
        name = metrics.elidedText(label, Qt.TextElideMode.ElideRight, names)
        middle, right = Qt.AlignmentFlag.AlignVCenter, Qt.AlignmentFlag.AlignRight
        painter.drawText(self._mirrored(left, top, names, height), middle, name)
        end = self._mirrored(left + width - numbers, top, numbers, height)
        painter.drawText(end, middle | right, f"{count:,}")
        length = max(3.0, room * count / self._largest)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(tokens.run))
        painter.drawRoundedRect(
            self._mirrored(left + names + SPACING, top + height / 2 - BAR / 2, length, BAR), BAR / 2, BAR / 2
        )

    def _lines_per_column(self) -> int:
        """Up to four labels stand one below the other; more in two columns."""
        return len(self._counts) if len(self._counts) <= FEW else (len(self._counts) + 1) // 2

    def _mirrored(self, left: float, top: float, width: float, height: float) -> QRectF:
        return mirrored(self, QRectF(left, top, width, height))

    def _line_height(self) -> int:
        return self.fontMetrics().height() + 3
