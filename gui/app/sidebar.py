"""The sidebar: where to go, and what the machine is doing."""

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
from PySide6.QtWidgets import QButtonGroup, QFrame, QLabel, QPushButton, QVBoxLayout, QWidget

from core.base.formats import memory, three_figures, whole_percent
from core.base.language import _
from core.monitor.nvidia import gpu_of
from core.monitor.sampler import MachinePicture, MachineView, Sampler
from core.monitor.system_rules import held_back
from core.options.device_support import MachineReport
from core.runs.events import THERMAL, DeviceSampled, Event, MemorySampled, Pressure, Throttle
from gui.base.theme import Role, Theme, set_flag, set_role
from gui.base.tokens import SPACING
from gui.widgets.bars import Meter
from gui.widgets.labels import text_label

SAMPLE_SECONDS = 2.0
FIRST_SECONDS = 0.5
"""After this long the first load of the processor is known."""

FINISH_SECONDS = 5.0
"""How long the thread waits for what is read in the background when it ends. Nobody waits for the thread so long."""

TRAINING_SECONDS = 10.0
"""How often the runs are looked at, and only while the computer runs on its battery."""


class Sampling(Protocol):
    """Reads the machine; `core.monitor.sampler.Sampler` is the real one."""

    def sample(self) -> list[Event]:
        """The figures of this moment."""

    def finish(self, seconds: float | None = None) -> None:
        """Wait until nothing is read in the background."""


def sampler_for(device: str | None) -> Sampling:
    """What reads the computer, and the GPU where `device` (as in `device.name`) is one of NVIDIA's."""
    if device is None or not device.startswith("cuda"):
        return Sampler()
    return Sampler(find_gpu=partial(gpu_of, device))


