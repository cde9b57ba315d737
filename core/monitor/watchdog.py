"""Run all rules, and raise or withdraw their messages."""

import os
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Protocol

import msgspec

from core.monitor import loss_rules, system_rules
from core.monitor.recent import Finding, Recent
from core.monitor.system_rules import Activity, PagingWatch
from core.options import RunOptions
from core.runs.events import Event, MessageRaised, MessageWithdrawn, RunStarted
from core.runs.words import first_aid


class Look(Protocol):
    """What every watcher is: a function of the last minutes.

    `raised` is the key of its finding that stands now, empty where none does: what stands has a wider limit to pass
    before it goes, so that messages don't come and go.
    """

    def __call__(self, recent: Recent, *, raised: str) -> Finding | None:
        """What is wrong now; None: nothing, as far as is known."""


WATCHERS: dict[str, Look] = {
    loss_rules.LOST_LOSS: loss_rules.lost_loss,
    loss_rules.EXPLODING_LOSS: loss_rules.exploding_loss,
    system_rules.SILENCE: system_rules.silence,
    system_rules.DISK_FULL: system_rules.disk_space,
    system_rules.THROTTLING: system_rules.throttling,
    system_rules.STARVING: system_rules.starving,
    loss_rules.STANDING_LOSS: loss_rules.standing_loss,
    system_rules.BATTERY: system_rules.battery,
}
"""By the id of the message. Paging stands apart: it has to remember what a step took before."""

OF_THE_MOMENT = frozenset(
    {system_rules.BATTERY, system_rules.DISK_FULL, system_rules.SILENCE, system_rules.THROTTLING}
)
"""Messages about the computer, which say nothing once the run is over. The others tell what to change next time."""


class Watchdog:
    """Watches one attempt of a run.

    Args:
        options: What was asked; None: that can't be read.
        activity: What tells how busy the engine's process is; None: nobody does.
        cores: Processor cores of this computer; None: ask it.
    """

    def __init__(
        self,
        options: RunOptions | None,
        *,
        activity: Activity | None = None,
        cores: int | None = None,
    ) -> None:
        self._options = options
        self._activity = activity
        self._cores = cores or os.cpu_count() or 1
        self._paging = PagingWatch(tuple(first_aid(options)) if options else ())
        self._recent = Recent(options, self._cores)
        self._has_begun = False
        self._raised: dict[str, str] = {}

    def take(self, events: Iterable[Event], now: float, wall: float | None = None) -> list[Event]:
        """Take in what happened since the last call; returns the messages to write. Call it once a second or so.

        Args:
            events: What happened, told by the computer's clock.
            now: The time of a clock that nobody sets.
            wall: What the computer's clock says now; None: `now` is its time.
        """
        messages: list[Event] = []
        before = self._recent.now
        for told in sorted(events, key=attrgetter("time")):
            event = told
            if wall is not None:  # what was told before the clock was set happened since the last call, too
                event = msgspec.structs.replace(told, time=min(max(before, now - wall + told.time), now))
            if isinstance(event, RunStarted):
                self._begin()
            self._recent.apply(event)
            messages += self._paging.apply(event)
        self._recent.tick(now)
        if self._recent.is_over:
            return [*messages, *self.end()]
        return [*messages, *self._look()] if self._has_begun else messages

    def end(self) -> list[Event]:
        """The run is over, however it ended: withdraw what no longer says anything."""
        self._has_begun = False
        over = set(OF_THE_MOMENT)
        if self._recent.failure is not None:
            over.add(loss_rules.LOST_LOSS)  # the engine has said it, and what to do
        gone = [name for name in self._raised if name in over]
        return [self._withdraw(name) for name in gone]

    def _begin(self) -> None:
        """Nothing is said before the engine's first word: a new attempt clears the messages of those before."""
        self._recent = Recent(self._options, self._cores)
        self._raised.clear()
        self._has_begun = True

    def _look(self) -> Iterator[Event]:
        self._look_at_process()
        for name, look in WATCHERS.items():
            found = look(self._recent, raised=self._raised.get(name, ""))
            if found is None:
                if name in self._raised:
                    yield self._withdraw(name)
            elif self._raised.get(name) != found.key:
                yield self._raise(name, found)

    def _look_at_process(self) -> None:
        """Ask for processor time only where it is silent: reading a process tree each second isn't free."""
        if self._activity is None:
            return
        if system_rules.is_suspicious(self._recent):
            self._recent.look_at_process(self._activity.read())
        else:
            self._activity.forget()

    def _raise(self, name: str, found: Finding) -> MessageRaised:
        self._raised[name] = found.key
        return found.message(name)

    def _withdraw(self, name: str) -> MessageWithdrawn:
        del self._raised[name]
        return MessageWithdrawn(id=name)
