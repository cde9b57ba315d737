"""A terminal that stays with a run: shows its progress, passes on Ctrl-C, says how it ended."""

import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType, TracebackType

from core.commands.progress import Progress
from core.commands.run_text import ending_text, name_of, unread_text
from core.events import Event, encode
from core.follow import RunFollower
from core.run_folder import Action, RunFolder
from core.story import DOESNT_FIT, PAUSED_ITSELF, State

POLL_SECONDS = 0.1
BACKLOG = 1000
"""So many events in one poll are a long file being caught up with: no pause then."""

INTERRUPTED = 130
WRONG_REQUEST = 2
TOO_LARGE = 3
"""The exit status of an answer that is no: the run doesn't fit."""

ENDED_WELL = (State.FINISHED, State.STOPPED, State.PAUSED)
"""What a run can come to that was asked for."""

REMOVED = (
    "The run's folder is no longer there: it was removed or renamed, or its disk is not connected. Where it was "
    "renamed, the run goes on in it."
)

_SAID = {
    Action.STOP: "Stopping; what is trained is kept. Ctrl-C again ends it at once.",
    Action.KILL: "Ending it at once. Ctrl-C again leaves it alone.",
}


def ended_well(follower: RunFollower) -> bool:
    """Whether a run came to what was asked for; one that paused by itself, for want of room, didn't."""
    return follower.state in ENDED_WELL and PAUSED_ITSELF not in follower.story.messages


class Interrupts:
    """While entered, counts Ctrl-C and SIGTERM, which else would end the program wherever it is."""

    def __init__(self) -> None:
        self.count = 0
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> "Interrupts":
        for number in self._before:
            signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


class Attendance:
    """One terminal staying with one run.

    Args:
        run: The run's folder.
        interrupts: What counts Ctrl-C, entered already.
        answers: What the first Ctrl-C asks of the run, what the second; one more leaves the run alone.
        as_json: Whether events go to standard output, a JSON line each.
        first_attempt: What earlier attempts told is not shown.
    """

    def __init__(
        self,
        run: RunFolder,
        interrupts: Interrupts,
        answers: Sequence[Action] = (),
        *,
        as_json: bool = False,
        first_attempt: int = 0,
    ) -> None:
        self._run = run
        self._interrupts = interrupts
        self._answers = answers
        self._answered = 0
        self._follower = RunFollower(run)
        self._progress = Progress(self._follower.story, sys.stderr, run.path)
        self._as_json = as_json
        self._first_attempt = first_attempt
        self.has_left = False

    def stay(self) -> int:
        """Wait for the run's end, or until the person leaves it; returns the exit status."""
        try:
            self._progress.say(f"The run is kept in {self._run.path}")
            while not (self._follower.is_over or self._run.is_removed or self.has_left):
                events = self._follower.poll()
                for event in events:
                    if event.attempt >= self._first_attempt:
                        self._show(event)
                self._answer_interrupt()
                if len(events) < BACKLOG:
                    time.sleep(POLL_SECONDS)
        finally:
            self._progress.close()
        return self._leave() if self.has_left else self._conclude()

    def _answer_interrupt(self) -> None:
        """Do what the next unanswered Ctrl-C is for."""
        if self._answered == self._interrupts.count:
            return
        if self._answered == len(self._answers):
            self.has_left = True
            return
        action = self._answers[self._answered]
        self._answered += 1
        try:
            self._run.ask(action)
        except OSError as error:
            self._progress.say(f"The run can't be asked to end: {error}. It goes on; try Ctrl-C again.")
        else:
            self._progress.say(_SAID[action])

    def _show(self, event: Event) -> None:
        self._progress.show(event)
        if self._as_json:
            try:
                sys.stdout.buffer.write(encode(event))
                sys.stdout.flush()
            except BrokenPipeError:  # who asked has gone: as if they had pressed Ctrl-C
                self._as_json = False
                self._interrupts.count = max(1, self._interrupts.count)

    def _leave(self) -> int:
        name = name_of(self._run)
        self._progress.say(
            f"The run goes on. `hone follow {name}` comes back to it, `hone stop {name}` stops it."
        )
        return INTERRUPTED

    def _conclude(self) -> int:
        follower = self._follower
        if self._run.is_removed:
            self._progress.say(REMOVED)
            return 1
        if unread := unread_text(follower.story):
            self._progress.say(unread)
        self._progress.say(ending_text(self._run, follower.story, follower.state, follower.exit_record))
        if ended_well(follower):
            return INTERRUPTED if self._interrupts.count else 0
        return TOO_LARGE if DOESNT_FIT in follower.story.messages else 1
