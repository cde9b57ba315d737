"""The strip above every page where more was to be opened than one thing."""

from collections.abc import Sequence

from PySide6.QtWidgets import QVBoxLayout, QWidget

from core.events import Level
from gui.start_strip import listed
from gui.theme import PAGE_MARGINS
from gui.widgets.direction import margins
from gui.widgets.message_strip import MessageStrip


class AsideStrip(QWidget):
    """Names what was left aside; hidden until then, and once it is put away."""

    def __init__(self) -> None:
        super().__init__()
        self.strip = MessageStrip(closable=True)
        self.strip.closed.connect(self.hide)
        layout = QVBoxLayout(self)
        start, top, end, _ = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end, 0))
        layout.addWidget(self.strip)
        self.hide()

    def show_names(self, names: Sequence[str]) -> None:
        """Say that these were left aside; nothing is said, and no longer, where there are none."""
        title = self.tr("Hone opens one file or folder at a time")
        self.strip.show_message(Level.INFO, title, self.tr("Left aside: {}").format(listed(names)))
        self.setVisible(bool(names))
