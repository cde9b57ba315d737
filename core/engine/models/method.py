"""Which weights a run trains: all, the head, or a LoRA adapter."""

from collections.abc import Iterable
from typing import Any

import torch

from core.engine.models.parts import freeze_batch_norms, head_names, prepare_quantized
from core.options import RunOptions
from core.options.choices import Method


def apply_method(model: torch.nn.Module, options: RunOptions, fresh: Iterable[str] = ()) -> torch.nn.Module:
    """Makes the weights trainable that `model.method` names; PEFT is imported only if needed.

    `fresh` are modules of the body without weights in the checkpoint: always trained. For LoRA the model is returned
    wrapped with an adapter.

    Raises:
        ModelError: LoRA's targets match no layer.
    """
    match options.model.method:
        case Method.FULL:
            return model
        case Method.HEAD:
            trained = tuple(f"{module}." for module in (*head_names(model), *fresh))
            for name, weight in model.named_parameters():
                weight.requires_grad_(name.startswith(trained))
            freeze_batch_norms(model)
            return model
        case Method.LORA | Method.QLORA:
            if getattr(model, "is_quantized", False):
                prepare_quantized(model)
            from core.engine.models.lora import with_lora

            adapted: torch.nn.Module = with_lora(model, options, fresh)
            return adapted


def describe_adapter(model: Any) -> str:
    """Returns the adapter of a live model, such as "LoRA, rank 16 on 12 layers"; empty if there is none."""
    if not hasattr(model, "peft_config"):
        return ""
    from core.engine.models.lora import describe

    return describe(model)
