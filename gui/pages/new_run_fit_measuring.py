"""A dry run beside the window: started, watched by the clock, given up, or answered."""

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QThread, QTimer, Signal

from core.memory.fitting import MakeDryRun, MakesMeasurement
from core.memory.forecast import Measurement, Room
from core.options import RunOptions
from gui.engine_work import EngineWork

TICK_MS = 1000


class _Running(EngineWork):
    """One dry run; holds what it measured when it has finished."""

    def __init__(self, make: Callable[[], MakesMeasurement], parent: QObject) -> None:
        super().__init__(parent)
        self._make = make
        self._dry_run: MakesMeasurement | None = None
        self.measurement: Measurement | None = None

    def begin(self) -> None:
        self._dry_run = self._make()

    def work(self) -> None:
        assert self._dry_run is not None
        self.measurement = self._dry_run.run()

    def kill(self) -> None:
        if self._dry_run is not None:
            self._dry_run.kill()


class Measuring(QObject):
    """Measures one set of options at a time.

    Signals:
        changed: It began, was given up, or another second has passed.
        measured: The `core.memory.forecast.Measurement`.
        failed: A `core.errors.UserError`; running out of memory is none, that is measured.

    Args:
        dry_run: Makes a dry run of some options, in some room.
        parent: Qt's parent.
    """

    changed = Signal()
    measured = Signal(object)
    failed = Signal(object)

    def __init__(self, dry_run: MakeDryRun, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._dry_run = dry_run
        self._current: _Running | None = None
        self._threads: list[_Running] = []
        self._began = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self.changed)

    @property
    def is_running(self) -> bool:
        """Whether a dry run is under way."""
        return self._current is not None

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def start(self, options: RunOptions, room: Room | None) -> None:
        """Begin; what was measured before is given up."""
        self.cancel()
        running = _Running(lambda: self._dry_run(options, room), self)
        running.finished.connect(self._settle)
        self._threads.append(running)
        self._current = running
        self._began = time.monotonic()
        self._timer.start()
        running.start(QThread.Priority.LowPriority)
        self.changed.emit()

    def cancel(self) -> None:
        """Give it up."""
        if self._current is not None:
            self._current.cancel()
            self._current = None
            self._timer.stop()
            self.changed.emit()

    def close(self) -> None:
        """Give up and wait until no thread is left; call before the application ends."""
        self.cancel()
        for running in self._threads:
            running.wait()

    def _settle(self) -> None:
        running = self.sender()
        if not isinstance(running, _Running):
            return
        self._threads.remove(running)
        running.deleteLater()
        if running is not self._current:
            return
        self._current = None
        self._timer.stop()
        if running.failure is not None:
            self.failed.emit(running.failure)
        elif running.measurement is not None:
            self.measured.emit(running.measurement)
