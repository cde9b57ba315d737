"""A card: a titled panel that holds one subject."""

from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from gui.theme import SPACING
from gui.widgets.roles import Role, set_role


class Card(QFrame):
    """A panel with a title, something small at the title's far end, and a body to fill.

    Args:
        title: What the card is about; empty: no heading line.
        parent: Qt's parent.
    """

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.CARD)
        self.setAccessibleName(title)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(2 * SPACING, 2 * SPACING - 4, 2 * SPACING, 2 * SPACING - 2)
        outer.setSpacing(SPACING + 2)
        self._heading = QHBoxLayout()
        self._heading.setSpacing(SPACING)
        self._title = QLabel(title)
        set_role(self._title, Role.CARD_TITLE)
        self._heading.addWidget(self._title)
        self._heading.addStretch(1)
        self._trailing: QWidget | None = None
        outer.addLayout(self._heading)
        if not title:
            self._title.hide()
        self.body = QVBoxLayout()
        self.body.setSpacing(SPACING)
        outer.addLayout(self.body, 1)

    @property
    def title(self) -> str:
        """What the card is about."""
        return self._title.text()

    def explain(self, words: str) -> None:
        """Say more of the subject where the mouse rests on the title."""
        self._title.setToolTip(words)

    def title_width(self) -> int:
        """Pixels that the title takes."""
        return self._title.sizeHint().width()

    def set_title(self, title: str) -> None:
        """Change the title."""
        self._title.setText(title)
        self._title.setVisible(bool(title))
        self.setAccessibleName(title)

    def set_trailing(self, trailing: QWidget | str) -> None:
        """Put a widget, or a muted text, at the far end of the title's line; it replaces what was there."""
        if isinstance(trailing, str) and isinstance(self._trailing, QLabel):
            self._trailing.setText(trailing)
            return
        if self._trailing is not None:
            self._heading.removeWidget(self._trailing)
            self._trailing.deleteLater()
        if isinstance(trailing, str):
            text = trailing
            trailing = QLabel(text)
            set_role(trailing, Role.MUTED)
        self._trailing = trailing
        self._heading.addWidget(trailing)

    def add_to_heading(self, widget: QWidget) -> None:
        """Put one more widget at the very end of the title's line."""
        self._heading.addWidget(widget)
