"""Declare an option: type, default and limits by its annotation, everything else by `about`."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec
from msgspec import Meta

from core.options.choices import Method, Optimizer, Task

Needs = Mapping[str, tuple[object, ...]]
"""The values other options must have for this one to mean anything, by path."""


def _tasks(fits: Callable[[Task], bool]) -> Needs:
    return MappingProxyType({"task": tuple(filter(fits, Task))})


FOR_TEXT = _tasks(lambda task: task.reads_text)
FOR_IMAGES = _tasks(lambda task: task.reads_images)
FOR_TEXT_COLUMNS = _tasks(lambda task: task.reads_text and not task.reads_conversations)
FOR_LABEL_COLUMN = _tasks(lambda task: task.has_labels or task is Task.TEXT_REGRESSION)
FOR_SINGLE_TEXTS = _tasks(lambda task: task.reads_text and task is not Task.CAUSAL_LM)
"""Where a text is a sample, and not a part of one long text."""
FOR_CONVERSATIONS = _tasks(lambda task: task.reads_conversations)
FOR_WRITING = _tasks(lambda task: task.writes_text)
FOR_CHAT = _tasks(lambda task: task is Task.CHAT)
FOR_PREFERENCE = _tasks(lambda task: task is Task.PREFERENCE)
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
    share_below_one: bool = False,
    advanced: bool = False,
    group: str = "",
    needs: Needs = MappingProxyType({}),
    of_scratch: bool | None = None,
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
        share_below_one: Whether a number below 1 is a share of the run, and counts nothing.
        advanced: Whether the form keeps it under "More".
        group: The heading it stands below there.
        needs: What other options must be for it to mean anything.
        of_scratch: Whether it acts for models from scratch only, or for all others; None: for both.
        aliases: Names by which Trainer's users know it; a run file may use them in its section or at its top.
        path: Whether its value may be a file or folder (relative to the run file).
        ge: The smallest value allowed.
        gt: The value it must be above, in place of `ge`.
        le: The largest value allowed.
    """
    extra = {
        "unit": unit,
        "share_below_one": share_below_one,
        "advanced": advanced,
        "group": group,
        "needs": dict(needs),
        "of_scratch": of_scratch,
        "aliases": aliases,
        "path": path,
    }
    if gt is not None:
        return Meta(title=title, description=description, extra=extra, gt=gt, le=le)
    return Meta(title=title, description=description, extra=extra, ge=ge, le=le)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the sections of a run file."""
