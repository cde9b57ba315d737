"""Which weights of a model learn: all, the last layer, or LoRA matrices beside frozen layers."""

from collections.abc import Iterable
from typing import Any

import torch

from core.choices import Method
from core.engine.models.freezing import freeze_all_but
from core.engine.models.parts import head_names
from core.options import RunOptions


def apply_method(model: torch.nn.Module, options: RunOptions, fresh: Iterable[str] = ()) -> torch.nn.Module:
    """Make `model` learn as `model.method` asks; PEFT is imported only where it is needed.

    Args:
        model: A text model with a classifier, or a `VisionClassifier`; for QLoRA, a text model loaded packed.
        options: What is asked.
        fresh: Modules of the body that the checkpoint had no weights for; they always learn.

    Returns:
        The model to train: the same one, or wrapped with LoRA matrices.

    Raises:
        ModelError: LoRA's targets match no layer.
    """
    match options.model.method:
        case Method.FULL:
            return model
        case Method.HEAD:
            freeze_all_but(model, (*head_names(model), *fresh))
            return model
        case Method.LORA | Method.QLORA:
            from core.engine.models.lora import with_lora
            from core.engine.models.packing import make_trainable

            if getattr(model, "is_quantized", False):
                make_trainable(model)
            adapted: torch.nn.Module = with_lora(model, options, fresh)
            return adapted


def describe_adapter(model: Any) -> str:
    """What LoRA matrices a live model has; empty where there are none."""
    if not hasattr(model, "peft_config"):
        return ""
    from core.engine.models.lora import describe

    return describe(model)
