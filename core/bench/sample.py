"""One measurement: what is asked of a fresh engine, and what it answers. Seconds are wall time, bytes are bytes."""

import msgspec

from core.events import WhatRan
from core.memory.forecast import Parts
from core.options import Tree


class SampleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The wish for some timed steps.

    `asked` is a run's options as plain values, folders absolute. `steps` optimizer steps are timed, after `warm_up`
    that are not.
    """

    asked: Tree
    steps: int
    warm_up: int = 1


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measured.

    `seconds` are the timed optimizer steps one by one, from the end of the step before, waiting for data included;
    `warm_up_seconds` those before them, and `compile_seconds` what compiling took, which neither holds. A step learns
    from `samples_a_step` rows. `rows` is how many the data has: an epoch.

    `losses` are those of all steps, those of the warm-up first; None: no number. `first_loss` is that of the first
    batch before anything was learned, dropout off: the same on every device that computes the same. `is_random` says
    that the model draws random numbers while it learns (dropout), so that the losses after the first step may differ
    between devices.

    `parts` add up to `peak`, which is as in `core.memory.forecast.Measurement`; `base` was held before data and model.
    `ran` is what really ran. `out_of_memory` says, where memory ran out, what was asked and what there was: then
    `seconds` are empty.
    """

    device: str
    seconds: tuple[float, ...] = ()
    warm_up_seconds: tuple[float, ...] = ()
    compile_seconds: float = 0.0
    samples_a_step: int = 0
    rows: int = 0
    losses: tuple[float | None, ...] = ()
    first_loss: float | None = None
    is_random: bool = False
    parts: Parts = Parts()
    peak: int = 0
    base: int = 0
    ran: WhatRan | None = None
    out_of_memory: str = ""
