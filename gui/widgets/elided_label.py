"""A line of text that ends in "…" where it has no room."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QStyle, QWidget

from gui.widgets.plain_tip import tip_of


class ElidedLabel(QLabel):
    """One line of plain text, as wide as it is given; where it is cut, its tool tip has all of it."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def shown_text(self) -> str:
        """What of the text can be read now."""
        return self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideRight, self.contentsRect().width()
        )

    def sizeHint(self) -> QSize:
        """As wide as its text, if there is room."""
        return QSize(self.fontMetrics().horizontalAdvance(self.text()), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Room for a few letters."""
        return QSize(self.fontMetrics().horizontalAdvance("……"), super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what fits."""
        shown = self.shown_text()
        tip = "" if shown == self.text() else tip_of(self.text())
        if self.toolTip() != tip:
            self.setToolTip(tip)
        painter = QPainter(self)
        side = QStyle.visualAlignment(self.layoutDirection(), self.alignment())
        self.style().drawItemText(
            painter, self.contentsRect(), side, self.palette(), self.isEnabled(), shown, self.foregroundRole()
        )
