"""The environment of an engine process: what torch, transformers and accelerate read when they are imported."""

import importlib.util
import logging
import os
import platform
import sys
from pathlib import Path
from typing import Any

from core.base.processes import is_frozen
from core.memory.estimate import MPS_LOW_WATERMARK
from core.monitor.nvidia import CARDS, cards, gpu_for, number_by_slot
from core.options import RunOptions
from core.options.choices import DeepSpeed, Method

CPU_KERNELS = "64"

RELAXED_FROM = 16
"""macOS from which on the GPU's driver ends work that holds up the display: 26, which older builds of Python call 16
(cpython issue 135675)."""

RUNS_CODE_FROM_THE_HUB = "kernels"
"""Where it is installed, transformers and bitsandbytes download compiled code from the Hub with it and run that."""


def prepare(options: RunOptions) -> None:
    """Prepares this process to build a run's model, offline; call before torch and transformers are imported."""
    prepare_environment(options)
    stay_offline()
    hide_libraries(options)
    prepare_torchvision()


def prepare_environment(options: RunOptions) -> None:
    """Sets the variables that torch, transformers and accelerate read at import.

    One CUDA device is left visible: with several and no launcher, Trainer would wrap the model in DataParallel. torch
    then calls it `cuda:0`. See https://docs.pytorch.org/docs/stable/mps_environment_variables.html for MPS.
    """
    number_by_slot()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ.setdefault(CARDS, str(len(cards(visible))))
    high, low = mps_watermarks(options.device.mps_memory_limit)
    os.environ.update(
        CUDA_VISIBLE_DEVICES=gpu_for(options.device.name, visible),
        PYTORCH_ENABLE_MPS_FALLBACK="1" if options.device.mps_fallback else "0",
        PYTORCH_MPS_HIGH_WATERMARK_RATIO=f"{high:.4f}",
        PYTORCH_MPS_LOW_WATERMARK_RATIO=f"{low:.4f}",
        TOKENIZERS_PARALLELISM="true",
        HF_DATASETS_DISABLE_PROGRESS_BARS="1",  # redrawn bars fill a log
        HF_HUB_DISABLE_TELEMETRY="1",
        DISABLE_SAFETENSORS_CONVERSION="1",  # or transformers asks a server to convert models without safetensors
        TORCH_FORCE_WEIGHTS_ONLY_LOAD="1",  # never unpickle objects: a run's folder isn't trusted
        USE_HUB_KERNELS="0",  # no compiled code from the Hub, in data loader workers neither
    )
    major = platform.mac_ver()[0].partition(".")[0]
    if major.isdecimal() and int(major) >= RELAXED_FROM:  # mlx issue 3267; it helps on most Macs, not on all
        os.environ.setdefault("AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "1")
    if is_frozen():  # bitsandbytes would try to compile for each layer anew, and the app has no headers
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    if not options.task.reads_images:
        # oneDNN caches a kernel for each batch shape, each with memory of its own in bf16: over 58 lengths, a small
        # Llama's process grew from 720 to 1,480 MB with the default of 1,024, to 960 MB with 64, and was no slower.
        # Images have one shape, for which a ResNet-18 needs more than 64 kernels.
        for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
            os.environ.setdefault(name, CPU_KERNELS)


def mps_watermarks(limit: float) -> tuple[float, float]:
    """Returns the high and low watermark of torch's MPS allocator, as multiples of what macOS recommends.

    torch refuses a low watermark above the high one (`setLowWatermarkRatio` in its `MPSAllocator.mm`; not tried on a
    Mac). `limit_memory` in `devices/memory.py` lowers the high one where the Mac has less memory.

    Args:
        limit: The high watermark; 0 means no limit.
    """
    return limit, MPS_LOW_WATERMARK * min(1.0, limit or 1.0)


def stay_offline() -> None:
    """Loads models from the Hub's cache only."""
    os.environ["HF_HUB_OFFLINE"] = "1"


def hide_libraries(options: RunOptions) -> None:
    """Makes libraries that this run doesn't need look absent; call before torch and transformers are imported.

    Without PEFT, which imports bitsandbytes, the process starts a second sooner. Both `import` and `find_spec` take
    None in `sys.modules` for an absent module.
    """
    absent = [RUNS_CODE_FROM_THE_HUB]
    if options.model.method not in (Method.LORA, Method.QLORA):
        absent.append("peft")
    if options.memory.deepspeed is DeepSpeed.OFF:
        absent.append("deepspeed")
    for name in absent:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # documented, but not typed
    # or bitsandbytes warns at each start that "kernels" is missing
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def apply(options: RunOptions) -> None:
    """Sets the threads that compute on the CPU. Trainer sets TF32 and determinism from its own arguments."""
    if options.device.threads is not None:
        import torch

        torch.set_num_threads(options.device.threads)


def torch_settings(kind: str) -> dict[str, Any]:
    """Reads torch's global settings for a kind of device (`cuda`, `mps`, `cpu`), by the fields of `WhatRan`.

    Since torch 2.9 `fp32_precision` decides ("none" is fp32); the older `allow_tf32` may contradict it.
    """
    import torch

    matmul = ""  # no choice on other devices
    if kind == "cuda":
        matmul = "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "fp32"
    return {
        "threads": torch.get_num_threads(),
        "matmul": matmul,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


_libraries: list[Any] = []  # operators are declared for as long as their Library object lives


TORCHVISION = """\
try:
    import torchvision  # noqa: F401
except ModuleNotFoundError:
    pass
except RuntimeError:  # it was built for another PyTorch; without these names, transformers can't be imported, either
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
"""`prepare_torchvision` as code for people without Hone."""


def prepare_torchvision() -> None:
    """Declares torchvision's operators where its compiled ones can't be loaded: its import needs them."""
    if _libraries or _compiled_operators_load():
        return
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _libraries.append(library)


def _compiled_operators_load() -> bool:
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return True
    compiled = [file for file in Path(spec.origin).parent.glob("_C*") if file.suffix in (".so", ".pyd")]
    try:
        for file in compiled:
            torch.ops.load_library(str(file))
    except OSError:
        return False
    return bool(compiled)
