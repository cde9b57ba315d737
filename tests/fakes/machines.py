"""Facts and figures of many machines, from the makers' and PyTorch's documentation; an NVIDIA GPU and a clock."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec

from core.engine.devices.capabilities import CudaDevice, MachineFacts
from core.monitor.sampler import MachinePicture
from core.runs.events import BatterySampled, DeviceSampled, MemorySampled, Pressure, Source

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
    optional={**PC.optional, "mlx": "0.32.4", "mlx-lm": "0.32.2"},
    compile_backends=BACKENDS,
    compile_modes=MODES,
    cpp_compiler=True,
)
M2_8GB = variant(M3_MAX, cpu_name="Apple M2", memory_bytes=8 * GB, mps_memory_bytes=5 * GB, cores=8)
M1 = variant(
    M3_MAX, cpu_name="Apple M1", memory_bytes=16 * GB, mps_memory_bytes=11 * GB, cores=4, macos="14.0"
)
M1_ON_13 = variant(M1, macos="13.6", mps_available=False, optional={"peft": "0.21.2"})
M4 = variant(
    M3_MAX, cpu_name="Apple M4", memory_bytes=24 * GB, mps_memory_bytes=16 * GB, cores=4, macos="26.1"
)
M4_WITHOUT_BITSANDBYTES = variant(
    M4, optional={name: version for name, version in M4.optional.items() if name != "bitsandbytes"}
)
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
    "M1": M1,
    "M4": M4,
    "M4 without bitsandbytes": M4_WITHOUT_BITSANDBYTES,
    "M1 on macOS 13.6": M1_ON_13,
    "translated": TRANSLATED,
    "Intel Mac": INTEL_MAC,
    "torch without MPS": NO_MPS_TORCH,
    "bundled": BUNDLED,
    "bare": BARE,
}


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


SM_CLOCK = 1


class NVMLError(Exception):
    pass


class FakeNvml:
    """The module `pynvml` with `count` GPUs of `total` bytes of memory.

    `broken` are the names of functions that fail, `calls` those that were called, `reasons` the bits of what slows the
    GPU, and `running` bytes by process; None: the driver doesn't give them.
    """

    NVMLError = NVMLError
    nvmlMemory_v2 = 33554472  # noqa: N815 - the library's name

    def __init__(self, broken: set[str] | None = None, total: int = 8 << 30, count: int = 1) -> None:
        self.broken = broken or set()
        self.reasons = 0
        self.running: dict[int, int | None] = {}
        self.calls: list[str] = []
        memory = SimpleNamespace(used=3 << 30, total=total, reserved=1 << 30)
        self._count = count
        self._answers: dict[str, Callable[..., object]] = {
            "nvmlInit": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: "580.65.06",
            "nvmlDeviceGetHandleByIndex": self._handle,
            "nvmlDeviceGetHandleByUUID": lambda uuid: self._handle(int(uuid.split("-")[1])),  # `GPU-1-uuid`
            "nvmlDeviceGetName": lambda gpu: f"Fake GPU {gpu}",
            "nvmlDeviceGetCudaComputeCapability": lambda gpu: [8, 6],
            "nvmlDeviceGetMemoryInfo": lambda gpu, version: {self.nvmlMemory_v2: memory}[version],
            "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [
                SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in self.running.items()
            ],
            "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=40),
            "nvmlDeviceGetPowerUsage": lambda gpu: 123_400,
            "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: 200_000,
            "nvmlDeviceGetTemperatureV": lambda gpu, sensor: 61,
            "nvmlDeviceGetTemperature": lambda gpu, sensor: 60,
            "nvmlDeviceGetClockInfo": lambda gpu, clock: {SM_CLOCK: 1410}[clock],
            "nvmlDeviceGetMaxClockInfo": lambda gpu, clock: {SM_CLOCK: 1980}[clock],
            "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: self.reasons,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: self.reasons,
        }

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name not in self._answers:
            raise AttributeError(name)

        def answer(*arguments: object, **options: object) -> object:
            self.calls.append(name)
            if name in self.broken:
                raise NVMLError(name)
            return self._answers[name](*arguments, **options)

        return answer

    def _handle(self, index: int) -> int:
        if index >= self._count:
            raise NVMLError("no such GPU")
        return index


class FakeClock:
    """Takes the place of the module `time`. Set `now`, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def thread_time(self) -> float:
        """All time that passes is spent computing."""
        return self.now

    def monotonic(self) -> float:
        return self.now
