"""What the machine was found to do at one moment, as events: memory, processors, battery, disk."""

from enum import StrEnum

from core.errors import Fix
from core.event import Count, Event
from core.memory.forecast import Basis, Parts, Room


class Source(StrEnum):
    """Who measured a figure."""

    SYSTEM = "system"
    PROCESS = "process"
    TORCH = "torch"
    NVML = "nvml"
    APPLE = "apple"


class Pressure(StrEnum):
    """How short of memory the operating system says it is."""

    NORMAL = "normal"
    WARN = "warn"
    CRITICAL = "critical"


class MemorySampled(Event, frozen=True, kw_only=True):
    """Memory in use, in bytes; None: not available.

    - `system`: `bytes` is what all programs hold, `ceiling` the installed memory, `swap` what lies on the disk,
      `compressed` what macOS keeps compressed, `pressure` how short of memory the operating system is.
    - `process`: the engine and its children.
    - `torch`: the live tensors, with `reserved` what the allocator (CUDA) or Metal's driver (MPS) holds for them and
      `ceiling` what it may have; `unified` tells that the device shares the computer's memory.
    - `nvml`: what all programs hold of the GPU, of its `ceiling`, with `own` what this run's processes do.
    - `apple`: what all programs have the GPU hold of the computer's memory.
    """

    source: Source
    bytes: Count
    ceiling: Count | None = None
    swap: Count | None = None
    compressed: Count | None = None
    pressure: Pressure | None = None
    reserved: Count | None = None
    own: Count | None = None
    unified: bool = False


class DeviceSampled(Event, frozen=True, kw_only=True):
    """How busy a processor is, and what holds it back; None: not available.

    `busy` is 0 to 1, `power` and `power_limit` watts, `temperature` degrees Celsius, `clock` and `clock_limit` MHz.
    `throttled` says why the clock is held down, in words of `core.machine.throttling.Throttle` (a file may hold others,
    of a newer Hone's); empty: it isn't. None where nobody tells. `thermal` is macOS' level of thermal pressure, from 0
    (nominal) to 4 (sleeping).
    """

    source: Source
    name: str = ""
    busy: float | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    clock: float | None = None
    clock_limit: float | None = None
    throttled: tuple[str, ...] | None = None
    thermal: int | None = None


class BatterySampled(Event, frozen=True, kw_only=True):
    """The computer's battery: `share` that is left (0 to 1); `is_plugged` is None where nobody tells."""

    share: float
    is_plugged: bool | None = None


class DiskSampled(Event, frozen=True, kw_only=True):
    """The disk that the run's folder lies on, in bytes."""

    free: Count
    total: Count


class MemoryForecast(Event, frozen=True, kw_only=True):
    """How much memory the run takes at its fullest moment, told once its model is loaded; bytes.

    `basis`, `correction` and `length` are as in `core.memory.forecast.Forecast`. `fixes` are what to do should memory
    run out, best first, for whoever has to say so after the engine is gone.
    """

    device: str
    basis: Basis
    parts: Parts
    room: Room | None = None
    correction: float = 1.0
    length: Count | None = None
    fixes: tuple[Fix, ...] = ()
