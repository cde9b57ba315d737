"""Sample the computer, a process tree and a GPU as events."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from core.base.system import ProcessTree
from core.monitor.apple import AppleFigures, AppleSource
from core.monitor.nvidia import NvidiaFigures, NvidiaGpu, find_gpu, gpu_for
from core.monitor.system import (
    Battery,
    Disk,
    Every,
    InBackground,
    MachineSource,
    MainMemory,
    PressureGauge,
    ProcessMemory,
    Processor,
    pressure_gauge,
)
from core.runs.events import BatterySampled, DeviceSampled, Event, MemorySampled, Source

# --- Newest sample of each kind


STALE_SECONDS = 8.0
"""After this long without a new one a figure is no longer shown: nobody knows whether it still holds."""

BATTERY_SECONDS = 30.0
"""The same for the battery, which is read less often."""


@dataclass(frozen=True)
class MachinePicture:
    """The last samples; None: not available.

    `memory` is the computer's, `card` that of a graphics card with memory of its own. `gpu` is what the GPU does,
    `processor` what the processor does. `swap_grown` is by how many bytes the swap lies above the least that was seen.
    """

    memory: MemorySampled | None = None
    card: MemorySampled | None = None
    gpu: DeviceSampled | None = None
    processor: DeviceSampled | None = None
    battery: BatterySampled | None = None
    swap_grown: int = 0


class MachineView:
    """Keeps the last samples of each kind. Give it what comes; ask for the picture at any time, from any thread."""

    def __init__(self) -> None:
        self._memory: dict[Source, MemorySampled] = {}
        self._devices: dict[Source, DeviceSampled] = {}
        self._battery: BatterySampled | None = None
        self._least_swap: int | None = None

    def take(self, events: Iterable[Event]) -> None:
        """Take in samples in the order of time; others are welcome, too."""
        for event in events:
            match event:
                case MemorySampled():
                    self._memory[event.source] = event
                    self._take_swap(event.swap)
                case DeviceSampled():
                    self._devices[event.source] = event
                case BatterySampled():
                    self._battery = event

    def picture(self, now: float) -> MachinePicture:
        """What holds at `now` (unix seconds)."""
        memory = {event.source: event for event in list(self._memory.values()) if _holds(event, now)}
        devices = {event.source: event for event in list(self._devices.values()) if _holds(event, now)}
        battery = self._battery
        system = memory.get(Source.SYSTEM)
        return MachinePicture(
            memory=system,
            card=memory.get(Source.NVML),
            gpu=devices.get(Source.NVML) or devices.get(Source.APPLE),
            processor=devices.get(Source.SYSTEM),
            battery=battery if battery is not None and _holds(battery, now, BATTERY_SECONDS) else None,
            swap_grown=self._swap_grown(system.swap if system is not None else None),
        )

    def _swap_grown(self, swap: int | None) -> int:
        return 0 if swap is None or self._least_swap is None else swap - self._least_swap

    def _take_swap(self, swap: int | None) -> None:
        if swap is not None:
            self._least_swap = swap if self._least_swap is None else min(self._least_swap, swap)


def _holds(event: Event, now: float, seconds: float = STALE_SECONDS) -> bool:
    return now - event.time <= seconds


# --- Sampler


SLOW_SECONDS = 10.0
"""How often battery and disk are read."""

PATIENCE_SECONDS = 0.05
"""How long a GPU's driver and a disk are waited for. They answer within a millisecond or two, or they hang."""


class Sampler:
    """Reads all sources whenever asked; what can't be read makes no event.

    What may take long, or hang for good, is read in the background: a GPU and a disk. Their figures come with this
    sample where they are quick, and else with a later one, with the time they were read at.

    Args:
        pid: The process whose memory counts as the run's; None: no process.
        find_gpu: Finds the NVIDIA GPU to read, in the background; None: none is read.
        folder: A folder on the disk that is looked after; None: none is.
        gauge: What tells the memory pressure; None: that of this operating system.
        apple: What tells of a Mac; None: as this operating system has it.
    """

    def __init__(
        self,
        pid: int | None = None,
        find_gpu: Callable[[], NvidiaGpu | None] | None = None,
        *,
        folder: Path | None = None,
        gauge: PressureGauge | None = None,
        apple: AppleFigures | None = None,
    ) -> None:
        processes = ProcessTree(pid)
        if apple is None and sys.platform == "darwin":
            apple = AppleFigures()
        mac = AppleSource(apple) if apple is not None else None
        self._nvidia = NvidiaFigures(find_gpu, processes)
        self._behind_nvidia = InBackground(self._nvidia, patience=PATIENCE_SECONDS)
        self._background = [InBackground(mac)] if mac is not None else []
        if folder is not None:
            disk = InBackground(Disk(folder), every=SLOW_SECONDS, patience=PATIENCE_SECONDS)
            self._background.append(disk)
        self._sources: list[MachineSource] = [
            *self._background,
            ProcessMemory(processes),
            MainMemory(gauge or pressure_gauge(), mac.compressed if mac is not None else _unknown),
            Processor(),
            Every(SLOW_SECONDS, Battery()),
        ]

    @property
    def has_gpu(self) -> bool:
        """Whether an NVIDIA GPU is read, as far as is known."""
        return self._nvidia.is_wanted

    def let_gpu_sleep(self) -> None:
        """Read the NVIDIA GPU no more."""
        self._nvidia.let_go()

    def sample(self) -> list[Event]:
        """The figures of this moment in the order of time; of the memory, the computer's comes last."""
        found = list(self._behind_nvidia.read()) if self.has_gpu else []
        found += [event for source in self._sources for event in source.read()]
        return sorted(found, key=attrgetter("time"))

    def finish(self, seconds: float | None = None) -> None:
        """Wait until nothing is read in the background any more, or for so many seconds each."""
        for source in (self._behind_nvidia, *self._background):
            source.finish(seconds)


def gpu_of(device: str) -> NvidiaGpu | None:
    """The GPU that a run on `device` would use, were it to use one; None where there is none."""
    name = gpu_for(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return find_gpu(name) if name else None


def _unknown() -> None:
    return None
