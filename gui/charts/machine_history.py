"""Hands what a history has grown by from the thread that makes it to the window that draws it.

Two objects of one class, one in the thread and one in the window: what is new of each series of the first is added to
that of the second, and what else is named in the class' `grows` is told anew. So the window folds nothing, and neither
side reads what the other one writes.
"""

import copy
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from core.monitor.system_rules import held_back
from core.runs.events import (
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    Event,
    MemorySampled,
    Pressure,
    RunPlanned,
    Source,
)
from gui.charts.series import Floats, Series

# --- Hands what a history has grown by from the thread that makes it to the window that draws


@dataclass(frozen=True)
class Grows:
    """What the window is told of an object, by the names of its attributes; all others stay in the thread.

    Whoever adds an attribute that is to be drawn names it here: under `series`, if it is a `Series` to which points are
    only ever added; under `parts`, if it is an object that has a `Grows` itself; under `known`, if it is anything else,
    which is then copied each time: a number, a name, a short list.
    """

    series: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class Grown(Protocol):
    """An object of which the window has a copy that grows with it."""

    grows: ClassVar[Grows]


@dataclass(frozen=True)
class Growth:
    """What came to an object: points of its series, what came to its parts, and all else that it knows, by name."""

    points: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    parts: dict[str, "Growth"] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)

    def add_to(self, other: Grown) -> None:
        """Let another object of the same class grow as much."""
        for name, (x, y) in self.points.items():
            getattr(other, name).extend(x, y)
        for name, growth in self.parts.items():
            growth.add_to(getattr(other, name))
        for name, value in self.known.items():
            setattr(other, name, value)


class Growing:
    """Watches one object grow.

    Args:
        grown: The object.
    """

    def __init__(self, grown: Grown) -> None:
        self._grown = grown
        self._lengths = dict.fromkeys(grown.grows.series, 0)
        self._parts = {name: Growing(getattr(grown, name)) for name in grown.grows.parts}

    def take(self) -> Growth:
        """What has come since the last call."""
        points: dict[str, tuple[Floats, Floats]] = {}
        for name, before in self._lengths.items():
            series: Series = getattr(self._grown, name)
            if len(series) > before:
                points[name] = series.rows(before)
                self._lengths[name] = len(series)
        parts = {name: part.take() for name, part in self._parts.items()}
        known = {name: copy.copy(getattr(self._grown, name)) for name in self._grown.grows.known}
        return Growth(points, parts, known)


# --- What the processors did while a run trained, folded from their samples: busy, power


Throttling = tuple[float, float, tuple[str, ...]]
"""From and to, in seconds since the run's start, and why the clock was held down (`core.monitor.apple`)."""

ON_GPU = ("cuda", "mps")
"""What the names of devices begin with that are GPUs."""


class DevicePicture:
    """One processor over seconds since the run's start. Series stay empty where nobody tells the figure; NaN is a gap.

    `busy` is 0 to 1, `power` watts, `temperature` degrees Celsius, `clock` MHz, `thermal` macOS' level of thermal
    pressure from 0 to 4. `power_limit` and `clock_limit` are the last ones told. `throttled` has what counts only: a
    GPU at its cap of power does as it should.
    """

    grows: ClassVar[Grows] = Grows(
        series=("busy", "power", "temperature", "clock", "thermal"),
        known=("name", "power_limit", "clock_limit", "throttled"),
    )

    def __init__(self) -> None:
        self.name = ""
        self.busy = Series()
        self.power = Series()
        self.temperature = Series()
        self.clock = Series()
        self.thermal = Series()
        self.power_limit: float | None = None
        self.clock_limit: float | None = None
        self.throttled: list[Throttling] = []
        self._is_throttled = False

    def __len__(self) -> int:
        return max(map(len, self._series()))

    def add(self, sample: DeviceSampled, clock: float) -> None:
        """Add a moment, `clock` seconds after the run's start."""
        self.name = sample.name or self.name
        self.power_limit = sample.power_limit or self.power_limit
        self.clock_limit = sample.clock_limit or self.clock_limit
        told = (sample.busy, sample.power, sample.temperature, sample.clock, sample.thermal)
        for series, value in zip(self._series(), told, strict=True):
            if value is not None or len(series):
                series.append(clock, math.nan if value is None else value)
        self._add_reasons(held_back(sample), clock)

    def interrupt(self, clock: float) -> None:
        """Part the line at `clock`: the next attempt begins, and nobody sampled before it."""
        self._is_throttled = False
        for series in self._series():
            if series.last_x is not None:
                series.append(clock, math.nan)

    @property
    def last_clock(self) -> float:
        """Seconds from the start to the newest moment."""
        return max(series.last_x or 0.0 for series in self._series())

    def _series(self) -> tuple[Series, ...]:
        return self.busy, self.power, self.temperature, self.clock, self.thermal

    def _add_reasons(self, reasons: tuple[str, ...], clock: float) -> None:
        """What held the clock down stands until a sample says otherwise."""
        if self._is_throttled:
            begun, _, before = self.throttled[-1]
            self.throttled[-1] = begun, clock, before
            self._is_throttled = reasons == before
        if reasons and not self._is_throttled:
            self.throttled.append((clock, clock, reasons))
            self._is_throttled = True


