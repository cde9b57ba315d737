"""The worker thread that looks at all runs that train or wait, those of the terminal too, whichever page is shown."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue

from PySide6.QtCore import QObject, QThread, Signal

from core import interrupted, queue
from core.errors import UserError
from core.live_runs import LiveRun, LiveRuns
from core.run_folder import RunFolder
from core.story import State
from gui.left_work import wait_briefly

log = logging.getLogger("hone")

LOOK_SECONDS = 2.0
FIRST_SECONDS = 0.5
"""The window is painted first."""


class LiveRunsThread(QThread):
    """Looks every two seconds until it is told to end.

    Signals:
        changed: A tuple of `core.live_runs.LiveRun`, the newest first: one came, went, stands elsewhere, has another
            name, or is a whole percent further.
        queue_changed: A tuple of those that wait, in the order in which they will train.
        run_ended: A `core.live_runs.EndedRun`.
        first_looked: After the first look: a list of `core.interrupted.Interrupted`.
        failed: A `core.errors.UserError`: what was to be done can't be.

    Args:
        folder: Tells where the runs are; called in this thread.
        parent: Qt's parent.
    """

    changed = Signal(object)
    queue_changed = Signal(object)
    first_looked = Signal(object)
    failed = Signal(object)
    run_ended = Signal(object)

    def __init__(self, folder: Callable[[], Path], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = folder
        self._runs = LiveRuns()
        self._followed: SimpleQueue[tuple[RunFolder, bool]] = SimpleQueue()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._work: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._live: tuple[LiveRun, ...] = ()
        self._told: list[tuple[Path, str, State, int | None]] = []
        self._told_waiting: tuple[LiveRun, ...] = ()
        self._has_looked = False

    @property
    def has_looked(self) -> bool:
        """Whether the first look is done."""
        return self._has_looked

    def known(self) -> list[RunFolder] | None:
        """The runs that trained or waited at the last look; None before the first. May be asked in any thread."""
        return [one.run for one in self._live] if self._has_looked else None

    def trains(self) -> bool:
        """Whether a run trained at the last look. May be asked in any thread."""
        return any(one.state is not State.QUEUED for one in self._live)

    def begin(self) -> None:
        """Start, or go on."""
        self._stopping.clear()
        if not self.isRunning():
            self.start()

    def follow(self, run: RunFolder, starts: bool) -> None:
        """Look at a run, too, wherever its folder is; `starts`: it begins now. Returns at once."""
        self._followed.put((run, starts))
        self._wake.set()

    def do(self, work: Callable[[], object]) -> None:
        """Do something in this thread, whatever it waits for, and look again; returns at once."""
        self._work.put(work)
        self._wake.set()

    def look_soon(self) -> None:
        """Look at once: something has happened."""
        self._wake.set()

    def stop(self) -> None:
        """Look no longer; this takes the milliseconds of a look."""
        self._stopping.set()
        self._wake.set()
        wait_briefly(self)

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
        self._do_work()
        self._take_followed()
        waiting = queue.waiting()
        for run in (*queue.training(), *waiting):
            self._runs.follow(run)
        ended = self._runs.look(self._folder())
        live = self._live = self._runs.live
        seen = [(one.run.path, one.title, one.state, percent(one)) for one in live]
        if seen != self._told:
            self._told = seen
            self.changed.emit(live)
        self._tell_queue(waiting, live)
        for end in ended:
            self.run_ended.emit(end)
        if not self._has_looked:
            self._has_looked = True
            self.first_looked.emit(self._interrupted())

    def _tell_queue(self, order: list[RunFolder], live: tuple[LiveRun, ...]) -> None:
        known = {one.run.path: one for one in live if one.state is State.QUEUED}
        waiting = tuple(known[run.path] for run in order if run.path in known)
        if waiting != self._told_waiting:
            self._told_waiting = waiting
            self.queue_changed.emit(waiting)

    def _do_work(self) -> None:
        while True:
            try:
                work = self._work.get_nowait()
            except Empty:
                return
            try:
                work()
            except UserError as error:
                self.failed.emit(error)
            except OSError as error:
                self.failed.emit(UserError(str(error.strerror or error), str(error.filename or "")))

    def _interrupted(self) -> list[interrupted.Interrupted]:
        try:
            return interrupted.find(self._folder(), interrupted.seen_until())
        except OSError as error:
            log.warning("the runs can't be listed: %s", error)
            return []

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
