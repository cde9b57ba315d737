"""Run all warning rules, and raise or withdraw their messages."""

import os
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

import msgspec

from core.monitor import loss_rules, system_rules
from core.monitor.recent import Finding, Recent
from core.monitor.system_rules import Activity, Paging
from core.options import RunOptions
from core.runs.events import Event, MessageWithdrawn, RunStarted
from core.runs.words import first_aid

RULES: dict[str, Callable[..., Finding | None]] = {
    loss_rules.LOST_LOSS: loss_rules.lost_loss,
    loss_rules.EXPLODING_LOSS: loss_rules.exploding_loss,
    system_rules.SILENCE: system_rules.silence,
    system_rules.DISK_FULL: system_rules.disk_space,
    system_rules.THROTTLING: system_rules.throttling,
    system_rules.STARVING: system_rules.starving,
    loss_rules.STANDING_LOSS: loss_rules.standing_loss,
    system_rules.BATTERY: system_rules.battery,
}
"""By the id of the message: functions `rule(recent, raised=key)`. Paging, which keeps samples of its own, is added."""

OF_THE_MOMENT = frozenset(
    {system_rules.BATTERY, system_rules.DISK_FULL, system_rules.SILENCE, system_rules.THROTTLING}
)
"""Messages about the computer, withdrawn when the run is over. The others tell what to change next time."""


class Watchdog:
    """Watches a run.

    Args:
        options: The run's options; None: they can't be read.
        activity: Reads how busy the engine's process is.
        cores: Processor cores of this computer.
    """

    def __init__(
        self, options: RunOptions | None, *, activity: Activity | None = None, cores: int | None = None
    ) -> None:
        self._options = options
        self._activity = activity
        self._cores = cores or os.cpu_count() or 1
        self._raised: dict[str, str] = {}
        self._has_begun = False
        self._new_attempt()

    def _new_attempt(self) -> None:
        self._recent = Recent(self._options, self._cores)
        self._paging = Paging(tuple(first_aid(self._options)) if self._options else ())
        self._rules = {**RULES, system_rules.PAGING: self._paging.judge}
        self._raised.clear()

    def take(self, events: Iterable[Event], now: float, wall: float | None = None) -> list[Event]:
        """Take in what happened since the last call, about a second ago; returns the messages to write.

        Args:
            events: Stamped by the computer's clock.
            now: Time of a monotonic clock.
            wall: What the computer's clock says now; None: `now` is its time.
        """
        before = self._recent.now
        for stamped in sorted(events, key=attrgetter("time")):
            event = stamped
            if (
                wall is not None
            ):  # what was stamped before the clock was set happened since the last call, too
                time = min(max(before, now - wall + stamped.time), now)
                event = msgspec.structs.replace(stamped, time=time)
            if isinstance(event, RunStarted):
                self._new_attempt()
                self._has_begun = True
            self._recent.apply(event)
            self._paging.apply(event)
        self._recent.tick(now)
        if self._recent.is_over:
            return self.end()
        return list(self._apply_rules()) if self._has_begun else []

    def end(self) -> list[Event]:
        """The run is over: withdraw what no longer tells anything."""
        self._has_begun = False
        over = set(OF_THE_MOMENT)
        if self._recent.failure is not None:
            over.add(loss_rules.LOST_LOSS)  # the engine has reported it, and what to do
        return [self._withdraw(name) for name in list(self._raised) if name in over]

    def _apply_rules(self) -> Iterator[Event]:
        if self._activity is not None:  # reading a process tree each second isn't free
            if system_rules.is_suspicious(self._recent):
                self._recent.set_engine_busy(self._activity.read())
            else:
                self._activity.reset()
        for name, rule in self._rules.items():
            found = rule(self._recent, raised=self._raised.get(name, ""))
            if found is None:
                if name in self._raised:
                    yield self._withdraw(name)
            elif self._raised.get(name) != found.key:
                self._raised[name] = found.key
                yield found.message(name)

    def _withdraw(self, name: str) -> MessageWithdrawn:
        del self._raised[name]
        return MessageWithdrawn(id=name)
