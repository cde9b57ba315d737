"""What has to be in the environment before torch is imported."""

import os

from core.machine.visible_gpus import gpu_for, number_by_slot
from core.options import RunOptions

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
        _bound_kernel_caches()
    os.environ["USE_HUB_KERNELS"] = "0"  # nor compiled code from the Hub, also not in a data loader's process


def _bound_kernel_caches() -> None:
    """Keep few of the kernels that a CPU makes for each shape of a batch.

    In bf16 each holds memory of its own: over 58 lengths of a batch, a small Llama's process grew from 720 to 1,480 MB
    with the usual 1,024 places, to 960 MB with 64, and was no slower. A person's own value stays.

    Not for images, which have one shape: a ResNet-18 has more than 64 kernels for it, made them anew in each step, and
    took a fifth more of the processor for that.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, KERNELS_KEPT)


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


def prepare_fetching() -> None:
    """Set what huggingface_hub reads while it loads, for fetching one small file: it asks for that and nothing else."""
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"


def prepare_device_check() -> None:
    """Set what torch reads while it loads, for the device check: nothing is computed on the CPU in MPS's place."""
    number_by_slot()
    os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "0"