class MachineWatch(QObject):
    """Looks at the machine until it is told to end. What starts programs or wakes a GPU happens in its thread.

    Signals:
        looked: A `core.monitor.sampler.MachinePicture`, and whether a run trains while on battery.

    Args:
        view: Keeps what was seen, longer than this thread lasts.
        make: Makes what reads the machine, within this thread: finding a GPU takes a moment.
        trains: Tells whether a run trains; called in this thread.
    """

    looked = Signal(object, bool)

    def __init__(self, view: MachineView, make: Callable[[], Sampling], trains: Callable[[], bool]) -> None:
        super().__init__()
        self._view = view
        self._make = make
        self._trains = trains
        self._stopping = threading.Event()
        self._next_look = 0.0
        self._is_training = False
        self._thread = threading.Thread(target=self._run, name="machine watch", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether the thread is there."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; wait for it with `wait`."""
        self._stopping.set()

    def wait(self, seconds: float) -> None:
        """Wait until the thread has ended, or for so many seconds."""
        self._thread.join(seconds)

    def _run(self) -> None:
        sampler = self._make()
        pause = FIRST_SECONDS
        while not self._stopping.is_set():
            self._look(sampler)
            self._stopping.wait(pause)
            pause = SAMPLE_SECONDS
        sampler.finish(FINISH_SECONDS)

    def _look(self, sampler: Sampling) -> None:
        self._view.take(sampler.sample())
        picture = self._view.picture(time.time())
        on_battery = picture.battery is not None and picture.battery.is_plugged is False
        is_training = on_battery and self._looks_training()
        with contextlib.suppress(RuntimeError):  # it hung while the window was closed, and Qt with it
            self.looked.emit(picture, is_training)

    def _looks_training(self) -> bool:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + TRAINING_SECONDS
            self._is_training = self._trains()
        return self._is_training


SWAP_MATTERS = 256 << 20
"""Bytes by which the swap has grown before it is worth a line."""


@dataclass(frozen=True)
class Note:
    """A line that is there only while it matters."""

    words: str
    alarms: bool = True


@dataclass(frozen=True)
class Reading:
    """A line with its bar, of which `share` is full (0 to 1), what hovering tells, and what else is to be said."""

    words: str
    share: float
    tip: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def alarms(self) -> bool:
        """Whether the bar itself is a reason for concern."""
        return any(note.alarms for note in self.notes)


def main_memory(picture: MachinePicture) -> Reading | None:
    """The computer's memory; None: not available."""
    found = picture.memory
    if found is None or not found.ceiling:
        return None
    words = _of_total(_("Memory {used} of {total}"), found)
    said = [*_pressure(found), *_swap(found, picture.swap_grown)]
    return Reading(words, found.bytes / found.ceiling, tip=_memory_tip(found), notes=tuple(said))


def card_memory(picture: MachinePicture) -> Reading | None:
    """A graphics card's own memory; None where there is none."""
    found = picture.card
    if found is None or not found.ceiling:
        return None
    words = _of_total(_("GPU {used} of {total}"), found)
    return Reading(words=words, share=found.bytes / found.ceiling)


def duty(picture: MachinePicture) -> Reading | None:
    """How busy the GPU is where there is one that tells, else the processor; None: not available.

    With it goes what holds the GPU back, where something does.
    """
    device, words = picture.gpu, _("GPU {percent} busy")
    if device is None or device.busy is None:
        device, words = picture.processor, _("CPU {percent} busy")
    if device is None or device.busy is None:
        return None
    said = _held_back(picture.gpu) if picture.gpu is not None else []
    words = words.format(percent=whole_percent(device.busy))
    return Reading(words, device.busy, tip=_device_tip(device), notes=tuple(said))


def battery(picture: MachinePicture, trains: bool) -> Note | None:
    """What is left of the battery, which matters while a run trains on it."""
    if not trains or picture.battery is None:
        return None
    words = _("On battery, {percent} left")
    return Note(words.format(percent=whole_percent(picture.battery.share)))


def _pressure(sample: MemorySampled) -> list[Note]:
    words = {Pressure.WARN: _("Memory pressure high"), Pressure.CRITICAL: _("Memory pressure critical")}
    return [Note(words[sample.pressure])] if sample.pressure in words else []


def _swap(sample: MemorySampled, grown: int) -> list[Note]:
    if grown < SWAP_MATTERS:
        return []
    return [Note(_("Swap grew to {}").format(memory(sample.swap)), alarms=False)]


def _held_back(gpu: DeviceSampled) -> list[Note]:
    """Why the GPU is slower than it could be; a card at its power limit does as it should."""
    reasons = set(held_back(gpu))
    if reasons & THERMAL:
        if gpu.temperature is None:
            return [Note(_("Slowed by heat"))]
        words = _("Slowed by heat, {degrees} °C")
        return [Note(words.format(degrees=f"{gpu.temperature:.0f}"))]
    slowed = {
        Throttle.POWER_BRAKE: _("Slowed by its power supply"),
        Throttle.HARDWARE: _("Slowed by its hardware"),
        Throttle.POWER_CAP: _("Slowed much by its power limit"),
    }
    return [Note(text) for reason, text in slowed.items() if reason in reasons][:1]


def _of_total(words: str, sample: MemorySampled) -> str:
    """The unit is said once, and a whole total as people name it: `11.2 of 32 GB`."""
    number, _, unit = memory(sample.ceiling).partition(" ")
    used = memory(sample.bytes).removesuffix(f" {unit}")
    return words.format(used=used, total=f"{number.removesuffix('.0')} {unit}")


def _memory_tip(sample: MemorySampled) -> str:
    lines = []
    if sample.swap is not None:
        lines.append(_("Swap in use: {}").format(memory(sample.swap)))
    if sample.compressed is not None:
        lines.append(_("Compressed: {}").format(memory(sample.compressed)))
    return "\n".join(lines)


def _device_tip(device: DeviceSampled) -> str:
    """Temperature, power and clock, as far as they are known."""
    parts = []
    if device.temperature is not None:
        parts.append(f"{device.temperature:.0f} °C")
    if device.power is not None:
        parts.append(_with_limit(device.power, device.power_limit, "W"))
    if device.clock is not None:
        parts.append(_with_limit(device.clock, device.clock_limit, "MHz"))
    if device.throttled and Throttle.POWER_CAP in device.throttled:
        parts.append(_("at its power limit"))
    return ", ".join(parts)


def _with_limit(value: float, limit: float | None, unit: str) -> str:
    if limit is None:
        return f"{three_figures(value)} {unit}"
    words = _("{value} of {limit}")
    return words.format(value=three_figures(value), limit=f"{three_figures(limit)} {unit}")


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
        self._trains: Callable[[], bool] = lambda: False
        self._device_name: str | None = None
        self._view = MachineView()
        self._watch: MachineWatch | None = None
        self._ending: list[MachineWatch] = []
        self._device = text_label(role=Role.STRONG)
        self._device.setText(_("This computer"))
        self._card = _ReadingLines(theme, "run", _("GPU memory in use"))
        self._memory = _ReadingLines(theme, "run", _("Memory in use"))
        self._duty = _ReadingLines(theme, "activations", _("How busy the device is"))
        self._battery = text_label(role=Role.HINT)
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
        super().showEvent(event)
        if self._watch is None:
            self._start()

    def hideEvent(self, event: QHideEvent) -> None:
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
        self._label = text_label(role=Role.HINT)
        self._label.setContentsMargins(0, SPACING // 4, 0, 0)
        self._meter = Meter(theme, colour, name)
        self._notes = [text_label(role=Role.HINT) for _ in range(MOST_NOTES)]

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
        self._group.idClicked.connect(lambda number: self.place_chosen.emit(Place(number)))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACING + 2, 2 * SPACING, SPACING + 2, 2 * SPACING)
        layout.setSpacing(2)
        name = QLabel("Hone")
        set_role(name, Role.APP_NAME)
        layout.addWidget(name)
        layout.addSpacing(SPACING)
        titles = {
            Place.NEW_RUN: _("New run"),
            Place.RUNS: _("Runs"),
            Place.BENCHMARK: _("Benchmark"),
            Place.TRY: _("Try it"),
            Place.SETTINGS: _("Settings"),
        }
        for place, title in titles.items():
            button = QPushButton(title)
            button.setCheckable(True)
            set_role(button, Role.NAVIGATION)
            self._group.addButton(button, place)
            layout.addWidget(button)
        layout.addStretch(1)
        layout.addWidget(self.machine)

    def show_place(self, place: Place) -> None:
        """Mark where the window is."""
        self._group.button(place).setChecked(True)

    def show_training(self, count: int) -> None:
        """Say beside Runs how many train."""
        button = self._group.button(Place.RUNS)
        title = _("Runs")
        button.setText(f"{title} ({count})" if count else title)
        one, several = _("One run is training"), _("{} runs are training").format(count)
        button.setToolTip("" if not count else one if count == 1 else several)

    def show_measuring(self, share: float | None) -> None:
        """Say beside Benchmark how much of one is done, from 0 to 1; None: none is under way."""
        button = self._group.button(Place.BENCHMARK)
        title = _("Benchmark")
        button.setText(title if share is None else f"{title} ({whole_percent(share)})")
        button.setToolTip("" if share is None else _("A benchmark is being measured"))
