"""A download from the Hub as the window runs it: begun, paused, gone on with, given up."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QThread, Signal

from core.errors import UserError
from core.hub_download import Download, Pace, Transfer
from core.hub_questions import Downloaded, DownloadRequest, Progress, Removed, RemoveRequest
from gui.engine_question import Ask, EngineQuestion
from gui.engine_work import EngineWork
from gui.pausable import Pausable, State

MakeTransfer = Callable[[DownloadRequest], Transfer]


class _Running(EngineWork):
    """Downloads in its thread.

    Signals:
        progressed: A `core.hub_questions.Progress`.
    """

    progressed = Signal(object)

    def __init__(self, transfer: Transfer, parent: QObject) -> None:
        super().__init__(parent)
        self._transfer = transfer
        self.done: Downloaded | None = None

    def begin(self) -> None:
        """The process is started where it is followed."""

    def work(self) -> None:
        self.done = self._transfer.run(self.progressed.emit)

    def kill(self) -> None:
        self._transfer.kill()


class HubTransfer(Pausable):
    """One download at a time.

    Signals:
        finished: The `core.hub_questions.DownloadRequest` of which all has come.

    Args:
        ask: Starts the engine's job that deletes what is unfinished.
        make: Makes what downloads, in a process of its own.
        parent: Qt's parent.
    """

    finished = Signal(object)

    def __init__(self, ask: Ask, make: MakeTransfer = Download, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._make = make
        self._running: _Running | None = None
        self._threads: list[_Running] = []
        self._dropping = EngineQuestion(ask, "hub-remove", Removed, self)
        self._dropping.failed.connect(self._fail)
        self._given_up: DownloadRequest | None = None
        self.request: DownloadRequest | None = None

    @property
    def title(self) -> str:
        """As `Pausable` has it."""
        return "" if self.request is None else self.request.id

    @property
    def doing(self) -> str:
        """As `Pausable` has it."""
        return self.tr("Asking for the list of files…")

    def begin(self, request: DownloadRequest) -> None:
        """Download; what was under way before is paused."""
        self._end()
        self.request, self.progress, self.failure = request, None, None
        self.resume()

    def resume(self) -> None:
        """Go on where it ended."""
        if self.request is None or self.state is State.RUNNING:
            return
        self.state, self.failure, self.pace = State.RUNNING, None, Pace()
        running = _Running(self._make(self.request), self)
        running.progressed.connect(self._take)
        running.finished.connect(self._settle)
        self._threads.append(running)
        self._running = running
        running.start(QThread.Priority.LowPriority)
        self.changed.emit()

    def pause(self) -> None:
        """End the process; what has come stays on the disk."""
        if self.state is State.RUNNING:
            self._end()
            self.state = State.PAUSED
            self.changed.emit()

    def cancel(self) -> None:
        """Give it up: what has come of it is deleted as soon as the process has ended."""
        if self.request is None:
            return
        self._given_up, self.request = self.request, None
        self._end()
        self.state, self.progress, self.failure = State.IDLE, None, None
        if not self._threads:
            self._drop()
        self.changed.emit()

    def close(self) -> None:
        """Pause, and wait until no thread is left."""
        self.pause()
        for thread in list(self._threads):
            thread.wait()
        self._dropping.close()

    def _end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None

    def _drop(self) -> None:
        given_up, self._given_up = self._given_up, None
        if given_up is not None:
            self._dropping.put(RemoveRequest(id=given_up.id, kind=given_up.kind, only_partial=True))

    def _take(self, progress: Progress) -> None:
        if self.sender() is self._running:
            self.progress = progress
            self.pace.add(progress)
            self.changed.emit()

    def _settle(self) -> None:
        ended = self.sender()
        if not isinstance(ended, _Running):
            return
        self._threads.remove(ended)
        ended.deleteLater()
        if not self._threads:
            self._drop()
        if ended is not self._running:
            return
        self._running = None
        if ended.failure is not None:
            self._fail(ended.failure)
        elif ended.done is not None and self.request is not None:
            request, self.request, self.state = self.request, None, State.IDLE
            self.changed.emit()
            self.finished.emit(request)

    def _fail(self, error: UserError) -> None:
        self.state, self.failure = State.FAILED, error
        self.changed.emit()