class DeviceHistory:
    """All that is drawn of a run's processors. Apply its events in order; read at any time.

    `battery` (0 to 1) and `disk_free` (bytes) are over seconds since the start, too; `is_on_gpu` says where the run
    computes.
    """

    grows: ClassVar[Grows] = Grows(
        series=("battery", "disk_free"), known=("is_on_gpu",), parts=("gpu", "cpu")
    )

    def __init__(self) -> None:
        self.gpu = DevicePicture()
        self.cpu = DevicePicture()
        self.battery = Series()
        self.disk_free = Series()
        self.is_on_gpu = False
        self._attempt = 1

    @property
    def picture(self) -> DevicePicture:
        """The one to look at: the GPU where the run computes on it and it tells of itself, else the CPU."""
        return self.gpu if self.is_on_gpu and len(self.gpu) else self.cpu

    def apply(self, event: Event, clock: float) -> None:
        """Add one event, `clock` seconds after the run's start; others than of devices are welcome too."""
        if isinstance(event, DeviceSampled) and event.attempt != self._attempt:
            self._attempt = event.attempt
            for picture in (self.gpu, self.cpu):
                picture.interrupt(clock)
        match event:
            case RunPlanned():
                self.is_on_gpu = event.device.startswith(ON_GPU)
            case DeviceSampled(source=Source.SYSTEM):
                self.cpu.add(event, clock)
            case DeviceSampled():
                self.gpu.add(event, clock)
            case BatterySampled():
                self.battery.append(clock, event.share)
            case DiskSampled():
                self.disk_free.append(clock, event.free)


# --- The memory of a run over time, folded from its samples: who held how much, stacked


LEVELS = {Pressure.NORMAL: 0.0, Pressure.WARN: 1.0, Pressure.CRITICAL: 2.0}
"""Pressure as a number that can be drawn; NaN where it isn't known."""


class MemoryPicture:
    """One memory and who holds it, as the tops of bands that lie one on the other; bytes over seconds.

    From below: `tensors` of this run, what torch's allocator or Metal's driver has `held` for them, all of this `run`,
    and what everyone has `used`; what lies between that and the `ceiling` is free. `limit` is what the run may have at
    most where that is less than the ceiling. Series stay empty where nobody tells the figure.
    """

    grows: ClassVar[Grows] = Grows(series=("tensors", "held", "run", "used"), known=("ceiling", "limit"))

    def __init__(self) -> None:
        self.tensors = Series()
        self.held = Series()
        self.run = Series()
        self.used = Series()
        self.ceiling: int | None = None
        self.limit: int | None = None

    def __len__(self) -> int:
        return max(len(self.used), len(self.run))

    def add(self, clock: float, *, torch: MemorySampled | None, run: int | None, used: int | None) -> None:
        """Add a moment.

        Args:
            clock: Seconds since the run's start.
            torch: What torch holds of this memory; None: nothing is told.
            run: All that the run holds; what torch holds is part of it.
            used: What everyone holds, which is never less than what the run does.
        """
        held = 0 if torch is None else max(torch.bytes, torch.reserved or 0)
        if torch is not None:
            self.tensors.append(clock, torch.bytes)
            self.held.append(clock, held)
        if run is not None or torch is not None:
            self.run.append(clock, max(run or 0, held))
        if used is not None:
            self.used.append(clock, max(used, run or 0, held))

    def interrupt(self, clock: float) -> None:
        """Let the run hold nothing again at `clock`: its next attempt begins."""
        for series in (self.tensors, self.held, self.run):
            if series.last_x is not None:
                series.append(clock, 0.0)

    @property
    def last_clock(self) -> float:
        """Seconds from the start to the newest moment."""
        return max(series.last_x or 0.0 for series in (self.run, self.used))


