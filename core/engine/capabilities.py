"""What each device of a machine can't do of Hone's choices, and why: pure functions over `MachineFacts`.

Sources: bitsandbytes 0.50.2 registers `optimizer_update_8bit_blockwise` for CUDA, XPU and CPU only, and for MPS the
unpacking of weights (`backends/mps/ops.py`); torch 2.13's autocast with a gradient scaler covers CUDA and MPS;
flash-attn's own tables of GPUs; torch.distributed has neither gloo nor nccl for MPS.
"""

from collections.abc import Callable

from core.capabilities import ANY_OTHER
from core.choices import FP16_NEEDS_GPU
from core.engine.machine_facts import CudaDevice, MachineFacts

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
        return (
            "needs bitsandbytes, which the app leaves to its GPU pack; Hone from source has it on any device"
        )
    return _not_installed("bitsandbytes")


def _not_installed(package: str) -> str:
    return f"needs the package {package}, which isn't installed"
