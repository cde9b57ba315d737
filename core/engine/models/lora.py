"""LoRA by PEFT: an adapter on the layers of a frozen model, and the classifier trained as a whole."""

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

from core.base.language import _, ngettext
from core.engine.models.parts import (
    BLOCK,
    REPLACED,
    adaptable_layers,
    base_of,
    can_be_packed,
    find_targets,
    freeze_batch_norms,
    fully_trained,
    head_names,
    is_quantized,
    predicts_tokens,
)
from core.engine.models.past_runs import weights_in
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Task


class _Adapter:
    """How adapters are saved; goes before PEFT's class."""

    def save_pretrained(self, save_directory: str, *args: Any, **kwargs: Any) -> None:
        """Saves the adapter, the modules trained as a whole and the model's config; the base model is only named."""
        adapter: Any = self
        # Hone never changes the embeddings; by default PEFT asks the Hub whether they differ, at each save
        super().save_pretrained(save_directory, *args, **{"save_embedding_layers": False, **kwargs})  # type: ignore[misc]
        config = getattr(adapter.get_base_model(), "config", None)
        # next to a config.json, transformers would not load a causal model that the adapter names
        if config is not None and not isinstance(self, PeftModelForCausalLM):
            config.save_pretrained(save_directory)

    def create_or_update_model_card(self, output_dir: str) -> None:
        """Writes no card: PEFT's template is empty, and a bundled app may lack it."""


class _ClassifierAdapter(_Adapter, PeftModelForSequenceClassification):
    pass


class _TokenClassifierAdapter(_Adapter, PeftModelForTokenClassification):
    pass


class _CausalAdapter(_Adapter, PeftModelForCausalLM):
    pass


class _ImageAdapter(_Adapter, PeftModel):
    pass


def with_lora(model: Any, options: RunOptions, fresh: Iterable[str]) -> PeftModel:
    """Freezes `model` and wraps it with an adapter; `fresh` modules as in `apply_method`.

    Raises:
        ModelError: A target matches no layer.
    """
    task_type: str | None = "SEQ_CLS"
    kind: type[PeftModel] = _ClassifierAdapter
    if "input_ids" not in inspect.signature(model.forward).parameters:
        task_type, kind = None, _ImageAdapter  # PEFT has no task type for images
    elif predicts_tokens(model):
        task_type, kind = "CAUSAL_LM", _CausalAdapter
    elif options.task is Task.TOKEN_CLASSIFICATION:
        task_type, kind = "TOKEN_CLS", _TokenClassifierAdapter
    asked = options.model
    on_meta = any(weight.is_meta for weight in model.parameters())  # a report only: nothing is saved
    config = LoraConfig(
        task_type=task_type,
        r=asked.lora_rank,
        lora_alpha=int(asked.lora_alpha) if asked.lora_alpha.is_integer() else asked.lora_alpha,
        lora_dropout=asked.lora_dropout,
        use_rslora=asked.lora_rslora,
        use_dora=asked.lora_dora,
        target_modules=find_targets(
            model, asked.lora_targets, (*head_names(model), *fresh), asked.lora_layers
        ),
        modules_to_save=[*fully_trained(model), *fresh] or None,
        base_model_name_or_path=asked.source if on_meta else weights_in(asked.source),
    )
    if not hasattr(model, "config"):
        model.name_or_path = asked.source  # PEFT saves it as the adapter's base
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT 0.21 uses deprecated names of transformers 5
        wrapped: PeftModel = kind(model, config)
    freeze_batch_norms(wrapped)
    return wrapped


def unpacked_layers(model: Any) -> list[str]:
    """Returns names of the frozen layers of QLoRA that aren't quantized, as a CPU would unpack them wrongly."""
    whole = base_of(model)
    return [
        name.removesuffix(".base_layer")
        for name in adaptable_layers(whole, head_names(whole))
        if REPLACED not in f".{name}."
        and not (weight := whole.get_submodule(name).weight).requires_grad
        and not (is_quantized(weight) or can_be_packed(whole.get_submodule(name)))
    ]


def note_unpacked(model: Any, reporter: Reporter) -> None:
    """Notes which layers `left_unpacked` has named."""
    names = unpacked_layers(model)
    if not names:
        return
    title = ngettext(
        "{count:,} layer isn't quantized: {name}",
        "{count:,} layers aren't quantized, such as {name}",
        len(names),
    )
    detail = _("Its width is no multiple of {block}, and bitsandbytes would unpack it wrongly on a CPU.")
    if len(names) > 1:
        detail = _(
            "Their widths are no multiples of {block}, and bitsandbytes would unpack them wrongly on a CPU."
        )
    reporter.note("unpacked", title.format(count=len(names), name=names[0]), detail.format(block=BLOCK))


def describe(model: Any) -> str:
    """Returns the adapter of a live model, such as "LoRA, rank 16 on 12 layers, DoRA"; empty if there is none."""
    layers = [part for part in model.modules() if isinstance(part, BaseTunerLayer)]
    if not layers:
        return ""
    ranks = sorted({rank for layer in layers for rank in layer.r.values()})
    packed = next((weight for weight in model.parameters() if is_quantized(weight)), None)
    method = "LoRA" if packed is None else f"QLoRA ({getattr(packed, 'quant_type', 'int8')})"
    text = ngettext(
        "{method}, rank {rank} on {count} layer", "{method}, rank {rank} on {count} layers", len(layers)
    ).format(method=method, rank=", ".join(map(str, ranks)), count=len(layers))
    if packed is not None and (rest := len(unpacked_layers(model))):
        few = ngettext("{count} layer not quantized", "{count} layers not quantized", rest)
        text = ", ".join((text, few.format(count=rest)))
    config = next(iter(model.peft_config.values()))
    has_lengths = any(layer.lora_magnitude_vector for layer in layers)
    return ", ".join((text, *["rsLoRA"] * config.use_rslora, *["DoRA"] * has_lengths))
