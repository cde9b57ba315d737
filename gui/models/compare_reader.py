"""Reads several runs in one thread, piece by piece in turn, so that all curves grow together."""

import threading
import time
from collections.abc import Sequence

from PySide6.QtCore import QObject, QThread, Signal

from core.follow import RunFollower
from core.run_comparison import compare
from core.run_folder import RunFolder
from gui import numbers
from gui.job_thread import LARGEST_NEWS, PIECE_BYTES
from gui.left_work import wait_briefly
from gui.models.run_news import NewsMaker, RunNews

POLL_SECONDS = 0.5
"""How often runs that still train are looked at."""

COMPARE_SECONDS = 5.0
"""How often what they came to is told anew meanwhile."""

TELL_SECONDS = 0.2
"""A long past is told in pieces at least so often."""


class CompareReader(QThread):
    """Follows runs until all of them are over.

    Signals:
        compared: A `core.run_comparison.Comparison`; first of all, then now and then while any of them trains.
        news_arrived: The place of a run among them, and its `gui.models.run_news.RunNews`.
        caught_up: All that there is so far has been told.

    Args:
        runs: The runs.
        parent: Qt's parent.
    """

    compared = Signal(object)
    news_arrived = Signal(int, object)
    caught_up = Signal()

    def __init__(self, runs: Sequence[RunFolder], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = tuple(runs)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Follow no longer; this takes the milliseconds of a piece."""
        self._stopping.set()
        wait_briefly(self)

    def run(self) -> None:
        """What the thread does. Call `start`."""
        self._compare()
        streams = [_Stream(run) for run in self._runs]
        has_caught_up = False
        while not self._stopping.is_set():
            for place, stream in enumerate(streams):
                news = stream.poll()
                if news is not None:
                    self.news_arrived.emit(place, news)
            if not all(stream.follower.is_caught_up for stream in streams):
                continue
            if not has_caught_up:
                has_caught_up = True
                self.caught_up.emit()
            if all(stream.follower.is_over for stream in streams):
                self._compare()
                return
            self._stopping.wait(POLL_SECONDS)
            if time.monotonic() > self._compare_next:
                self._compare()

    def _compare(self) -> None:
        self.compared.emit(compare(self._runs, numbers.memory))
        self._compare_next = time.monotonic() + COMPARE_SECONDS


class _Stream:
    """One run, read a piece at a time and folded into news."""

    def __init__(self, run: RunFolder) -> None:
        self.follower = RunFollower(run)
        self._maker = NewsMaker()
        self._tell_next = time.monotonic()

    def poll(self) -> RunNews | None:
        """Read a piece; what is to be told by now."""
        if self.follower.is_over:
            return None
        self._maker.add(self.follower.poll(PIECE_BYTES))
        is_due = time.monotonic() > self._tell_next or self.follower.is_caught_up
        if not (is_due or len(self._maker) >= LARGEST_NEWS):
            return None
        self._tell_next = time.monotonic() + TELL_SECONDS
        batches = self._maker.take()
        return RunNews(self.follower.story.copy(), batches) if batches else None