class MemoryHistory:
    """All that is drawn of a run's memory. Apply its events in order; read at any time.

    `computer` is the main memory: on a Mac, and wherever else a GPU shares it, with what the GPU holds of it. `card`
    is the memory of a graphics card that has its own. `swap`, `compressed` and `pressure` (as in `LEVELS`) are those of
    the computer. `is_on_card` says whether the run computes on a card; None: that isn't known yet.

    The keeper samples process, graphics card and computer one after the other, the computer last: its sample closes a
    moment. What torch last told stands until it tells otherwise.
    """

    grows: ClassVar[Grows] = Grows(
        series=("swap", "compressed", "pressure"), known=("is_on_card",), parts=("computer", "card")
    )

    def __init__(self) -> None:
        self.computer = MemoryPicture()
        self.card = MemoryPicture()
        self.swap = Series()
        self.compressed = Series()
        self.pressure = Series()
        self._torch: MemorySampled | None = None
        self._process: int | None = None
        self.is_on_card: bool | None = None
        self._has_driver = False
        self._attempt = 1

    @property
    def picture(self) -> MemoryPicture:
        """What to look at: the card's memory where the run computes on one, else the computer's."""
        return self.card if len(self.card) and self.is_on_card is not False else self.computer

    @property
    def is_of_card(self) -> bool:
        """Whether the picture is that of a graphics card."""
        return self.picture is self.card

    def apply(self, event: Event, clock: float) -> None:
        """Add one event, `clock` seconds after the run's start; others than of memory are welcome too."""
        if isinstance(event, MemorySampled) and event.attempt != self._attempt:
            self._begin_attempt(event.attempt, clock)
        match event:
            case RunPlanned():
                self.is_on_card = event.device.startswith("cuda")
            case MemorySampled(source=Source.TORCH):
                self._take_torch(event, clock)
            case MemorySampled(source=Source.PROCESS):
                self._process = event.bytes
            case MemorySampled(source=Source.NVML):
                self._has_driver = True
                self.card.ceiling = event.ceiling or self.card.ceiling
                self.card.add(clock, torch=self._torch, run=event.own, used=event.bytes)
            case MemorySampled(source=Source.SYSTEM):
                self._take_system(event, clock)

    def _begin_attempt(self, attempt: int, clock: float) -> None:
        self._attempt = attempt
        self._torch = self._process = None
        for picture in (self.computer, self.card):
            picture.interrupt(clock)

    def _take_torch(self, event: MemorySampled, clock: float) -> None:
        self._torch = event
        if event.unified:
            self.is_on_card = False
            self.computer.limit = event.ceiling
        elif not self._has_driver:
            self.card.ceiling = event.ceiling
            self.card.add(clock, torch=event, run=None, used=None)

    def _take_system(self, event: MemorySampled, clock: float) -> None:
        shared = self._torch if self._torch is not None and self._torch.unified else None
        held = shared.reserved or shared.bytes if shared is not None else 0
        run = None if self._process is None else self._process + held
        self.computer.ceiling = event.ceiling or self.computer.ceiling
        self.computer.add(clock, torch=shared, run=run, used=event.bytes)
        if event.swap is not None:
            self.swap.append(clock, event.swap)
        if event.compressed is not None:
            self.compressed.append(clock, event.compressed)
        level = math.nan if event.pressure is None else LEVELS[event.pressure]
        self.pressure.append(clock, level)
