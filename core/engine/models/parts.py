"""The parts of a model and which of them learn: all weights, the last layer, or LoRA matrices beside frozen layers."""

import difflib
import logging
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from core.base.errors import Fix, ModelError
from core.base.language import _
from core.options import RunOptions
from core.options.choices import Method, Precision, Quantization

# --- Keeping parts of a model as they are while others learn


def freeze_all_but(model: Any, moving: Iterable[str]) -> None:
    """Let only the weights in the modules called `moving` learn, and keep all else as it is."""
    kept = tuple(moving)
    for name, weight in model.named_parameters():
        weight.requires_grad_(any(name.startswith(f"{module}.") for module in kept))
    freeze_batch_norms(model)


def freeze_batch_norms(model: Any) -> None:
    """Keep frozen batch norms in evaluation mode.

    Their running mean and variance are no weights, so freezing them takes more than `requires_grad`: in training mode
    every forward pass moves them, and a backbone that isn't saved again would differ from the one that was trained on.
    """
    for part in model.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and not any(
            weight.requires_grad for weight in part.parameters()
        ):
            part.eval()
            part.train = partial(_unchanged, part)  # Trainer calls model.train() before each step


def _unchanged(part: torch.nn.Module, mode: bool = True) -> torch.nn.Module:
    """Stands in for the method `train` of a module that stays in evaluation mode."""
    return part


# --- The parts of a model: its classifier, the layers LoRA can stand beside


REPLACED = ".original_module."
"""In the name of a weight PEFT keeps for reference beside the copy that trains; it takes no part in the model."""


def base_of(model: Any) -> Any:
    """The model itself, without the wrapper LoRA puts around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def head_names(model: Any) -> tuple[str, ...]:
    """Names of the modules that turn what the model has seen into labels.

    Those are what a transformers model has beside its body (`classifier`, `score`, `pre_classifier`, ...), and the last
    linear layer or convolution of a vision model.
    """
    body = getattr(model, "base_model_prefix", "")
    if body:
        return tuple(
            name
            for name, part in model.named_children()
            if name != body and any(True for _rest in part.parameters())
        )
    layers = [
        name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear | torch.nn.Conv2d)
    ]
    return tuple(layers[-1:])


def predicts_tokens(model: Any) -> bool:
    """Whether a model says the next token: behind its body are all tokens it knows, and not the labels of a task."""
    can_generate = getattr(base_of(model), "can_generate", None)
    return bool(can_generate and can_generate())


def fully_trained(model: Any) -> tuple[str, ...]:
    """Names of the modules that learn as a whole beside LoRA matrices: those that say labels, which are new.

    A model that writes says tokens as before: that layer stays frozen, being as large as the table of tokens and often
    the same.
    """
    return () if predicts_tokens(model) else head_names(model)


def adaptable_layers(model: Any, without: Iterable[str]) -> list[str]:
    """Names of the layers LoRA can stand beside: linear ones, and ungrouped convolutions.

    PEFT 0.21 wants a rank that the groups of a convolution divide, and can't merge it afterwards.

    Args:
        model: Any model, packed or not: packed layers are linear layers too.
        without: Names of modules that train as a whole; what is in them is left out.
    """
    left_out = tuple(without)
    return [
        name
        for name, layer in model.named_modules()
        if _takes_lora(layer) and not any(name == whole or name.startswith(f"{whole}.") for whole in left_out)
    ]


def _takes_lora(layer: Any) -> bool:
    if isinstance(layer, torch.nn.Conv2d):
        return layer.groups == 1
    return isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"  # GPT-2's linear layer


def owners(weights: Iterable[str]) -> tuple[str, ...]:
    """Names of the modules that hold these weights, each once, in order."""
    return tuple(dict.fromkeys(name.rpartition(".")[0] for name in weights))


def weights_of(model: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Every weight that takes part in the model, with its name."""
    return ((name, weight) for name, weight in model.named_parameters() if REPLACED not in name)


def count(weight: Any) -> int:
    """How many numbers a weight holds: packed in 4 bits, two of them share a byte; divided by ZeRO-3, it is empty."""
    state = getattr(weight, "quant_state", None)
    divided: int | None = getattr(weight, "ds_numel", None)
    return math.prod(state.shape) if state is not None else int(divided or weight.numel())


def is_packed(weight: torch.nn.Parameter) -> bool:
    """Whether a weight is held in 4 or 8 bits, as bitsandbytes does."""
    return weight.dtype in (torch.uint8, torch.int8)


# --- Which weights of a model learn: all, the last layer, or LoRA matrices beside frozen layers


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
            if getattr(model, "is_quantized", False):
                make_trainable(model)
            from core.engine.models.lora import with_lora

            adapted: torch.nn.Module = with_lora(model, options, fresh)
            return adapted


def describe_adapter(model: Any) -> str:
    """What LoRA matrices a live model has; empty where there are none."""
    if not hasattr(model, "peft_config"):
        return ""
    from core.engine.models.lora import describe

    return describe(model)


# --- Loading a text model with its weights packed into 4 or 8 bits, for QLoRA


COMPUTED_IN = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}
"""What packed weights are unpacked to for a multiplication; float32 where the precision is none of these."""


