"""What the machine does at one moment, as events: the computer, one process with its children, one GPU."""

from core.events import DeviceSampled, Event, MemorySampled, Source
from core.machine.memory import ProcessorLoad, system_memory, tree_bytes
from core.machine.nvidia import NvidiaGpu, find_gpu


class Sampler:
    """Reads the machine whenever asked; what can't be read makes no event.

    Args:
        pid: The process whose memory counts as the run's; None: no process.
        gpu: The NVIDIA GPU to read; None: none.
    """

    def __init__(self, pid: int | None = None, gpu: NvidiaGpu | None = None) -> None:
        self._pid = pid
        self._gpu = gpu
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
        on_gpu = self._gpu.memory() if self._gpu is not None else None
        if on_gpu is not None:
            found.append(MemorySampled(source=Source.NVML, bytes=on_gpu.used, ceiling=on_gpu.ceiling))
        return found

    def _devices(self) -> list[Event]:
        found: list[Event] = []
        busy = self._load.read()
        if busy is not None:
            found.append(DeviceSampled(source=Source.SYSTEM, name="CPU", busy=busy))
        if self._gpu is not None:
            found.append(
                DeviceSampled(
                    source=Source.NVML,
                    name=self._gpu.name,
                    busy=self._gpu.busy(),
                    power=self._gpu.power(),
                    temperature=self._gpu.temperature(),
                )
            )
        return found


def gpu_of(device: str) -> NvidiaGpu | None:
    """The GPU a run on `device` would use: `cuda:1` the second, `auto` and `cuda` the first, others none.

    The engine has PyTorch number GPUs by slot, as the driver does (see `core.engine.environment`).
    """
    name, _, index = device.partition(":")
    if name not in ("auto", "cuda"):
        return None
    return find_gpu(int(index) if index.isdecimal() else 0)
