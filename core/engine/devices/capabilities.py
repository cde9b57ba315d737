"""What each device of a machine can't do of Hone's choices, and why: pure functions over `MachineFacts`.

Sources: bitsandbytes 0.50.2 registers `optimizer_update_8bit_blockwise` for CUDA, XPU and CPU only, and for MPS the
unpacking of weights (`backends/mps/ops.py`); torch 2.13's autocast with a gradient scaler covers CUDA and MPS;
flash-attn's own tables of GPUs; torch.distributed has neither gloo nor nccl for MPS.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import msgspec
import psutil

from core.base.processes import is_frozen
from core.options.choices import FP16_NEEDS_GPU
from core.options.device_support import ANY_OTHER

# --- The facts about this machine that decide where and how a run computes


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


# --- What each device of a machine can't do of Hone's choices, and why


TF32_NEEDS_CUDA = "is a format of NVIDIA GPUs from Ampere on"
NOTHING_TO_PIN = "serves NVIDIA GPUs, which fetch batches by themselves"
ONE_PROCESS = "Hone trains in one process. A larger effective batch comes from gradient accumulation."
ONE_PROCESS_ON_MPS = (
    "An Apple GPU serves one process: PyTorch has neither gloo nor nccl for MPS. A larger effective batch comes from "
    "gradient accumulation."
)
NO_8BIT_ON_MPS = "8-bit optimizers have no MPS kernels in bitsandbytes 0.50"
ADEMAMIX_ON_MPS = (
    "AdEMAMix has no MPS kernel in bitsandbytes 0.50, only a substitute made by torch.compile, which for Apple GPUs is "
    "an early prototype"
)
QLORA_ON_MPS = (
    "QLoRA was never tried on an Apple GPU: bitsandbytes 0.50 unpacks weights there in plain PyTorch or, from macOS 26 "
    "on, by kernels it fetches from the Hub while it trains"
)
PAGING_NEEDS_CUDA = (
    "moves state between the GPU's memory and the computer's, and bitsandbytes does that with CUDA only"
)
ONLY_MPS = "It counts on Apple GPUs only."
BITSANDBYTES_OPTIMIZERS = ("adamw-8bit", "paged-adamw-8bit", "lion-8bit", "ademamix")
OFFLOAD_NEEDS_BF16 = (
    "needs an NVIDIA GPU from Ampere on, which trains in bf16: fp16's loss scaling doesn't reach gradients that are "
    "already in main memory"
)

VOLTA = (7, 0)
AMPERE = (8, 0)
HOPPER = (9, 0)

Refusals = dict[str, dict[str, str]]


def emulates_bf16(facts: MachineFacts) -> bool:
    """M1 and M2 compute bf16 through fp32; nothing in torch tells, so the chip's name has to."""
    return any(chip in facts.cpu_name for chip in ("Apple M1", "Apple M2"))


def refusals(facts: MachineFacts, kind: str, gpu: CudaDevice | None = None) -> Refusals:
    """Why choices can't be taken on a device, by option and value; options of which all can are left out.

    Args:
        facts: The machine.
        kind: `cuda`, `mps` or `cpu`.
        gpu: The device, where it is a CUDA one.
    """
    tables: Refusals = {
        "device.precision": _precision(kind, gpu),
        "device.processes": {ANY_OTHER: ONE_PROCESS_ON_MPS if kind == "mps" else ONE_PROCESS},
        "device.compile": _compile(facts),
        "device.compile_backend": _backends(facts, kind, gpu),
        "training.optimizer": _optimizers(facts, kind, gpu),
        "model.method": _methods(facts, kind),
        "model.attention": _attention(facts, gpu),
        "data.pin_memory": {} if kind == "cuda" else {"on": NOTHING_TO_PIN},
        "memory.deepspeed": _deepspeed(facts, kind),
        "memory.offload_optimizer": _offload_optimizer(facts, kind, gpu),
    }
    return {path: table for path, table in tables.items() if table}


def cautions(facts: MachineFacts, kind: str) -> Refusals:
    """What to know before choices that work: what is slow, young or dangerous here, by option and value."""
    tables: Refusals = {}
    if kind == "mps":
        tables["device.compile"] = {
            "true": "torch.compile for Apple GPUs is an early prototype; it may be slower."
        }
        tables["device.mps_memory_limit"] = {
            "0.0": "Without a ceiling, a model that is too large can bring the whole Mac to a halt."
        }
        if emulates_bf16(facts):
            tables["device.precision"] = {
                "bf16": "bf16 is emulated on M1 and M2: it works, slower than fp32."
            }
    else:
        tables["device.mps_memory_limit"] = tables["device.mps_fallback"] = {ANY_OTHER: ONLY_MPS}
    if kind == "cpu" and not facts.cpu_bf16:
        tables["device.precision"] = {"bf16": "This CPU has no bf16 units: it works, slower than fp32."}
    if kind == "cpu":
        tables["memory.deepspeed"] = dict.fromkeys(
            ("zero-2", "zero-3"), "On a CPU there is nothing to offload from: it works, and only costs time."
        )
    return tables


