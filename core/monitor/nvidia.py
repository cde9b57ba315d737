"""Samples of an NVIDIA GPU, read with NVML. Unknown values are None, never zero and never an error."""

import math
import os
from collections.abc import Callable, Collection, MutableMapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import msgspec
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
"""Throttle reasons by the values of `nvmlClocksEventReason…` in nvml.h.

Reasons that slow nothing down are left out: an idle GPU (0x01), clocks set by an application (0x02), GPUs that are
synchronized (0x10), the display's clocks (0x100).
"""

HARDWARE = 0x08
"""Set along with the hardware's thermal slowdown and the power brake; alone on cards that don't distinguish the two."""


class GpuMemory(NamedTuple):
    """Bytes in use by all programs, and bytes that programs can use at most."""

    used: int
    ceiling: int


class NvidiaGpu:
    """One GPU. A query that fails is not repeated: not every driver, laptop and container supports all of them."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._dropped: set[str] = set()
        name = self._get("Name")
        self.name = name.decode() if isinstance(name, bytes) else name or _("NVIDIA GPU")

    def _get(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Returns the result of `nvmlDeviceGet{name}`; None if it fails."""
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
        """Returns NVIDIA's compute capability: (8, 0) is Ampere, (9, 0) Hopper."""
        found = self._get("CudaComputeCapability")
        return None if found is None else (int(found[0]), int(found[1]))

    def memory(self) -> GpuMemory | None:
        """Returns the memory of the GPU; None if it has none of its own but shares the computer's (GB10)."""
        info = self._get("MemoryInfo", version=self._nvml.nvmlMemory_v2)
        return GpuMemory(int(info.used), int(info.total - info.reserved)) if info and info.total else None

    def memory_of(self, processes: Collection[int]) -> int | None:
        """Returns the bytes of the GPU's memory in use by these processes together, including CUDA's context.

        None if the driver doesn't report it (Windows, WSL2, MIG) or uses other process ids (in a container).
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
        """Returns why the clock is throttled: empty if it isn't, None if unknown."""
        mask = self._get("CurrentClocksEventReasons")
        if mask is None:  # its name in drivers before 530
            mask = self._get("CurrentClocksThrottleReasons")
        if mask is None:
            return None
        found = tuple(reason for bit, reason in REASONS.items() if mask & bit)
        is_told_apart = Throttle.THERMAL_HARDWARE in found or Throttle.POWER_BRAKE in found
        return (*found, Throttle.HARDWARE) if mask & HARDWARE and not is_told_apart else found


class SeveralGpus(NvidiaGpu):
    """The GPUs that train one model as one: memory and power together, load on average, the hottest, the slowest."""

    def __init__(self, gpus: Sequence[NvidiaGpu]) -> None:
        self._gpus = gpus
        self.name = f"{len(gpus)} × {gpus[0].name}"

    def memory(self) -> GpuMemory | None:
        found = [gpu.memory() for gpu in self._gpus]
        known = [one for one in found if one is not None]
        together = GpuMemory(sum(one.used for one in known), sum(one.ceiling for one in known))
        return together if len(known) == len(found) else None

    def memory_of(self, processes: Collection[int]) -> int | None:
        found = [gpu.memory_of(processes) for gpu in self._gpus]
        return None if None in found else sum(filter(None, found))

    def sample(self) -> DeviceSampled:
        found = [gpu.sample() for gpu in self._gpus]
        slowest = min(found, key=lambda one: math.inf if one.clock is None else one.clock)

        def of_all(name: str, combine: Callable[[list[float]], float]) -> float | None:
            numbers = [getattr(one, name) for one in found]
            return None if None in numbers else combine(numbers)

        reasons = [reason for one in found for reason in one.throttled or ()]
        return msgspec.structs.replace(
            slowest,
            name=self.name,
            busy=of_all("busy", fmean),
            power=of_all("power", sum),
            power_limit=of_all("power_limit", sum),
            temperature=of_all("temperature", max),
            throttled=tuple(dict.fromkeys(reasons)) if slowest.throttled is not None else None,
        )


def find_gpu(name: str = "0", nvml: Any = pynvml) -> NvidiaGpu | None:
    """Returns the GPU with this number (in the driver's order) or UUID; None if there is no such GPU or no driver."""
    try:
        nvml.nvmlInit()
        if name.isdecimal():
            return NvidiaGpu(nvml, nvml.nvmlDeviceGetHandleByIndex(int(name)))
        return NvidiaGpu(nvml, nvml.nvmlDeviceGetHandleByUUID(name))
    except nvml.NVMLError:
        return None


CARDS = "HONE_CARDS"
"""The environment variable with the number of GPUs for a run's processes, of which a rank sees its own only."""


def cards(visible: str | None, nvml: Any = pynvml) -> tuple[str, ...]:
    """Returns the NVIDIA GPUs, by number or UUID, in CUDA_VISIBLE_DEVICES; all if that is None."""
    if visible is not None:
        return tuple(name.strip() for name in visible.split(",") if name.strip())
    try:
        nvml.nvmlInit()
        return tuple(map(str, range(nvml.nvmlDeviceGetCount())))
    except nvml.NVMLError:
        return ()


def driver_version(nvml: Any = pynvml) -> int | None:
    """Returns the driver's major version, such as 580; None if unknown. Call `find_gpu` first: it starts NVML."""
    try:
        version = nvml.nvmlSystemGetDriverVersion()
    except nvml.NVMLError:
        return None
    first = (version.decode() if isinstance(version, bytes) else str(version)).partition(".")[0]
    return int(first) if first.isdecimal() else None


class NvidiaSource:
    """Samples one GPU. To be read in the background, since a driver may hang.

    `find` returns the GPU; it becomes None if there is none. Setting it to None, from any thread, ends the sampling, so
    that the GPU can sleep.
    """

    def __init__(self, find: Callable[[], NvidiaGpu | None] | None, processes: ProcessTree) -> None:
        self.find = find
        self._gpu: NvidiaGpu | None = None
        self._processes = processes

    def read(self) -> list[Event] | None:
        """Samples the GPU's memory, if it has its own, and its load; None if sampling has ended."""
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
    """Lets CUDA number GPUs in the driver's order; call before torch is imported."""
    environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"


def gpu_for(device: str, visible: str | None) -> str:
    """Returns the GPU that a run on `device` uses.

    Args:
        device: Value of `device.name`: `auto`, `cuda`, `cuda:1`, `mps` or `cpu`; another computer's uses none here.
        visible: Value of CUDA_VISIBLE_DEVICES, None if unset; `cuda:1` is the second GPU in it.

    Returns:
        The GPU's number or UUID, as in CUDA_VISIBLE_DEVICES; empty if there is none.
    """
    if device in ("cpu", "mps") or "@" in device:
        return ""
    index = int(device.removeprefix("cuda:")) if device.startswith("cuda:") else 0
    if visible is None:
        return str(index)
    listed = cards(visible)
    return listed[index] if index < len(listed) else ""


def gpu_of(device: str, processes: int = 1) -> NvidiaGpu | None:
    """Finds the GPU that a run on `device` would use, or those of all its processes (0: one per GPU); None without."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if processes != 1 and device in ("auto", "cuda"):
        found = [gpu for name in cards(visible)[: processes or None] if (gpu := find_gpu(name))]
        if len(found) > 1:
            return SeveralGpus(found)
    name = gpu_for(device, visible)
    return find_gpu(name) if name else None
