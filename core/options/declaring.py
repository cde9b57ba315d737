"""How an option is declared: type, default and limits by its annotation, all else by `about`."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Meta

from core.choices import Method, Optimizer, Task

Needs = Mapping[str, tuple[object, ...]]
"""The values other options must have for this one to mean anything, by path."""

FOR_TEXT: Needs = MappingProxyType({"task": (Task.TEXT_CLASSIFICATION,)})
FOR_IMAGES: Needs = MappingProxyType({"task": (Task.IMAGE_CLASSIFICATION,)})
WITH_LORA: Needs = MappingProxyType({"model.method": (Method.LORA, Method.QLORA)})
WITH_DEEP_GRADIENTS: Needs = MappingProxyType({"model.method": (Method.FULL, Method.LORA, Method.QLORA)})
"""Where gradients go through the whole model. Trained alone, a classifier needs none of the activations below it."""
WITH_BETAS: Needs = MappingProxyType(
    {
        "training.optimizer": tuple(
            kind for kind in Optimizer if kind not in (Optimizer.SGD, Optimizer.ADAFACTOR)
        )
    }
)


def about(
    title: str,
    description: str,
    *,
    unit: str = "",
    advanced: bool = False,
    group: str = "",
    needs: Needs = MappingProxyType({}),
    aliases: tuple[str, ...] = (),
    path: bool = False,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
) -> Meta:
    """Describe one option.

    Args:
        title: The label a form shows.
        description: One or two plain sentences.
        unit: What the number counts, shown behind its field.
        advanced: Whether the form keeps it under "More".
        group: The heading it stands below there.
        needs: What other options must be for it to mean anything.
        aliases: Names by which Trainer's users know it; a run file may use them in its section or at its top.
        path: Whether its value may be a file or folder (relative to the run file).
        ge: The smallest value allowed.
        gt: The value it must be above, in place of `ge`.
        le: The largest value allowed.
    """
    extra = {
        "unit": unit,
        "advanced": advanced,
        "group": group,
        "needs": dict(needs),
        "aliases": aliases,
        "path": path,
    }
    if gt is not None:
        return Meta(title=title, description=description, extra=extra, gt=gt, le=le)
    return Meta(title=title, description=description, extra=extra, ge=ge, le=le)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the sections of a run file."""
