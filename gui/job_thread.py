"""The worker thread of a run page: starts a run, follows it, and tells the window what happens."""

import contextlib
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from subprocess import Popen, TimeoutExpired

from PySide6.QtCore import QObject, QThread, Signal

from core import jobs
from core.errors import RunFolderError, UserError
from core.follow import RunFollower
from core.run_folder import Action, RunFolder
from core.run_summary import state_at_end
from core.story import State
from gui.log_tail import LogTail
from gui.models.run_news import NewsMaker, RunNews

POLL_SECONDS = 0.1
LAST_WORDS_SECONDS = 5.0

FIRST_SECONDS = 0.05
"""So soon the window is told the beginning of a long past; a short one is read by then."""

LARGEST_NEWS = 8192
"""Events that are told in one go at most, give or take a piece: three milliseconds of the window's time."""

PIECE_BYTES = 64 << 10
"""How much is read in one go while catching up."""


class JobThread(QThread):
    """Follows one run until it is over. The training itself is in another process still, and outlives this thread.

    Signals:
        news_arrived: A `gui.models.run_news.RunNews`, ten a second. A long past comes in several, faster.
        log_arrived: Text that was printed, in whole lines.
        state_changed: The `core.story.State` in which the run now is; sent after the events that led to it.
        ended: How the engine ended (`core.run_folder.ExitRecord`); sent before the state that follows from it.
        job_failed: A `core.errors.UserError`: the run can't be started or asked.

    Args:
        run: The run's folder.
        start_job: Whether to start the run first.
        command: What starts the keeper, where it isn't Hone's own.
        parent: Qt's parent.
    """

    news_arrived = Signal(object)
    log_arrived = Signal(str)
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
        follower, maker = RunFollower(self._run), NewsMaker()
        tell_next = time.monotonic() + FIRST_SECONDS
        while not (self._stopping.is_set() or follower.is_over):
            self._pass_on_requests()
            maker.add(follower.poll(PIECE_BYTES))
            if follower.is_caught_up or time.monotonic() >= tell_next or len(maker) >= LARGEST_NEWS:
                tell_next = time.monotonic() + POLL_SECONDS
                self._tell_news(follower, maker)
                self._tell_log()
                self._tell_state(follower)
            if follower.is_caught_up:
                self._pause(POLL_SECONDS)
        if follower.is_over:
            self._tell_end_of_log()
            _reap(keeper)

    def _start(self) -> Popen[bytes] | None:
        try:
            return jobs.start(self._run, self._command)
        except UserError as error:
            self.job_failed.emit(error)
            return None

    def _tell_news(self, follower: RunFollower, maker: NewsMaker) -> None:
        batches = maker.take()
        if batches or follower.story.skipped != self._told_skipped:
            self._told_skipped = follower.story.skipped
            self.news_arrived.emit(RunNews(follower.story.copy(), batches))

    def _pause(self, seconds: float) -> None:
        """Wait, unless there is something to do."""
        self._wake.wait(seconds)
        self._wake.clear()

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
        state = follower.state if follower.is_caught_up else self._state_of_unread(follower)
        if state is self._told:
            return
        self._told = state
        if follower.exit_record is not None:
            self.ended.emit(follower.exit_record)
        self.state_changed.emit(state)

    def _state_of_unread(self, follower: RunFollower) -> State:
        """Where a run stands of which only the beginning is read: one that is over doesn't train until it is."""
        if self._told is not None:
            return self._told
        return follower.state if follower.exit_record is None else state_at_end(self._run)

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
