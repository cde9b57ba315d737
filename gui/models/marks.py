"""Moments of a run that its charts point out: checkpoints, evaluations, messages."""

from dataclasses import dataclass
from enum import StrEnum

from core.events import CheckpointSaved, Evaluated, Event, Level, MessageRaised, RunStarted


class MarkKind(StrEnum):
    """What happened."""

    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


_LEVELS = {Level.INFO: MarkKind.NOTE, Level.WARNING: MarkKind.WARNING, Level.ERROR: MarkKind.ERROR}


@dataclass(frozen=True)
class Mark:
    """One moment, in seconds since the run's start. `step` is what it came after, None where it belongs to none."""

    clock: float
    kind: MarkKind
    step: int | None = None
    title: str = ""


class Marks:
    """All of them in the order of time. Apply the run's events in order."""

    def __init__(self) -> None:
        self.found: list[Mark] = []

    def apply(self, event: Event, clock: float) -> None:
        """Add one event, `clock` seconds after the run's start; others than those marked are welcome too."""
        match event:
            case RunStarted():
                self.found = [mark for mark in self.found if (mark.step or 0) <= event.from_step]
            case CheckpointSaved():
                self.found.append(Mark(clock, MarkKind.CHECKPOINT, event.step))
            case Evaluated():
                self.found.append(Mark(clock, MarkKind.EVALUATION, event.step))
            case MessageRaised():
                self.found.append(Mark(clock, _LEVELS[event.level], title=event.title))
