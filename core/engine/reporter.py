"""Writes what happens in the engine into the run's `events.jsonl`."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable

import msgspec

from core.base.ceiling import say
from core.base.errors import DoesntFit, Fix, UserError
from core.base.language import _
from core.runs.event_log import EventWriter, current_attempt
from core.runs.events import (
    Event,
    Level,
    MessageRaised,
    Outcome,
    Phase,
    PhaseChanged,
    RunFinished,
    RunStarted,
)
from core.runs.folder import RunFolder
from core.runs.progress import Progress
from core.runs.status import DOESNT_FIT, PAUSED_ITSELF, RunStatus

READ_IN = {
    Phase.LOADING_DATA: "{}",
    Phase.LOADING_MODEL: _("The model {}"),
    Phase.TOKENIZING: "Tokenizing",
}
"""What of a stranger's is read in which phase, by its detail."""


class Reporter:
    """The only writer of a run's events. A new one on the same folder begins the next attempt.

    What is written is also said on standard error, in the words of the command line, so that the log can be read.

    `attempt` counts the attempts on the folder, this one included. `listeners` are called with each event once it is
    written, in whatever thread wrote it: they must be quick.

    Args:
        run: The run's folder; None: a dry run has none, and only standard error hears of it.
    """

    def __init__(self, run: RunFolder | None) -> None:
        self.attempt = 1 if run is None else current_attempt(run)
        self.listeners: list[Callable[[Event], None]] = []
        self._writer = None if run is None else EventWriter(run.events_file, attempt=self.attempt)
        self._lock = threading.RLock()  # a warning raised while one event is written may become another
        self._begun = time.monotonic()
        self._status = RunStatus()
        self._log = Progress(self._status, sys.stderr)

    @property
    def status(self) -> RunStatus:
        """What has been written so far comes to; to be read only."""
        return self._status

    def write(self, *events: Event) -> None:
        """Append events, those that are known together at once: each access to the file takes time. Any thread may."""
        with self._lock:
            events = tuple(map(self._with_duration, events))
            if self._writer is not None:
                self._writer.write(*events)
            for event in events:
                self._status.apply(event)
                with contextlib.suppress(OSError):  # the log can't be written: the events tell all of it
                    self._log.show(event)
                for listener in tuple(self.listeners):
                    listener(event)

    def _with_duration(self, event: Event) -> Event:
        """The event; the end of the attempt with how long that was."""
        if not isinstance(event, RunFinished):
            return event
        return msgspec.structs.replace(event, worked=time.monotonic() - self._begun)

    def start(self, versions: dict[str, str], from_step: int = 0) -> None:
        """Begin the attempt."""
        self.write(RunStarted(from_step=from_step, pid=os.getpid(), versions=versions))

    def phase(self, phase: Phase, detail: str = "") -> None:
        """Say what the engine is busy with from now on, where that is news."""
        say(READ_IN[phase].format(detail) if phase in READ_IN else "")
        if (phase, detail) != (self._status.phase, self._status.phase_detail):
            self.write(PhaseChanged(phase=phase, detail=detail))

    def note(self, message_id: str, title: str, detail: str = "") -> None:
        """Mention something that changes nothing."""
        self.write(MessageRaised(id=message_id, level=Level.INFO, title=title, detail=detail))

    def warn(self, message_id: str, title: str, detail: str = "", fixes: tuple[Fix, ...] = ()) -> None:
        """Warn of something that makes the run worse."""
        self.write(MessageRaised(id=message_id, level=Level.WARNING, title=title, detail=detail, fixes=fixes))

    def pause(self, error: UserError) -> None:
        """Say why the run can't go on for now, and end the attempt as paused."""
        self._end(error, PAUSED_ITSELF, Outcome.PAUSED)

    def fail(self, error: UserError) -> None:
        """Say why the run can't go on, and end it as failed."""
        self._end(error, DOESNT_FIT if isinstance(error, DoesntFit) else "failed", Outcome.FAILED)

    def _end(self, error: UserError, message_id: str, outcome: Outcome) -> None:
        with contextlib.suppress(OSError):
            self._log.say(str(error))
        self.write(
            MessageRaised(
                id=message_id, level=Level.ERROR, title=error.title, detail=error.detail, fixes=error.fixes
            ),
            RunFinished(state=outcome, steps=self._status.step),
        )
