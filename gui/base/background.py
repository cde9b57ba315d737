"""Work outside the window's thread: `EngineWork` asks the engine, `FileWork` reads and writes files."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from PySide6.QtCore import QObject, QThread, QTimer, Signal, SignalInstance

from core.base.errors import RunFolderError, UserError, why
from core.base.jobs import EngineCrashed, EngineJob, JobCancelled, Killable, TellProgress, decoded
from core.base.language import _

log = logging.getLogger("hone")

Result = TypeVar("Result")
Answer = TypeVar("Answer", bound=msgspec.Struct)


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
    """One call of a function in a thread of its own, which may outlive the work that it is part of."""

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
        """Let the work emit `progress`."""
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
        """Tell that it is over, and let Python delete the thread after this event.

        With the application as its parent and `deleteLater`, the window crashed at times (PySide 6.11, in
        `BindingManager::releaseWrapper`).
        """
        self.wait()  # it is about to end
        self.over.emit(self)
        QTimer.singleShot(0, partial(_calls.remove, self))


_calls: list[Call] = []
"""Threads that are needed although what began them may be gone."""


def file_error(error: OSError) -> UserError:
    """Word a file error of a thread for the window."""
    where = f"{error.filename}: " if error.filename else ""
    return RunFolderError(_("A file can't be read or written"), f"{where}{why(error)}")


Slot = Callable[..., object] | SignalInstance
"""What a signal can be connected to."""


class EngineWork(QObject, Generic[Result]):
    """Asks the engine in a thread, or else for something of which only the newest answer counts.

    Newer work replaces older: that is killed, and emits nothing more.

        reading = EngineWork(self, done=self._on_report)
        reading.ask(ask_real_engine, "inspect", DataReport, request)
        reading.start(lambda call: save_script_of_run(run, folder, call.ask))

    `slots` are connected to its signals of these names. The function gets its `Call`, with which it reports progress
    and asks the engine. It may be deleted while its function runs (`end_left` waits for the thread). `failure` is why
    the last work failed, until the next starts.
    """

    progress = Signal(object)  # what the function passed to `call.tell`; of a job, a `JobProgress`
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
        self._work: Callable[[Call], Result] | None = None
        self._delay = QTimer(self, singleShot=True)
        self._delay.timeout.connect(self._begin)

    @property
    def is_running(self) -> bool:
        """Whether a signal is still to come."""
        return self._call is not None or self._delay.isActive()

    @property
    def is_idle(self) -> bool:
        """Whether no thread is left."""
        return not self._calls

    def start(self, work: Callable[[Call], Result], *, after_ms: int = 0) -> None:
        """Begin to call `work`, after a pause in which newer work may replace it; returns at once."""
        self.cancel()
        self.failure = None
        self._work = work
        if after_ms:
            self._delay.start(after_ms)
        else:
            self._begin()

    def ask(
        self: EngineWork[Answer],
        start: Ask,
        job: str,
        kind: type[Answer],
        request: msgspec.Struct | None = None,
        *,
        after_ms: int = 0,
    ) -> None:
        """Start a job of the engine, such as `inspect`, whose answer is of this kind; returns at once."""
        content = b"" if request is None else msgspec.json.encode(request)

        def work(call: Call) -> Answer:
            return decoded(job, call.ask(job, content, start=start, tell=call.tell), kind)

        self.start(work, after_ms=after_ms)

    def cancel(self) -> None:
        """Kill the process of the call; it emits nothing more."""
        self._delay.stop()
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def close(self) -> None:
        """Cancel, and wait for the threads."""
        self.cancel()
        for call in self._calls:
            call.wait()

    def _begin(self) -> None:
        assert self._work is not None, "`start` sets it"
        call = self._call = Call(self._work)
        self._calls.append(call)
        call.told.connect(self._on_told)
        call.over.connect(self._on_over)
        call.start(QThread.Priority.LowPriority)

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
    """Reads and writes files in a thread: all that is put, one after the other."""

    failed = Signal(object)  # the `core.base.errors.UserError` of a function

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._done: dict[Call, Callable[[Any], object]] = {}
        self._waiting: deque[Call] = deque()
        self._running: Call | None = None

    @property
    def is_running(self) -> bool:
        """Whether something is still to be done, or to be told."""
        return bool(self._done)

    def put(self, work: Callable[[], Result], done: Callable[[Result], object] = lambda _: None) -> None:
        """Call `work` in a thread, then `done` with its result in the window's. Returns at once."""
        call = Call(lambda _call: work())
        call.over.connect(self._on_over)
        self._done[call] = done
        self._waiting.append(call)
        if self._running is None:
            self._start_next()

    def end_work(self) -> None:
        """Wait until all of it is done."""
        while self._running is not None:
            self._running.wait()
            self._start_next()

    def _start_next(self) -> None:
        self._running = self._waiting.popleft() if self._waiting else None
        if self._running is not None:
            self._running.start()

    def _on_over(self, call: Call) -> None:
        done = self._done.pop(call)
        if call is self._running:
            self._start_next()
        if call.failure is not None:
            self.failed.emit(call.failure)
        elif not call.is_cancelled:
            done(call.result)


PATIENCE_MS = 1000

_stuck: list[QThread] = []


def end_left() -> None:
    """Wait until all calls have ended: Qt aborts if a thread outlives the program."""
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
