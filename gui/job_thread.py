"""The worker thread of a run page: starts a run, follows it, and tells the window what happens."""

import contextlib
import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from subprocess import Popen, TimeoutExpired

from PySide6.QtCore import QObject, QThread, Signal

from core import jobs
from core.errors import RunFolderError, UserError
from core.events import Event
from core.follow import RunFollower
from core.run_folder import Action, RunFolder
from core.story import State
from gui.log_tail import LogTail

POLL_SECONDS = 0.1
CATCH_UP_SECONDS = 0.005
LAST_WORDS_SECONDS = 5.0
LARGEST_BATCH = 500
"""Events the window takes in one turn of its event loop: a few milliseconds of work."""


class JobThread(QThread):
    """Follows one run until it is over. The training itself is in another process still, and outlives this thread.

    Signals:
        events_arrived: A list of `core.events.Event` in the order of time, at most ten lists a second once the past
            of the run has been read.
        log_arrived: Text that was printed, in whole lines.
        lines_skipped: How many lines of what happened can't be read, whenever that has changed.
        state_changed: The `core.story.State` in which the run now is; sent after the events that led to it.
        ended: How the engine ended (`core.run_folder.ExitRecord`); sent before the state that follows from it.
        job_failed: A `core.errors.UserError`: the run can't be started or asked.

    Args:
        run: The run's folder.
        start_job: Whether to start the run first.
        command: What starts the keeper, where it isn't Hone's own.
        parent: Qt's parent.
    """

    events_arrived = Signal(object)
    log_arrived = Signal(str)
    lines_skipped = Signal(int)
    state_changed = Signal(object)
    ended = Signal(object)
    job_failed = Signal(object)

    def __init__(
        self,
        run: RunFolder,
        *,
        start_job: bool = False,
        command: Sequence[str] | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._run = run
        self._start_job = start_job
        self._command = command
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._asked: SimpleQueue[Action] = SimpleQueue()
        self._log = LogTail(run.log_file)
        self._told: State | None = None
        self._told_skipped = 0

    def ask(self, action: Action) -> None:
        """Ask the run to stop, or end it; returns at once."""
        self._asked.put(action)
        self._wake.set()

    def stop_following(self) -> None:
        """End this thread soon; the run goes on. Wait for `finished`, or call `wait`."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Start and follow; what the thread does. Call `start`."""
        keeper = self._start() if self._start_job else None
        follower = RunFollower(self._run)
        while not (self._stopping.is_set() or follower.is_over):
            self._pass_on_requests()
            events = follower.poll()
            self._tell_events(events)
            self._tell_log()
            self._tell_skipped(follower)
            self._tell_state(follower)
            self._pause(POLL_SECONDS if len(events) <= LARGEST_BATCH else CATCH_UP_SECONDS)
        if follower.is_over:
            self._tell_end_of_log()
            _reap(keeper)

    def _start(self) -> Popen[bytes] | None:
        try:
            return jobs.start(self._run, self._command)
        except UserError as error:
            self.job_failed.emit(error)
            return None

    def _tell_events(self, events: list[Event]) -> None:
        for start in range(0, len(events), LARGEST_BATCH):
            if start and self._pause(CATCH_UP_SECONDS):
                return
            self.events_arrived.emit(events[start : start + LARGEST_BATCH])

    def _pause(self, seconds: float) -> bool:
        """Wait, unless there is something to do; returns whether to end."""
        self._wake.wait(seconds)
        self._wake.clear()
        return self._stopping.is_set()

    def _pass_on_requests(self) -> None:
        while True:
            try:
                action = self._asked.get_nowait()
            except Empty:
                return
            try:
                self._run.ask(action)
            except OSError as error:
                self.job_failed.emit(
                    RunFolderError("The run can't be asked", f"{error.filename}: {error.strerror}")
                )

    def _tell_state(self, follower: RunFollower) -> None:
        if follower.state is self._told:
            return
        self._told = follower.state
        if follower.exit_record is not None:
            self.ended.emit(follower.exit_record)
        self.state_changed.emit(follower.state)

    def _tell_skipped(self, follower: RunFollower) -> None:
        if follower.story.skipped != self._told_skipped:
            self._told_skipped = follower.story.skipped
            self.lines_skipped.emit(self._told_skipped)

    def _tell_log(self) -> None:
        text = self._log.read()
        if text:
            self.log_arrived.emit(text)

    def _tell_end_of_log(self) -> None:
        while text := self._log.read():
            self.log_arrived.emit(text)
        rest = self._log.read_rest()
        if rest:
            self.log_arrived.emit(rest)


def _reap(keeper: Popen[bytes] | None) -> None:
    """Take leave of the keeper, this process's child; it ends right after it has written `exit.json`."""
    if keeper is not None:
        with contextlib.suppress(TimeoutExpired):
            keeper.wait(LAST_WORDS_SECONDS)
