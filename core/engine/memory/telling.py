"""What a run is told to take of memory, once its model is loaded; and what it took, remembered at its end."""

from typing import Any

import msgspec
import psutil

from core import figures
from core.engine.check_model import check_model
from core.engine.data.lengths import lengths_of
from core.engine.devices import Choice
from core.engine.tasks import Prepared
from core.errors import DoesntFit, Fix, FixAction
from core.events import MemoryForecast
from core.extent import with_batch_within
from core.memory import anatomy, record
from core.memory.forecast import Forecast, Room, Verdict, verdict
from core.memory.ladder import Remedy, ladder
from core.memory.room import room_of
from core.memory.shortage import what_was_told
from core.story import RunStory

MOST_FIXES = 5
WHOLE_EPOCH = 0.999
SHORTEST = 1
"""Tokens of a row before any has been read: what such rows take is the least that the run can take."""


def foretell(choice: Choice, prepared: Prepared | None, known: Forecast | None) -> MemoryForecast | None:
    """The forecast of a run, with what to do should it not come true.

    The model is built once more without numbers: the loaded one may be packed, or wrapped with what learns beside it.
    Random numbers are drawn meanwhile; whoever counts on their order sets the seed afterwards, as Trainer does.

    Args:
        choice: What it computes on.
        prepared: Its model and data; None before they are loaded: the forecast is then the least it can take,
            a batch of one short row.
        known: What was found out before it started; None: the formula is asked.

    Returns:
        None where the model's shape can't be told.
    """
    options = with_batch_within(choice.settled, len(prepared.train) if prepared else 1)
    device = choice.device
    model = check_model(options, len(prepared.labels)) if prepared else check_model(options)
    if model.shape is None:
        return None
    room = _before_loading(room_of(device), choice)
    length = None
    if options.task.reads_text:
        length = _longest(prepared.train) if prepared else SHORTEST
    correction = record.correction(device.title)
    forecast = known or anatomy.forecast(
        options, model.shape, device, length=length, room=room, correction=correction
    )
    remedies = ladder(options, model, device, room, length=length, correction=correction)
    return MemoryForecast(
        device=choice.label,
        basis=forecast.basis,
        parts=forecast.parts,
        room=room or forecast.room,
        correction=forecast.correction,
        length=length if forecast.length is None else forecast.length,
        fixes=tuple(_as_fix(remedy) for remedy in remedies if remedy.changes)[:MOST_FIXES],
    )


def refuse_too_large(told: MemoryForecast | None) -> None:
    """End a run before it takes what isn't there.

    Raises:
        DoesntFit: By forecast more is needed than is free.
    """
    if told is not None and verdict(told.parts.total, told.room) is Verdict.TOO_LARGE:
        anyway = Fix("Start it anyway", action=FixAction.RESUME)
        raise DoesntFit(
            "It doesn't fit into memory", " ".join(what_was_told(told, before=True)), (*told.fixes, anyway)
        )


def remember(story: RunStory, choice: Choice) -> None:
    """Keep what a run that has ended well took, so that the next forecasts on this device come closer.

    One that has not gone through all its data may not have met its longest batch, and would teach too little.
    """
    told, measured = story.forecast_bytes, story.peak_bytes
    if (
        story.epoch < WHOLE_EPOCH
        or story.forecast_error is None
        or story.forecast is None
        or told is None
        or measured is None
    ):
        return
    record.remember(
        record.PastRun(
            device=choice.device.title,
            basis=story.forecast.basis,
            forecast=told,
            measured=measured,
            correction=story.forecast.correction,
        )
    )


def _longest(samples: Any) -> int | None:
    """Tokens of the longest row; None where rows tell no lengths."""
    return max(lengths_of(samples) or (), default=None)


def _before_loading(room: Room | None, choice: Choice) -> Room | None:
    """The room there was before this process took what it holds of the computer's memory already."""
    if room is None or choice.kind != "cpu":
        return room
    return msgspec.structs.replace(
        room, free=min(room.ceiling, room.free + psutil.Process().memory_info().rss)
    )


def _as_fix(remedy: Remedy) -> Fix:
    saves = f" (saves {figures.size(remedy.saves)})" if remedy.saves > 0 else ""
    return Fix(f"{remedy.title}{saves}", remedy.changes)
