"""Work away from the window's thread: one call, calls one after the other, questions to the engine."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from PySide6.QtCore import QCoreApplication, QObject, QThread, QTimer, Signal

from core.base.errors import RunFolderError, UserError
from core.base.jobs import EngineCrashed, EngineJob, JobCancelled, JobProgress, TellProgress
from core.base.language import _

log = logging.getLogger("hone")

Result = TypeVar("Result")


class EngineBroke(UserError):  # noqa: N818 - said as the window says it
    """The engine ended without an answer: a bug, whose report is in Hone's log."""

    def __init__(self) -> None:
        super().__init__(
            "Hone's engine ended without an answer",
            "This is a bug. The report is in Hone's log; Settings says where that is.",
        )


class Job(Protocol):
    """One engine process that answers one question; `core.base.jobs.EngineJob` is the real one."""

    def ask(self, request: bytes = b"", *, tell: TellProgress | None = None) -> bytes:
        """Send the request and wait for the answer; `tell` is called with its progress."""

    def kill(self) -> None:
        """End it at once."""


Ask = Callable[[str], Job]
"""Starts the engine job of this name. Raises OSError where it can't."""


def ask_real_engine(job: str) -> Job:
    """Start a job of Hone's own engine."""
    return EngineJob(job)


class Call(QThread):
    """One call of a function in a thread of its own, which may outlive whoever began it. `Task` makes them."""

    told = Signal(object, object)
    over = Signal(object)

    def __init__(self, work: Callable[[Call], Any]) -> None:
        super().__init__(QCoreApplication.instance())
        self._work = work
        self._lock = threading.Lock()
        self._job: Job | None = None
        self.is_cancelled = False
        self.result: Any = None
        self.failure: UserError | None = None
        _calls.append(self)
        self.finished.connect(self._settle)

    def tell(self, progress: object) -> None:
        """Let the task emit `progress`."""
        self.told.emit(self, progress)

    def ask(
        self,
        name: str,
        request: bytes = b"",
        *,
        start: Ask = ask_real_engine,
        tell: TellProgress | None = None,
    ) -> bytes:
        """The answer of an engine job, which ends when the task is cancelled. Raises what `EngineJob.ask` does."""
        with self._lock:
            if self.is_cancelled:
                raise JobCancelled(name)
            try:
                self._job = start(name)
            except OSError as error:
                raise UserError("Hone's engine can't be started", str(error)) from error
        return self._job.ask(request, tell=tell)

    def cancel(self) -> None:
        """End its engine job, if there is one; any other work goes on, and its result is dropped."""
        with self._lock:
            self.is_cancelled = True
            if self._job is not None:
                self._job.kill()

    def run(self) -> None:
        """What the thread does."""
        try:
            if not self.is_cancelled:
                self.result = self._work(self)
        except JobCancelled:
            self.is_cancelled = True
        except UserError as error:
            self.failure = error
        except EngineCrashed as error:
            log.error("%s", error)
            self.failure = EngineBroke()
        except OSError as error:
            self.failure = file_error(error)

    def _settle(self) -> None:
        _calls.remove(self)
        self.over.emit(self)
        self.deleteLater()


_calls: list[Call] = []


def file_error(error: OSError) -> UserError:
    """What the window says of a file that a thread couldn't read or write."""
    where = f"{error.filename}: " if error.filename else ""
    return RunFolderError(_("A file can't be written"), f"{where}{error.strerror or error}")


class Task(QObject, Generic[Result]):
    """Calls a function in a thread. A newer call takes the place of an older one, of which no signal comes any more.

        task = Task(self)
        task.done.connect(self._show)
        task.start(lambda call: read_rows(path))

    The function is given its `Call`, with which it tells its progress and asks the engine. A task may be deleted while
    its function still runs: the thread ends out of sight (`end_left` waits for it).

    Signals:
        progress: What the function told with `call.tell`.
        done: What the function returned.
        failed: The `core.base.errors.UserError` that it raised, or that tells of the error of another kind.
        settled: It is over, however it ended; sent after `done` and `failed`, and not after `cancel`.
    """

    progress = Signal(object)
    done = Signal(object)
    failed = Signal(object)
    settled = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._call: Call | None = None
        self._calls: list[Call] = []

    @property
    def is_running(self) -> bool:
        """Whether a signal is still to come."""
        return self._call is not None

    def start(self, work: Callable[[Call], Result]) -> None:
        """Begin to call `work`; returns at once."""
        self.cancel()
        call = self._call = Call(work)
        self._calls.append(call)
        call.told.connect(self._tell)
        call.over.connect(self._settle)
        call.start(QThread.Priority.LowPriority)

    def cancel(self) -> None:
        """End the engine job of the call under way; no signal comes of it."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def close(self) -> None:
        """Cancel, and wait until no thread is left."""
        self.cancel()
        self.wait()

    def wait(self) -> None:
        """Wait until no thread is left."""
        for call in self._calls:
            call.wait()

    def _tell(self, call: Call, progress: object) -> None:
        if call is self._call:
            self.progress.emit(progress)

    def _settle(self, call: Call) -> None:
        self._calls.remove(call)
        if call is not self._call:
            return
        self._call = None
        if call.failure is not None:
            self.failed.emit(call.failure)
        elif not call.is_cancelled:
            self.done.emit(call.result)
        self.settled.emit()


class FileWork(QThread):
    """Does jobs in their order. The thread ends when there is none left, and begins anew with the next.

    Signals:
        failed: A `core.base.errors.UserError` in place of a job's result.
    """

    failed = Signal(object)
    _done = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]]] = SimpleQueue()
        self._done.connect(self._deliver)
        self.finished.connect(self._go_on)

    def put(self, job: Callable[[], Result], done: Callable[[Result], None] = lambda _: None) -> None:
        """Do `job` in the thread, then call `done` with its result in the window's. Returns at once."""
        self._jobs.put((job, done))
        self._go_on()

    def end_work(self) -> None:
        """Wait until everything that was asked for is done."""
        while not self._jobs.empty() or self.isRunning():
            self.wait()
            self._go_on()

    def run(self) -> None:
        """What the thread does. Call `put`."""
        while True:
            try:
                job, done = self._jobs.get_nowait()
            except Empty:
                return
            try:
                self._done.emit(done, job())
            except UserError as error:
                self.failed.emit(error)
            except OSError as error:
                self.failed.emit(file_error(error))

    def _go_on(self) -> None:
        if not self._jobs.empty() and not self.isRunning():
            self.start()

    def _deliver(self, done: Callable[[Any], None], result: Any) -> None:
        done(result)