def packing_arguments(options: RunOptions, unpacked: Sequence[str]) -> dict[str, Any]:
    """What `from_pretrained` takes beside the rest to pack the weights as it reads them.

    Args:
        options: What is asked, its precision settled.
        unpacked: Names of the modules that keep their weights as they are, because they learn.
    """
    from transformers import BitsAndBytesConfig

    # that int8 multiplies in fp16 would be said once a layer and batch
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    if options.model.quantization is Quantization.INT8:
        config = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=list(unpacked))
    else:
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=COMPUTED_IN.get(options.device.precision, torch.float32),
            llm_int8_skip_modules=list(unpacked),
        )
    found: dict[str, Any] = {"quantization_config": config}
    if options.device.name == "cpu":  # left to itself, it would take a GPU where there is one
        found["device_map"] = {"": "cpu"}
    return found


def make_trainable(model: Any) -> None:
    """Prepare a packed model for LoRA: freeze it, hold its norms in fp32, and keep its packing as it is.

    On CPUs with AVX512_BF16, bitsandbytes packs 4-bit weights anew the first time they are used without gradients,
    into a form that has no backward pass: the first evaluation would end the training.
    """
    from peft import prepare_model_for_kbit_training

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # PEFT 0.21 asks transformers 5 by names that are going
        prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    for part in model.modules():
        if hasattr(part, "support_avx512bf16_for_cpu"):
            part.support_avx512bf16_for_cpu = False
    # On a CPU, weights that aren't packed are views of the file they were read from. As long as one is, all of it stays
    # mapped, with the pages that were read only to be packed: 326 MB of a BERT of base size, packed 41 MB.
    for weight in model.parameters():
        if weight.device.type == "cpu" and not is_packed(weight):
            weight.data = weight.data.clone()


# --- Which layers LoRA stands beside: all that can have it, or those whose names a person gave


SHOWN = 8
ALL_LAYERS = Fix(_("LoRA on all layers that can have it"), {"model.lora_targets": ()})


class TargetError(ModelError):
    """LoRA can't stand beside what was asked for; `path` is the option to change."""

    path = "model.lora_targets"


def find_targets(model: Any, asked: Iterable[str], trained_whole: Iterable[str]) -> list[str]:
    """Full names of the layers that get LoRA matrices.

    Args:
        model: The model, not yet wrapped; its weights may be on the meta device.
        asked: Ends of names, as `model.lora_targets` has them: `query` means every layer called that. None: all.
        trained_whole: Modules that move as a whole, such as the classifier, and get none.

    Raises:
        TargetError: A name matches no layer that can have them, or there is no such layer at all.
    """
    layers = adaptable_layers(model, trained_whole)
    wanted = tuple(asked)
    unknown = [name for name in wanted if not any(_ends_in(layer, name) for layer in layers)]
    if unknown or not layers:
        raise _no_such_layers(model, wanted, unknown, layers)
    return [layer for layer in layers if not wanted or any(_ends_in(layer, name) for name in wanted)]


def _ends_in(layer: str, name: str) -> bool:
    """Whether `name` is the last part or the last parts of a layer's name, as PEFT reads it."""
    return layer == name or layer.endswith(f".{name}")


def _no_such_layers(model: Any, asked: Iterable[str], unknown: list[str], layers: list[str]) -> TargetError:
    if not layers:
        return TargetError(
            _("LoRA finds no layer in this model"),
            _("It has no linear layer and no convolution beside its classifier."),
            (Fix(_("Train everything"), {"model.method": "full"}),),
        )
    parts = [name for name, _rest in model.named_modules()]
    groups = [name for name in unknown if any(_ends_in(part, name) for part in parts)]
    last_names = list(dict.fromkeys(map(_telling_end, layers)))
    usable = _("Layers of this model that can have LoRA are called {last_names}.").format(
        last_names=_listed(last_names)
    )
    told = (
        _("{groups} can't have it (it is no linear layer, or trains as a whole). ").format(
            groups=_listed(groups)
        )
        if groups
        else ""
    )
    return TargetError(
        _("No layer for LoRA is called {unknown}").format(unknown=_listed(unknown)),
        f"{told}{usable}",
        _fixes(asked, unknown, last_names),
    )


def _telling_end(layer: str) -> str:
    """The last part of a layer's name with the one before it where it is a mere number: `query`, `downsample.0`."""
    parts = layer.split(".")
    return ".".join(parts[-2:]) if parts[-1].isdecimal() else parts[-1]


def _fixes(asked: Iterable[str], unknown: list[str], last_names: list[str]) -> tuple[Fix, ...]:
    close = [match for name in unknown for match in difflib.get_close_matches(name, last_names, n=1)]
    attention = [name for name in last_names if name in USUAL]
    kept = [name for name in asked if name not in unknown] if close else []
    offered = tuple(dict.fromkeys([*kept, *close] or attention))
    fix = (
        (Fix(_("Use {offered}").format(offered=", ".join(offered)), {"model.lora_targets": offered}),)
        if offered
        else ()
    )
    return (*fix, ALL_LAYERS)


USUAL = ("query", "value", "q_proj", "v_proj", "q_lin", "v_lin", "query_proj", "value_proj", "c_attn", "Wqkv")
"""What models call the layers that the paper on LoRA (arXiv 2106.09685) adapts."""


def _listed(names: list[str]) -> str:
    more = _(" and {names} more").format(names=len(names) - SHOWN) if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
