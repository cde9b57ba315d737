"""Facts about this computer, which choices each of its devices refuses and why, and how "auto" is resolved.

Sources: bitsandbytes 0.50.2 registers `optimizer_update_8bit_blockwise` for CUDA, XPU and CPU only; on MPS it packs
and unpacks weights with torch's operators (`backends/mps/ops.py`, its README: macOS 14 or later); torch 2.13's autocast
with a gradient scaler covers CUDA and MPS; flash-attn's own tables of GPUs; torch.distributed has neither gloo nor nccl
for MPS.
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
from core.engine.devices.stored_checks import software, stored_checks
from core.monitor.nvidia import CARDS, find_gpu
from core.options.backend_rules import MLX_ON_CPU, ONLY_MLX
from core.options.choices import FP16_NEEDS_GPU, Backend, Task
from core.options.device_support import ANY_OTHER, MORE_THAN, Instead, Settled


class CudaDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One CUDA device torch can see.

    `capability` is NVIDIA's compute capability: (8, 0) is Ampere, (9, 0) Hopper. `unified`: it shares the computer's
    memory.
    """

    name: str
    memory_bytes: int
    capability: tuple[int, int]
    unified: bool = False


class SystemFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known without torch.

    Attributes:
        macos: The version such as "14.5"; empty elsewhere.
        optional: Versions of the installed ones of `OPTIONAL_LIBRARIES`.
        mlx_on_cpu: MLX may compute on the CPU, for tests (`HONE_MLX_CPU=1`).
    """

    system: str
    machine: str
    macos: str = ""
    optional: dict[str, str] = {}
    mlx_on_cpu: bool = False
    frozen: bool = False


class MachineFacts(SystemFacts, frozen=True, kw_only=True):
    """What torch and the operating system report.

    Attributes:
        nvidia_driver: NVIDIA's library is installed, whether torch can use it or not.
        cores: Threads that compute best together: the fast cores of an Apple chip, within this process's limit.
        bf16_speedup: The Mac GPU's, as in `StoredCheck`; None if not measured yet.
        translated: An x86 Python runs on an Apple chip.
        cards: NVIDIA GPUs of the computer for a run's processes, where this one sees a single one; 0: those of `cuda`.
        compile_backends: As torch.compile lists them, and `compile_modes` inductor's; empty if not requested.
    """

    cpu_name: str
    memory_bytes: int
    cpu_bf16: bool
    torch_cuda: bool
    nvidia_driver: bool
    cores: int = 1
    cuda: tuple[CudaDevice, ...] = ()
    cards: int = 0
    mps_built: bool = False
    mps_available: bool = False
    mps_memory_bytes: int | None = None
    bf16_speedup: float | None = None
    translated: bool = False
    versions: dict[str, str] = {}
    compile_backends: tuple[str, ...] = ()
    compile_modes: tuple[str, ...] = ()
    cpp_compiler: bool = False


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
    "mlx": "mlx",
    "mlx-lm": "mlx_lm",
}
"""Libraries that only some methods need: names of packages and of modules."""


def versions() -> dict[str, str]:
    """Returns the versions of Python, the training libraries and MLX if it is installed, without importing them."""
    optional = _optional_versions()
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        **{name: optional[name] for name in ("mlx", "mlx-lm") if name in optional},
    }


def system_facts() -> SystemFacts:
    return SystemFacts(
        system=platform.system(),
        machine=platform.machine(),
        macos=platform.mac_ver()[0] if sys.platform == "darwin" else "",
        optional=_optional_versions(),
        mlx_on_cpu=os.environ.get(MLX_ON_CPU) == "1",
        frozen=is_frozen(),
    )


def gather(*, with_compilers: bool = False) -> MachineFacts:
    """Collects the facts; listing the compilers takes two seconds more."""
    import torch

    is_mac = sys.platform == "darwin"
    backends, modes = _compilers() if with_compilers else ((), ())
    mps_available = torch.backends.mps.is_available()
    check = stored_checks().get(software()) if mps_available else None
    return MachineFacts(
        **msgspec.structs.asdict(system_facts()),
        cpu_name=_cpu_name(),
        memory_bytes=psutil.virtual_memory().total,
        cpu_bf16=_cpu_has_bf16(),
        torch_cuda=torch.backends.cuda.is_built(),
        nvidia_driver=find_gpu() is not None,
        cuda=_cuda_devices(),
        cards=int(os.environ.get(CARDS, "0")),
        mps_built=torch.backends.mps.is_built(),
        mps_available=mps_available,
        mps_memory_bytes=torch.mps.recommended_max_memory() if mps_available else None,
        bf16_speedup=check.bf16_speedup if check else None,
        translated=is_mac and _sysctl("sysctl.proc_translated") == "1",
        cores=_cores(),
        versions=versions(),
        compile_backends=backends,
        compile_modes=modes,
        # inductor compiles its CPU kernels with `CXX` or one of these
        cpp_compiler=any(
            map(shutil.which, filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++", "cl")))
        ),
    )


def _optional_versions() -> dict[str, str]:
    """Returns the versions of the optional libraries that can be imported; empty if unknown."""
    found = {}
    for name, module in OPTIONAL_LIBRARIES.items():
        if find_spec(module) is not None:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = ""
    return found


def _compilers() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the backends, inductor first and without those for debugging, and inductor's modes."""
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
            name=device.name,
            memory_bytes=device.total_memory,
            capability=(device.major, device.minor),
            unified=bool(device.is_integrated),
        )
        for device in properties
    )


