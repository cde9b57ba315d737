"""What the machine does at one moment, as events: the computer, one process with its children, one GPU."""

import os
import sys

from core.events import DeviceSampled, Event, MemorySampled, Source
from core.machine.apple import AppleFigures, AppleGpu
from core.machine.memory import ProcessorLoad, process_tree, resident_bytes, system_memory
from core.machine.nvidia import NvidiaGpu, find_gpu
from core.machine.pressure import PressureGauge, pressure_gauge
from core.machine.visible_gpus import gpu_for


class Sampler:
    """Reads the machine whenever asked; what can't be read makes no event.

    Args:
        pid: The process whose memory counts as the run's; None: no process.
        gpu: The NVIDIA GPU to read; None: none. May be changed later.
        gauge: What tells the memory pressure; None: that of this operating system.
        apple: What tells of a Mac's GPU and compressed memory; None: as this operating system has it.
    """

    def __init__(
        self,
        pid: int | None = None,
        gpu: NvidiaGpu | None = None,
        *,
        gauge: PressureGauge | None = None,
        apple: AppleFigures | None = None,
    ) -> None:
        self._pid = pid
        self.gpu = gpu
        self._gauge = gauge or pressure_gauge()
        self._apple = apple or (AppleFigures() if sys.platform == "darwin" else None)
        self._load = ProcessorLoad()
        self._load.read()

    def sample(self) -> list[Event]:
        """The figures of this moment: memory, the computer's last of it, then how busy processors are."""
        on_mac = self._apple.gpu() if self._apple is not None else None
        return [*self._memory(on_mac), *self._devices(on_mac)]

    def _memory(self, on_mac: AppleGpu | None) -> list[Event]:
        found: list[Event] = []
        processes = process_tree(self._pid) if self._pid is not None else []
        held = resident_bytes(processes)
        if held is not None:
            found.append(MemorySampled(source=Source.PROCESS, bytes=held))
        on_gpu = self.gpu.memory() if self.gpu is not None else None
        if self.gpu is not None and on_gpu is not None:
            own = self.gpu.memory_of({process.pid for process in processes})
            found.append(
                MemorySampled(source=Source.NVML, bytes=on_gpu.used, ceiling=on_gpu.ceiling, own=own)
            )
        if on_mac is not None and on_mac.memory is not None:
            found.append(MemorySampled(source=Source.APPLE, bytes=on_mac.memory))
        return [*found, self._system()]

    def _system(self) -> MemorySampled:
        system = system_memory()
        return MemorySampled(
            source=Source.SYSTEM,
            bytes=system.used,
            ceiling=system.total,
            swap=system.swap,
            compressed=self._apple.compressed() if self._apple is not None else None,
            pressure=self._gauge.read(),
        )

    def _devices(self, on_mac: AppleGpu | None) -> list[Event]:
        found: list[Event] = []
        busy = self._load.read()
        if busy is not None:
            found.append(DeviceSampled(source=Source.SYSTEM, name="CPU", busy=busy))
        if self.gpu is not None:
            found.append(
                DeviceSampled(
                    source=Source.NVML,
                    name=self.gpu.name,
                    busy=self.gpu.busy(),
                    power=self.gpu.power(),
                    temperature=self.gpu.temperature(),
                )
            )
        if on_mac is not None:
            found.append(DeviceSampled(source=Source.APPLE, name=on_mac.name, busy=on_mac.busy))
        return found


def gpu_of(device: str) -> NvidiaGpu | None:
    """The GPU that a run on `device` would use, were it to use one; None where there is none."""
    name = gpu_for(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return find_gpu(name) if name else None
