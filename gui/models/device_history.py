"""What the processors did while a run trained, folded from their samples: busy, power, temperature, clock."""

import math
from typing import ClassVar

from core.events import BatterySampled, DeviceSampled, DiskSampled, Event, RunPlanned, Source
from core.watchers.held_back import held_back
from gui.models.growth import Grows
from gui.plots.series import Series

Throttling = tuple[float, float, tuple[str, ...]]
"""From and to, in seconds since the run's start, and why the clock was held down (`core.machine.throttling`)."""

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
