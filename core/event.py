"""What every line of a run's files has."""

import time as clock

import msgspec


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=_snake):
    """Base of all events. `time` is unix seconds."""

    time: float = msgspec.field(default_factory=clock.time)
    attempt: int = 1
