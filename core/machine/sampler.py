"""What the machine does at one moment, as events: the computer, one process with its children, one GPU."""

import os
import sys
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


class Sampler:
    """Reads all sources whenever asked; what can't be read makes no event.

    A Mac's GPU is read in the background: its figures come with the next sample, with the time they were read at.

    Args:
        pid: The process whose memory counts as the run's; None: no process.
        gpu: The NVIDIA GPU to read; None: none. May be changed later.
        folder: A folder on the disk that is looked after; None: none is.
        gauge: What tells the memory pressure; None: that of this operating system.
        apple: What tells of a Mac; None: as this operating system has it.
    """

    def __init__(
        self,
        pid: int | None = None,
        gpu: NvidiaGpu | None = None,
        *,
        folder: Path | None = None,
        gauge: PressureGauge | None = None,
        apple: AppleFigures | None = None,
    ) -> None:
        processes = ProcessTree(pid)
        if apple is None and sys.platform == "darwin":
            apple = AppleFigures()
        mac = AppleSource(apple) if apple is not None else None
        self._background = [InBackground(mac)] if mac is not None else []
        self._nvidia = NvidiaFigures(gpu, processes)
        self._sources: list[MachineSource] = [
            *self._background,
            ProcessMemory(processes),
            self._nvidia,
            MainMemory(gauge or pressure_gauge(), mac.compressed if mac is not None else _unknown),
            Processor(),
            Every(SLOW_SECONDS, Battery()),
        ]
        if folder is not None:
            self._sources.append(Every(SLOW_SECONDS, Disk(folder)))

    @property
    def gpu(self) -> NvidiaGpu | None:
        """The NVIDIA GPU that is read; None lets it sleep."""
        return self._nvidia.gpu

    @gpu.setter
    def gpu(self, gpu: NvidiaGpu | None) -> None:
        self._nvidia.gpu = gpu

    def sample(self) -> list[Event]:
        """The figures of this moment in the order of time; of the memory, the computer's comes last."""
        found = [event for source in self._sources for event in source.read()]
        return sorted(found, key=attrgetter("time"))

    def finish(self, seconds: float | None = None) -> None:
        """Wait until nothing is read in the background any more, or for so many seconds."""
        for source in self._background:
            source.finish(seconds)


def gpu_of(device: str) -> NvidiaGpu | None:
    """The GPU that a run on `device` would use, were it to use one; None where there is none."""
    name = gpu_for(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return find_gpu(name) if name else None


def _unknown() -> None:
    return None
