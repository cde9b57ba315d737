"""Work outside the window's thread: a function, file operations in order, and jobs of the engine."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from PySide6.QtCore import QObject, QThread, QThreadPool, QTimer, Signal, SignalInstance

from core.base.errors import RunFolderError, UserError
from core.base.jobs import EngineCrashed, EngineJob, JobCancelled, Killable, TellProgress, decoded
from core.base.language import _

log = logging.getLogger("hone")

Result = TypeVar("Result")


class Broken(UserError):  # noqa: N818 - named as the window words it
    """A bug, in the engine or in work of the window, whose traceback is in Hone's log."""

    def __init__(self, title: str = "") -> None:
        super().__init__(
            title or _("Something went wrong in Hone"),
            _("This is a bug. The report is in Hone's log; Settings shows where that is."),
        )


Process = TypeVar("Process", bound=Killable)


class Job(Killable, Protocol):
    """One engine process that answers one request; `core.base.jobs.EngineJob` is the real one."""

    def ask(self, request: bytes = b"", *, tell: TellProgress | None = None) -> bytes:
        """Send the request and wait for the answer; `tell` receives the progress."""


Ask = Callable[[str], Job]
"""Starts the engine job of this name. Raises OSError if it can't."""


def ask_real_engine(job: str) -> Job:
    return EngineJob(job)


class Call(QThread):
    """One call of a function in a thread of its own, which may outlive its `Task`."""

    told = Signal(object, object)
    over = Signal(object)

    def __init__(self, work: Callable[[Call], Any]) -> None:
        super().__init__()
        self._work = work
        self._lock = threading.Lock()
        self._process: Killable | None = None
        self.is_cancelled = False
        self.result: Any = None
        self.failure: UserError | None = None
        _calls.append(self)
        self.finished.connect(self._on_finished)

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
        """Return the answer of an engine job, which is killed with the call. Raises what `EngineJob.ask` does."""
        return self.launch(lambda: start(name)).ask(request, tell=tell)

    def launch(self, start: Callable[[], Process]) -> Process:
        """Start an engine that is killed with the call.

        Raises:
            JobCancelled: The call is cancelled already.
            UserError: It can't be started.
        """
        try:
            return self.hold(start)
        except OSError as error:
            raise UserError(_("Hone's engine can't be started"), str(error)) from error

    def hold(self, start: Callable[[], Process]) -> Process:
        """Start a process that is killed with the call. Raises JobCancelled, and what `start` raises."""
        with self._lock:
            if self.is_cancelled:
                raise JobCancelled("hold")
            process = self._process = start()
        return process

    def cancel(self) -> None:
        """Kill its process, if there is one. Other work goes on, and its result is dropped."""
        with self._lock:
            self.is_cancelled = True
            if self._process is not None:
                self._process.kill()

    def run(self) -> None:
        """Call the function in the thread."""
        try:
            if not self.is_cancelled:
                self.result = self._work(self)
        except JobCancelled:
            self.is_cancelled = True
        except UserError as error:
            self.failure = error
        except EngineCrashed as error:
            log.error("%s", error)
            self.failure = Broken(_("Hone's engine ended without an answer"))
        except OSError as error:
            self.failure = file_error(error)
        except BaseException:
            self.failure = Broken()
            raise  # to sys.excepthook, which logs and shows it whole

    def _on_finished(self) -> None:
        """Tell the task, and let Python delete the thread after this event.

        With the application as its parent and `deleteLater`, the window crashed at times (PySide 6.11, in
        `BindingManager::releaseWrapper`).
        """
        self.wait()  # it is about to end
        self.over.emit(self)
        QTimer.singleShot(0, partial(_calls.remove, self))


_calls: list[Call] = []
"""Threads that are needed although their tasks may be gone."""


def file_error(error: OSError) -> UserError:
    """Word a file error of a thread for the window."""
    where = f"{error.filename}: " if error.filename else ""
    return RunFolderError(_("A file can't be read or written"), f"{where}{error.strerror or error}")


Slot = Callable[..., object] | SignalInstance
"""What a signal can be connected to."""


