"""Samples of an NVIDIA GPU by NVML. Unknown values are None, never zero and never an error."""

import os
from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml

from core.base.system import ProcessTree
from core.monitor.apple import Throttle, throttle_reasons
from core.runs.events import DeviceSampled, Event, MemorySampled, Source

# --- Samples


Value = TypeVar("Value")

SM = 1
"""`NVML_CLOCK_SM`: the clock of the multiprocessors."""


@dataclass(frozen=True)
class GpuMemory:
    """Bytes in use by all programs, and bytes that programs can have at most."""

    used: int
    ceiling: int


class NvidiaGpu:
    """One GPU. A query that fails once is not asked again: drivers, laptops and containers lack different ones."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._dropped: set[str] = set()
        self.name = self._ask("name", self._read_name) or "NVIDIA GPU"

    def capability(self) -> tuple[int, int] | None:
        """NVIDIA's compute capability: (8, 0) is Ampere, (9, 0) Hopper."""
        return self._ask("capability", self._read_capability)

    def memory(self) -> GpuMemory | None:
        """Memory of the GPU; None where it shares the computer's (GB10), which is then the figure to show."""
        return self._ask("memory", self._read_memory)

    def memory_of(self, processes: Collection[int]) -> int | None:
        """Bytes that these processes hold of it together, CUDA's context included.

        None where the driver doesn't tell (Windows, WSL2, MIG), or knows them by other numbers (a container).
        """
        return self._ask("memory by process", lambda: self._read_memory_of(processes))

    def busy(self) -> float | None:
        """Share of the last moments in which any kernel ran, 0 to 1."""
        return self._ask("busy", lambda: self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100)

    def power(self) -> float | None:
        """Watts."""
        return self._ask("power", lambda: self._nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000)

    def power_limit(self) -> float | None:
        """Watts that it may draw, by the strictest of its limits."""
        return self._ask(
            "power limit", lambda: self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._handle) / 1000
        )

    def clock(self) -> float | None:
        """MHz at which its multiprocessors run."""
        return self._ask("clock", lambda: float(self._nvml.nvmlDeviceGetClockInfo(self._handle, SM)))

    def clock_limit(self) -> float | None:
        """MHz at which they may run."""
        return self._ask(
            "clock limit", lambda: float(self._nvml.nvmlDeviceGetMaxClockInfo(self._handle, SM)) or None
        )

    def throttled(self) -> tuple[Throttle, ...] | None:
        """Why the clock is held down; empty: it isn't."""
        mask = self._ask(
            "clocks event reasons",
            lambda: int(self._nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)),
        )
        if mask is None:  # drivers before 530 know it by its older name
            mask = self._ask(
                "clocks throttle reasons",
                lambda: int(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)),
            )
        return None if mask is None else throttle_reasons(mask)

    def temperature(self) -> float | None:
        """Degrees Celsius."""
        newer = self._ask("temperature", lambda: float(self._nvml.nvmlDeviceGetTemperatureV(self._handle, 0)))
        if newer is not None:
            return newer
        return self._ask(
            "old temperature", lambda: float(self._nvml.nvmlDeviceGetTemperature(self._handle, 0))
        )

    def _ask(self, what: str, query: Callable[[], Value]) -> Value | None:
        if what in self._dropped:
            return None
        try:
            return query()
        except (self._nvml.NVMLError, AttributeError):  # AttributeError: a driver older than the function
            self._dropped.add(what)
            return None

    def _read_name(self) -> str:
        name = self._nvml.nvmlDeviceGetName(self._handle)
        return name.decode() if isinstance(name, bytes) else str(name)

    def _read_capability(self) -> tuple[int, int]:
        major, minor = self._nvml.nvmlDeviceGetCudaComputeCapability(self._handle)
        return int(major), int(minor)

    def _read_memory(self) -> GpuMemory | None:
        info = self._nvml.nvmlDeviceGetMemoryInfo(self._handle, version=self._nvml.nvmlMemory_v2)
        if not info.total:
            self._dropped.add("memory")
            return None
        return GpuMemory(used=int(info.used), ceiling=int(info.total - info.reserved))

    def _read_memory_of(self, processes: Collection[int]) -> int | None:
        running = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        held = [found.usedGpuMemory for found in running if found.pid in processes]
        return sum(map(int, held)) if held and None not in held else None


