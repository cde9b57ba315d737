"""The worker thread of a run page: starts a run or goes on with it, follows it, and tells the window what happens."""

import contextlib
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import Popen, TimeoutExpired

from PySide6.QtCore import QObject, QThread, Signal

from core.base.errors import RunFolderError, UserError
from core.base.files import open_plain
from core.runs import models
from core.runs.crash import Crash, crash_before, crash_of
from core.runs.event_log import RunFollower
from core.runs.folder import Action, ExitRecord, RunFolder
from core.runs.models import TrainedModel, trained_model
from core.runs.status import RunStatus, State
from core.runs.summary import status_at_end
from gui.charts.history import BatchBuilder, RunUpdate

FIRST_BYTES = 256 << 10
"""Of a log that is longer when first read, only so much of its end is shown."""

BLOCK_BYTES = 256 << 10

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class LogTail:
    """Reads whole lines; of a line that redraws itself (a progress bar) only what it showed last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset: int | None = None
        self._rest = b""

    def read(self) -> str:
        """The lines completed since the last call, newlines included; empty where there are none (yet)."""
        try:
            with open_plain(self._path) as file:
                if self._offset is None:
                    self._offset = self._skip_to_end(file.seek(0, 2))
                    file.seek(self._offset)
                    if self._offset:
                        file.readline()
                        self._offset = file.tell()
                file.seek(self._offset)
                block = file.read(BLOCK_BYTES)
        except OSError:  # it isn't there yet, or can't be read
            return ""
        self._offset += len(block)
        lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()[-BLOCK_BYTES:]
        return "".join(f"{_as_shown(line)}\n" for line in lines)

    def read_rest(self) -> str:
        """What stands after the last newline; for a log that nobody writes any more."""
        rest, self._rest = self._rest, b""
        return _as_shown(rest)

    @staticmethod
    def _skip_to_end(size: int) -> int:
        return max(0, size - FIRST_BYTES)


def _as_shown(line: bytes) -> str:
    text = _ESCAPES.sub("", line.decode(errors="replace")).rstrip("\r\n")
    return text.rpartition("\r")[2]


POLL_SECONDS = 0.2
LAST_WORDS_SECONDS = 5.0

LARGEST_NEWS = 8192
"""Steps that are told in one go at most, give or take a piece: eight milliseconds of the window's time."""

PIECE_BYTES = 256 << 10
"""How much is read in one go while catching up."""

Begin = Callable[[], "Popen[bytes]"]
"""Starts a run, goes on with it or extends it (`core.runs.start`); returns its keeper."""


@dataclass(frozen=True)
class Rest:
    """What is left of a run that is over, or waits: the step of the checkpoint it goes on from, and what a crash was.

    `step` is None where it would begin anew, `crash` where it said itself how it ended. `model` is where its newest
    weights lie.
    """

    step: int | None = None
    crash: Crash | None = None
    model: TrainedModel | None = None


def rest_of(run: RunFolder, status: RunStatus, record: ExitRecord | None, state: State) -> Rest:
    """Look into a run's folder; it reads a few small files."""
    model = trained_model(run)
    if state is State.CRASHED:
        crash = crash_of(run, status, record)
        return Rest(crash.step, crash, model)
    saved = models.newest(run)
    before = crash_before(run, status, record)
    return Rest(None if saved is None else saved.step, before, model)


