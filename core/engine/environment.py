"""What has to be in the environment before torch is imported."""

import os

from core.options import RunOptions


def prepare_environment(options: RunOptions) -> None:
    """Set the variables that torch and accelerate read while they load.

    PYTORCH_ENABLE_MPS_FALLBACK is read once, at import (https://docs.pytorch.org/docs/stable/mps_environment_variables.html).
    One CUDA device is left visible: with several and no launcher, Trainer would wrap the model in DataParallel.
    """
    os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1" if options.device.mps_fallback else "0"
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_VISIBLE_DEVICES"] = _visible_cuda_device(
        options.device.name, os.environ.get("CUDA_VISIBLE_DEVICES")
    )
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"  # the log is read by people


def _visible_cuda_device(name: str, visible: str | None) -> str:
    """The one CUDA device a run may see: the n-th of those the person made visible, or of all."""
    if name in ("cpu", "mps"):
        return ""
    index = int(name.removeprefix("cuda:")) if name.startswith("cuda:") else 0
    if visible is None:
        return str(index)
    devices = [device.strip() for device in visible.split(",") if device.strip()]
    return devices[index] if index < len(devices) else ""
