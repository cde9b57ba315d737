"""The environment of a training process, most of it set before torch is imported; and how torch is set up then."""

import importlib.util
import logging
import os
import sys
from pathlib import Path
from typing import Any

from core.monitor.nvidia import gpu_for, number_by_slot
from core.options import RunOptions
from core.options.choices import DeepSpeed, Method

KERNELS_KEPT = "64"
MPS_HIGH_WATERMARK, MPS_LOW_WATERMARK = 1.7, 1.4
"""torch's own, on a Mac whose GPU shares the memory."""


def prepare_environment(options: RunOptions) -> None:
    """Set the variables that torch, transformers and accelerate read while they load.

    PYTORCH_ENABLE_MPS_FALLBACK is read once, at import
    (https://docs.pytorch.org/docs/stable/mps_environment_variables.html). One CUDA device is left visible: with
    several and no launcher, Trainer would wrap the model in DataParallel; torch then calls it `cuda:0`.
    """
    number_by_slot()
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu_for(options.device.name, os.environ.get("CUDA_VISIBLE_DEVICES"))
    os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1" if options.device.mps_fallback else "0"
    high, low = mps_watermarks(options.device.mps_memory_limit)
    os.environ["PYTORCH_MPS_HIGH_WATERMARK_RATIO"] = f"{high:.4f}"
    os.environ["PYTORCH_MPS_LOW_WATERMARK_RATIO"] = f"{low:.4f}"
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"  # the log is read by people
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    # Without this, transformers tells a server of Hugging Face's which model has no safetensors, to have it converted.
    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"
    # Nothing is ever unpickled, whatever a library asks for: a run's folder may come from a stranger.
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    if not options.task.reads_images:
        # Few of the kernels that a CPU makes for each shape of a batch are kept. In bf16 each holds memory of its own:
        # over 58 lengths of a batch, a small Llama's process grew from 720 to 1,480 MB with the usual 1,024 places, to
        # 960 MB with 64, and was no slower. Images have one shape: a ResNet-18 has more than 64 kernels for it, made
        # them anew in each step, and took a fifth more of the processor for that.
        for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
            os.environ.setdefault(name, KERNELS_KEPT)
    os.environ["USE_HUB_KERNELS"] = "0"  # nor compiled code from the Hub, also not in a data loader's process


def mps_watermarks(limit: float) -> tuple[float, float]:
    """The ceiling of torch's MPS allocator and the mark from which it gives memory back, as it takes them.

    Both are multiples of what macOS recommends for the GPU. torch refuses a lower mark above the ceiling (and either
    above 2), and sets it to 1.4 by itself, whatever the ceiling: so a lower ceiling takes both, here in torch's own
    proportion. Without a ceiling the lower mark stays. Source: `setLowWatermarkRatio` in torch's `MPSAllocator.mm`, not
    tried here.

    Args:
        limit: The ceiling; 0: none.

    Returns:
        The high and the low watermark.
    """
    low = MPS_LOW_WATERMARK * min(1.0, limit / MPS_HIGH_WATERMARK) if limit else MPS_LOW_WATERMARK
    return limit, low


def stay_offline() -> None:
    """Take models from the Hub's cache only, for looking at one before a run; read once, when huggingface_hub loads."""
    os.environ["HF_HUB_OFFLINE"] = "1"


def prepare_download() -> None:
    """Set what huggingface_hub reads while it loads, for fetching one small file: it asks for that and nothing else."""
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"


def prepare_device_check() -> None:
    """Set what torch reads while it loads, for the device check: nothing is computed on the CPU in MPS's place."""
    number_by_slot()
    os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "0"


RUNS_CODE_FROM_THE_HUB = "kernels"
"""Where it is installed, transformers and bitsandbytes fetch compiled code from the Hub with it, and run that."""


def hide_libraries(options: RunOptions) -> None:
    """Make libraries this run doesn't need look absent; call before torch and transformers are imported.

    Without PEFT, which brings bitsandbytes along, the process starts a second sooner. `None` in `sys.modules` is
    Python's own way to say that a module can't be had: `import` and `find_spec` both heed it. What is imported
    already stays.
    """
    absent = [RUNS_CODE_FROM_THE_HUB]
    if options.model.method not in (Method.LORA, Method.QLORA):
        absent.append("peft")
    if options.memory.deepspeed is DeepSpeed.OFF:
        absent.append("deepspeed")
    for name in absent:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # the import system documents None here
    # or bitsandbytes warns at each start that "kernels" is missing
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def prepare(options: RunOptions, *, offline: bool = True) -> None:
    """Get this process ready to build a model; call before torch and transformers are imported.

    Args:
        options: Those of the run that builds it.
        offline: Whether nothing is to be fetched.
    """
    prepare_environment(options)
    if offline:
        stay_offline()
    hide_libraries(options)
    prepare_torchvision()


def apply(options: RunOptions) -> None:
    """Set the threads that compute on the CPU. Trainer sets the other two, from its own arguments."""
    if options.device.threads is not None:
        import torch

        torch.set_num_threads(options.device.threads)


def torch_settings(kind: str) -> dict[str, Any]:
    """Torch's settings for a device of this kind (`cuda`, `mps`, `cpu`), by the fields of `WhatRan`.

    Since torch 2.9 `fp32_precision` is what counts ("none" is fp32); the older `allow_tf32` may contradict it.

    Full determinism means more on a GPU than on a CPU: most CPU kernels give the same bits every time as it is, for one
    number of threads; it takes deterministic kernels for the few others, such as scattered additions, and fills fresh
    memory (https://docs.pytorch.org/docs/stable/notes/randomness.html).
    """
    import torch

    matmul = ""  # where the device has one way only
    if kind == "cuda":
        matmul = "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "fp32"
    return {
        "threads": torch.get_num_threads(),
        "matmul": matmul,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[Any] = []  # a library's declarations live as long as the object does


def prepare_torchvision() -> None:
    """Declare the missing operators once, only where torchvision's own compiled ones can't be loaded."""
    if _declared or _own_operators_load():
        return
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)


def _own_operators_load() -> bool:
    import torch

    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return True
    compiled = [file for file in Path(found.origin).parent.glob("_C*") if file.suffix in (".so", ".pyd")]
    try:
        for file in compiled:
            torch.ops.load_library(str(file))
    except OSError:
        return False
    return bool(compiled)
