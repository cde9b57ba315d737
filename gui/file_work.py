"""Small jobs with files, done one after the other away from the window: notes written, folders moved."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from PySide6.QtCore import QObject, QThread, Signal

from core.errors import RunFolderError, UserError

Result = TypeVar("Result")


class FileWork(QThread):
    """Does jobs in their order. The thread ends when there is none left, and begins anew with the next.

    Signals:
        failed: A `core.errors.UserError` in place of a job's result.
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
                title = self.tr("A file can't be written")
                where = f"{error.filename}: " if error.filename else ""
                self.failed.emit(RunFolderError(title, f"{where}{error.strerror or error}"))

    def _go_on(self) -> None:
        if not self._jobs.empty() and not self.isRunning():
            self.start()

    def _deliver(self, done: Callable[[Any], None], result: Any) -> None:
        done(result)
