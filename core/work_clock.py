"""The clock of a run's charts: seconds worked. What it waited in the queue or was paused for takes no room in them."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.events import (
    Event,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    RequestAnswered,
    RunFinished,
    TurnAwaited,
    TurnCame,
)

AT_REST = (TurnAwaited, TurnCame, RequestAnswered, MessageRaised, MessageWithdrawn)
"""What is also told while nobody works on the run."""


@dataclass(frozen=True)
class Interruption:
    """Nobody worked on the run for so many `seconds`; the next attempt goes on at `clock`, in seconds worked."""

    clock: float
    seconds: float
    was_paused: bool


class WorkClock:
    """Turns the time of events into seconds worked: each attempt follows directly on the one before.

    An attempt begins with the first thing that is told of its work. Tell of all events, in their order.
    """

    def __init__(self) -> None:
        self.origin = 0.0
        self._attempt = -1
        self._last = 0.0
        self._was_paused = False

    def begins_with(self, event: Event) -> bool:
        """Whether an attempt's work begins with this event."""
        return event.attempt > self._attempt and not isinstance(event, AT_REST)

    def begin(self, event: Event) -> Interruption | None:
        """Let an attempt begin with this event; None: it is the first one."""
        is_first = self._attempt < 0
        worked = 0.0 if is_first else self._last - self.origin
        away = event.time - self._last
        was_paused, self._was_paused = self._was_paused, False
        self._attempt, self.origin, self._last = event.attempt, event.time - worked, event.time
        return None if is_first else Interruption(worked, max(0.0, away), was_paused)

    def at(self, event: Event) -> float:
        """Seconds worked until this event of the attempt that was begun last; of a wait, those until it."""
        if event.attempt > self._attempt:
            return self._last - self.origin
        return event.time - self.origin

    def go_on(self, events: Sequence[Event]) -> None:
        """Note what has been told of the attempt; of what was told while it rested, nothing."""
        of_attempt = (event for event in reversed(events) if event.attempt <= self._attempt)
        newest = next(of_attempt, None)
        if newest is not None:
            self._last = max(self._last, newest.time)
        for event in events:
            if isinstance(event, RunFinished):
                self._was_paused = event.state is Outcome.PAUSED
