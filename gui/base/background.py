"""Asking the engine with patience: once the person pauses, about the newest wish only, and not while it is early."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from enum import Enum, auto
from gettext import gettext as _
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from PySide6.QtCore import QObject, QThread, QTimer, Signal

from core.base.errors import RunFolderError, UserError
from core.base.jobs import EngineCrashed, EngineJob, JobCancelled, JobProgress, TellProgress
from core.services.hub import Pace, Progress

# --- A thread in which something slow is done by an engine process


log = logging.getLogger("hone")


class EngineBroke(UserError):  # noqa: N818 - said as the window says it
    """The engine ended without an answer: a bug, whose report is in Hone's log."""

    def __init__(self) -> None:
        super().__init__(
            "Hone's engine ended without an answer",
            "This is a bug. The report is in Hone's log; Settings says where that is.",
        )


class EngineWork(QThread):
    """Does one thing and ends; `failure` says what went wrong, None: nothing, or it was cancelled."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()
        self.cancelled = False
        self.failure: UserError | None = None

    def run(self) -> None:
        """Do it; called by Qt in the thread."""
        try:
            with self._lock:
                if self.cancelled:
                    return
                self.begin()
            self.work()
        except JobCancelled:
            return
        except UserError as error:
            self.failure = error
        except EngineCrashed as error:
            log.error("%s", error)
            self.failure = EngineBroke()
        except OSError as error:
            self.failure = UserError("Hone's engine can't be started", str(error))

    def cancel(self) -> None:
        """End it; may be called from any thread, before it has begun too."""
        with self._lock:
            self.cancelled = True
            self.kill()

    def begin(self) -> None:
        """Start the process; it is not cancelled meanwhile."""
        raise NotImplementedError

    def work(self) -> None:
        """Wait for what the process says."""
        raise NotImplementedError

    def kill(self) -> None:
        """End the process, if it has been started."""
        raise NotImplementedError


# --- Small jobs with files, done one after the other away from the window: notes written


Result = TypeVar("Result")


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
                title = _("A file can't be written")
                where = f"{error.filename}: " if error.filename else ""
                self.failed.emit(RunFolderError(title, f"{where}{error.strerror or error}"))

    def _go_on(self) -> None:
        if not self._jobs.empty() and not self.isRunning():
            self.start()

    def _deliver(self, done: Callable[[Any], None], result: Any) -> None:
        done(result)


# --- Threads that nobody waits for any more: they end out of sight


PATIENCE_MS = 1000

_left: list[QThread] = []
_stuck: list[QThread] = []


def leave(thread: QThread) -> None:
    """Let a thread end by itself, though the object it belongs to goes. Returns at once."""
    _left[:] = [other for other in _left if other.isRunning()]
    if thread.isRunning():
        thread.setParent(None)
        _left.append(thread)


def end_left() -> None:
    """Wait until all of them have ended: Qt bears no thread that outlives the program."""
    for thread in _left:
        thread.wait()
    _left.clear()


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


# --- Looks into files for the page Try it, away from the window: which runs there are


Found = TypeVar("Found")


class _Look(QThread, Generic[Found]):
    def __init__(self, look: Callable[[], Found], parent: QObject) -> None:
        super().__init__(parent)
        self._look = look
        self.found: Found | None = None

    def run(self) -> None:
        """Look; called by Qt in the thread."""
        self.found = self._look()


class Looking(QObject, Generic[Found]):
    """Looks for one kind of thing; what was looked for before is forgotten.

    Signals:
        found: What `look` came to.
    """

    found = Signal(object)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._threads: list[_Look[Found]] = []
        self._current: _Look[Found] | None = None

    @property
    def is_looking(self) -> bool:
        """Whether an answer is still to come."""
        return self._current is not None

    def look(self, look: Callable[[], Found]) -> None:
        """Call `look` in a thread."""
        thread = _Look(look, self)
        thread.finished.connect(self._settle)
        self._threads.append(thread)
        self._current = thread
        thread.start()

    def forget(self) -> None:
        """No signal comes of what is being looked for."""
        self._current = None

    def close(self) -> None:
        """Forget it, and wait until no thread is left; a look takes milliseconds."""
        self.forget()
        for thread in self._threads:
            thread.wait()

    def _settle(self) -> None:
        thread = self.sender()
        if not isinstance(thread, _Look):
            return
        self._threads.remove(thread)
        thread.deleteLater()
        if thread is self._current:
            self._current = None
            self.found.emit(thread.found)


# --- What takes minutes, brings files here and can be paused


class State(Enum):
    """Where it stands. A failed one can be gone on with as a paused one can."""

    IDLE = auto()
    RUNNING = auto()
    PAUSED = auto()
    FAILED = auto()


class Pausable(QObject):
    """One transfer at a time.

    `progress` is how far it is, None before it is known; `failure` says why it ended.

    Signals:
        changed: Its state or progress is another.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = State.IDLE
        self.progress: Progress | None = None
        self.failure: UserError | None = None
        self.pace = Pace()

    @property
    def title(self) -> str:
        """What is brought here; empty: nothing."""
        raise NotImplementedError

    @property
    def doing(self) -> str:
        """What is done while it runs and nothing can be counted."""
        raise NotImplementedError

    def resume(self) -> None:
        """Go on where it ended."""
        raise NotImplementedError

    def pause(self) -> None:
        """End it; what has come stays on the disk."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Give it up, and delete what has come."""
        raise NotImplementedError


