"""The sidebar: where to go, and what the machine is doing."""

from enum import IntEnum

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QFrame, QLabel, QPushButton, QVBoxLayout, QWidget

from gui.machine_strip import MachineStrip
from gui.numbers import whole_percent
from gui.theme import SPACING, Theme
from gui.widgets.roles import Role, set_role

WIDEST = "Memory 888 MB of 888 GB"
"""What the sidebar has room for on one line."""


class Place(IntEnum):
    """A page the sidebar leads to; the number is that of its shortcut."""

    NEW_RUN = 1
    RUNS = 2
    BENCHMARK = 3
    TRY = 4
    SETTINGS = 5


class Sidebar(QFrame):
    """A column of places with the machine strip at its foot.

    Signals:
        place_chosen: The `Place` that was pressed.
    """

    place_chosen = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.SIDEBAR)
        self.setFixedWidth(self.fontMetrics().horizontalAdvance(WIDEST) + 4 * SPACING)
        self.machine = MachineStrip(theme)
        self._group = QButtonGroup(self)
        self._group.idClicked.connect(self._tell)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACING + 2, 2 * SPACING, SPACING + 2, 2 * SPACING)
        layout.setSpacing(2)
        name = QLabel("Hone")
        set_role(name, Role.APP_NAME)
        layout.addWidget(name)
        layout.addSpacing(SPACING)
        titles = {
            Place.NEW_RUN: self.tr("New run"),
            Place.RUNS: self.tr("Runs"),
            Place.BENCHMARK: self.tr("Benchmark"),
            Place.TRY: self.tr("Try it"),
            Place.SETTINGS: self.tr("Settings"),
        }
        for place, title in titles.items():
            layout.addWidget(self._button(place, title))
        layout.addStretch(1)
        layout.addWidget(self.machine)

    def show_place(self, place: Place) -> None:
        """Mark where the window is."""
        self._group.button(place).setChecked(True)

    def show_training(self, count: int) -> None:
        """Say beside Runs how many train."""
        button = self._group.button(Place.RUNS)
        title = self.tr("Runs")
        button.setText(f"{title} ({count})" if count else title)
        one, several = self.tr("One run is training"), self.tr("{} runs are training").format(count)
        button.setToolTip("" if not count else one if count == 1 else several)

    def show_measuring(self, share: float | None) -> None:
        """Say beside Benchmark how much of one is done, from 0 to 1; None: none is under way."""
        button = self._group.button(Place.BENCHMARK)
        title = self.tr("Benchmark")
        button.setText(title if share is None else f"{title} ({whole_percent(share)})")
        button.setToolTip("" if share is None else self.tr("A benchmark is being measured"))

    def _button(self, place: Place, title: str) -> QPushButton:
        button = QPushButton(title)
        button.setCheckable(True)
        set_role(button, Role.NAVIGATION)
        self._group.addButton(button, place)
        return button

    def _tell(self, number: int) -> None:
        self.place_chosen.emit(Place(number))
