"""Samples of an NVIDIA GPU by NVML. Unknown values are None, never zero and never an error."""

import os
from collections.abc import Callable, Collection, MutableMapping
from typing import Any, NamedTuple

import pynvml

from core.base.language import _
from core.base.system import ProcessTree
from core.runs.events import DeviceSampled, Event, MemorySampled, Source, Throttle

SM = 1
"""`NVML_CLOCK_SM`: the clock of the multiprocessors."""

REASONS = {
    0x04: Throttle.POWER_CAP,
    0x20: Throttle.THERMAL_SOFTWARE,
    0x40: Throttle.THERMAL_HARDWARE,
    0x80: Throttle.POWER_BRAKE,
}
"""By the values of `nvmlClocksEventReason…` in nvml.h.

Left out is what slows nothing down: an idle GPU (0x01), clocks that somebody asked for (0x02), a group of GPUs kept in
step (0x10), the display's clocks (0x100).
"""

HARDWARE = 0x08
"""Set together with the hardware's thermal slowdown and the power brake; alone on cards that don't tell these apart."""


class GpuMemory(NamedTuple):
    """Bytes in use by all programs, and bytes that programs can have at most."""

    used: int
    ceiling: int


class NvidiaGpu:
    """One GPU. A query that fails once is not repeated: drivers, laptops and containers lack different ones."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._dropped: set[str] = set()
        name = self._get("Name")
        self.name = name.decode() if isinstance(name, bytes) else name or _("NVIDIA GPU")

    def _get(self, name: str, *arguments: Any, **options: Any) -> Any:
        """What `nvmlDeviceGet…` returns; None where it fails."""
        if name in self._dropped:
            return None
        try:
            return getattr(self._nvml, f"nvmlDeviceGet{name}")(self._handle, *arguments, **options)
        except (self._nvml.NVMLError, AttributeError):  # AttributeError: a driver older than the function
            self._dropped.add(name)
            return None

    def _number(self, name: str, *arguments: Any, scale: float = 1.0) -> float | None:
        found = self._get(name, *arguments)
        return None if found is None else float(found) * scale

    def capability(self) -> tuple[int, int] | None:
        """NVIDIA's compute capability: (8, 0) is Ampere, (9, 0) Hopper."""
        found = self._get("CudaComputeCapability")
        return None if found is None else (int(found[0]), int(found[1]))

    def memory(self) -> GpuMemory | None:
        """Memory of the GPU; None where it shares the computer's (GB10), which is then the figure to show."""
        info = self._get("MemoryInfo", version=self._nvml.nvmlMemory_v2)
        return GpuMemory(int(info.used), int(info.total - info.reserved)) if info and info.total else None

    def memory_of(self, processes: Collection[int]) -> int | None:
        """Bytes that these processes hold of it together, CUDA's context included.

        None where the driver doesn't tell (Windows, WSL2, MIG), or knows them by other numbers (a container).
        """
        running = self._get("ComputeRunningProcesses") or []
        held = [found.usedGpuMemory for found in running if found.pid in processes]
        return sum(map(int, held)) if held and None not in held else None

    def sample(self) -> DeviceSampled:
        utilization = self._get("UtilizationRates")  # share of the last moments in which any kernel ran
        temperature = self._number("TemperatureV", 0)  # older drivers lack it
        return DeviceSampled(
            source=Source.NVML,
            name=self.name,
            busy=None if utilization is None else utilization.gpu / 100,
            power=self._number("PowerUsage", scale=1e-3),
            power_limit=self._number("EnforcedPowerLimit", scale=1e-3),
            temperature=self._number("Temperature", 0) if temperature is None else temperature,
            clock=self._number("ClockInfo", SM),
            clock_limit=self._number("MaxClockInfo", SM) or None,
            throttled=self._throttled(),
        )

    def _throttled(self) -> tuple[Throttle, ...] | None:
        """Why the clock is held down; empty: it isn't."""
        mask = self._get("CurrentClocksEventReasons")
        if mask is None:  # drivers before 530 know it by its older name
            mask = self._get("CurrentClocksThrottleReasons")
        if mask is None:
            return None
        found = tuple(reason for bit, reason in REASONS.items() if mask & bit)
        is_told_apart = Throttle.THERMAL_HARDWARE in found or Throttle.POWER_BRAKE in found
        return (*found, Throttle.HARDWARE) if mask & HARDWARE and not is_told_apart else found


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
    """The first number of the driver's version, such as 580; None: unknown. Call it once a GPU has been found."""
    try:
        version = nvml.nvmlSystemGetDriverVersion()
    except nvml.NVMLError:
        return None
    first = (version.decode() if isinstance(version, bytes) else str(version)).partition(".")[0]
    return int(first) if first.isdecimal() else None


class NvidiaSource:
    """Samples one GPU. Read it in the background: a driver may hang.

    `find`, which returns the GPU, becomes None where there is none. Set it to None to read the GPU no more, so that it
    can sleep, from any thread.
    """

    def __init__(self, find: Callable[[], NvidiaGpu | None] | None, processes: ProcessTree) -> None:
        self.find = find
        self._gpu: NvidiaGpu | None = None
        self._processes = processes

    def read(self) -> list[Event] | None:
        """Its memory, where it has its own, and what it does; None: it is read no more."""
        find = self.find
        if find is None:
            return None
        self._gpu = gpu = self._gpu or find()
        if gpu is None:
            self.find = None
            return None
        found: list[Event] = []
        memory = gpu.memory()
        if memory is not None:
            own = gpu.memory_of({process.pid for process in self._processes.read()})
            found.append(
                MemorySampled(source=Source.NVML, bytes=memory.used, ceiling=memory.ceiling, own=own)
            )
        return [*found, gpu.sample()]


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


def gpu_of(device: str) -> NvidiaGpu | None:
    """The GPU that a run on `device` would use, were it to use one; None where there is none."""
    name = gpu_for(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return find_gpu(name) if name else None
