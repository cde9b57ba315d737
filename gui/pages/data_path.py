"""The field of the training data: a path, and a menu with what was trained on lately."""

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QPushButton, QWidget

from core import recent_data
from core.catalogue import Option
from core.sources import DIGITS, short_name
from gui.path_field import PathField, Wanted


class DataPathField(PathField):
    """`data.train`; what was trained on lately stands in the menu of its button, beside the way to the Hub.

    Signals:
        hub_wanted: The person wants to look for data on the Hub.
    """

    hub_wanted = Signal()

    def __init__(self, option: Option, placeholder: str, parent: QWidget | None = None) -> None:
        super().__init__(option, Wanted.EITHER, placeholder, parent)

    def _choose_button(self, wanted: Wanted) -> QPushButton:
        button = super()._choose_button(wanted)
        menu = button.menu()
        menu.setToolTipsVisible(True)
        menu.addAction(self.tr("From the Hub…"), self.hub_wanted.emit)
        self._own = len(menu.actions())
        menu.aboutToShow.connect(self._offer_recent)
        return button

    def _offer_recent(self) -> None:
        """Put the sources below what the menu has of its own."""
        menu = self.sender()
        if not isinstance(menu, QMenu):
            return
        for old in menu.actions()[self._own :]:
            menu.removeAction(old)
        sources = recent_data.recent()
        if sources:
            self._add_heading(menu, self.tr("Lately"))
        for source in sources:
            self._add(menu, short_name(source), source)
        self._add_heading(menu, self.tr("Comes with Hone"))
        self._add(menu, self.tr("Handwritten digits"), DIGITS)

    def _add_heading(self, menu: QMenu, title: str) -> None:
        """A line, and below it words that can't be chosen: style sheets show no sections."""
        menu.addSeparator()
        menu.addAction(title).setEnabled(False)

    def _add(self, menu: QMenu, title: str, source: str) -> None:
        action = menu.addAction(title)
        action.setData(source)
        action.setToolTip(str(Path(source)) if source != DIGITS else source)
        action.triggered.connect(self._take)

    def _take(self) -> None:
        action = self.sender()
        if isinstance(action, QAction):
            self.line.setText(str(action.data()))
