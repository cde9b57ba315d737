"""The worker thread that looks at all runs that train, those of the terminal too, whichever page is shown."""

import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue

from PySide6.QtCore import QObject, QThread, Signal

from core.live_runs import LiveRun, LiveRuns
from core.run_folder import RunFolder

LOOK_SECONDS = 2.0
FIRST_SECONDS = 0.5
"""The window is painted first."""


class LiveRunsThread(QThread):
    """Looks every two seconds until it is told to end.

    Signals:
        changed: A tuple of `core.live_runs.LiveRun`, the newest first: one came, went, or is a whole percent further.
        run_ended: A `core.live_runs.EndedRun`.

    Args:
        folder: Tells where the runs are; called in this thread.
        parent: Qt's parent.
    """

    changed = Signal(object)
    run_ended = Signal(object)

    def __init__(self, folder: Callable[[], Path], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = folder
        self._runs = LiveRuns()
        self._followed: SimpleQueue[tuple[RunFolder, bool]] = SimpleQueue()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._told: list[tuple[Path, int | None]] = []

    def begin(self) -> None:
        """Start, or go on."""
        self._stopping.clear()
        if not self.isRunning():
            self.start()

    def follow(self, run: RunFolder, starts: bool) -> None:
        """Look at a run, too, wherever its folder is; `starts`: it begins now. Returns at once."""
        self._followed.put((run, starts))
        self._wake.set()

    def look_soon(self) -> None:
        """Look at once: something has happened."""
        self._wake.set()

    def stop(self) -> None:
        """Look no longer; the thread is gone after this, which takes the milliseconds of a look."""
        self._stopping.set()
        self._wake.set()
        self.wait()

    def run(self) -> None:
        """What the thread does. Call `begin`."""
        pause = FIRST_SECONDS
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._stopping.is_set():
                return
            self._look()
            pause = LOOK_SECONDS

    def _look(self) -> None:
        self._take_followed()
        ended = self._runs.look(self._folder())
        live = self._runs.live
        seen = [(one.run.path, percent(one)) for one in live]
        if seen != self._told:
            self._told = seen
            self.changed.emit(live)
        for end in ended:
            self.run_ended.emit(end)

    def _take_followed(self) -> None:
        while True:
            try:
                run, starts = self._followed.get_nowait()
            except Empty:
                return
            self._runs.follow(run, starts=starts)


def percent(live: LiveRun) -> int | None:
    """How much of a run is done; None: that isn't known yet."""
    return None if live.share is None else int(100 * live.share)
