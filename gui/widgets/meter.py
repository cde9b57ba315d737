"""A thin bar that shows how much of something is in use."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from gui.theme import Theme

THICKNESS = 6


class Meter(QWidget):
    """A share from 0 to 1 as a bar.

    Args:
        theme: Whose colours it has.
        colour: The field of `gui.theme.Tokens` that the filled part takes.
        name: What is measured, for screen readers.
        parent: Qt's parent.
    """

    def __init__(self, theme: Theme, colour: str, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._colour = colour
        self._share = 0.0
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    @property
    def share(self) -> float:
        """What is shown, 0 to 1."""
        return self._share

    @property
    def colour(self) -> str:
        """The field of `gui.theme.Tokens` that the filled part has."""
        return self._colour

    def set_share(self, share: float) -> None:
        """Show a share, 0 to 1."""
        share = min(1.0, max(0.0, share))
        if share != self._share:
            self._share = share
            self.update()

    def set_colour(self, colour: str) -> None:
        """Fill with another field of `gui.theme.Tokens`."""
        if colour != self._colour:
            self._colour = colour
            self.update()

    def sizeHint(self) -> QSize:
        """Thin, and as wide as it may be."""
        return QSize(60, THICKNESS)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the groove and its filled part."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        groove = QRectF(0, 0, self.width(), THICKNESS)
        painter.setBrush(QColor(self._theme.tokens.line))
        painter.drawRoundedRect(groove, THICKNESS / 2, THICKNESS / 2)
        width = max(float(THICKNESS), groove.width() * self._share) if self._share else 0.0
        left = self.width() - width if self.layoutDirection() is Qt.LayoutDirection.RightToLeft else 0.0
        painter.setBrush(QColor(getattr(self._theme.tokens, self._colour)))
        painter.drawRoundedRect(QRectF(left, 0, width, THICKNESS), THICKNESS / 2, THICKNESS / 2)
