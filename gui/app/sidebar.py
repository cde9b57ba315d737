"""The sidebar: the pages, and the machine's memory and load."""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import zip_longest
from typing import Protocol

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QVBoxLayout, QWidget

from core.base.formats import degrees, enumerated, memory, of_limit, whole_percent
from core.base.language import _, ngettext
from core.monitor.nvidia import gpu_of
from core.monitor.sampler import MachinePicture, MachineView, Sampler
from core.monitor.system_rules import held_back
from core.options.device_support import MachineReport
from core.runs.events import THERMAL, DeviceSampled, Event, MemorySampled, Pressure, Throttle
from gui.base.theme import Role, Theme, icon, set_flag, set_role
from gui.base.tokens import SPACING
from gui.widgets.bars import Meter
from gui.widgets.labels import text_label, tip_with_keys
from gui.widgets.layout import fill

SAMPLE_SECONDS = 2.0
FIRST_SECONDS = 0.5
"""When the first load of the processor is known."""

FINISH_SECONDS = 5.0
"""How long the thread waits for background reads when it ends."""

TRAINING_SECONDS = 10.0
"""How often the thread checks whether a run trains, only on battery."""


class Sampling(Protocol):
    """Reads the machine, as `core.monitor.sampler.Sampler`."""

    def sample(self) -> list[Event]: ...

    def finish(self, seconds: float | None = None) -> None:
        """Wait until background reads are done."""


def sampler_for(device: str | None) -> Sampling:
    """A sampler of the computer, and of the GPU if `device` (as in `device.name`) is one of NVIDIA's."""
    if device is None or not device.startswith("cuda"):
        return Sampler()
    return Sampler(find_gpu=partial(gpu_of, device))


class MachineWatch(QObject):
    """Samples the machine in a thread, as that may start programs or wake a GPU.

    Args:
        view: Collects the samples; it outlives this thread.
        make: Makes the sampler, in this thread, as finding a GPU takes time.
        trains: Whether a run trains; called in this thread.
    """

    sampled = Signal(object, bool)  # a `MachinePicture`, and whether a run trains while on battery

    def __init__(self, view: MachineView, make: Callable[[], Sampling], trains: Callable[[], bool]) -> None:
        super().__init__()
        self._view = view
        self._make = make
        self._trains = trains
        self.stopping = threading.Event()
        self._next_check = 0.0
        self._is_training = False
        self.worker = threading.Thread(target=self._run, name="machine watch", daemon=True)

    def _run(self) -> None:
        sampler = self._make()
        pause = FIRST_SECONDS
        while not self.stopping.is_set():
            self._sample(sampler)
            self.stopping.wait(pause)
            pause = SAMPLE_SECONDS
        sampler.finish(FINISH_SECONDS)

    def _sample(self, sampler: Sampling) -> None:
        self._view.take(sampler.sample())
        picture = self._view.picture(time.time())
        on_battery = picture.battery is not None and picture.battery.is_plugged is False
        if on_battery and time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + TRAINING_SECONDS
            self._is_training = self._trains()
        with contextlib.suppress(RuntimeError):  # it hung while the window was closed, and Qt with it
            self.sampled.emit(picture, on_battery and self._is_training)


SWAP_MATTERS = 256 << 20
"""Bytes by which the swap has to grow to be shown."""


@dataclass(frozen=True)
class SidebarNote:
    """A line that is shown only while it matters."""

    text: str
    alarms: bool = True


@dataclass(frozen=True)
class SidebarReading:
    """A line with its bar, of which `share` is full (0 to 1), a tool tip and notes."""

    text: str
    share: float
    tip: str = ""
    notes: tuple[SidebarNote, ...] = ()

    @property
    def alarms(self) -> bool:
        """Whether the bar has a warning colour."""
        return any(note.alarms for note in self.notes)


def main_memory(picture: MachinePicture) -> SidebarReading | None:
    sample = picture.memory
    if sample is None or not sample.ceiling:
        return None
    pressure = {Pressure.WARN: _("Memory pressure high"), Pressure.CRITICAL: _("Memory pressure critical")}
    notes = [SidebarNote(pressure[sample.pressure])] if sample.pressure in pressure else []
    if picture.swap_grown >= SWAP_MATTERS:
        notes.append(SidebarNote(_("Swap grew to {size}").format(size=memory(sample.swap)), alarms=False))
    tips = []
    if sample.swap is not None:
        tips.append(_("Swap in use: {size}").format(size=memory(sample.swap)))
    if sample.compressed is not None:
        tips.append(_("Compressed: {size}").format(size=memory(sample.compressed)))
    text = _of_total(_("Memory {used} of {total}"), sample)
    return SidebarReading(text, sample.bytes / sample.ceiling, "\n".join(tips), tuple(notes))


def card_memory(picture: MachinePicture) -> SidebarReading | None:
    """A graphics card's own memory."""
    sample = picture.card
    if sample is None or not sample.ceiling:
        return None
    return SidebarReading(_of_total(_("GPU {used} of {total}"), sample), sample.bytes / sample.ceiling)


