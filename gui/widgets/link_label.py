"""Words with links in them, whose colour follows the theme."""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QLabel, QWidget


class LinkLabel(QLabel):
    """Rich text that wraps; its links are reached by mouse and keyboard."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )

    def changeEvent(self, event: QEvent) -> None:
        """Write the words anew in the colours that are in force now: Qt keeps those they were written in."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and self.text():
            words = self.text()
            self.clear()
            self.setText(words)
