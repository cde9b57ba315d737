"""What the machine does at one moment, as events: the computer, one process with its children, one GPU."""

import os

from core.events import DeviceSampled, Event, MemorySampled, Source
from core.machine.memory import ProcessorLoad, system_memory, tree_bytes
from core.machine.nvidia import NvidiaGpu, find_gpu
from core.machine.visible_gpus import gpu_for


class Sampler:
    """Reads the machine whenever asked; what can't be read makes no event.

    Args:
        pid: The process whose memory counts as the run's; None: no process.
        gpu: The NVIDIA GPU to read; None: none. May be set later, once it is known.
    """

    def __init__(self, pid: int | None = None, gpu: NvidiaGpu | None = None) -> None:
        self._pid = pid
        self.gpu = gpu
        self._load = ProcessorLoad()
        self._load.read()

    def sample(self) -> list[Event]:
        """The figures of this moment: memory first, then how busy processors are since the last call."""
        return [*self._memory(), *self._devices()]

    def _memory(self) -> list[Event]:
        system = system_memory()
        found: list[Event] = [
            MemorySampled(source=Source.SYSTEM, bytes=system.used, ceiling=system.total, swap=system.swap)
        ]
        held = tree_bytes(self._pid) if self._pid is not None else None
        if held is not None:
            found.append(MemorySampled(source=Source.PROCESS, bytes=held))
        on_gpu = self.gpu.memory() if self.gpu is not None else None
        if on_gpu is not None:
            found.append(MemorySampled(source=Source.NVML, bytes=on_gpu.used, ceiling=on_gpu.ceiling))
        return found

    def _devices(self) -> list[Event]:
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
        return found


def gpu_of(device: str) -> NvidiaGpu | None:
    """The GPU that a run on `device` would use, were it to use one; None where there is none."""
    name = gpu_for(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return find_gpu(name) if name else None
