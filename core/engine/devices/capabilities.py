"""What a machine is, what each of its devices can't do and why, and what "auto" comes to on it.

Sources: bitsandbytes 0.50.2 registers `optimizer_update_8bit_blockwise` for CUDA, XPU and CPU only, and for MPS the
unpacking of weights (`backends/mps/ops.py`); torch 2.13's autocast with a gradient scaler covers CUDA and MPS;
flash-attn's own tables of GPUs; torch.distributed has neither gloo nor nccl for MPS.
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

from core.base.language import _
from core.base.processes import is_frozen
from core.options.choices import FP16_NEEDS_GPU, Task
from core.options.device_support import ANY_OTHER, Instead, Settled

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


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What torch and the operating system say.

    `macos` is the version such as "14.5", empty elsewhere; `translated` tells that an x86 Python runs on an Apple
    chip; `cpu_bf16` that the CPU multiplies bf16 in hardware; `cores` how many cores compute best together: the fast
    ones of an Apple chip, and nowhere more than this process may use; `nvidia_driver` that
    NVIDIA's library is there, whether torch can use it or not. `optional` holds the versions of those of
    `OPTIONAL_LIBRARIES` that are installed; `compile_backends` and `compile_modes` (of inductor) are what torch.compile
    lists, empty where nobody asked; `cpp_compiler` tells that there is a C++ compiler, `frozen` that this is the
    bundled app.
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
    compile_backends: tuple[str, ...] = ()
    compile_modes: tuple[str, ...] = ()
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
    backends, modes = _compilers() if with_compilers else ((), ())
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
        compile_backends=backends,
        compile_modes=modes,
        # what inductor compiles its CPU kernels with (it takes `CXX` where that is set)
        cpp_compiler=any(
            map(shutil.which, filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++", "cl")))
        ),
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


def _compilers() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Back ends, inductor first and without those for debugging, and inductor's modes."""
    import torch._dynamo
    import torch._inductor

    backends = sorted(torch._dynamo.list_backends(), key=lambda name: name != "inductor")
    return tuple(backends), tuple(torch._inductor.list_mode_options())


def _cuda_devices() -> tuple[CudaDevice, ...]:
    import torch

    if not torch.cuda.is_available():
        return ()
    properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return tuple(
        CudaDevice(
            name=one.name,
            memory_bytes=one.total_memory,
            capability=(one.major, one.minor),
            unified=bool(one.is_integrated),
        )
        for one in properties
    )


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


TF32_NEEDS_CUDA = _("is a format of NVIDIA GPUs from Ampere on")
NOTHING_TO_PIN = _("serves NVIDIA GPUs, which fetch batches by themselves")
ONE_PROCESS = _("Hone trains in one process. A larger effective batch comes from gradient accumulation.")
ONE_PROCESS_ON_MPS = _(
    "An Apple GPU serves one process: PyTorch has neither gloo nor nccl for MPS. A larger effective batch comes from "
    "gradient accumulation."
)
NO_8BIT_ON_MPS = _("8-bit optimizers have no MPS kernels in bitsandbytes 0.50")
ADEMAMIX_ON_MPS = _(
    "AdEMAMix has no MPS kernel in bitsandbytes 0.50, only a substitute made by torch.compile, which for Apple GPUs is "
    "an early prototype"
)
QLORA_ON_MPS = _(
    "QLoRA was never tried on an Apple GPU: bitsandbytes 0.50 unpacks weights there in plain PyTorch or, from macOS 26 "
    "on, by kernels it fetches from the Hub while it trains"
)
PAGING_NEEDS_CUDA = _(
    "moves state between the GPU's memory and the computer's, and bitsandbytes does that with CUDA only"
)
ONLY_MPS = _("It counts on Apple GPUs only.")
BITSANDBYTES_OPTIMIZERS = ("adamw-8bit", "paged-adamw-8bit", "lion-8bit", "ademamix")
NEEDS_AMPERE = _("needs an NVIDIA GPU from Ampere on")
COMPILES_FROM_SOURCE = (
    "needs a compiler and headers that the app doesn't bring along; Hone from source has it"
)
DEEPSPEED_ON_MPS = _("DeepSpeed's processes talk through nccl or gloo, and PyTorch has neither for MPS")
OFFLOAD_NEEDS_CUDA = _("needs an NVIDIA GPU: it moves the state from the GPU's memory to the computer's")
OFFLOAD_NEEDS_BF16 = _(
    "needs an NVIDIA GPU from Ampere on, which trains in bf16: fp16's loss scaling doesn't reach gradients that are "
    "already in main memory"
)

