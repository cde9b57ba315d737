"""LoRA by PEFT: small matrices that learn beside the layers of a frozen model, and the classifier as a whole."""

import inspect
import warnings
from collections.abc import Iterable
from typing import Any

from peft import (
    LoraConfig,
    PeftModel,
    PeftModelForCausalLM,
    PeftModelForSequenceClassification,
    PeftModelForTokenClassification,
)
from peft.tuners.tuners_utils import BaseTunerLayer

from core.base.language import _
from core.engine.models.parts import (
    find_targets,
    freeze_batch_norms,
    fully_trained,
    head_names,
    is_packed,
    predicts_tokens,
)
from core.engine.models.past_runs import weights_in
from core.options import RunOptions
from core.options.choices import Task


class _Saved:
    """How every adapter is saved; goes before PEFT's class. `has_config`: whether the config stands beside it."""

    has_config = True

    def save_pretrained(self, save_directory: str, *args: Any, **kwargs: Any) -> None:
        """Save the matrices, what learns as a whole and the config; the frozen model is named and not saved again."""
        adapter: Any = self
        # Hone never changes the embeddings; left to itself, PEFT would ask the Hub whether they differ, at each save
        kwargs = {"save_embedding_layers": False, **kwargs}
        super().save_pretrained(save_directory, *args, **kwargs)  # type: ignore[misc]
        config = getattr(adapter.get_base_model(), "config", None)
        if config is not None and self.has_config:
            config.save_pretrained(save_directory)

    def create_or_update_model_card(self, output_dir: str) -> None:
        """Write none: PEFT's is a page of blanks, made from a template that a bundled app may lack."""


class TextAdapter(_Saved, PeftModelForSequenceClassification):
    """A model that reads a text, with LoRA matrices."""


class WordTokens(_Saved, PeftModelForTokenClassification):
    """A model that labels words, with LoRA matrices."""


class WritingAdapter(_Saved, PeftModelForCausalLM):
    """A causal model with LoRA matrices.

    A config beside them would keep transformers from loading the model that they name, together with them.
    """

    has_config = False


class ImageAdapter(_Saved, PeftModel):
    """A vision model with LoRA matrices."""


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
    whole = [*fully_trained(model), *fresh]
    task_type: str | None  # PEFT knows none for images
    kind: type[PeftModel] = TextAdapter
    task_type = "SEQ_CLS"
    if "input_ids" not in inspect.signature(model.forward).parameters:
        task_type, kind = None, ImageAdapter
    elif predicts_tokens(model):
        task_type, kind = "CAUSAL_LM", WritingAdapter
    elif options.task is Task.TOKEN_CLASSIFICATION:
        task_type, kind = "TOKEN_CLS", WordTokens
    on_meta = any(weight.is_meta for weight in model.parameters())  # only looked at: nothing is saved
    config = LoraConfig(
        task_type=task_type,
        r=asked.lora_rank,
        lora_alpha=int(asked.lora_alpha) if asked.lora_alpha.is_integer() else asked.lora_alpha,
        lora_dropout=asked.lora_dropout,
        target_modules=find_targets(model, asked.lora_targets, (*head_names(model), *fresh)),
        modules_to_save=whole or None,
        base_model_name_or_path=asked.source if on_meta else weights_in(asked.source),
    )
    if not hasattr(model, "config"):
        model.name_or_path = asked.source  # what PEFT writes as the adapter's base
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # PEFT 0.21 asks transformers 5 by names that are going
        wrapped: PeftModel = kind(model, config)
    freeze_batch_norms(wrapped)
    return wrapped


def describe(model: Any) -> str:
    """What LoRA matrices a live model has, such as "LoRA, rank 16 on 12 layers"; empty where there are none."""
    layers = [part for part in model.modules() if isinstance(part, BaseTunerLayer)]
    if not layers:
        return ""
    ranks = sorted({rank for layer in layers for rank in layer.r.values()})
    packed = next((weight for weight in model.parameters() if is_packed(weight)), None)
    method = "LoRA" if packed is None else f"QLoRA ({getattr(packed, 'quant_type', 'int8')})"
    count = "1 layer" if len(layers) == 1 else f"{len(layers)} layers"
    return _("{method}, rank {value} on {count}").format(
        method=method, value=", ".join(map(str, ranks)), count=count
    )
