"""What every line of a run's files has, and the limits of its figures.

A damaged line may hold any figure at all: one beyond these limits is no event, so that whoever draws, counts or prints
figures needn't ask whether they can be drawn, counted or printed.
"""

import time as clock
from typing import Annotated

import msgspec

LATEST = 253_402_300_799
"""Unix seconds of the end of the year 9999; there is no date beyond."""

Moment = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
"""Unix seconds."""

Seconds = Annotated[float, msgspec.Meta(ge=-LATEST, le=LATEST)]
"""A length of time; below zero by a hair where one figure is taken from another."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""Steps, samples, bytes; a float, which charts keep, holds no larger whole numbers."""

ProcessNumber = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
"""The number of a process, 0 where it isn't told."""


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=_snake):
    """Base of all events. `time` is unix seconds."""

    time: Moment = msgspec.field(default_factory=clock.time)
    attempt: Count = 1
