"""What to say when memory ran out: what was asked, what there was, which part is the largest, and what to do.

The engine says it where torch could not get what it needed, the front ends where the operating system ended the
engine. PyTorch's own advice for MPS, to lift the ceiling, "may cause system failure" in its own words: it is never
passed on.
"""

import re
from collections.abc import Iterator

from core.choices import Method, Task
from core.commands import figures
from core.errors import Fix, OutOfMemory
from core.events import MemoryForecast
from core.hints import LORA_RATE
from core.memory.forecast import PART_TITLES, Basis
from core.options import RunOptions

SHORTEST_TEXT = 32
SMALLEST_IMAGE = 64

_TRIED = re.compile(r"tried to allocate\s+([\d.]+)\s*(bytes|[KMG]i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def out_of_memory(options: RunOptions, forecast: MemoryForecast | None, report: str = "") -> OutOfMemory:
    """The error to show.

    Args:
        options: What was asked.
        forecast: What the run was told to take; None where memory ran out before that.
        report: What torch or the operating system said.
    """
    sentences = [f"{_batch(options, forecast)} didn't fit.", *_figures(forecast), *_asked_for(report)]
    fixes = forecast.fixes if forecast is not None and forecast.fixes else tuple(first_aid(options))
    return OutOfMemory("Memory ran out", " ".join(sentences), fixes)


def first_aid(options: RunOptions) -> Iterator[Fix]:
    """What to do where nothing is known of the model, the remedy that costs least first."""
    yield from _smaller_batches(options)
    if not options.memory.activation_checkpointing and options.model.method is not Method.HEAD:
        yield Fix("Compute activations again", {"memory.activation_checkpointing": True})
    if options.model.method is Method.FULL and options.model.pretrained:
        yield Fix(
            "Train LoRA in place of all weights",
            {"model.method": "lora", "training.learning_rate": LORA_RATE},
        )
    data = options.data
    if options.task is Task.TEXT_CLASSIFICATION and data.max_length > SHORTEST_TEXT:
        shorter = data.max_length // 2
        yield Fix(f"Cut texts at {shorter} tokens", {"data.max_length": shorter})
    if options.task is Task.IMAGE_CLASSIFICATION and data.image_size > SMALLEST_IMAGE:
        smaller = max(SMALLEST_IMAGE, data.image_size // 2)
        yield Fix(f"Images of {smaller} pixels", {"data.image_size": smaller})


def _smaller_batches(options: RunOptions) -> Iterator[Fix]:
    """Half the batch, accumulated to as many samples a step as before, or as near as that comes."""
    half, before = options.memory.batch_size // 2, options.effective_batch
    if half == 0:
        return
    steps = round(before / half)
    effect = (
        "to the same effect" if half * steps == before else f"to {half * steps} samples instead of {before}"
    )
    changes = {"memory.batch_size": half, "memory.gradient_accumulation_steps": steps}
    yield Fix(f"Batches of {half}, accumulated {effect}", changes)


def _batch(options: RunOptions, forecast: MemoryForecast | None) -> str:
    count = options.memory.batch_size
    batch = "A batch of 1 sample" if count == 1 else f"A batch of {count:,} samples"
    length = f" of up to {forecast.length:,} tokens" if forecast is not None and forecast.length else ""
    return f"{batch}{length}"


def _figures(forecast: MemoryForecast | None) -> Iterator[str]:
    if forecast is None:
        return
    parts = forecast.parts
    told = "as measured before" if forecast.basis is Basis.MEASURED else "by forecast"
    room = forecast.room
    free = f", and {figures.size(room.free)} of {figures.size(room.ceiling)} were free" if room else ""
    yield f"It was to take {figures.size(parts.total)} {told}{free}."
    title, held = PART_TITLES[parts.largest], getattr(parts, parts.largest)
    yield f"Its largest part: {title[0].lower()}{title[1:]}, {figures.size(held)}."


def _asked_for(report: str) -> Iterator[str]:
    """The one allocation that failed, where torch tells its size."""
    found = _TRIED.search(report)
    if found:
        unit = (found.group(2) or "").lower().removeprefix("bytes")[:1]
        yield f"What could not be had were {figures.size(float(found.group(1)) * _UNITS[unit])} more."
