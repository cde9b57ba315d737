"""The parts of a model: its classifier, the layers LoRA can stand beside, and how many weights it really has."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch

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
            if name != body and any(True for _ in part.parameters())
        )
    layers = [
        name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear | torch.nn.Conv2d)
    ]
    return tuple(layers[-1:])


def says_tokens(model: Any) -> bool:
    """Whether a model says the next token: behind its body are all tokens it knows, and not the labels of a task."""
    can_generate = getattr(base_of(model), "can_generate", None)
    return bool(can_generate and can_generate())


def whole_names(model: Any) -> tuple[str, ...]:
    """Names of the modules that learn as a whole beside LoRA matrices: those that say labels, which are new.

    A model that writes says tokens as before: that layer stays frozen, being as large as the table of tokens and often
    the same.
    """
    return () if says_tokens(model) else head_names(model)


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
