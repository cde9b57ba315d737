"""The worker thread of a run page: starts or resumes a run, follows it, and reports to the window."""

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

from core.base.errors import OptionsError, RunFolderError, UserError, why
from core.base.files import is_there, open_plain, read_small
from core.base.language import _
from core.options import RunOptions
from core.runs.crash import Crash, crash_before, crash_of, saved_step
from core.runs.event_log import RunFollower
from core.runs.events import Action
from core.runs.folder import Connection, ExitRecord, RunFolder
from core.runs.models import TrainedModel, trained_model
from core.runs.notes import title_of
from core.runs.related import related_to
from core.runs.status import RunStatus, State
from core.runs.summary import status_at_end
from gui.charts.history import BatchBuilder, RunUpdate

FIRST_BYTES = 256 << 10
"""Of a longer log only so much of its end is shown."""

BLOCK_BYTES = 256 << 10

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class LogTail:
    """Reads new lines of a log; of a line that redraws itself (a progress bar) only its last state."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset: int | None = None
        self._rest = b""

    def read(self) -> str:
        """The lines completed since the last call; empty if there are none, or the log can't be read."""
        try:
            with open_plain(self._path) as file:
                if self._offset is None:
                    self._offset = max(0, file.seek(0, 2) - FIRST_BYTES)
                    file.seek(self._offset)
                    if self._offset:
                        file.readline()
                        self._offset = file.tell()
                file.seek(self._offset)
                block = file.read(BLOCK_BYTES)
        except OSError:
            return ""
        self._offset += len(block)
        lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()[-BLOCK_BYTES:]
        return "".join(f"{_as_shown(line)}\n" for line in lines)

    def read_rest(self) -> str:
        """The text after the last newline, once nobody writes the log any more."""
        rest, self._rest = self._rest, b""
        return _as_shown(rest)


def _as_shown(line: bytes) -> str:
    text = _ESCAPES.sub("", line.decode(errors="replace")).rstrip("\r\n")
    return text.rpartition("\r")[2]


POLL_SECONDS = 0.2
REPORT_SECONDS = 0.5
"""How long new steps wait for others: each report lets the window write all its figures anew."""
KEEPER_SECONDS = 5.0
"""How long to wait for the keeper, which ends right after it has written `exit.json`."""

LARGEST_UPDATE = 8192
"""Steps in an update at most: 8 ms of the window's time."""

PIECE_BYTES = 256 << 10
"""How much is read at once while catching up."""

Begin = Callable[[], "Popen[bytes]"]
"""Starts, resumes or extends a run (`core.runs.start`); returns its keeper."""


LARGEST_SHOWN = 1 << 20
"""Bytes of a run file that are shown."""


@dataclass(frozen=True)
class Asked:
    """What a run is called, and its options; None if `run.toml` can't be read: `text` is what there is of it."""

    title: str
    options: RunOptions | None = None
    text: str = ""


def asked_of(run: RunFolder) -> Asked:
    """Reads the run's options and notes."""
    try:
        options = run.options()
        return Asked(title_of(run.path, options), options)
    except OptionsError:
        return Asked(title_of(run.path, None), text=_text_of(run.options_file))


def _text_of(path: Path) -> str:
    try:
        return read_small(path)[:LARGEST_SHOWN].decode(errors="replace")
    except OSError as error:
        return _("{file} can't be read: {reason}").format(file=path, reason=why(error))


@dataclass(frozen=True)
class Remains:
    """What a run that is over, or waits, can continue with.

    `step` is that of its newest checkpoint; None: it would start over. `crash` explains an end that wasn't reported.
    `model` has its newest weights. `is_gone`: the folder doesn't exist any more.
    """

    step: int | None = None
    crash: Crash | None = None
    model: TrainedModel | None = None
    is_gone: bool = False


def remains_of(run: RunFolder, status: RunStatus, record: ExitRecord | None, state: State) -> Remains:
    """Reads a few small files."""
    if not is_there(run.path):
        return Remains(is_gone=True)
    model = trained_model(run)
    if state is State.CRASHED:
        crash = crash_of(run, status, record)
        return Remains(crash.step, crash, model)
    return Remains(saved_step(run, status), crash_before(run, status, record), model)