# --- Asking the engine a short question without making the window wait


class Job(Protocol):
    """One engine process that answers one question; `core.base.jobs.EngineJob` is the real one."""

    def ask(self, request: bytes = b"", *, tell: TellProgress | None = None) -> bytes:
        """Send the request and wait for the answer; `tell` hears how far it is."""

    def kill(self) -> None:
        """End it at once."""


Ask = Callable[[str], Job]
"""Starts the engine job of this name. Raises OSError where it can't."""

Answer = TypeVar("Answer", bound=msgspec.Struct)


def ask_real_engine(job: str) -> Job:
    """Start a job of Hone's own engine."""
    return EngineJob(job)


class _Asking(EngineWork):
    """One question on its way; holds its answer or its failure when it has finished.

    Signals:
        progressed: The share that is done, 0 to 1.
    """

    progressed = Signal(float)

    def __init__(self, ask: Ask, job: str, request: bytes, parent: QObject) -> None:
        super().__init__(parent)
        self._ask = ask
        self._name = job
        self._request = request
        self._job: Job | None = None
        self.answer: bytes | None = None

    def begin(self) -> None:
        self._job = self._ask(self._name)

    def work(self) -> None:
        assert self._job is not None
        self.answer = self._job.ask(self._request, tell=self._tell)

    def _tell(self, progress: JobProgress) -> None:
        self.progressed.emit(progress.share)

    def kill(self) -> None:
        if self._job is not None:
            self._job.kill()


class EngineQuestion(QObject, Generic[Answer]):
    """Asks one kind of question; a newer question takes the place of an older one.

    Signals:
        answered: The answer, a struct of the kind given.
        failed: A `core.base.errors.UserError`.
        progressed: How much of the question asked last is done, 0 to 1; only some jobs tell.

    Args:
        ask: Starts an engine job.
        job: The job's name, such as `inspect`.
        kind: The struct its answer is read as.
        parent: Qt's parent.
    """

    answered = Signal(object)
    failed = Signal(object)
    progressed = Signal(float)

    def __init__(self, ask: Ask, job: str, kind: type[Answer], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ask = ask
        self._job = job
        self._kind = kind
        self._current: _Asking | None = None
        self._threads: list[_Asking] = []

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come."""
        return self._current is not None

    def put(self, request: msgspec.Struct | None = None) -> None:
        """Ask; what was asked before is forgotten."""
        self.forget()
        content = b"" if request is None else msgspec.json.encode(request)
        asking = _Asking(self._ask, self._job, content, self)
        asking.finished.connect(self._settle)
        asking.progressed.connect(self._tell_progress)
        self._threads.append(asking)
        self._current = asking
        asking.start(QThread.Priority.LowPriority)

    def forget(self) -> None:
        """Give up what was asked; no signal comes of it."""
        if self._current is not None:
            self._current.cancel()
            self._current = None

    def close(self) -> None:
        """Give up and wait until no thread is left; call before the application ends."""
        self.forget()
        for asking in self._threads:
            asking.wait()

    def _tell_progress(self, share: float) -> None:
        if self.sender() is self._current:
            self.progressed.emit(share)

    def _settle(self) -> None:
        asking = self.sender()
        if not isinstance(asking, _Asking):
            return
        self._threads.remove(asking)
        asking.deleteLater()
        if asking is not self._current:
            return
        self._current = None
        if asking.failure is not None:
            self.failed.emit(asking.failure)
        elif asking.answer is not None:
            self._deliver(asking.answer)

    def _deliver(self, content: bytes) -> None:
        try:
            answer = msgspec.json.decode(content, type=self._kind)
        except msgspec.MsgspecError as error:
            self.failed.emit(UserError("The engine's answer can't be read", str(error)))
        else:
            self.answered.emit(answer)


# --- Asking the engine with patience: once the person pauses, about the newest wish only


BETWEEN_LOOKS_MS = 250
"""A pause in typing after which the engine is asked."""

Request = TypeVar("Request", bound=msgspec.Struct)


class PatientQuestion(QObject, Generic[Request, Answer]):
    """One kind of question that changes as the person types.

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
        self._question = EngineQuestion(ask, job, kind, self)
        self._question.answered.connect(self._take)
        self._question.failed.connect(self._fail)
        self._question.progressed.connect(self.tell_progress)
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
        return self._is_held or self._timer.isActive() or self._question.is_waiting

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
        self._question.forget()
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
        if self._timer.isActive() or self._question.is_waiting:
            self._timer.stop()
            self._question.forget()
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

    def _take(self, report: Answer) -> None:
        self.report, self.failure = report, None
        self.changed.emit()

    def _fail(self, error: UserError) -> None:
        self.report, self.failure = None, error
        self.changed.emit()
