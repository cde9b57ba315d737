"""Sample the computer, a process tree and a GPU as events."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from core.base.system import ProcessTree, resident_bytes, system_memory
from core.monitor.apple import AppleSource
from core.monitor.nvidia import NvidiaGpu, NvidiaSource
from core.monitor.system import Background, Processor, battery, disk, memory_pressure
from core.runs.events import BatterySampled, DeviceSampled, Event, MemorySampled, Pressure, Source

Sample = TypeVar("Sample", bound=Event)

# --- Newest sample of each kind

STALE_SECONDS = 8.0  # older samples are not shown
BATTERY_SECONDS = 30.0  # the same for the battery, which is read less often


@dataclass(frozen=True)
class MachinePicture:
    """The last samples, None if not available.

    `memory` is the computer's, `card` that of a graphics card with its own memory; `gpu` and `processor` are their
    loads. `swap_grown` is the growth of the swap since its lowest sample, in bytes.
    """

    memory: MemorySampled | None = None
    card: MemorySampled | None = None
    gpu: DeviceSampled | None = None
    processor: DeviceSampled | None = None
    battery: BatterySampled | None = None
    swap_grown: int = 0


class MachineView:
    """Keeps the last sample of each kind. `picture` may be called from any thread."""

    def __init__(self) -> None:
        self._newest: dict[tuple[type[Event], Source | None], Event] = {}
        self._least_swap: int | None = None

    def take(self, events: Iterable[Event]) -> None:
        """Add events in the order of time; those that aren't samples are ignored."""
        for event in events:
            match event:
                case MemorySampled() | DeviceSampled():
                    self._newest[type(event), event.source] = event
                case BatterySampled():
                    self._newest[BatterySampled, None] = event
            if isinstance(event, MemorySampled) and event.swap is not None:
                least = event.swap if self._least_swap is None else self._least_swap
                self._least_swap = min(event.swap, least)

    def picture(self, now: float) -> MachinePicture:
        """The samples that are current at `now` (unix seconds)."""

        def newest(kind: type[Sample], source: Source | None = None) -> Sample | None:
            found = self._newest.get((kind, source))
            seconds = BATTERY_SECONDS if kind is BatterySampled else STALE_SECONDS
            return found if isinstance(found, kind) and now - found.time <= seconds else None

        system = newest(MemorySampled, Source.SYSTEM)
        swap = system.swap if system is not None else None
        return MachinePicture(
            memory=system,
            card=newest(MemorySampled, Source.NVML),
            gpu=newest(DeviceSampled, Source.NVML) or newest(DeviceSampled, Source.APPLE),
            processor=newest(DeviceSampled, Source.SYSTEM),
            battery=newest(BatterySampled),
            swap_grown=0 if swap is None or self._least_swap is None else swap - self._least_swap,
        )


# --- Sampler

SLOW_SECONDS = 10.0  # between readings of battery and disk
PATIENCE_SECONDS = 0.05  # drivers and disks answer within a millisecond or two, or they hang


class Sampler:
    """Reads all sources on each call; what can't be read has no event.

    A GPU, a disk and a battery may take long, or hang, and are read in the background: if a reading takes long, its
    samples are returned by a later call.

    Args:
        pid: The process whose memory, with that of its children, is the run's.
        find_gpu: Finds the NVIDIA GPU; called in the background.
        folder: A folder on the disk to sample.
        pressure: Reads the memory pressure; None: that of this operating system.
        apple: Samples a Mac's GPU; None: if this is a Mac.
    """

    def __init__(
        self,
        pid: int | None = None,
        find_gpu: Callable[[], NvidiaGpu | None] | None = None,
        *,
        folder: Path | None = None,
        pressure: Callable[[], Pressure | None] | None = None,
        apple: AppleSource | None = None,
    ) -> None:
        self._processes = ProcessTree(pid)
        self._processor = Processor()
        self._pressure = pressure or memory_pressure()
        self._apple = AppleSource() if apple is None and sys.platform == "darwin" else apple
        self._nvidia = NvidiaSource(find_gpu, self._processes)
        self._background = [
            Background(self._nvidia.read, patience=PATIENCE_SECONDS),
            Background(battery(), every=SLOW_SECONDS, patience=PATIENCE_SECONDS),
        ]
        if self._apple is not None:
            self._background.append(Background(self._apple.read))
        if folder is not None:
            self._background.append(Background(disk(folder), every=SLOW_SECONDS, patience=PATIENCE_SECONDS))

    def let_gpu_sleep(self) -> None:
        self._nvidia.find = None

    def sample(self) -> list[Event]:
        """The current samples in the order of time; of those of memory, the computer's is last."""
        found = [event for source in self._background for event in source.read()]
        held = resident_bytes(self._processes.read())
        if held is not None:
            found.append(MemorySampled(source=Source.PROCESS, bytes=held))
        system = system_memory()
        found.append(
            MemorySampled(
                source=Source.SYSTEM,
                bytes=system.used,
                ceiling=system.total,
                swap=system.swap,
                compressed=self._apple.compressed() if self._apple is not None else None,
                pressure=self._pressure(),
            )
        )
        return sorted([*found, *self._processor.read()], key=attrgetter("time"))

    def finish(self, seconds: float | None = None) -> None:
        """Wait for all readings in the background, at most `seconds` for each."""
        for source in self._background:
            source.finish(seconds)
