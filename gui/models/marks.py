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
    """All of them by their kind, each in the order of time. Apply the run's events in order."""

    def __init__(self) -> None:
        self.found: dict[MarkKind, list[Mark]] = {kind: [] for kind in MarkKind}

    def apply(self, event: Event, clock: float) -> None:
        """Add one event, `clock` seconds after the run's start; others than those marked are welcome too."""
        match event:
            case RunStarted():
                self._forget_after(event.from_step)
            case CheckpointSaved():
                self._add(Mark(clock, MarkKind.CHECKPOINT, event.step))
            case Evaluated():
                self._add(Mark(clock, MarkKind.EVALUATION, event.step))
            case MessageRaised():
                self._add(Mark(clock, _LEVELS[event.level], title=event.title))

    def _add(self, mark: Mark) -> None:
        self.found[mark.kind].append(mark)

    def _forget_after(self, step: int) -> None:
        """A later attempt starts again from there."""
        for kind, marks in self.found.items():
            self.found[kind] = [mark for mark in marks if (mark.step or 0) <= step]