def duty(picture: MachinePicture) -> SidebarReading | None:
    """Load of the GPU if it is known, else of the processor, and what slows down the GPU."""
    device, text = picture.gpu, _("GPU {percent} busy")
    if device is None or device.busy is None:
        device, text = picture.processor, _("CPU {percent} busy")
    if device is None or device.busy is None:
        return None
    notes = _held_back(picture.gpu) if picture.gpu is not None else []
    text = text.format(percent=whole_percent(device.busy))
    return SidebarReading(text, device.busy, _device_tip(device), tuple(notes))


def battery(picture: MachinePicture, trains: bool) -> SidebarNote | None:
    """The battery's charge while a run trains on it."""
    if not trains or picture.battery is None:
        return None
    words = _("On battery, {percent} left")
    return SidebarNote(words.format(percent=whole_percent(picture.battery.share)))


def _held_back(gpu: DeviceSampled) -> list[SidebarNote]:
    """Why the GPU is slower than it could be; a power limit is normal, unless it slows the GPU much."""
    reasons = set(held_back(gpu))
    if reasons & THERMAL:
        if gpu.temperature is None:
            return [SidebarNote(_("Slowed by heat"))]
        words = _("Slowed by heat, {degrees}")
        return [SidebarNote(words.format(degrees=degrees(gpu.temperature)))]
    slowed = {
        Throttle.POWER_BRAKE: _("Slowed by its power supply"),
        Throttle.HARDWARE: _("Slowed by its hardware"),
        Throttle.POWER_CAP: _("Slowed greatly by its power limit"),
    }
    return [SidebarNote(text) for reason, text in slowed.items() if reason in reasons][:1]


def _of_total(text: str, sample: MemorySampled) -> str:
    """Fill in used and total bytes with one unit: `11.2 of 32 GB`."""
    number, _, unit = memory(sample.ceiling).partition(" ")
    used = memory(sample.bytes).removesuffix(f" {unit}")
    return text.format(used=used, total=f"{number.removesuffix('.0')} {unit}")


def _device_tip(device: DeviceSampled) -> str:
    parts = []
    if device.temperature is not None:
        parts.append(degrees(device.temperature))
    if device.power is not None:
        parts.append(of_limit(device.power, device.power_limit, "W"))
    if device.clock is not None:
        parts.append(of_limit(device.clock, device.clock_limit, "MHz"))
    if device.throttled and Throttle.POWER_CAP in device.throttled:
        parts.append(_("at its power limit"))
    return enumerated(parts)


MOST_NOTES = 2
"""Of one reading: pressure and swap."""

LAST_SECONDS = 0.5
"""How long the window waits for its threads when it closes; one that hangs in a driver is abandoned."""


