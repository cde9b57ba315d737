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
from core.base.jobs import FailureReport
from core.base.language import _
from core.engine.launch import Failure, is_rank, tell_agent
from core.options import RunOptions
from core.runs.event_log import EventWriter
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
from core.runs.status import DOESNT_FIT, IN_BOTH, PAUSED_ITSELF, RunStatus
from core.runs.summary import current_attempt

READ_IN = {
    Phase.LOADING_DATA: "{detail}",
    Phase.LOADING_MODEL: _("The model {detail}"),
    Phase.TOKENIZING: _("Tokenizing"),
}
"""Which untrusted input each phase reads."""


MANY_IN_BOTH = 0.1


class Reporter:
    """The only writer of a run's events, which it also prints to standard error for the log.

    Attributes:
        attempt: The number of this attempt; each new Reporter on a run's folder begins the next.
        status: The run's state after the events so far; read-only.
        listeners: Called with each written event, in the thread that wrote it.

    Args:
        run: The run's folder; None for a dry run, which only prints.
        writes: Whether it writes and prints: of several processes, one does.
    """

    def __init__(self, run: RunFolder | None, *, writes: bool = True) -> None:
        self.attempt = 1 if run is None else current_attempt(run)
        self.status = RunStatus()
        self.listeners: list[Callable[[Event], None]] = []
        self._writer = None
        if run is not None and writes:
            self._writer = EventWriter(run.events_file, attempt=self.attempt)
        self._lock = threading.RLock()  # writing an event may raise a warning, which becomes another event
        self._start = time.monotonic()
        self._log = Progress(self.status, sys.stderr) if writes else None

    def write(self, *events: Event) -> None:
        """Appends events, with one access to the file; thread-safe."""
        with self._lock:
            events = tuple(
                msgspec.structs.replace(event, worked=time.monotonic() - self._start)
                if isinstance(event, RunFinished)
                else event
                for event in events
            )
            if self._writer is not None:
                self._writer.write(*events)
            for event in events:
                self.status.apply(event)
                if self._log is not None:
                    with contextlib.suppress(OSError):  # the log can't be written; the events have it all
                        self._log.show(event)
                for listener in tuple(self.listeners):
                    listener(event)

    def start(self, versions: dict[str, str], from_step: int = 0) -> None:
        self.write(RunStarted(from_step=from_step, pid=os.getpid(), versions=versions))

    def phase(self, phase: Phase, detail: str = "") -> None:
        """Reports what the engine is doing from now on, if that changes."""
        say(READ_IN.get(phase, "").format(detail=detail))
        if (phase, detail) != (self.status.phase, self.status.phase_detail):
            self.write(PhaseChanged(phase=phase, detail=detail))

    def note(self, message_id: str, title: str, detail: str = "") -> None:
        self.write(MessageRaised(id=message_id, level=Level.INFO, title=title, detail=detail))

    def warn(self, message_id: str, title: str, detail: str = "", fixes: tuple[Fix, ...] = ()) -> None:
        self.write(MessageRaised(id=message_id, level=Level.WARNING, title=title, detail=detail, fixes=fixes))

    def warn_if_in_both(self, in_both: int, evaluated: int, options: RunOptions) -> None:
        """Warns if many of the `evaluated` examples are also trained on; a few hardly change the result."""
        if in_both and in_both >= MANY_IN_BOTH * evaluated:
            title = _("{count:,} of {all:,} validation examples are also trained on")
            if options.only_evaluates:  # a part of it may have been held out
                title = _(
                    "{count:,} of {all:,} examples are also in the data that the model was trained or validated on"
                )
            self.warn(
                IN_BOTH,
                title.format(count=in_both, all=evaluated),
                _("On new examples the model is likely to do worse than the result says."),
            )

    def pause(self, error: UserError) -> None:
        """Reports why the run can't go on for now, and ends the attempt as paused."""
        self._end(error, PAUSED_ITSELF, Outcome.PAUSED)

    def fail(self, error: UserError, *, known: bool = True) -> None:
        """Reports why the run can't go on, and ends it as failed; `known` unless Hone has no sentence for it."""
        self._end(error, DOESNT_FIT if isinstance(error, DoesntFit) else "failed", Outcome.FAILED, known)

    def _end(self, error: UserError, message_id: str, outcome: Outcome, known: bool = True) -> None:
        if is_rank():  # the others fail with it: the agent writes the one reason
            report = FailureReport(title=error.title, detail=error.detail, fixes=error.fixes)
            tell_agent(Failure(error=report, message_id=message_id, outcome=outcome, known=known))
            return
        with contextlib.suppress(OSError):
            if self._log is not None:
                self._log.say(str(error))
        self.write(
            MessageRaised(
                id=message_id, level=Level.ERROR, title=error.title, detail=error.detail, fixes=error.fixes
            ),
            RunFinished(state=outcome, steps=self.status.step),
        )
