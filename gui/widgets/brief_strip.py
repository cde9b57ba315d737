"""A strip of one line above a page: what there is, and a button that leads to it."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget

from gui.theme import SPACING
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.roles import Role, set_role


class BriefStrip(QFrame):
    """Words and buttons in one row; what has no room is cut, and a tool tip has all of it. Hidden at first.

    Signals:
        pressed: The button was.
        closed: The person put the strip away.
    """

    pressed = Signal()
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title, self._detail = ElidedLabel(), ElidedLabel()
        self._title.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        set_role(self._title, Role.STRONG)
        set_role(self._detail, Role.MUTED)
        self._button = QPushButton()
        self._button.clicked.connect(self.pressed)
        close = QPushButton(self.tr("Dismiss"))
        set_role(close, Role.LINK)
        close.clicked.connect(self._put_away)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * SPACING, SPACING // 2, 2 * SPACING, SPACING // 2)
        row.setSpacing(SPACING)
        row.addWidget(self._title)
        row.addWidget(self._detail, 1)
        row.addWidget(self._button)
        row.addWidget(close)
        set_role(self, Role.STRIP_INFO)
        self.hide()

    def show_words(self, title: str, detail: str, button: str) -> None:
        """Say something else from now on."""
        self.setAccessibleName(title)
        self._title.setText(title)
        self._detail.setText(detail)
        self._button.setText(button)
        self.show()

    def _put_away(self) -> None:
        self.hide()
        self.closed.emit()
