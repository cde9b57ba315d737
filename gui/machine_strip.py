"""The strip at the sidebar's foot: this computer, its memory, how busy it is. Always alive, never kept."""

import time
from collections.abc import Callable
from functools import partial
from itertools import zip_longest

from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from core.machine.picture import MachinePicture, MachineView
from core.reports import MachineReport
from gui.machine_watch import MachineWatch, Sampling, sampler_for
from gui.machine_words import Note, Reading, battery, card_memory, duty, main_memory
from gui.theme import SPACING, Theme
from gui.widgets.meter import Meter
from gui.widgets.roles import Role, set_flag, set_role

MOST_NOTES = 2
"""Of one reading: memory has its pressure and its swap."""

LAST_SECONDS = 0.5
"""How long the window waits for its threads when it is closed; one that hangs in a driver is left behind."""


class MachineStrip(QWidget):
    """Name of the device, memory in use, how busy it is, and what else matters; read while it can be seen.

    Args:
        theme: The colours.
        make_sampler: Makes what reads the machine for the device named.
        parent: Qt's parent.
    """

    def __init__(
        self,
        theme: Theme,
        make_sampler: Callable[[str | None], Sampling] = sampler_for,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._make_sampler = make_sampler
        self._trains: Callable[[], bool] = _never
        self._device_name: str | None = None
        self._view = MachineView()
        self._watch: MachineWatch | None = None
        self._ending: list[MachineWatch] = []
        self._device = _line(Role.STRONG)
        self._device.setText(self.tr("This computer"))
        self._card = _ReadingLines(theme, "run", self.tr("GPU memory in use"))
        self._memory = _ReadingLines(theme, "run", self.tr("Memory in use"))
        self._duty = _ReadingLines(theme, "activations", self.tr("How busy the device is"))
        self._battery = _line(Role.HINT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACING + 2, SPACING, SPACING + 2, 0)
        layout.setSpacing(SPACING // 2)
        for widget in (
            self._device,
            *self._card.widgets,
            *self._memory.widgets,
            *self._duty.widgets,
            self._battery,
        ):
            layout.addWidget(widget)
        self.show_picture(MachinePicture())

    def set_machine(self, machine: MachineReport) -> None:
        """Name what "automatic" trains on, and look at it from now on."""
        device = next((device for device in machine.devices if device.name == machine.automatic), None)
        if device is None or device.name == self._device_name:
            return
        self._device.setText(device.title)
        self._device_name = device.name
        if self._watch is not None:
            self._let_go()
            self._start()

    def set_trains(self, trains: Callable[[], bool]) -> None:
        """Say how to find out whether a run trains; asked in another thread, and only on battery."""
        self._trains = trains

    def show_picture(self, picture: MachinePicture, trains: bool = False) -> None:
        """Show what was found; what isn't known has no line."""
        self._card.show_reading(card_memory(picture))
        self._memory.show_reading(main_memory(picture))
        self._duty.show_reading(duty(picture))
        _say(self._battery, battery(picture, trains))

    def stop(self) -> None:
        """Look no longer. No thread is left after this but one that waits for a driver."""
        self._let_go()
        deadline = time.monotonic() + LAST_SECONDS
        for watch in self._ending:
            watch.wait(max(0.0, deadline - time.monotonic()))
        self._forget_ended()

    def showEvent(self, event: QShowEvent) -> None:
        """Begin to look."""
        super().showEvent(event)
        if self._watch is None:
            self._start()

    def hideEvent(self, event: QHideEvent) -> None:
        """Look no longer: nobody sees it."""
        super().hideEvent(event)
        self._let_go()

    def _let_go(self) -> None:
        """End the thread; nobody waits for it."""
        if self._watch is None:
            return
        watch, self._watch = self._watch, None
        watch.looked.disconnect(self.show_picture)
        watch.stop()
        self._ending.append(watch)
        self._forget_ended()

    def _forget_ended(self) -> None:
        self._ending = [ending for ending in self._ending if ending.is_running]

    def _start(self) -> None:
        make = partial(self._make_sampler, self._device_name)
        self._watch = MachineWatch(self._view, make, self._trains)
        self._watch.looked.connect(self.show_picture)
        self._watch.start()


class _ReadingLines:
    """A line, its bar and what is to be said of it; hidden while there is nothing to show.

    They are no widget of their own: within one, texts that wrap ask for more height than they take.
    """

    def __init__(self, theme: Theme, colour: str, name: str) -> None:
        self._colour = colour
        self._label = _line(Role.HINT)
        self._label.setContentsMargins(0, SPACING // 4, 0, 0)
        self._meter = Meter(theme, colour, name)
        self._notes = [_line(Role.HINT) for _ in range(MOST_NOTES)]

    @property
    def widgets(self) -> tuple[QWidget, ...]:
        """From top to bottom."""
        return (self._label, self._meter, *self._notes)

    def show_reading(self, reading: Reading | None) -> None:
        """Show it, or nothing."""
        for label, note in zip_longest(self._notes, reading.notes[:MOST_NOTES] if reading else ()):
            _say(label, note)
        for widget in (self._label, self._meter):
            widget.setVisible(reading is not None)
            widget.setToolTip(reading.tip if reading is not None else "")
        if reading is not None:
            self._label.setText(reading.words)
            self._meter.set_share(reading.share)
            self._meter.set_colour("warn" if reading.alarms else self._colour)


def _say(label: QLabel, note: Note | None) -> None:
    label.setVisible(note is not None)
    if note is not None:
        label.setText(note.words)
        set_flag(label, "alarming", note.alarms)


def _never() -> bool:
    return False


def _line(role: Role) -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    set_role(label, role)
    return label
