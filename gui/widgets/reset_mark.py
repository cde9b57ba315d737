"""The sign of a choice that differs from its default, to be pressed to take the default again."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from gui.theme import SPACING

DOT = 2.8
ARROW = 4.4
"""Radii in pixels."""


class ResetMark(QAbstractButton):
    """A dot; under the pointer, or with the focus, an arrow that goes back."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        keeps = self.sizePolicy()
        keeps.setRetainSizeWhenHidden(True)
        self.setSizePolicy(keeps)
        self.hide()

    def sizeHint(self) -> QSize:
        """As wide as the gap between a label and its control."""
        return QSize(2 * SPACING, self.fontMetrics().height() + SPACING)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the dot or the arrow in the accent colour."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colour = self.palette().color(QPalette.ColorRole.Link)
        centre = QRectF(self.rect()).center()
        if self.underMouse() or self.hasFocus():
            _paint_arrow(painter, centre, colour)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawEllipse(centre, DOT, DOT)


def _paint_arrow(painter: QPainter, centre: QPointF, colour: QColor) -> None:
    """Three quarters of a circle that end, at the left, in a tip."""
    pen = QPen(colour, 1.6)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    painter.setPen(pen)
    around = QRectF(centre.x() - ARROW, centre.y() - ARROW, 2 * ARROW, 2 * ARROW)
    painter.drawArc(around, -120 * 16, 280 * 16)  # sixteenths of a degree, from below to the upper left
    tip = QPointF(centre.x() - ARROW * 0.94, centre.y() - ARROW * 0.34)
    painter.drawLine(tip, QPointF(tip.x() - 0.4, tip.y() - 3.4))
    painter.drawLine(tip, QPointF(tip.x() + 3.2, tip.y() + 0.2))