def _precision(kind: str, gpu: CudaDevice | None) -> dict[str, str]:
    if kind == "cpu":
        return {"fp16": FP16_NEEDS_GPU, "tf32": TF32_NEEDS_CUDA}
    if kind == "mps":
        return {"tf32": TF32_NEEDS_CUDA}
    if gpu is not None and gpu.capability < AMPERE:
        return {"bf16": "needs an NVIDIA GPU from Ampere on", "tf32": "needs an NVIDIA GPU from Ampere on"}
    return {}


def _compile(facts: MachineFacts) -> dict[str, str]:
    if facts.frozen:
        return {
            "true": "needs a compiler and headers that the app doesn't bring along; Hone from source has it"
        }
    return {}


def _backends(facts: MachineFacts, kind: str, gpu: CudaDevice | None) -> dict[str, str]:
    lacking: dict[str, str] = {}
    if kind == "cpu" and not facts.cpp_compiler:
        lacking["inductor"] = "needs a C++ compiler: install one (g++, clang or Visual Studio's)"
    if kind == "cuda" and "triton" not in facts.optional:
        lacking["inductor"] = _not_installed("triton")
    if gpu is not None and gpu.capability < VOLTA:
        lacking["inductor"] = "needs an NVIDIA GPU from Volta on: Triton compiles for no older one"
    if kind != "cuda":
        lacking["cudagraphs"] = "needs CUDA"
    return lacking | {
        name: _not_installed(package)
        for name, package in (("openxla", "torch_xla"), ("tvm", "tvm"))
        if package not in facts.optional
    }


def _optimizers(facts: MachineFacts, kind: str, gpu: CudaDevice | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if kind == "mps":
        found = dict.fromkeys(BITSANDBYTES_OPTIMIZERS, NO_8BIT_ON_MPS) | {"ademamix": ADEMAMIX_ON_MPS}
    elif "bitsandbytes" not in facts.optional:
        found = dict.fromkeys(BITSANDBYTES_OPTIMIZERS, _no_bitsandbytes(facts))
    if kind == "cpu":  # on a CPU bitsandbytes warns and runs the optimizer unpaged
        found["paged-adamw-8bit"] = PAGING_NEEDS_CUDA
    torchao = _torchao(facts, kind, gpu)
    return found | ({"adamw-8bit-torchao": torchao} if torchao else {})


def _torchao(facts: MachineFacts, kind: str, gpu: CudaDevice | None) -> str:
    if kind == "mps":
        return "torchao compiles its optimizers, and torch.compile for Apple GPUs is an early prototype"
    if facts.frozen:
        return "torchao compiles its optimizers, which the app can't; Hone from source can"
    if "torchao" not in facts.optional:
        return _not_installed("torchao")
    return _backends(facts, kind, gpu).get("inductor", "")


def _methods(facts: MachineFacts, kind: str) -> dict[str, str]:
    if kind == "mps":
        return {"qlora": QLORA_ON_MPS}
    return {} if "bitsandbytes" in facts.optional else {"qlora": _no_bitsandbytes(facts)}


def _attention(facts: MachineFacts, gpu: CudaDevice | None) -> dict[str, str]:
    asked: tuple[tuple[str, str, str, Callable[[CudaDevice], bool]], ...] = (
        (
            "flash_attention_2",
            "flash-attn",
            "needs an NVIDIA GPU from Ampere on",
            lambda at: at.capability >= AMPERE,
        ),
        (
            "flash_attention_3",
            "flash-attn-3",
            "needs an NVIDIA Hopper GPU",
            lambda at: at.capability == HOPPER,
        ),
    )
    found = {}
    for value, package, needed, suits in asked:
        if gpu is None or not suits(gpu):
            found[value] = needed
        elif package not in facts.optional:
            found[value] = _not_installed(package)
    return found


def _deepspeed(facts: MachineFacts, kind: str) -> dict[str, str]:
    reason = ""
    if kind == "mps":
        reason = "DeepSpeed's processes talk through nccl or gloo, and PyTorch has neither for MPS"
    elif "deepspeed" not in facts.optional:
        reason = _not_installed("deepspeed")
    return dict.fromkeys(("zero-2", "zero-3"), reason) if reason else {}


def _offload_optimizer(facts: MachineFacts, kind: str, gpu: CudaDevice | None) -> dict[str, str]:
    if kind != "cuda":
        return {"true": "needs an NVIDIA GPU: it moves the state from the GPU's memory to the computer's"}
    if gpu is not None and gpu.capability < AMPERE:
        return {"true": OFFLOAD_NEEDS_BF16}
    return {} if "torchao" in facts.optional else {"true": _not_installed("torchao")}


def _no_bitsandbytes(facts: MachineFacts) -> str:
    if facts.frozen:
        return "needs bitsandbytes, which comes with PyTorch with CUDA (Settings), and with Hone from source"
    return _not_installed("bitsandbytes")


def _not_installed(package: str) -> str:
    return f"needs the package {package}, which isn't installed"