class MachineStrip(QWidget):
    """Name of the device, its memory and load, and notes; sampled while it is visible."""

    def __init__(self, theme: Theme, make_sampler: Callable[[str | None], Sampling] = sampler_for) -> None:
        super().__init__()
        self._make_sampler = make_sampler
        self.trains: Callable[[], bool] = lambda: False  # whether a run trains; called in another thread
        self._device_name: str | None = None
        self._view = MachineView()
        self._watch: MachineWatch | None = None
        self._ending: list[MachineWatch] = []
        self.device = text_label(role=Role.STRONG)
        self.device.setText(_("This computer"))
        self._card = _ReadingLines(theme, "run", _("GPU memory in use"))
        self._memory = _ReadingLines(theme, "run", _("Memory in use"))
        self._duty = _ReadingLines(theme, "activations", _("How busy the device is"))
        self._battery = text_label(role=Role.HINT)
        lines = (*self._card.widgets, *self._memory.widgets, *self._duty.widgets)
        edges = (SPACING + 2, SPACING, SPACING + 2, 0)
        fill(QVBoxLayout(self), self.device, *lines, self._battery, margins=edges, spacing=SPACING // 2)
        self.show_picture(MachinePicture())

    def set_machine(self, machine: MachineReport) -> None:
        """Show the device that "automatic" selects."""
        device = next((device for device in machine.devices if device.name == machine.automatic), None)
        if device is None or device.name == self._device_name:
            return
        self.device.setText(device.title)
        self._device_name = device.name
        if self._watch is not None:
            self._let_go()
            self._start()

    def show_picture(self, picture: MachinePicture, trains: bool = False) -> None:
        self._card.show_reading(card_memory(picture))
        self._memory.show_reading(main_memory(picture))
        self._duty.show_reading(duty(picture))
        _show_note(self._battery, battery(picture, trains))

    def stop(self) -> None:
        """Stop sampling. No thread is left but one that waits for a driver."""
        self._let_go()
        deadline = time.monotonic() + LAST_SECONDS
        for watch in self._ending:
            watch.worker.join(max(0.0, deadline - time.monotonic()))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._watch is None:
            self._start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._let_go()

    def _let_go(self) -> None:
        """End the thread without waiting for it."""
        if self._watch is None:
            return
        watch, self._watch = self._watch, None
        watch.sampled.disconnect(self.show_picture)
        watch.stopping.set()
        self._ending = [ending for ending in (*self._ending, watch) if ending.worker.is_alive()]

    def _start(self) -> None:
        make = partial(self._make_sampler, self._device_name)
        self._watch = MachineWatch(self._view, make, self.trains)
        self._watch.sampled.connect(self.show_picture)
        self._watch.worker.start()


class _ReadingLines:
    """A line, its bar and notes, hidden while there is nothing to show.

    They aren't in a widget of their own, in which wrapped texts would ask for too much height.
    """

    def __init__(self, theme: Theme, colour: str, name: str) -> None:
        self._colour = colour
        self._label = text_label(role=Role.HINT)
        self._label.setContentsMargins(0, SPACING // 4, 0, 0)
        self._meter = Meter(theme, colour, name)
        self._notes = [text_label(role=Role.HINT) for _ in range(MOST_NOTES)]

    @property
    def widgets(self) -> tuple[QWidget, ...]:
        return (self._label, self._meter, *self._notes)

    def show_reading(self, reading: SidebarReading | None) -> None:
        for label, note in zip_longest(self._notes, reading.notes[:MOST_NOTES] if reading else ()):
            _show_note(label, note)
        for widget in (self._label, self._meter):
            widget.setVisible(reading is not None)
            widget.setToolTip(reading.tip if reading is not None else "")
        if reading is not None:
            self._label.setText(reading.text)
            self._meter.show_share(reading.share, "warn" if reading.alarms else self._colour)


def _show_note(label: QLabel, note: SidebarNote | None) -> None:
    label.setVisible(note is not None)
    if note is not None:
        label.setText(note.text)
        set_flag(label, "alarming", note.alarms)


WIDEST = "Memory 888 MB of 888 GB"
"""The sidebar is wide enough for this line."""


class Place(IntEnum):
    """A page of the sidebar; the number is that of its shortcut. The name "Hone" leads to the welcome page."""

    WELCOME = 0
    NEW_RUN = 1
    RUNS = 2
    TRY = 3
    SETTINGS = 4


def place_titles() -> dict[Place, str]:
    return {
        Place.NEW_RUN: _("New run"),
        Place.RUNS: _("Runs"),
        Place.TRY: _("Try it"),
        Place.SETTINGS: _("Settings"),
    }


ICONS = {
    Place.NEW_RUN: "new",
    Place.RUNS: "list",
    Place.TRY: "chat",
    Place.SETTINGS: "settings",
}


class Sidebar(QFrame):
    """A button per page, notices in the free space, and the machine strip at the bottom."""

    place_chosen = Signal(object)  # a `Place`

    def __init__(self, theme: Theme, notices: QWidget) -> None:
        super().__init__()
        set_role(self, Role.SIDEBAR)
        self.setFixedWidth(self.fontMetrics().horizontalAdvance(WIDEST) + 4 * SPACING)
        self.machine = MachineStrip(theme)
        self._place = Place.WELCOME
        self.buttons: dict[Place, QPushButton] = {}  # in no group, of which Tab would reach one only
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACING + 2, 2 * SPACING, SPACING + 2, 2 * SPACING)
        layout.setSpacing(2)
        for place, title in {Place.WELCOME: "Hone", **place_titles()}.items():
            button = QPushButton(title)
            button.setCheckable(True)
            if place in ICONS:
                button.setIcon(icon(ICONS[place]))
            set_role(button, Role.NAVIGATION if place else Role.BRAND)
            if place:
                button.setToolTip(tip_with_keys(f"Ctrl+{place.value}"))
            button.clicked.connect(partial(self.place_chosen.emit, place))
            self.buttons[place] = button
            layout.addWidget(button)
        self.buttons[Place.WELCOME].setToolTip(_("Welcome page"))
        layout.insertSpacing(1, SPACING)
        fill(layout, None, notices, self.machine)

    @property
    def place(self) -> Place:
        """The page that is shown."""
        return self._place

    def show_place(self, place: Place) -> None:
        self._place = place
        for its_place, button in self.buttons.items():
            button.setChecked(its_place is place)

    def show_working(self, training: int, testing: int) -> None:
        """Show the numbers of runs that train, and of tests."""
        button, tips = self.buttons[Place.RUNS], []
        title = _("Runs · {count} testing") if testing else _("Runs")
        if training:
            title = _("Runs · {count} running") if testing else _("Runs · {count} training")
        button.setText(title.format(count=training + testing))
        if training:
            tip = ngettext("{count} run is training", "{count} runs are training", training)
            tips.append(tip.format(count=training))
        if testing:
            tip = ngettext("{count} model is being tested", "{count} models are being tested", testing)
            tips.append(tip.format(count=testing))
        button.setToolTip(tip_with_keys(f"Ctrl+{Place.RUNS.value}", enumerated(tips)))