class RunFollowerThread(QThread):
    """Follows one run until it is over; the training is in another process, which outlives this thread.

    If the run is resumed, the thread runs once more.
    """

    updated = Signal(object)  # a `RunUpdate`, two a second; the first is made from the ends of the files
    log_arrived = Signal(str)  # whole lines that were printed
    state_changed = Signal(object)  # a `core.runs.status.State`, after the update that led to it
    ended = Signal(object)  # a `core.runs.folder.ExitRecord`, before the state that follows from it
    remains_changed = Signal(object)  # the `Remains` of a run that is over, or waits; before that state, too
    asked_read = Signal(object)  # an `Asked`, before each state, and on `look_again`
    related_found = Signal(object)  # a `core.runs.related.Related`, likewise
    connection_changed = Signal(object)  # the `core.runs.folder.Connection` of a run on another computer
    job_failed = Signal(object)  # a `UserError`: the run can't be started, or a request can't be written

    def __init__(self, run: RunFolder, *, begin: Begin | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._run = run
        self._begin = begin
        self._runs_again = False
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._looks_again = threading.Event()
        self._requests: SimpleQueue[Action] = SimpleQueue()
        self._log = LogTail(run.log_file)
        self._follower, self._builder = RunFollower(run), BatchBuilder()
        self._state: State | None = None
        self._connection: Connection | None = None
        self._reading = (0, "", False)
        self._first_status = RunStatus()
        self.finished.connect(self._run_again)

    def request(self, action: Action) -> None:
        """Request the run to pause, save, stop or end; returns at once."""
        self._requests.put(action)
        self._wake.set()

    def begin(self, begin: Begin) -> None:
        """Begin another attempt of a run that is over, and follow it; returns at once."""
        self._begin = begin
        self.follow_again()

    def follow_again(self) -> None:
        """Follow a run that was over and has been resumed by another process."""
        self._runs_again = True
        self._run_again()

    def look_again(self) -> None:
        """Read anew what the run is called and asked, and which run belongs to it; returns at once."""
        self._looks_again.set()
        self._wake.set()
        self._run_again()

    def stop_following(self) -> None:
        """End this thread soon; the run goes on. Wait for `finished`, or call `wait`."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        self._runs_again = False
        keeper = self._start()
        follower, builder = self._follower, self._builder
        follower.look_again()
        self._look_again()
        if self._state is None:
            self._report_first_status()
        next_report = time.monotonic() + REPORT_SECONDS
        while not (self._stopping.is_set() or follower.is_over):
            self._write_requests()
            self._look_again()
            builder.add(follower.poll(PIECE_BYTES))
            is_news = follower.state is not self._state or not self._reading[-1]
            is_due = time.monotonic() >= next_report or len(builder) >= LARGEST_UPDATE
            if is_due or (follower.is_caught_up and is_news):
                next_report = time.monotonic() + REPORT_SECONDS
                self._report_update()
                self._report_log()
            self._report_connection()
            if follower.is_caught_up:
                self._report_state(follower.state, follower.status, follower.exit_record)
                self._wake.wait(POLL_SECONDS)
                self._wake.clear()
        self._report_connection()
        if follower.is_over:
            self._report_update()
            while self._report_log():
                pass
            if rest := self._log.read_rest():
                self.log_arrived.emit(rest)
            if keeper is not None:
                with contextlib.suppress(TimeoutExpired):
                    keeper.wait(KEEPER_SECONDS)

    def _run_again(self) -> None:
        """Begin what was requested since the thread has ended, or while it did."""
        is_wanted = self._begin is not None or self._runs_again or self._looks_again.is_set()
        if is_wanted and not self._stopping.is_set():
            self.start()

    def _start(self) -> Popen[bytes] | None:
        begin, self._begin = self._begin, None
        if begin is None:
            return None
        with contextlib.suppress(Empty):  # requests of an attempt that is over
            while True:
                self._requests.get_nowait()
        try:
            return begin()
        except UserError as error:
            self.job_failed.emit(error)
            return None

    def _report_first_status(self) -> None:
        """Report state and progress before the whole past is read."""
        status = self._first_status = status_at_end(self._run, and_beginning=True, and_between=False)
        self.updated.emit(RunUpdate(status, [], is_complete=False))
        self._report_log()
        self._report_connection()
        self._report_state(self._run.state(status), status, self._run.exit_record())

    def _report_update(self) -> None:
        batches, status, is_complete = (
            self._builder.build(),
            self._follower.status,
            self._follower.is_caught_up,
        )
        reading = status.skipped, status.trouble, is_complete
        if batches or reading != self._reading:
            self._reading = reading
            shown = status.copy() if is_complete else self._first_status
            self.updated.emit(RunUpdate(shown, batches, is_complete=is_complete))

    def _report_state(self, state: State, status: RunStatus, record: ExitRecord | None) -> None:
        brings_back = state.is_over and record is None and self._run.goes_on_elsewhere()
        if state is self._state or brings_back:  # its model comes before exit.json does
            return
        self._state = state
        self._report_asked()
        if record is not None:
            self.ended.emit(record)
        if state.is_over or state is State.QUEUED:
            self.remains_changed.emit(remains_of(self._run, status, record, state))
        self.state_changed.emit(state)

    def _look_again(self) -> None:
        if self._looks_again.is_set():
            self._looks_again.clear()
            self._report_asked()

    def _report_asked(self) -> None:
        if not is_there(self._run.path):
            return  # what is known stays
        self.asked_read.emit(asked_of(self._run))
        with contextlib.suppress(OSError):  # the folder of all runs can't be read
            self.related_found.emit(related_to(self._run))

    def _report_connection(self) -> None:
        connection = self._run.connection()
        if connection != self._connection:
            self._connection = connection
            self.connection_changed.emit(connection)

    def _report_log(self) -> str:
        text = self._log.read()
        if text:
            self.log_arrived.emit(text)
        return text

    def _write_requests(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                action = self._requests.get_nowait()
                try:
                    self._run.request(action)
                except OSError as error:
                    title = _("The run can't be reached")
                    detail = f"{error.filename}: {why(error)}"
                    self.job_failed.emit(RunFolderError(title, detail))
