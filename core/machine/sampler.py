"""What the machine does at one moment, as events: the computer, one process with its children, one GPU."""

import os
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

from core.events import Event
from core.machine.apple import AppleFigures
from core.machine.apple_source import AppleSource
from core.machine.computer import Battery, Disk, MainMemory, ProcessMemory, Processor
from core.machine.nvidia import NvidiaFigures, NvidiaGpu, find_gpu
from core.machine.pressure import PressureGauge, pressure_gauge
from core.machine.process_tree import ProcessTree
from core.machine.sources import Every, InBackground, MachineSource
from core.machine.visible_gpus import gpu_for

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
