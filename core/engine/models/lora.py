"""LoRA by PEFT: small matrices that learn beside the layers of a frozen model, and the classifier as a whole."""

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from peft import LoraConfig, PeftModel, PeftModelForSequenceClassification
from peft.tuners.tuners_utils import BaseTunerLayer

from core.engine.models.freezing import hold_still
from core.engine.models.parts import head_names, is_packed
from core.engine.models.targets import find_targets
from core.options import RunOptions


class TextAdapter(PeftModelForSequenceClassification):
    """A text model with LoRA matrices; `save_pretrained` writes them, the classifier and the config with its labels."""

    def save_pretrained(self, save_directory: str, *args: Any, **kwargs: Any) -> None:
        """Save the adapter; the frozen model is named in it and not saved again."""
        super().save_pretrained(save_directory, *args, **_without_embeddings(kwargs))
        self.get_base_model().config.save_pretrained(save_directory)

    def create_or_update_model_card(self, output_dir: str) -> None:
        """Write none: PEFT's is a page of blanks, made from a template that a bundled app may lack."""


class ImageAdapter(PeftModel):
    """A vision model with LoRA matrices; `save_pretrained` writes them and the classifier."""

    def save_pretrained(self, save_directory: str, *args: Any, **kwargs: Any) -> None:
        """Save the adapter; the frozen model is named in it and not saved again."""
        super().save_pretrained(save_directory, *args, **_without_embeddings(kwargs))

    def create_or_update_model_card(self, output_dir: str) -> None:
        """Write none, as for text models."""


def _without_embeddings(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Hone never changes the embeddings; left to itself, PEFT would ask the Hub whether they differ, at each save."""
    return {"save_embedding_layers": False, **kwargs}


def with_lora(model: Any, options: RunOptions, fresh: Iterable[str]) -> PeftModel:
    """Freeze `model` and put LoRA matrices beside its layers.

    Args:
        model: A text or vision model, packed or not.
        options: What is asked.
        fresh: Modules of the body whose weights are random because the checkpoint has none. They learn and are saved:
            whoever loads the adapter would draw others.

    Raises:
        ModelError: A target matches no layer.
    """
    asked = options.model
    whole = [*head_names(model), *fresh]
    is_text = hasattr(model, "config")
    config = LoraConfig(
        task_type="SEQ_CLS" if is_text else None,
        r=asked.lora_rank,
        lora_alpha=int(asked.lora_alpha) if asked.lora_alpha.is_integer() else asked.lora_alpha,
        lora_dropout=asked.lora_dropout,
        target_modules=find_targets(model, asked.lora_targets, whole),
        modules_to_save=whole,
        base_model_name_or_path=asked.source,
    )
    if not is_text:
        model.name_or_path = asked.source  # what PEFT writes as the adapter's base
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # PEFT 0.21 asks transformers 5 by names that are going
        wrapped: PeftModel = (TextAdapter if is_text else ImageAdapter)(model, config)
    hold_still(wrapped)
    return wrapped


def describe(model: Any) -> str:
    """What LoRA matrices a live model has, such as "LoRA, rank 16 on 12 layers"; empty where there are none."""
    layers = [part for part in model.modules() if isinstance(part, BaseTunerLayer)]
    ranks = sorted({rank for layer in layers for rank in layer.r.values()})
    if not layers:
        return ""
    count = "1 layer" if len(layers) == 1 else f"{len(layers)} layers"
    return f"{_method(model)}, rank {', '.join(map(str, ranks))} on {count}"


def _method(model: torch.nn.Module) -> str:
    packed = next((weight for weight in model.parameters() if is_packed(weight)), None)
    if packed is None:
        return "LoRA"
    return f"QLoRA ({getattr(packed, 'quant_type', 'int8')})"