PATIENCE_MS = 1000

_stuck: list[QThread] = []


def end_left() -> None:
    """Wait until the calls of all tasks have ended: Qt bears no thread that outlives the program."""
    for call in list(_calls):
        call.wait()


def wait_briefly(thread: QThread) -> None:
    """Wait for a thread that only reads and was told to end; where a disk doesn't answer, go on without it."""
    if thread not in _stuck and not thread.wait(PATIENCE_MS):
        thread.setParent(None)
        _stuck.append(thread)


def end_program(status: int) -> int:
    """The exit status; where a thread reads still, this process ends here."""
    if any(thread.isRunning() for thread in _stuck):
        logging.shutdown()
        os._exit(status)
    return status


Answer = TypeVar("Answer", bound=msgspec.Struct)


class JobTask(Task[Answer]):
    """Asks one kind of engine job; a newer request takes the place of an older one.

    `progress` is a `core.base.jobs.JobProgress`, of those jobs that report it.

    Args:
        start: Starts an engine job.
        job: The job's name, such as `inspect`.
        kind: The struct its answer is read as.
        parent: Qt's parent.
    """

    def __init__(self, start: Ask, job: str, kind: type[Answer], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._start_job, self._job, self._kind = start, job, kind

    def put(self, request: msgspec.Struct | None = None) -> None:
        """Ask; what was asked before is forgotten."""
        content = b"" if request is None else msgspec.json.encode(request)
        self.start(lambda call: self._answer(call, content))

    def _answer(self, call: Call, content: bytes) -> Answer:
        answer = call.ask(self._job, content, start=self._start_job, tell=call.tell)
        try:
            return msgspec.json.decode(answer, type=self._kind)
        except msgspec.MsgspecError as error:
            raise UserError("The engine's answer can't be read", str(error)) from error


BETWEEN_LOOKS_MS = 250
"""A pause in typing after which the engine is asked."""

Request = TypeVar("Request", bound=msgspec.Struct)


class DebouncedTask(QObject, Generic[Request, Answer]):
    """A job that is asked once the person has stopped typing, about what is wanted then.

    `report` answers the newest question, `failure` says why there is no answer.

    Signals:
        changed: An answer came, or none will come; heirs say what else.

    Args:
        ask: Starts an engine job.
        job: The job's name, such as `inspect`.
        kind: The struct its answer is read as.
        parent: Qt's parent.
    """

    changed = Signal()
    patience_ms = BETWEEN_LOOKS_MS

    def __init__(self, ask: Ask, job: str, kind: type[Answer], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._question = JobTask(ask, job, kind, self)
        self._question.done.connect(self._take)
        self._question.failed.connect(self._fail)
        self._question.progress.connect(self._on_progress)
        self._request: Request | None = None
        self._is_held = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(self.patience_ms)
        self._timer.timeout.connect(self._ask)
        self.report: Answer | None = None
        self.failure: UserError | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come."""
        return self._is_held or self._timer.isActive() or self._question.is_running

    def look_at(self, request: Request | None, *, is_early: bool = False) -> bool:
        """Ask about something; None: there is nothing to ask. The same request again changes nothing.

        Args:
            request: The question.
            is_early: It may still change, or the engine is busy: the question is asked once this is called again.

        Returns:
            Whether what was known has been forgotten.
        """
        if request == self._request and (is_early or not self._is_held):
            return False
        before, self._request = self._request, request
        self._question.cancel()
        self._timer.stop()
        self.failure = None
        if not self._stays_known(before, request):
            self.report = None
        self._is_held = is_early and request is not None
        if request is not None and not is_early:
            self._timer.start()
        return True

    def hold(self) -> None:
        """Give up what is being asked, to be asked again when `look_at` is called next."""
        if self._timer.isActive() or self._question.is_running:
            self._timer.stop()
            self._question.cancel()
            self._is_held = True

    def tell_progress(self, share: float) -> None:
        """How much of the question is done, 0 to 1; heirs may show it."""

    def close(self) -> None:
        """Give up what was asked and wait for its thread."""
        self._timer.stop()
        self._question.close()

    def _stays_known(self, before: Request | None, request: Request | None) -> bool:
        """Whether the answer to the question before still says something."""
        return False

    def _ask(self) -> None:
        if self._request is not None:
            self._question.put(self._request)

    def _on_progress(self, progress: JobProgress) -> None:
        self.tell_progress(progress.share)

    def _take(self, report: Answer) -> None:
        self.report, self.failure = report, None
        self.changed.emit()

    def _fail(self, error: UserError) -> None:
        self.report, self.failure = None, error
        self.changed.emit()