class Task(QObject, Generic[Result]):
    """Calls a function in a thread. A newer call replaces an older one, which then emits nothing more.

        task = Task(self, done=self._on_rows)
        task.start(lambda call: read_rows(path))

    `slots` are connected to its signals of these names. The function gets its `Call`, with which it reports progress
    and asks the engine. A task may be deleted while its function runs (`end_left` waits for the thread). `failure` is
    why the last call failed, until the next one starts.
    """

    progress = Signal(object)  # what the function passed to `call.tell`
    done = Signal(object)  # what the function returned
    failed = Signal(object)  # `failure`, a `core.base.errors.UserError`
    settled = Signal()  # after `done` or `failed`; not after `cancel`
    idle = Signal()  # no thread is left, not even a cancelled one

    def __init__(self, parent: QObject | None = None, **slots: Slot) -> None:
        super().__init__(parent)
        for name, slot in slots.items():
            getattr(self, name).connect(slot)
        self.failure: UserError | None = None
        self._call: Call | None = None
        self._calls: list[Call] = []

    @property
    def is_running(self) -> bool:
        """Whether a signal is still to come."""
        return self._call is not None

    @property
    def is_idle(self) -> bool:
        """Whether no thread is left."""
        return not self._calls

    def start(self, work: Callable[[Call], Result]) -> None:
        """Begin to call `work`; returns at once."""
        self.cancel()
        self.failure = None
        call = self._call = Call(work)
        self._calls.append(call)
        call.told.connect(self._on_told)
        call.over.connect(self._on_over)
        call.start(QThread.Priority.LowPriority)

    def cancel(self) -> None:
        """Kill the process of the call; it emits nothing more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def close(self) -> None:
        """Cancel, and wait for the threads."""
        self.cancel()
        for call in self._calls:
            call.wait()

    def _on_told(self, call: Call, progress: object) -> None:
        if call is self._call:
            self.progress.emit(progress)

    def _on_over(self, call: Call) -> None:
        self._calls.remove(call)
        if call is self._call:
            self._call, self.failure = None, call.failure
            if call.failure is not None:
                self.failed.emit(call.failure)
            elif not call.is_cancelled:
                self.done.emit(call.result)
            self.settled.emit()
        if self.is_idle:
            self.idle.emit()


class FileWork(QObject):
    """Calls functions one after the other in a thread."""

    failed = Signal(object)  # the `core.base.errors.UserError` of a function
    _done = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._done.connect(self._on_done)

    def put(self, work: Callable[[], Result], done: Callable[[Result], None] = lambda _: None) -> None:
        """Call `work` in the thread, then `done` with its result in the window's. Returns at once."""

        def run() -> None:
            try:
                self._done.emit(done, work())
            except UserError as error:
                self.failed.emit(error)
            except OSError as error:
                self.failed.emit(file_error(error))
            except BaseException:
                self.failed.emit(Broken())
                raise  # to sys.excepthook, which logs and shows it whole

        self._pool.start(run)

    def end_work(self) -> None:
        """Wait until all of it is done."""
        self._pool.waitForDone()

    def _on_done(self, done: Callable[[Any], None], result: Any) -> None:
        done(result)


PATIENCE_MS = 1000

_stuck: list[QThread] = []


def end_left() -> None:
    """Wait until the calls of all tasks have ended: Qt aborts if a thread outlives the program."""
    for call in list(_calls):
        call.wait()


def wait_briefly(thread: QThread) -> None:
    """Wait for a thread that only reads and was told to end; give up where a disk doesn't answer."""
    if thread not in _stuck and not thread.wait(PATIENCE_MS):
        thread.setParent(None)
        _stuck.append(thread)


def end_program(status: int) -> int:
    """Return the exit status; ends the process here while a thread still reads."""
    if any(thread.isRunning() for thread in _stuck):
        logging.shutdown()
        os._exit(status)
    return status


Answer = TypeVar("Answer", bound=msgspec.Struct)


class JobTask(Task[Answer]):
    """Runs one kind of engine job; `progress` is a `core.base.jobs.JobProgress`.

    Args:
        job: The job's name, such as `inspect`.
    """

    def __init__(
        self, start: Ask, job: str, kind: type[Answer], parent: QObject | None = None, **slots: Slot
    ) -> None:
        super().__init__(parent, **slots)
        self._start_job, self._job, self._kind = start, job, kind

    def put(self, request: msgspec.Struct | None = None) -> None:
        """Start the job; the one before is cancelled."""
        content = b"" if request is None else msgspec.json.encode(request)
        self.start(lambda call: self._answer(call, content))

    def _answer(self, call: Call, content: bytes) -> Answer:
        answer = call.ask(self._job, content, start=self._start_job, tell=call.tell)
        return decoded(self._job, answer, self._kind)


Request = TypeVar("Request", bound=msgspec.Struct)


class DebouncedTask(JobTask[Answer], Generic[Request, Answer]):
    """A job that starts after a pause in changes of its request. `report` is the newest answer."""

    changed = Signal()  # an answer or a failure has come; subclasses say what else
    delay_ms = 250

    def __init__(self, start: Ask, job: str, kind: type[Answer], parent: QObject | None = None) -> None:
        super().__init__(start, job, kind, parent, done=self._on_report, failed=self._on_failure)
        self.report: Answer | None = None
        self._request: Request | None = None
        self._is_deferred = False
        self._timer = QTimer(self, singleShot=True, interval=self.delay_ms)
        self._timer.timeout.connect(lambda: self.put(self._request))

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come."""
        return self._is_deferred or self._timer.isActive() or self.is_running

    def set_request(self, request: Request | None, *, is_deferred: bool = False) -> bool:
        """Set what to ask, None for nothing. The same request again changes nothing.

        Args:
            is_deferred: Start the job only when this is called again without it.

        Returns:
            Whether the request is new, so that older answers are dropped.
        """
        if request == self._request and (is_deferred or not self._is_deferred):
            return False
        keeps_report = self._keeps_report(self._request, request)
        self._timer.stop()
        self.cancel()
        self.failure, self._request = None, request
        if not keeps_report:
            self.report = None
        self._is_deferred = is_deferred and request is not None
        if request is not None and not is_deferred:
            self._timer.start()
        return True

    def hold(self) -> None:
        """Cancel the job until `set_request` is called again."""
        if self._timer.isActive() or self.is_running:
            self._timer.stop()
            self.cancel()
            self._is_deferred = True

    def close(self) -> None:
        self._timer.stop()
        super().close()

    def _keeps_report(self, before: Request | None, request: Request | None) -> bool:
        """Whether the report on `before` still tells something about `request`."""
        return False

    def _on_report(self, report: Answer) -> None:
        self.report = report
        self.changed.emit()

    def _on_failure(self, _error: UserError) -> None:
        self.report = None
        self.changed.emit()
