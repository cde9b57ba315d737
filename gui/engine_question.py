"""Asking the engine a short question without making the window wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec
from PySide6.QtCore import QObject, QThread, Signal

from core.errors import UserError
from core.jobs import EngineJob, JobProgress, TellProgress
from gui.engine_work import EngineWork


class Job(Protocol):
    """One engine process that answers one question; `core.jobs.EngineJob` is the real one."""

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
        failed: A `core.errors.UserError`.
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
