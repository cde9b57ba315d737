"""The facts about this machine that decide where and how a run computes.

`gather` is the only place that asks torch and the operating system. Everything decided from the facts (see
`core.engine.devices`) is a pure function, so that other machines' recorded facts can be put through it.
"""

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import msgspec
import psutil

from core.processes import is_frozen


class CudaDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One CUDA device torch can see.

    `memory_bytes` is its total memory, `capability` NVIDIA's compute capability: (8, 0) is Ampere, (9, 0) Hopper.
    `unified` tells that it shares the computer's memory.
    """

    name: str
    memory_bytes: int
    capability: tuple[int, int]
    unified: bool = False


class Compilers(msgspec.Struct, frozen=True):
    """What torch.compile has to offer: names of back ends, and of the modes of the back end inductor."""

    backends: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What torch and the operating system say.

    `macos` is the version such as "14.5", empty elsewhere; `translated` tells that an x86 Python runs on an Apple
    chip; `cpu_bf16` that the CPU multiplies bf16 in hardware; `cores` how many cores compute best together: the fast
    ones of an Apple chip, and nowhere more than this process may use; `nvidia_driver` that
    NVIDIA's library is there, whether torch can use it or not. `optional` holds the versions of those of
    `OPTIONAL_LIBRARIES` that are installed, `compilers` the back ends and modes torch.compile lists (empty where nobody
    asked); `cpp_compiler` tells that there is a C++ compiler, `frozen` that this is the bundled app.
    """

    system: str
    machine: str
    cpu_name: str
    memory_bytes: int
    cpu_bf16: bool
    torch_cuda: bool
    nvidia_driver: bool
    cores: int = 1
    cuda: tuple[CudaDevice, ...] = ()
    mps_built: bool = False
    mps_available: bool = False
    mps_memory_bytes: int | None = None
    macos: str = ""
    translated: bool = False
    versions: dict[str, str] = {}
    optional: dict[str, str] = {}
    compilers: Compilers = Compilers()
    cpp_compiler: bool = False
    frozen: bool = False


LIBRARIES = ("torch", "torchvision", "transformers", "datasets", "accelerate")
OPTIONAL_LIBRARIES = {
    "bitsandbytes": "bitsandbytes",
    "peft": "peft",
    "torchao": "torchao",
    "deepspeed": "deepspeed",
    "flash-attn": "flash_attn",
    "flash-attn-3": "flash_attn_interface",
    "triton": "triton",
    "torch_xla": "torch_xla",
    "tvm": "tvm",
}
"""Libraries a method needs and Hone can do without: what they are installed as, and what they are imported as."""


def versions() -> dict[str, str]:
    """The versions of Python and of what trains, without importing any of it."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def gather(*, with_compilers: bool = False) -> MachineFacts:
    """Ask this machine; listing the compilers takes two seconds more."""
    import torch

    is_mac = sys.platform == "darwin"
    mps_available = torch.backends.mps.is_available()
    return MachineFacts(
        system=platform.system(),
        machine=platform.machine(),
        cpu_name=_cpu_name(),
        memory_bytes=psutil.virtual_memory().total,
        cpu_bf16=_cpu_has_bf16(),
        torch_cuda=torch.backends.cuda.is_built(),
        nvidia_driver=_has_nvidia_driver(),
        cuda=_cuda_devices(),
        mps_built=torch.backends.mps.is_built(),
        mps_available=mps_available,
        mps_memory_bytes=torch.mps.recommended_max_memory() if mps_available else None,
        macos=platform.mac_ver()[0] if is_mac else "",
        translated=is_mac and _sysctl("sysctl.proc_translated") == "1",
        cores=_cores(),
        versions=versions(),
        optional=_optional_versions(),
        compilers=_compilers() if with_compilers else Compilers(),
        cpp_compiler=_has_cpp_compiler(),
        frozen=is_frozen(),
    )


def _optional_versions() -> dict[str, str]:
    """Versions of the optional libraries that can be imported; empty where one doesn't say its version."""
    found = {}
    for name, module in OPTIONAL_LIBRARIES.items():
        if find_spec(module) is not None:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = ""
    return found


def _compilers() -> Compilers:
    import torch._dynamo
    import torch._inductor

    backends = torch._dynamo.list_backends()  # without those for debugging and experiments
    first = [name for name in ("inductor",) if name in backends]
    others = [name for name in backends if name not in first]
    return Compilers((*first, *others), tuple(torch._inductor.list_mode_options()))


def _has_cpp_compiler() -> bool:
    """Whether inductor finds what it compiles its CPU kernels with (it takes `CXX` where that is set)."""
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "c++", "g++", "clang++", "cl") if name)


def _cuda_devices() -> tuple[CudaDevice, ...]:
    import torch

    if not torch.cuda.is_available():
        return ()
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            CudaDevice(
                name=properties.name,
                memory_bytes=properties.total_memory,
                capability=(properties.major, properties.minor),
                unified=bool(properties.is_integrated),
            )
        )
    return tuple(found)


def _cores() -> int:
    fast = _sysctl("hw.perflevel0.physicalcpu") if sys.platform == "darwin" else ""
    if fast.isdecimal():
        return int(fast)
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return min(cores, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else cores


def _cpu_has_bf16() -> bool:
    """Whether oneDNN has bf16 units to use (AVX512_BF16 or AMX); private in torch 2.13, so asked with care."""
    import torch

    asks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, ask)() for ask in asks if hasattr(torch.cpu, ask))


def _has_nvidia_driver() -> bool:
    import pynvml

    try:
        pynvml.nvmlInit()
        return bool(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return False


def _cpu_name() -> str:
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.processor()
    if sys.platform == "linux":
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123 - a kernel file
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _sysctl(name: str) -> str:
    """One value of macOS's sysctl; empty where there is none."""
    try:
        done = subprocess.run(
            ["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
