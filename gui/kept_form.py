"""The form of the New run page outlives the window: kept when it rests for a while and at the end, shown again."""

from PySide6.QtCore import QObject, QTimer

from core import last_form
from gui.pages.new_run import NewRunPage

REST_MS = 3000
"""So long after the last change it is kept, should the window not come to close in order."""


class KeptForm(QObject):
    """Keeps what the page holds. What it held in the beginning is not kept: nobody has chosen it.

    Args:
        page: The page.
        parent: Qt's parent.
    """

    def __init__(self, page: NewRunPage, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._page = page
        self._kept = page.chosen_tree()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(REST_MS)
        self._timer.timeout.connect(self.keep)
        page.form_changed.connect(self._timer.start)

    def restore(self) -> None:
        """Show again what was kept, if anything was."""
        tree = last_form.find()
        if tree is not None:
            self._page.restore_tree(tree)
            self._kept = self._page.chosen_tree()

    def keep(self) -> None:
        """Keep what the page holds now, unless that is kept already."""
        self._timer.stop()
        tree = self._page.chosen_tree()
        if tree != self._kept:
            last_form.keep(tree)
            self._kept = tree
