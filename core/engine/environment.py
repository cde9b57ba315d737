"""What has to be in the environment before torch is imported."""

import os

from core.machine.visible_gpus import gpu_for, number_by_slot
from core.options import RunOptions


def prepare_environment(options: RunOptions) -> None:
    """Set the variables that torch, transformers and accelerate read while they load.

    PYTORCH_ENABLE_MPS_FALLBACK is read once, at import
    (https://docs.pytorch.org/docs/stable/mps_environment_variables.html). One CUDA device is left visible: with
    several and no launcher, Trainer would wrap the model in DataParallel; torch then calls it `cuda:0`.
    """
    number_by_slot()
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu_for(options.device.name, os.environ.get("CUDA_VISIBLE_DEVICES"))
    os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1" if options.device.mps_fallback else "0"
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"  # the log is read by people
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    # Without this, transformers tells a server of Hugging Face's which model has no safetensors, to have it converted.
    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"


def prepare_device_check() -> None:
    """Set what torch reads while it loads, for the device check: nothing is computed on the CPU in MPS's place."""
    number_by_slot()
    os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "0"
