"""Which layers LoRA stands beside: all that can have it, or those whose names a person gave."""

import difflib
from collections.abc import Iterable
from typing import Any

from core.engine.models.parts import adaptable_layers
from core.errors import Fix, ModelError

SHOWN = 8
ALL_LAYERS = Fix("LoRA on all layers that can have it", {"model.lora_targets": ()})


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
            "LoRA finds no layer in this model",
            "It has no linear layer and no convolution beside its classifier.",
            (Fix("Train everything", {"model.method": "full"}),),
        )
    parts = [name for name, _ in model.named_modules()]
    groups = [name for name in unknown if any(_ends_in(part, name) for part in parts)]
    last_names = list(dict.fromkeys(map(_telling_end, layers)))
    usable = f"Layers of this model that can have LoRA are called {_listed(last_names)}."
    told = (
        f"{_listed(groups)} can't have it (it is no linear layer, or trains as a whole). " if groups else ""
    )
    return TargetError(
        f"No layer for LoRA is called {_listed(unknown)}",
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
    fix = (Fix(f"Use {', '.join(offered)}", {"model.lora_targets": offered}),) if offered else ()
    return (*fix, ALL_LAYERS)


USUAL = ("query", "value", "q_proj", "v_proj", "q_lin", "v_lin", "query_proj", "value_proj", "c_attn", "Wqkv")
"""What models call the layers that the paper on LoRA (arXiv 2106.09685) adapts."""


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
