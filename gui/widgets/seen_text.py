"""A text as a model sees it: what it learns to say is tinted and underlined."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from core.data_report import SeenPart
from gui.theme import Theme

LINES = 5


class SeenText(QPlainTextEdit):
    """A text that can be read, selected and scrolled.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._parts: tuple[SeenPart, ...] = ()
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setAcceptDrops(False)
        self.setMinimumHeight(LINES * self.fontMetrics().height())
        theme.changed.connect(self._paint_parts)

    def show_parts(self, parts: Sequence[SeenPart]) -> None:
        """Show these stretches of text, one after the other."""
        self._parts = tuple(parts)
        learned = " … ".join(part.text for part in parts if part.trained)
        self.setAccessibleDescription(self.tr("Learned: {text}").format(text=learned) if learned else "")
        self._paint_parts()

    @property
    def parts(self) -> tuple[SeenPart, ...]:
        """The stretches shown."""
        return self._parts

    def sizeHint(self) -> QSize:
        """A few lines."""
        return QSize(super().sizeHint().width(), self.minimumHeight())

    def _paint_parts(self) -> None:
        self.clear()
        cursor = self.textCursor()
        for part in self._parts:
            cursor.insertText(part.text, trained_format(self._theme) if part.trained else QTextCharFormat())
        cursor.movePosition(QTextCursor.MoveOperation.Start)
        self.setTextCursor(cursor)


def trained_format(theme: Theme) -> QTextCharFormat:
    """How a trained part looks."""
    made = QTextCharFormat()
    made.setBackground(QColor(theme.tokens.accent_soft))
    made.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
    made.setUnderlineColor(QColor(theme.tokens.accent))
    return made


class Mark(QWidget):
    """A small piece of what a trained part looks like, for a legend."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        line = self.fontMetrics().height()
        self.setFixedSize(2 * line, line)
        theme.changed.connect(self.update)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the tint and the line below it."""
        painter = QPainter(self)
        box = QRectF(0, 1, self.width(), self.height() - 2)
        painter.fillRect(box, QColor(self._theme.tokens.accent_soft))
        painter.setPen(QPen(QColor(self._theme.tokens.accent), 1, Qt.PenStyle.SolidLine))
        painter.drawLine(box.bottomLeft(), box.bottomRight())
