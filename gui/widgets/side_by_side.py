"""Panels beside each other where there is room, below each other where there isn't."""

from collections.abc import Sequence
from enum import Enum

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from gui.theme import SPACING


class Arrangement(Enum):
    """How panels stand."""

    WIDE = "wide"
    CLOSE = "close"
    BELOW = "below"


class SideBySide(QWidget):
    """Lays panels out: evenly where there is room, the first one wider where it is close, then below each other.

    Signals:
        arranged: The `Arrangement`, where it has changed.

    Args:
        panels: What is laid out, in the order of reading.
        wide: Letters that each has room for at least, or it is close.
        close: Letters that each has room for at least, or they stand below each other.
        parent: Qt's parent.
    """

    arranged = Signal(object)

    def __init__(
        self, panels: Sequence[QWidget], *, wide: int, close: int, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._panels, self._wide, self._close = tuple(panels), wide, close
        self.arrangement = Arrangement.WIDE
        self._box = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(SPACING + 4)
        for panel in panels:
            self._box.addWidget(panel, 2)

    def minimumSizeHint(self) -> QSize:
        """As narrow as the widest alone."""
        size = super().minimumSizeHint()
        return QSize(max(panel.minimumSizeHint().width() for panel in self._panels), size.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Stand otherwise where the room asks for it."""
        super().resizeEvent(event)
        letters = self.width() / (len(self._panels) * self.fontMetrics().averageCharWidth())
        fitting = Arrangement.CLOSE if letters >= self._close else Arrangement.BELOW
        self._arrange(Arrangement.WIDE if letters >= self._wide else fitting)

    def _arrange(self, wanted: Arrangement) -> None:
        if wanted is self.arrangement:
            return
        self.arrangement = wanted
        across, down = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
        self._box.setDirection(down if wanted is Arrangement.BELOW else across)
        self._box.setStretch(0, 3 if wanted is Arrangement.CLOSE else 2)
        self.arranged.emit(wanted)
