"""What to say when memory ran out: what was asked, what there was, which part is the largest, and what to do.

The engine says it where torch could not get what it needed, the front ends where the operating system ended the
engine. PyTorch's own advice for MPS, to lift the ceiling, "may cause system failure" in its own words: it is never
passed on.
"""

import re
from collections.abc import Iterator
from itertools import islice

from core import figures
from core.errors import Fix, OutOfMemory
from core.events import MemoryForecast
from core.memory.forecast import PART_TITLES, Basis
from core.memory.remedies import Asked, checkpointing, less_to_see, small_matrices, smaller_batches
from core.memory.shape import ModelShape
from core.model_report import ModelReport
from core.options import RunOptions
from core.reports import DeviceReport

ONLY_IF_IT_FITS = "HONE_ONLY_IF_IT_FITS"
"""In the environment of a run that is to end where its forecast doesn't fit: nobody has agreed to that."""

UNKNOWN_MODEL = ModelReport(activation_checkpointing=True)
UNKNOWN_DEVICE = DeviceReport(name="", title="", available=True)
"""What remedies are asked about where nobody has looked at either yet: a model that can do what most can."""

_TRIED = re.compile(r"tried to allocate\s+([\d.]+)\s*(bytes|[KMG]i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def out_of_memory(options: RunOptions, forecast: MemoryForecast | None, report: str = "") -> OutOfMemory:
    """The error to show.

    Args:
        options: What was asked.
        forecast: What the run was told to take; None where memory ran out before that.
        report: What torch or the operating system said.
    """
    sentences = [f"{_batch(options, forecast)} didn't fit.", *what_was_told(forecast), *_asked_for(report)]
    fixes = forecast.fixes if forecast is not None and forecast.fixes else tuple(first_aid(options))
    return OutOfMemory("Memory ran out", " ".join(sentences), fixes)


def first_aid(options: RunOptions) -> Iterator[Fix]:
    """What to do where nothing is known of the model or how much there is: of the ladder what suits nearly all."""
    asked = Asked(options, UNKNOWN_MODEL, ModelShape(parameters=0), UNKNOWN_DEVICE)
    yield from _half_the_batch(asked)
    for step in (*checkpointing(asked), *small_matrices(asked), *less_to_see(asked)):
        yield Fix(step.title, dict(step.changes))


def _half_the_batch(asked: Asked) -> Iterator[Fix]:
    """The first of the smaller batches, its effect said in the label: a fix has no other place for it."""
    for step in islice(smaller_batches(asked), 1):
        half, before = step.changes["memory.batch_size"], asked.options.effective_batch
        samples = half * step.changes["memory.gradient_accumulation_steps"]
        effect = "to the same effect" if samples == before else f"to {samples} rows instead of {before}"
        yield Fix(f"Batches of {half}, accumulated {effect}", dict(step.changes))


def _batch(options: RunOptions, forecast: MemoryForecast | None) -> str:
    count = options.memory.batch_size
    batch = "A batch of 1 row" if count == 1 else f"A batch of {count:,} rows"
    length = f" of up to {forecast.length:,} tokens" if forecast is not None and forecast.length else ""
    return f"{batch}{length}"


def what_was_told(forecast: MemoryForecast | None, *, before: bool = False) -> Iterator[str]:
    """What a run was told to take, what was free, and its largest part, in sentences; nothing without a forecast.

    `before` says it of a run that is yet to start.
    """
    if forecast is None:
        return
    parts = forecast.parts
    told = "as measured before" if forecast.basis is Basis.MEASURED else "by forecast"
    room = forecast.room
    needs, are = ("needs", "are") if before else ("was to take", "were")
    free = f", and {figures.size(room.free)} of {figures.size(room.ceiling)} {are} free" if room else ""
    yield f"The run {needs} {figures.size(parts.total)} {told}{free}."
    title, held = PART_TITLES[parts.largest], getattr(parts, parts.largest)
    yield f"Its largest part: {title[0].lower()}{title[1:]}, {figures.size(held)}."


def _asked_for(report: str) -> Iterator[str]:
    """The one allocation that failed, where torch tells its size."""
    found = _TRIED.search(report)
    if found:
        unit = (found.group(2) or "").lower().removeprefix("bytes")[:1]
        yield f"What could not be had were {figures.size(float(found.group(1)) * _UNITS[unit])} more."
