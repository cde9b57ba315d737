"""Machines nobody of us has at hand: their facts, written down from the makers' and PyTorch's documentation."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec

from core.engine.devices.capabilities import CudaDevice, MachineFacts
from core.monitor.sampler import MachinePicture
from core.runs.events import BatterySampled, DeviceSampled, MemorySampled, Pressure, Source

# --- Machines nobody of us has at hand: their facts


GB = 1 << 30
BACKENDS = ("inductor", "cudagraphs", "openxla", "tvm")
MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def variant(facts: MachineFacts, **changes: object) -> MachineFacts:
    return msgspec.structs.replace(facts, **changes)


PC = MachineFacts(
    system="Linux",
    machine="x86_64",
    cpu_name="AMD Ryzen 7",
    memory_bytes=32 * GB,
    cores=8,
    cpu_bf16=False,
    torch_cuda=False,
    nvidia_driver=False,
    optional={"bitsandbytes": "0.50.2", "peft": "0.21.2"},
    compile_backends=BACKENDS,
    compile_modes=MODES,
    cpp_compiler=True,
)
RTX_3060 = CudaDevice(name="NVIDIA GeForce RTX 3060 Laptop GPU", memory_bytes=6 * GB, capability=(8, 6))
GTX_1660 = CudaDevice(name="NVIDIA GeForce GTX 1660", memory_bytes=6 * GB, capability=(7, 5))
GTX_1080 = CudaDevice(name="NVIDIA GeForce GTX 1080", memory_bytes=8 * GB, capability=(6, 1))
H100 = CudaDevice(name="NVIDIA H100", memory_bytes=80 * GB, capability=(9, 0))
GB10 = CudaDevice(name="NVIDIA GB10", memory_bytes=120 * GB, capability=(12, 1), unified=True)
LAPTOP = variant(
    PC, torch_cuda=True, nvidia_driver=True, cuda=(RTX_3060,), optional={**PC.optional, "triton": "3.7.0"}
)
OLD_CARD = variant(LAPTOP, cuda=(GTX_1660,))
OLDER_CARD = variant(LAPTOP, cuda=(GTX_1080,))
TWO_GPUS = variant(LAPTOP, cuda=(RTX_3060, GTX_1660))
SPARK = variant(LAPTOP, machine="aarch64", cpu_name="NVIDIA Grace", memory_bytes=120 * GB, cuda=(GB10,))
SERVER = variant(
    LAPTOP,
    cuda=(H100,),
    cpu_bf16=True,
    optional={
        **LAPTOP.optional,
        "torchao": "0.18.0",
        "deepspeed": "0.19.8",
        "flash-attn": "2.8.3",
        "flash-attn-3": "3.0.0",
        "torch_xla": "2.9.0",
        "tvm": "0.21.0",
    },
)

M3_MAX = MachineFacts(
    system="Darwin",
    machine="arm64",
    cpu_name="Apple M3 Max",
    memory_bytes=36 * GB,
    cores=14,
    cpu_bf16=False,
    torch_cuda=False,
    nvidia_driver=False,
    mps_built=True,
    mps_available=True,
    mps_memory_bytes=27 * GB,
    macos="14.5",
    optional={"peft": "0.21.2"},
    compile_backends=BACKENDS,
    compile_modes=MODES,
    cpp_compiler=True,
)
M2_8GB = variant(M3_MAX, cpu_name="Apple M2", memory_bytes=8 * GB, mps_memory_bytes=5 * GB, cores=8)
M1_ON_13 = variant(M3_MAX, cpu_name="Apple M1", macos="13.6", mps_available=False, cores=8)
TRANSLATED = variant(M3_MAX, machine="x86_64", translated=True, mps_built=False, mps_available=False)
INTEL_MAC = variant(M3_MAX, machine="x86_64", cpu_name="Intel Core i7", mps_available=False)
NO_MPS_TORCH = variant(M3_MAX, mps_built=False, mps_available=False)
BUNDLED = variant(PC, frozen=True)
BARE = variant(PC, optional={}, cpp_compiler=False)

EVERY_MACHINE = {
    "PC": PC,
    "RTX 3060 laptop": LAPTOP,
    "old card": OLD_CARD,
    "older card": OLDER_CARD,
    "two GPUs": TWO_GPUS,
    "GB10": SPARK,
    "server": SERVER,
    "M3 Max": M3_MAX,
    "M2 8 GB": M2_8GB,
    "M1 on macOS 13.6": M1_ON_13,
    "translated": TRANSLATED,
    "Intel Mac": INTEL_MAC,
    "torch without MPS": NO_MPS_TORCH,
    "bundled": BUNDLED,
    "bare": BARE,
}


# --- What machines that nobody of us has at hand would show at one moment, at the time 0


def memory(used: float, total: float, **more: Any) -> MemorySampled:
    return MemorySampled(
        time=0.0, source=Source.SYSTEM, bytes=int(used * GB), ceiling=int(total * GB), **more
    )


def processor(busy: float) -> DeviceSampled:
    return DeviceSampled(time=0.0, source=Source.SYSTEM, name="CPU", busy=busy)


PC_PICTURE = MachinePicture(
    memory=memory(11.2, 32.0, swap=0, pressure=Pressure.NORMAL),
    processor=processor(0.38),
)
CARD = MachinePicture(
    memory=memory(14.0, 64.0, swap=0, pressure=Pressure.NORMAL),
    card=MemorySampled(time=0.0, source=Source.NVML, bytes=int(18.3 * GB), ceiling=int(23.6 * GB)),
    gpu=DeviceSampled(
        time=0.0,
        source=Source.NVML,
        name="NVIDIA GeForce RTX 4090",
        busy=0.97,
        power=320.0,
        power_limit=450.0,
        temperature=71.0,
        clock=2520.0,
        clock_limit=3105.0,
        throttled=("power cap",),
    ),
    processor=processor(0.12),
)
MAC = MachinePicture(
    memory=memory(33.1, 36.0, swap=int(3.4 * GB), compressed=5 * GB, pressure=Pressure.WARN),
    gpu=DeviceSampled(time=0.0, source=Source.APPLE, name="Apple M3 Max", busy=0.91, power=28.0, thermal=2),
    processor=processor(0.2),
    battery=BatterySampled(time=0.0, share=0.43, is_plugged=False),
)


def changed(picture: MachinePicture, **parts: Any) -> MachinePicture:
    """A picture with other figures: a dict changes those of a part, anything else takes its place."""
    made: dict[str, Any] = {}
    for name, part in parts.items():
        before = getattr(picture, name)
        made[name] = msgspec.structs.replace(before, **part) if isinstance(part, dict) else part
    return replace(picture, **made)


# --- A stand-in for the module `pynvml` with one GPU


class NVMLError(Exception):
    pass


class FakeNvml:
    """Set `broken` to the names of functions that fail, `total` to the GPU's memory, `reasons` to what slows it."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 33554472  # noqa: N815 - the library's name

    def __init__(self, broken: set[str] | None = None, total: int = 8 << 30, count: int = 1) -> None:
        self.broken = broken or set()
        self.total = total
        self.count = count
        self.reasons = 0
        self.running: dict[int, int | None] = {}
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.broken:
            raise NVMLError(name)

    def nvmlInit(self) -> None:  # noqa: N802
        self._call("nvmlInit")

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        self._call("nvmlSystemGetDriverVersion")
        return "580.65.06"

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> list[int]:  # noqa: N802
        self._call("nvmlDeviceGetCudaComputeCapability")
        return [8, 6]

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetHandleByIndex")
        if index >= self.count:
            raise NVMLError("no such GPU")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        """The UUID of GPU 1 is `GPU-1-uuid`."""
        self._call("nvmlDeviceGetHandleByUUID")
        return self.nvmlDeviceGetHandleByIndex(int(uuid.split("-")[1]))

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        self._call("nvmlDeviceGetName")
        return f"Fake GPU {handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int) -> Any:  # noqa: N802
        self._call("nvmlDeviceGetMemoryInfo")
        assert version == self.nvmlMemory_v2
        return SimpleNamespace(used=3 << 30, total=self.total, reserved=1 << 30)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        """As `running` tells: bytes by process id; None where the driver keeps them to itself."""
        self._call("nvmlDeviceGetComputeRunningProcesses")
        return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in self.running.items()]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        self._call("nvmlDeviceGetUtilizationRates")
        return SimpleNamespace(gpu=40)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetPowerUsage")
        return 123_400

    def nvmlDeviceGetTemperatureV(self, handle: int, sensor: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetTemperatureV")
        return 61

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetTemperature")
        return 60

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetEnforcedPowerLimit")
        return 200_000

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetClockInfo")
        assert clock == 1, "NVML_CLOCK_SM"
        return 1410

    def nvmlDeviceGetMaxClockInfo(self, handle: int, clock: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetMaxClockInfo")
        assert clock == 1, "NVML_CLOCK_SM"
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetCurrentClocksEventReasons")
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        self._call("nvmlDeviceGetCurrentClocksThrottleReasons")
        return self.reasons


# --- A clock that stands still until it is told the time


class FakeClock:
    """Takes the place of the module `time`. Set `now`, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def thread_time(self) -> float:
        """All time that passes is spent computing."""
        return self.now

    def monotonic(self) -> float:
        return self.now