GROUPING = Settled(
    "on",
    _("batches of texts of similar length need less padding"),
    (Instead("data.padding", "fixed", "off", _("every row has the same length anyway")),),
)
NO_WORKERS_FOR_TEXT = tuple(
    Instead(
        "task", task.value, "0", "texts are tokenized beforehand; making a batch takes a fraction of a ms"
    )
    for task in Task
    if task.reads_text
)

VOLTA = (7, 0)
AMPERE = (8, 0)
HOPPER = (9, 0)

Refusals = dict[str, dict[str, str]]


def emulates_bf16(facts: MachineFacts) -> bool:
    """M1 and M2 compute bf16 through fp32; nothing in torch tells, so the chip's name has to."""
    return any(chip in facts.cpu_name for chip in (_("Apple M1"), _("Apple M2")))


def refusals(facts: MachineFacts, kind: str, gpu: CudaDevice | None = None) -> Refusals:
    """Why choices can't be taken on a device, by option and value; options of which all can are left out.

    Args:
        facts: The machine.
        kind: `cuda`, `mps` or `cpu`.
        gpu: The device, where it is a CUDA one.
    """
    found: Refusals = {}

    def refuse(path: str, reason: str, *values: str) -> None:
        """A later reason replaces an earlier one; an empty one is none."""
        if reason:
            found.setdefault(path, {}).update(dict.fromkeys(values, reason))

    def missing(package: str) -> str:
        if package in facts.optional:
            return ""
        if package == "bitsandbytes" and facts.frozen:
            return _(
                "needs bitsandbytes, which comes with PyTorch with CUDA (Settings), and with Hone from source"
            )
        return _("needs the package {package}, which isn't installed").format(package=package)

    before_ampere = gpu is not None and gpu.capability < AMPERE
    if kind == "cpu":
        refuse("device.precision", FP16_NEEDS_GPU, "fp16")
    if kind != "cuda":
        refuse("device.precision", TF32_NEEDS_CUDA, "tf32")
        refuse("data.pin_memory", NOTHING_TO_PIN, "on")
    elif before_ampere:
        refuse("device.precision", NEEDS_AMPERE, "bf16", "tf32")
    refuse("device.processes", ONE_PROCESS_ON_MPS if kind == "mps" else ONE_PROCESS, ANY_OTHER)

    if facts.frozen:
        refuse("device.compile", COMPILES_FROM_SOURCE, "true")
    inductor = ""
    if kind == "cpu" and not facts.cpp_compiler:
        inductor = _("needs a C++ compiler: install one (g++, clang or Visual Studio's)")
    if kind == "cuda":
        inductor = missing("triton")
    if gpu is not None and gpu.capability < VOLTA:
        inductor = _("needs an NVIDIA GPU from Volta on: Triton compiles for no older one")
    refuse("device.compile_backend", inductor, "inductor")
    refuse("device.compile_backend", "" if kind == "cuda" else _("needs CUDA"), "cudagraphs")
    refuse("device.compile_backend", missing("torch_xla"), "openxla")
    refuse("device.compile_backend", missing("tvm"), "tvm")

    if kind == "mps":
        refuse("training.optimizer", NO_8BIT_ON_MPS, *BITSANDBYTES_OPTIMIZERS)
        refuse("training.optimizer", ADEMAMIX_ON_MPS, "ademamix")
        refuse("model.method", QLORA_ON_MPS, "qlora")
        torchao = _("torchao compiles its optimizers, and torch.compile for Apple GPUs is an early prototype")
    else:
        refuse("training.optimizer", missing("bitsandbytes"), *BITSANDBYTES_OPTIMIZERS)
        refuse("model.method", missing("bitsandbytes"), "qlora")
        torchao = missing("torchao") or inductor
        if facts.frozen:
            torchao = "torchao compiles its optimizers, which the app can't; Hone from source can"
    if kind == "cpu":  # on a CPU bitsandbytes warns and runs the optimizer unpaged
        refuse("training.optimizer", PAGING_NEEDS_CUDA, "paged-adamw-8bit")
    refuse("training.optimizer", torchao, "adamw-8bit-torchao")

    is_hopper = gpu is not None and gpu.capability == HOPPER
    flash_2 = missing("flash-attn") if gpu is not None and not before_ampere else NEEDS_AMPERE
    refuse("model.attention", flash_2, "flash_attention_2")
    flash_3 = missing("flash-attn-3") if is_hopper else _("needs an NVIDIA Hopper GPU")
    refuse("model.attention", flash_3, "flash_attention_3")

    deepspeed = DEEPSPEED_ON_MPS if kind == "mps" else missing("deepspeed")
    refuse("memory.deepspeed", deepspeed, "zero-2", "zero-3")
    offload = OFFLOAD_NEEDS_BF16 if before_ampere else missing("torchao")
    refuse("memory.offload_optimizer", offload if kind == "cuda" else OFFLOAD_NEEDS_CUDA, "true")
    return found