def _cores() -> int:
    fast = _sysctl("hw.perflevel0.physicalcpu") if sys.platform == "darwin" else ""
    if fast.isdecimal():
        return int(fast)
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    usable = min(cores, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else cores
    return max(1, usable // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))  # each process computes on a share


def _cpu_has_bf16() -> bool:
    """Returns whether oneDNN has bf16 units to use (AVX512_BF16 or AMX); the functions are private in torch 2.13."""
    import torch

    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)


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
    """Returns one value of macOS's sysctl; empty if there is none."""
    command = ["/usr/sbin/sysctl", "-n", name]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


# --- Which choices each device refuses, and why


BITSANDBYTES_OPTIMIZERS = ("adamw-8bit", "paged-adamw-8bit", "lion-8bit", "ademamix")
MIN_MACOS = 14
"""For torch 2.13, bitsandbytes 0.50 and mlx 0.32; none has a wheel for an older one."""
VOLTA, AMPERE, HOPPER = (7, 0), (8, 0), (9, 0)
NEEDS_AMPERE = _("needs an NVIDIA GPU from Ampere on")

Refusals = dict[str, dict[str, str]]


def has_macos(facts: SystemFacts, needed: int) -> bool:
    """Returns whether this Mac has macOS `needed` or later."""
    major = facts.macos.partition(".")[0]
    return major.isdecimal() and int(major) >= needed


def cards_of(facts: MachineFacts) -> int:
    """Returns the NVIDIA GPUs that a run's processes can have."""
    return facts.cards or len(facts.cuda)


def _emulates_bf16(facts: MachineFacts) -> bool:
    """Returns whether the chip is an M1 or M2, which compute bf16 through fp32; torch doesn't report it."""
    return any(chip in facts.cpu_name for chip in ("Apple M1", "Apple M2"))


def missing_package(facts: SystemFacts, package: str) -> str:
    """Returns that an optional library isn't installed; empty if it is."""
    if package in facts.optional:
        return ""
    if package == "bitsandbytes" and facts.system == "Darwin" and not has_macos(facts, MIN_MACOS):
        return _("needs bitsandbytes, which needs macOS {needed}.0, and this is {macos}").format(
            needed=MIN_MACOS, macos=facts.macos
        )
    if package == "bitsandbytes" and facts.frozen and facts.system != "Darwin":
        return _("needs bitsandbytes, which comes with PyTorch with CUDA (Settings)")
    if package == "triton" and facts.system == "Windows":
        package = "triton-windows"  # its module is called triton, too
    return _("needs the package {package}, which isn't installed").format(package=package)


def why_no_mlx(facts: SystemFacts, kind: str) -> str:
    """Returns why MLX can't compute on a kind of device; empty if it can."""
    if kind == "cuda" or (kind == "cpu" and not facts.mlx_on_cpu):
        return _("MLX computes on the GPU of Apple silicon")
    if kind == "mps" and not has_macos(facts, MIN_MACOS):
        return _("MLX needs macOS {needed}.0, and this is {macos}").format(
            needed=MIN_MACOS, macos=facts.macos
        )
    return missing_package(facts, "mlx") or missing_package(facts, "mlx-lm")


def automatic_backend(facts: SystemFacts, kind: str) -> Settled:
    """Returns the engine for a kind of device if nothing in a run's options or its model speaks against MLX."""
    if kind == "mps" and not why_no_mlx(facts, kind):
        return Settled(Backend.MLX.value, _("it is made by Apple for this chip"))
    return Settled(Backend.TORCH.value, why_no_mlx(facts, kind) or _("on a CPU, MLX is for tests only"))


def refusals(facts: MachineFacts, kind: str, gpu: CudaDevice | None = None) -> Refusals:
    """Returns why a device refuses choices, by option and value; options without refusals are left out."""
    found: Refusals = {}

    def refuse(path: str, reason: str, *values: str) -> None:
        """Adds a reason, in place of an earlier one; an empty one is none."""
        if reason:
            found.setdefault(path, {}).update(dict.fromkeys(values, reason))

    def missing(package: str) -> str:
        return missing_package(facts, package)

    before_ampere = gpu is not None and gpu.capability < AMPERE
    no_mlx = why_no_mlx(facts, kind)
    for path, values in ONLY_MLX.items():
        refuse(path, no_mlx, *values)
    if kind == "cpu":
        refuse("device.precision", FP16_NEEDS_GPU, "fp16")
    if kind != "cuda":
        refuse("device.precision", _("is a format of NVIDIA GPUs from Ampere on"), "tf32")
        refuse("data.pin_memory", _("helps NVIDIA GPUs only"), "on")
    elif before_ampere:
        refuse("device.precision", NEEDS_AMPERE, "bf16", "tf32")
    if kind == "mps":
        alone = _(
            "a Mac's GPU can't work with others. Use gradient accumulation for a larger effective batch"
        )
        found["device.processes"] = {"0": "", ANY_OTHER: alone}
    elif facts.system == "Windows":
        linux = _("several processes need Linux, or WSL: with PyTorch for Windows they can't work together")
        found["device.processes"] = {"0": "", ANY_OTHER: linux}
    elif kind == "cuda":
        fewer = _("each process needs an NVIDIA GPU of its own, and there are fewer")
        refuse("device.processes", fewer, f"{MORE_THAN}{cards_of(facts)}")

    if facts.frozen:
        compiler = _("needs a compiler and headers, which the app doesn't contain; Hone from source has it")
        refuse("device.compile", compiler, "true")
    inductor = missing("triton") if kind == "cuda" else ""
    if kind == "cpu" and not facts.cpp_compiler:
        inductor = _("needs a C++ compiler: install one (g++, clang or Visual Studio's)")
    if gpu is not None and gpu.capability < VOLTA:
        inductor = _("needs an NVIDIA GPU from Volta on, because of Triton")
    refuse("device.compile_backend", inductor, "inductor")
    refuse("device.compile_backend", "" if kind == "cuda" else _("needs CUDA"), "cudagraphs")
    refuse("device.compile_backend", missing("torch_xla"), "openxla")
    refuse("device.compile_backend", missing("tvm"), "tvm")

    if kind == "mps":
        refuse("training.optimizer", _("has no MPS kernel in bitsandbytes 0.50"), *BITSANDBYTES_OPTIMIZERS)
        torchao = _("torchao compiles its optimizers, and torch.compile for Apple GPUs is an early prototype")
    else:
        refuse("training.optimizer", missing("bitsandbytes"), *BITSANDBYTES_OPTIMIZERS)
        torchao = missing("torchao") or inductor
        if facts.frozen:
            torchao = _("torchao compiles its optimizers, which the app can't; Hone from source can")
    if kind == "cpu":  # on a CPU bitsandbytes warns and runs the optimizer unpaged
        refuse("training.optimizer", _("pages GPU memory, which needs CUDA"), "paged-adamw-8bit")
    refuse("training.optimizer", torchao, "adamw-8bit-torchao")
    if no_mlx:
        refuse("model.method", missing("bitsandbytes"), "qlora")
    else:  # with which QLoRA has formats of its own
        refuse("model.quantization", missing("bitsandbytes"), "nf4", "int8")

    flash_2 = missing("flash-attn") if gpu is not None and not before_ampere else NEEDS_AMPERE
    refuse("model.attention", flash_2, "flash_attention_2")
    is_hopper = gpu is not None and gpu.capability == HOPPER
    flash_3 = missing("flash-attn-3") if is_hopper else _("needs an NVIDIA Hopper GPU")
    refuse("model.attention", flash_3, "flash_attention_3")

    deepspeed = missing("deepspeed")
    if kind == "mps":
        deepspeed = _("needs nccl or gloo, and PyTorch has neither for MPS")
    refuse("memory.deepspeed", deepspeed, "zero-2", "zero-3")
    whole = _("needs NVIDIA GPUs: processes on a CPU share the same memory") if kind == "cpu" else ""
    refuse("memory.fsdp", _("a Mac has one GPU") if kind == "mps" else whole, "true")
    on_cpu = _("is only for GPUs, where unused memory is kept") if kind == "cpu" else ""
    refuse("memory.empty_cache_steps", on_cpu, ANY_OTHER)
    offload = missing("torchao")
    if kind != "cuda":
        offload = _("needs an NVIDIA GPU: it moves the state from the GPU's memory to the computer's")
    elif before_ampere:
        offload = _(
            "needs bf16, that is an NVIDIA GPU from Ampere on: fp16's loss scaling doesn't reach the gradients"
        )
    refuse("memory.offload_optimizer", offload, "true")
    return found


def cautions(facts: MachineFacts, kind: str) -> Refusals:
    """Returns notes on choices that work but are slow, young or risky here, by option and value."""
    found: Refusals = {}
    if kind == "mps":
        found["device.compile"] = {
            "true": _("torch.compile for Apple GPUs is an early prototype; it may be slower.")
        }
        slow = _("New and slow on Apple GPUs. Hone has never run it on a Mac.")
        found["model.quantization"] = {"int8": _("Apple GPUs multiply it in fp32, which is slow.")}
        if why_no_mlx(facts, kind):
            found["model.method"] = {"qlora": slow}
        else:
            found["model.quantization"]["nf4"] = slow
        paging = _("Above 1, macOS may move memory to the disk: steps take many times as long.")
        found["device.mps_memory_limit"] = {ANY_OTHER: paging}
        if _emulates_bf16(facts):
            found["device.precision"] = {"bf16": _("M1 and M2 emulate bf16: it works, slower than fp32.")}
        return found
    only_mps = _("It applies to Apple GPUs only.")
    found |= {path: {ANY_OTHER: only_mps} for path in ("device.mps_memory_limit", "device.mps_fallback")}
    if kind == "cpu":
        useless = _("On a CPU there is nothing to offload from: it works, and only costs time.")
        found["memory.deepspeed"] = {"zero-2": useless, "zero-3": useless}
        if not facts.cpu_bf16:
            found["device.precision"] = {"bf16": _("This CPU has no bf16 units: it works, slower than fp32.")}
    return found


def automatic(facts: MachineFacts, kind: str, gpu: CudaDevice | None = None) -> dict[str, Settled]:
    """Returns the value of each automatic option on a device, by its path; arguments as in `refusals`."""
    quantization = Settled(
        "nf4",
        _("the 4-bit format of PyTorch"),
        (Instead("device.backend", "mlx", "affine4", _("the 4-bit format of MLX")),),
    )
    pinning = Settled("off", _("only NVIDIA GPUs use it"))
    workers = Settled("0", _("loading in other processes would take cores from the training"))
    if kind == "cuda":
        precision = Settled("fp16", _("this GPU computes fp16 in hardware, but not bf16"))
        if gpu is not None and gpu.capability >= AMPERE:
            precision = Settled("bf16", _("this GPU computes bf16 in hardware"))
        elif gpu is not None and gpu.capability < VOLTA:
            precision = Settled("fp32", _("this GPU is older than Volta: it has no tensor cores for fp16"))
        pinning = Settled("on", _("the GPU copies batches while it computes"))
        if facts.cores > 2:
            by_task = tuple(
                Instead(
                    "task",
                    task.value,
                    "0",
                    _("texts are tokenized in advance; making a batch takes under 1 ms"),
                )
                for task in Task
                if task.reads_text
            )
            count = str(min(4, facts.cores - 1))
            workers = Settled(count, _("images are prepared while the GPU computes"), by_task)
    elif kind == "mps":
        workers = Settled("0", _("the memory is shared, and on a Mac each worker would load PyTorch again"))
        value, ratio = "fp32", facts.bf16_speedup
        reason = _("whether bf16 is faster on {cpu} is measured when its next run begins")
        if _emulates_bf16(facts):
            reason = _("{cpu} has no bf16 hardware")
        elif ratio is not None:
            value = "bf16" if ratio > 1 else "fp32"
            reason = _("on {cpu}, a training step in bf16 was {ratio:.2f} times as fast as one in fp32")
        with_mlx = Instead(
            "device.backend", "mlx", "bf16", _("MLX keeps and computes weights in it, at half the size")
        )
        precision = Settled(value, reason.format(cpu=facts.cpu_name, ratio=ratio), (with_mlx,))
    elif facts.cpu_bf16:
        precision = Settled("bf16", _("this CPU computes bf16 in hardware"))
    else:
        precision = Settled("fp32", _("this CPU has no bf16 hardware"))
    plain = ("1", _("more padding would only take time"))
    by_mlx = Instead("device.backend", "mlx", "32", _("MLX compiles a step for each new length of a batch"))
    multiple = Settled(*plain, (by_mlx,))
    if kind == "mps":
        multiple = Settled(
            "64", _("PyTorch keeps memory on Apple GPUs for each new length of a batch"), (by_mlx,)
        )
    elif kind == "cuda":
        eights = ("8", _("in 16 bits, NVIDIA GPUs compute multiples of 8 fastest"))
        found = {"bf16": eights, "fp16": eights, "fp32": plain, "tf32": plain}
        beside = tuple(Instead("device.precision", each, *value) for each, value in found.items())
        multiple = Settled(*found[precision.value], beside)
    # autocast rounds frozen weights at each product anyway; a CPU that computes in fp32 would take longer
    in_half = precision.value in ("bf16", "fp16")
    frozen = Settled(precision.value, _("the precision that the run computes in"))
    if kind != "cpu" and not in_half:
        held = "fp16" if kind == "cuda" else "bf16"
        frozen = Settled(held, _("half the memory; each product is computed with an fp32 copy"))
    computed = ("bf16", "fp16", *(("fp32", "tf32") if in_half else ()))
    held_beside = (
        Instead("device.precision", value, value.replace("tf", "fp"), frozen.reason) for value in computed
    )
    processes = Settled("1", _("0 means one for each NVIDIA GPU, and this device isn't one"))
    if kind == "cuda":
        alone = tuple(
            Instead("device.name", f"cuda:{index}", "1", _("a single GPU was chosen"))
            for index in range(len(facts.cuda))
        )
        processes = Settled(str(cards_of(facts)), _("one for each NVIDIA GPU"), alone)
    fixed_length = Instead("data.padding", "fixed", "off", _("every example has the same length anyway"))
    return {
        "device.backend": automatic_backend(facts, kind),
        "device.precision": precision,
        "model.quantization": quantization,
        "model.frozen_precision": msgspec.structs.replace(frozen, instead=tuple(held_beside)),
        "device.processes": processes,
        "device.threads": Settled(
            str(facts.cores),
            _("its share of the cores") if "LOCAL_WORLD_SIZE" in os.environ else _("one for each core"),
        ),
        "data.group_by_length": Settled(
            "on", _("batches of texts of similar length need less padding"), (fixed_length,)
        ),
        "data.pad_to_multiple_of": multiple,
        "data.pin_memory": pinning,
        "data.workers": workers,
    }
