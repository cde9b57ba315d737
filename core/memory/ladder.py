"""The ladder: what to do about a run that doesn't fit, or fits tightly, the remedy that loses least first.

Padding, accumulation, half precision and activation checkpointing keep the result (or nearly), and stand above what
changes the optimizer, then which weights learn, then where they lie. Cutting texts off stands below all that, because
it loses data for good; a limit of length that cuts nothing stands on top.
"""

from collections.abc import Callable, Iterator

import msgspec

from core.memory.forecast import TIGHT, Forecast, Room
from core.memory.remedies import (
    Asked,
    Step,
    checkpointing,
    dynamic_padding,
    half_precision,
    leaner_optimizers,
    less_to_see,
    offloading,
    packed_weights,
    shorter_rows,
    small_matrices,
    smaller_batches,
    smaller_model,
)
from core.model_report import ModelReport
from core.options import RunOptions
from core.reports import DeviceReport
from core.settling import settle

LEAST = 0.01
"""A remedy that saves less than this share of the memory is none."""

RUNGS: tuple[Callable[[Asked], Iterator[Step]], ...] = (
    dynamic_padding,
    shorter_rows,
    smaller_batches,
    half_precision,
    checkpointing,
    leaner_optimizers,
    small_matrices,
    packed_weights,
    offloading,
    less_to_see,
    smaller_model,
)
"""In the order of least loss."""


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do about memory, with what it brings by forecast.

    `name` tells its kind (`batch`, `precision`, ...). `changes` are values by the path of their option, as a `Fix` has
    them; without any it is advice. `saves` is bytes, `slower` the factor by which a step takes longer, `forecast` what
    the run takes after it.
    """

    name: str
    title: str
    help: str
    changes: dict[str, object] = {}
    saves: int = 0
    slower: float = 1.0
    forecast: Forecast


def ladder(
    options: RunOptions,
    report: ModelReport,
    device: DeviceReport,
    room: Room | None,
    *,
    length: int | None = None,
    correction: float = 1.0,
) -> tuple[Remedy, ...]:
    """The remedies that apply to a run, the one that loses least first. Takes a few milliseconds.

    Args:
        options: What is asked.
        report: What is known of its model; without a shape nothing can be forecast, and there is no ladder.
        device: Where it computes.
        room: The device's memory; a smaller batch is made as small as it takes to fit.
        length: Tokens of the longest row before padding, where that is known.
        correction: As `core.memory.anatomy.forecast` takes it.
    """
    asked = asked_of(options, report, device, room, length=length, correction=correction)
    if asked is None:
        return ()
    now = asked.forecast({})
    found = [_remedy(asked, step, now) for rung in RUNGS for step in _one_batch(asked, rung)]
    least = LEAST * now.parts.total
    return tuple(remedy for remedy in found if remedy.saves >= least or not remedy.changes)


def asked_of(
    options: RunOptions,
    report: ModelReport,
    device: DeviceReport,
    room: Room | None,
    *,
    length: int | None = None,
    correction: float = 1.0,
) -> Asked | None:
    """What is asked, as remedies look at it; None where the model's shape isn't known."""
    if report.shape is None:
        return None
    return Asked(settle(device, options), report, report.shape, device, room, length, correction)


def fits(forecast: Forecast, room: Room | None) -> bool:
    """Whether a run fits with a tenth to spare; without a room nobody knows, and it doesn't."""
    return room is not None and forecast.parts.total <= TIGHT * room.free


def _one_batch(asked: Asked, rung: Callable[[Asked], Iterator[Step]]) -> list[Step]:
    """The steps of a rung that can be made; of batches the largest that fits, and the half where that isn't known."""
    steps = [step for step in rung(asked) if asked.allows(step)]
    if rung is not smaller_batches or not steps:
        return steps
    if asked.room is None:
        return steps[:1]
    enough = (step for step in steps if fits(asked.forecast(step.changes), asked.room))
    return [next(enough, steps[-1])]


def _remedy(asked: Asked, step: Step, now: Forecast) -> Remedy:
    after = asked.forecast(step.changes)
    return Remedy(
        name=step.name,
        title=step.title,
        help=step.help,
        changes=dict(step.changes),
        saves=now.parts.total - after.parts.total,
        slower=step.slower,
        forecast=after,
    )