class JobThread(QThread):
    """Follows one run until it is over. The training itself is in another process still, and outlives this thread.

    A run that is over may be gone on with: the thread then runs once more, and tells what is new.

    Signals:
        news_arrived: A `gui.charts.history.RunUpdate`, five a second. The first one tells where the run stands, before
            anything is read but the ends of its files; a long past then comes in several, faster.
        log_arrived: Text that was printed, in whole lines.
        state_changed: The `core.runs.status.State` in which the run now is; sent after the events that led to it.
        ended: How the engine ended (`core.runs.folder.ExitRecord`); sent before the state that follows from it.
        rested: What is left of a run that is over, or waits (`Rest`); sent before that state, too.
        job_failed: A `core.base.errors.UserError`: the run can't be started or asked.

    Args:
        run: The run's folder.
        begin: Starts the run first, where it is to be started.
        parent: Qt's parent.
    """

    news_arrived = Signal(object)
    log_arrived = Signal(str)
    state_changed = Signal(object)
    ended = Signal(object)
    rested = Signal(object)
    job_failed = Signal(object)

    def __init__(
        self,
        run: RunFolder,
        *,
        begin: Begin | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._run = run
        self._begin = begin
        self._is_to_look = False
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._asked: SimpleQueue[Action] = SimpleQueue()
        self._log = LogTail(run.log_file)
        self._follower, self._maker = RunFollower(run), BatchBuilder()
        self._told: State | None = None
        self._told_of_reading = (0, "", False)
        self._standing = RunStatus()
        self.finished.connect(self._run_again)

    def request(self, action: Action) -> None:
        """Ask the run to pause, save, stop or end; returns at once."""
        self._asked.put(action)
        self._wake.set()

    def go_on(self, begin: Begin) -> None:
        """Begin another attempt of a run that is over, and follow it; returns at once."""
        self._begin = begin
        self.follow_again()

    def follow_again(self) -> None:
        """Follow a run that was over: somebody else has gone on with it. One that is followed is looked at again."""
        self._is_to_look = True
        if not self.isRunning():
            self.start()

    def stop_following(self) -> None:
        """End this thread soon; the run goes on. Wait for `finished`, or call `wait`."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        self._is_to_look = False
        keeper = self._start()
        follower, maker = self._follower, self._maker
        follower.look_again()
        if self._told is None:
            self._tell_standing()
        tell_next = time.monotonic() + POLL_SECONDS
        while not (self._stopping.is_set() or follower.is_over):
            self._pass_on_requests()
            maker.add(follower.poll(PIECE_BYTES))
            if follower.is_caught_up or time.monotonic() >= tell_next or len(maker) >= LARGEST_NEWS:
                tell_next = time.monotonic() + POLL_SECONDS
                self._tell_news(follower, maker)
                self._tell_log()
                if follower.is_caught_up:
                    self._tell_state(follower.state, follower.status, follower.exit_record)
            if follower.is_caught_up:
                self._pause(POLL_SECONDS)
        if follower.is_over:
            self._tell_end_of_log()
            _reap(keeper)

    def _run_again(self) -> None:
        """Begin what was asked for in the moment in which the thread ended."""
        if (self._begin is not None or self._is_to_look) and not self._stopping.is_set():
            self.start()

    def _start(self) -> Popen[bytes] | None:
        begin, self._begin = self._begin, None
        if begin is None:
            return None
        self._forget_requests()
        try:
            return begin()
        except UserError as error:
            self.job_failed.emit(error)
            return None

    def _forget_requests(self) -> None:
        """What was asked of an attempt that is over isn't asked of the next."""
        with contextlib.suppress(Empty):
            while True:
                self._asked.get_nowait()

    def _tell_standing(self) -> None:
        """Tell where the run stands and how far it has come before all its past is read."""
        self._standing = status_at_end(self._run, and_beginning=True, and_between=False)
        self.news_arrived.emit(RunUpdate(self._standing, [], is_complete=False))
        self._tell_log()
        self._tell_state(self._run.state(self._standing), self._standing, self._run.exit_record())

    def _tell_news(self, follower: RunFollower, maker: BatchBuilder) -> None:
        batches, is_whole = maker.build(), follower.is_caught_up
        reading = follower.status.skipped, follower.status.trouble, is_whole
        if batches or reading != self._told_of_reading:
            self._told_of_reading = reading
            status = follower.status.copy() if is_whole else self._standing
            self.news_arrived.emit(RunUpdate(status, batches, is_complete=is_whole))

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
                self._run.request(action)
            except OSError as error:
                self.job_failed.emit(
                    RunFolderError("The run can't be asked", f"{error.filename}: {error.strerror}")
                )

    def _tell_state(self, state: State, status: RunStatus, record: ExitRecord | None) -> None:
        if state is self._told:
            return
        self._told = state
        if record is not None:
            self.ended.emit(record)
        if state.is_over or state is State.QUEUED:
            self.rested.emit(rest_of(self._run, status, record, state))
        self.state_changed.emit(state)

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