def find_gpu(name: str = "0", nvml: Any = pynvml) -> NvidiaGpu | None:
    """The GPU with this number (in the driver's order) or UUID, or None where there is none or no driver."""
    try:
        nvml.nvmlInit()
        if name.isdecimal():
            return NvidiaGpu(nvml, nvml.nvmlDeviceGetHandleByIndex(int(name)))
        return NvidiaGpu(nvml, nvml.nvmlDeviceGetHandleByUUID(name))
    except nvml.NVMLError:
        return None


def driver_version(nvml: Any = pynvml) -> int | None:
    """The first number of the driver's version, such as 580; None: it doesn't tell. Ask once a GPU has been found."""
    try:
        version = nvml.nvmlSystemGetDriverVersion()
    except nvml.NVMLError:
        return None
    words = version.decode() if isinstance(version, bytes) else str(version)
    first = words.partition(".")[0]
    return int(first) if first.isdecimal() else None


class NvidiaFigures:
    """One GPU as a source of figures. Read it in the background: a driver that hangs answers nobody.

    Args:
        find: Finds the GPU at the first reading; None: there is none.
        processes: Those whose share of its memory is told apart.
    """

    def __init__(self, find: Callable[[], NvidiaGpu | None] | None, processes: ProcessTree) -> None:
        self._find = find
        self._gpu: NvidiaGpu | None = None
        self._processes = processes

    @property
    def is_wanted(self) -> bool:
        """Whether there is a GPU to read, as far as is known."""
        return self._find is not None

    def let_go(self) -> None:
        """Read it no more, so that it can sleep; may be called from any thread."""
        self._find = None

    def read(self) -> Sequence[Event]:
        """Its memory, where it has its own, and what it does."""
        find = self._find
        if find is None:
            return []
        if self._gpu is None:
            self._gpu = find()
        if self._gpu is None:
            self._find = None
            return []
        return [*self._memory(self._gpu), _device(self._gpu)]

    def _memory(self, gpu: NvidiaGpu) -> Sequence[Event]:
        memory = gpu.memory()
        if memory is None:
            return []
        own = gpu.memory_of({process.pid for process in self._processes.read()})
        return [MemorySampled(source=Source.NVML, bytes=memory.used, ceiling=memory.ceiling, own=own)]


def _device(gpu: NvidiaGpu) -> DeviceSampled:
    return DeviceSampled(
        source=Source.NVML,
        name=gpu.name,
        busy=gpu.busy(),
        power=gpu.power(),
        power_limit=gpu.power_limit(),
        temperature=gpu.temperature(),
        clock=gpu.clock(),
        clock_limit=gpu.clock_limit(),
        throttled=gpu.throttled(),
    )


# --- GPU numbers


def number_by_slot(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have CUDA count GPUs as the driver does; to be set before torch is imported."""
    environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"


def gpu_for(device: str, visible: str | None) -> str:
    """The one GPU that a run on `device` may see.

    Args:
        device: As in `device.name`: `auto`, `cuda`, `cuda:1`, `mps`, `cpu`.
        visible: CUDA_VISIBLE_DEVICES as the person set it, None where unset: `cuda:1` is the second of these.

    Returns:
        Its number or UUID, as CUDA_VISIBLE_DEVICES takes it; empty where the run may see none.
    """
    if device in ("cpu", "mps"):
        return ""
    index = int(device.removeprefix("cuda:")) if device.startswith("cuda:") else 0
    if visible is None:
        return str(index)
    listed = [name.strip() for name in visible.split(",") if name.strip()]
    return listed[index] if index < len(listed) else ""