def cautions(facts: MachineFacts, kind: str) -> Refusals:
    """What to know before choices that work: what is slow, young or dangerous here, by option and value."""
    if kind == "mps":
        found: Refusals = {
            "device.compile": {
                "true": "torch.compile for Apple GPUs is an early prototype; it may be slower."
            },
            "device.mps_memory_limit": {
                "0.0": _("Without a ceiling, a model that is too large can bring the whole Mac to a halt.")
            },
        }
        if emulates_bf16(facts):
            found["device.precision"] = {
                "bf16": _("bf16 is emulated on M1 and M2: it works, slower than fp32.")
            }
        return found
    found = {path: {ANY_OTHER: ONLY_MPS} for path in ("device.mps_memory_limit", "device.mps_fallback")}
    if kind == "cpu":
        useless = _("On a CPU there is nothing to offload from: it works, and only costs time.")
        found["memory.deepspeed"] = {"zero-2": useless, "zero-3": useless}
        if not facts.cpu_bf16:
            found["device.precision"] = {"bf16": _("This CPU has no bf16 units: it works, slower than fp32.")}
    return found


def automatic(facts: MachineFacts, kind: str, gpu: CudaDevice | None = None) -> dict[str, Settled]:
    """What each automatic option comes to on a device, by its path; arguments as in `refusals`."""
    pinning = Settled("off", _("only NVIDIA GPUs fetch from pinned memory"))
    workers = Settled("0", "the cores are busy computing; workers would take them away")
    if kind == "cuda":
        precision = Settled("fp16", _("this GPU computes fp16 in hardware, but not bf16"))
        if gpu is not None and gpu.capability >= AMPERE:
            precision = Settled("bf16", _("this GPU computes bf16 in hardware"))
        elif gpu is not None and gpu.capability < VOLTA:
            precision = Settled("fp32", _("this GPU is older than Volta: it has no tensor cores for fp16"))
        pinning = Settled("on", _("the GPU fetches batches while it computes"))
        if facts.cores > 2:
            count = str(min(4, facts.cores - 1))
            workers = Settled(count, _("images are prepared while the GPU computes"), NO_WORKERS_FOR_TEXT)
    elif kind == "mps":
        workers = Settled("0", _("the memory is shared, and on a Mac each worker would load PyTorch anew"))
        precision = Settled("bf16", _("{cpu_name} computes bf16 in hardware").format(cpu_name=facts.cpu_name))
        if emulates_bf16(facts):
            precision = Settled("fp32", _("{cpu_name} has no bf16 hardware").format(cpu_name=facts.cpu_name))
    elif facts.cpu_bf16:
        precision = Settled("bf16", _("this CPU computes bf16 in hardware"))
    else:
        precision = Settled("fp32", _("this CPU has no bf16 hardware"))
    return {
        "device.precision": precision,
        "device.threads": Settled(str(facts.cores), _("one for each core")),
        "data.group_by_length": GROUPING,
        "data.pin_memory": pinning,
        "data.workers": workers,
    }
