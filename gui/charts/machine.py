"""What was measured of the machine during a run: processors, memory, battery and disk."""

import math

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
from gui.charts.series import Series

Throttling = tuple[float, float, tuple[str, ...]]
"""Begin and end in seconds worked, and the reasons."""
GPUS = ("cuda", "mps")
"""Beginnings of the names of devices that are GPUs."""


class SeriesGroup:
    """Base of several series over the same clock; a series stays empty if its figure is never measured."""

    def __init__(self, *series: Series) -> None:
        self._series = series

    def __len__(self) -> int:
        return max(map(len, self._series))

    @property
    def last_clock(self) -> float:
        """Seconds worked until the newest point."""
        return max(series.last_x or 0.0 for series in self._series)


class DevicePicture(SeriesGroup):
    """Figures of one processor; NaN is a gap.

    `busy` is 0 to 1, `power` in watts, `temperature` in degrees Celsius, `clock` in MHz, `thermal` macOS' level of
    thermal pressure from 0 to 4. `power_limit` and `clock_limit` are the last ones reported. `throttled` leaves out
    what is normal: a GPU at its power cap works as it should.
    """

    def __init__(self) -> None:
        self.name = ""
        self.busy = Series()
        self.power = Series()
        self.temperature = Series()
        self.clock = Series()
        self.thermal = Series()
        super().__init__(self.busy, self.power, self.temperature, self.clock, self.thermal)
        self.power_limit: float | None = None
        self.clock_limit: float | None = None
        self.throttled: list[Throttling] = []
        self._is_throttled = False

    def add(self, sample: DeviceSampled, clock: float) -> None:
        self.name = sample.name or self.name
        self.power_limit = sample.power_limit or self.power_limit
        self.clock_limit = sample.clock_limit or self.clock_limit
        for series, value in (
            (self.busy, sample.busy),
            (self.power, sample.power),
            (self.temperature, sample.temperature),
            (self.clock, sample.clock),
            (self.thermal, sample.thermal),
        ):
            if value is not None or len(series):
                series.append(clock, math.nan if value is None else value)
        reasons = held_back(sample)
        if self._is_throttled:  # it lasts until this sample
            begin, _end, before = self.throttled[-1]
            self.throttled[-1] = begin, clock, before
            self._is_throttled = reasons == before
        if reasons and not self._is_throttled:
            self.throttled.append((clock, clock, reasons))
            self._is_throttled = True

    def interrupt(self, clock: float) -> None:
        """Insert a gap: the next attempt begins."""
        self._is_throttled = False
        for series in self._series:
            if len(series):
                series.append(clock, math.nan)


class DeviceHistory:
    """Figures of a run's processors, its `battery` (0 to 1) and `disk_free` (bytes). Apply all events in order."""

    def __init__(self) -> None:
        self.gpu = DevicePicture()
        self.cpu = DevicePicture()
        self.battery = Series()
        self.disk_free = Series()
        self.is_on_gpu = False
        self._attempt = 1

    @property
    def picture(self) -> DevicePicture:
        """The processor to draw: the GPU if the run computes on it and it is measured, else the CPU."""
        return self.gpu if self.is_on_gpu and len(self.gpu) else self.cpu

    def apply(self, event: Event, clock: float) -> None:
        if isinstance(event, DeviceSampled) and event.attempt != self._attempt:
            self._attempt = event.attempt
            for picture in (self.gpu, self.cpu):
                picture.interrupt(clock)
        match event:
            case RunPlanned():
                self.is_on_gpu = event.device.startswith(GPUS)
            case DeviceSampled(source=Source.SYSTEM):
                self.cpu.add(event, clock)
            case DeviceSampled():
                self.gpu.add(event, clock)
            case BatterySampled():
                self.battery.append(clock, event.share)
            case DiskSampled():
                self.disk_free.append(clock, event.free)


LEVELS = {Pressure.NORMAL: 0.0, Pressure.WARN: 1.0, Pressure.CRITICAL: 2.0}
"""Pressure as a number that can be drawn; NaN where it isn't known."""


class MemoryPicture(SeriesGroup):
    """Use of one memory in bytes, as the tops of stacked bands.

    From below: `tensors` of this run, what torch's allocator or Metal's driver has `held` for them, all of this `run`,
    and what all programs have `used`; the rest up to the `ceiling` is free. `limit` is what the run may use if that is
    less than the ceiling.
    """

    def __init__(self) -> None:
        self.tensors = Series()
        self.held = Series()
        self.run = Series()
        self.used = Series()
        super().__init__(self.tensors, self.held, self.run, self.used)
        self.ceiling: int | None = None
        self.limit: int | None = None

    def add(self, clock: float, *, torch: MemorySampled | None, run: int | None, used: int | None) -> None:
        """Add a moment: torch's sample of this memory, all that the run holds, and what all programs hold."""
        held = 0 if torch is None else max(torch.bytes, torch.reserved or 0)
        if torch is not None:
            self.tensors.append(clock, torch.bytes)
            self.held.append(clock, held)
        if run is not None or torch is not None:
            self.run.append(clock, max(run or 0, held))
        if used is not None:
            self.used.append(clock, max(used, run or 0, held))

    def interrupt(self, clock: float) -> None:
        """Let the run hold nothing: the next attempt begins."""
        for series in (self.tensors, self.held, self.run):
            if len(series):
                series.append(clock, 0.0)


class MemoryHistory:
    """Memory of a run's computer and graphics card. Apply all events in order.

    `computer` is the main memory, including what a GPU that shares it holds. `card` is the memory of a graphics card
    that has its own. `swap`, `compressed` and `pressure` (as in `LEVELS`) are those of the computer.

    The keeper samples process, graphics card and computer in this order, so that the computer's sample completes a
    moment. Torch's last sample is valid until its next one.
    """

    def __init__(self) -> None:
        self.computer = MemoryPicture()
        self.card = MemoryPicture()
        self.swap = Series()
        self.compressed = Series()
        self.pressure = Series()
        self._torch: MemorySampled | None = None
        self._process: int | None = None
        self._is_on_card: bool | None = None  # None: not known yet
        self._has_driver = False
        self._attempt = 1

    @property
    def picture(self) -> MemoryPicture:
        """The memory to draw: the card's if the run computes on one, else the computer's."""
        return self.card if len(self.card) and self._is_on_card is not False else self.computer

    @property
    def is_of_card(self) -> bool:
        return self.picture is self.card

    def apply(self, event: Event, clock: float) -> None:
        if isinstance(event, MemorySampled) and event.attempt != self._attempt:
            self._attempt = event.attempt
            self._torch = self._process = None
            for picture in (self.computer, self.card):
                picture.interrupt(clock)
        match event:
            case RunPlanned():
                self._is_on_card = event.device.startswith("cuda")
            case MemorySampled(source=Source.TORCH):
                self._on_torch(event, clock)
            case MemorySampled(source=Source.PROCESS):
                self._process = event.bytes
            case MemorySampled(source=Source.NVML):
                self._has_driver = True
                self.card.ceiling = event.ceiling or self.card.ceiling
                self.card.add(clock, torch=self._torch, run=event.own, used=event.bytes)
            case MemorySampled(source=Source.SYSTEM):
                self._on_system(event, clock)

    def _on_torch(self, event: MemorySampled, clock: float) -> None:
        self._torch = event
        if event.unified:
            self._is_on_card = False
            self.computer.limit = event.ceiling
        elif not self._has_driver:
            self.card.ceiling = event.ceiling
            self.card.add(clock, torch=event, run=None, used=None)

    def _on_system(self, event: MemorySampled, clock: float) -> None:
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
