"""All runs that train or wait: polled by a thread, shown in the window."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, QTimer, Signal
from PySide6.QtWidgets import QApplication, QWidget

from core.base.errors import UserError, why
from core.base.language import _, isolated
from core.runs import crash, queue
from core.runs import start as starting
from core.runs.crash import Interrupted
from core.runs.events import Action
from core.runs.folder import RunFolder
from core.runs.library import run_title
from core.runs.queue import EndedRun, LiveRun, LiveRuns, Move
from core.runs.status import State
from gui.app.navigator import Navigator
from gui.app.notices import Notices
from gui.app.notifications import percent, was_asked
from gui.app.sidebar import Place
from gui.base.background import wait_briefly

if TYPE_CHECKING:
    from gui.runs.queue_card import QueueCard


log = logging.getLogger("hone")

POLL_SECONDS = 2.0
FIRST_SECONDS = 0.5
"""Delay of the first poll, before which the window is painted."""
AGAIN_SECONDS = 10.0
"""A run elsewhere gets a new keeper if the one it had was started so long ago, and is gone."""


class LiveRunsThread(QThread):
    """Polls the runs every two seconds.

    Args:
        folder: Returns the runs' folder; called in this thread.
    """

    changed = Signal(object)  # a tuple of `core.runs.queue.LiveRun`, the newest first
    queue_changed = Signal(object)  # a tuple of those that wait, in their order
    polled_first = Signal(object)  # after the first poll: a list of `core.runs.crash.Interrupted`
    failed = Signal(object)  # a `core.base.errors.UserError` of some work
    run_ended = Signal(object)  # a `core.runs.queue.EndedRun`

    def __init__(self, folder: Callable[[], Path], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = folder
        self._runs = LiveRuns()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._work: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._live: tuple[LiveRun, ...] = ()
        self._reported: list[tuple[Path, str, State, int | None]] = []
        self._waiting: tuple[LiveRun, ...] = ()
        self.has_polled = False

    def known(self) -> list[RunFolder] | None:
        """The runs of the last poll; None before the first. May be called in any thread."""
        return [live.run for live in self._live] if self.has_polled else None

    def trains(self) -> bool:
        """Whether a run trained at the last poll. May be called in any thread."""
        return any(live.state is not State.QUEUED for live in self._live)

    def begin(self) -> None:
        self._stopping.clear()
        if not self.isRunning():
            self.start()

    def follow(self, run: RunFolder, starts: bool) -> None:
        """Also watch a run, wherever its folder is; `starts`: it begins now. Returns at once."""
        self.do(partial(self._runs.follow, run, starts=starts))

    def do(self, work: Callable[[], object]) -> None:
        """Do some work in this thread, then poll; returns at once."""
        self._work.put(work)
        self._wake.set()

    def poll_soon(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Stop within milliseconds."""
        self._stopping.set()
        self._wake.set()
        wait_briefly(self)

    def run(self) -> None:
        pause = FIRST_SECONDS
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._stopping.is_set():
                return
            self._poll()
            pause = POLL_SECONDS

    def _poll(self) -> None:
        self._do_work()
        waiting = queue.waiting()
        for run in (*queue.training(), *waiting):
            self._runs.follow(run)
        ended = self._runs.look(self._folder())
        live = self._live = self._runs.live
        for one in live:
            if time.time() - one.begun > AGAIN_SECONDS:
                with contextlib.suppress(UserError):
                    starting.follow_again(one.run)
        state = [(one.run.path, one.title, one.state, percent(one)) for one in live]
        if state != self._reported:
            self._reported = state
            self.changed.emit(live)
        queued = {one.run.path: one for one in live if one.state is State.QUEUED}
        in_order = tuple(queued[run.path] for run in waiting if run.path in queued)
        if in_order != self._waiting:
            self._waiting = in_order
            self.queue_changed.emit(in_order)
        for end in ended:
            self.run_ended.emit(end)
        if not self.has_polled:
            self.has_polled = True
            try:
                interrupted = crash.find(self._folder(), crash.seen_until())
            except OSError as error:
                log.warning("the runs can't be listed: %s", error)
                interrupted = []
            self.polled_first.emit(interrupted)

    def _do_work(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                work = self._work.get_nowait()
                try:
                    work()
                except UserError as error:
                    self.failed.emit(error)
                except OSError as error:
                    self.failed.emit(UserError(why(error), str(error.filename or "")))


JUMP_SECONDS = 5.0
"""Later after the window has opened, a run that trains is not opened by itself."""


class UnfinishedRuns(QObject):
    """Shows what the thread reports, on the pages and in notices."""

    working_changed = Signal(int, int)  # the numbers of runs that train and of tests

    def __init__(self, pages: Navigator, thread: LiveRunsThread, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pages, self._thread = pages, thread
        self._live: tuple[LiveRun, ...] = ()
        self._waiting: tuple[LiveRun, ...] = ()
        self._card: QueueCard | None = None
        self.has_request = False  # set once the person asked for a page; none opens by itself after that
        self._page: QWidget | None = None  # the first one
        self._opened = time.monotonic()
        self.strip = Notices()
        thread.changed.connect(self._on_live)
        thread.queue_changed.connect(self._on_queue)
        thread.polled_first.connect(self._on_first_poll)
        thread.failed.connect(self.strip.show_error)
        thread.run_ended.connect(self._on_end)
        self.strip.show_requested.connect(self._show)
        self.strip.resume_requested.connect(self._resume)
        self.strip.seen.connect(partial(thread.do, crash.mark_seen))

    def note_page(self) -> None:
        """Remember on which page the window opens."""
        self._page = self._page or self._pages.currentWidget()

    def attach(self, card: QueueCard) -> None:
        """Show the queue on a card, and do what is requested there."""
        self._card = card
        card.show_waiting(self._waiting)
        card.run_opened.connect(self._pages.show_run)
        card.move_requested.connect(self.move)
        card.leave_requested.connect(lambda run: self._thread.do(partial(run.request, Action.STOP)))

    def move(self, run: RunFolder, to: Move) -> None:
        """Move a queued run; what prevents that is shown."""

        def work() -> None:
            if not queue.move(run, to):
                title = _("“{run}” is no longer queued").format(run=isolated(run_title(run)))
                raise UserError(title, _("It has started, or it has left the queue."))

        self._thread.do(work)

    def end_work(self) -> None:
        if self._thread.has_polled and self.strip.interrupted.isHidden():
            try:
                crash.mark_seen()
            except OSError as error:
                log.warning("the time can't be saved up to which crashes were shown: %s", error)

    def _on_live(self, live: tuple[LiveRun, ...]) -> None:
        self._live = live
        working = _working(live)
        tests = sum(one.is_test for one in working)
        self.working_changed.emit(len(working) - tests, tests)
        self.strip.update_live(live)
        page = self._pages.run
        view = page.view if page is not None else None
        is_over = view is not None and view.state is not None and view.state.is_over
        if view is not None and is_over and view.run in [one.run for one in live]:
            view.follow_again()
        elif view is not None and is_over:
            view.look_again()

    def _on_end(self, end: EndedRun) -> None:
        page = self._pages.run
        view = page.view if page is not None else None
        if view is None or end.run != self._pages.run_on_screen():
            if not was_asked(end):
                self.strip.show_end(end)
        elif view.next_run is not None and end.state is State.FINISHED and not _is_asked():
            QTimer.singleShot(0, self, partial(self._pages.show_run, view.next_run))

    def _on_queue(self, waiting: tuple[LiveRun, ...]) -> None:
        self._waiting = waiting
        if self._card is not None:
            self._card.show_waiting(waiting)

    def _on_first_poll(self, interrupted: Sequence[Interrupted]) -> None:
        """Open the run that trains, unless the person is busy already: the sidebar tells that it trains."""
        training = _working(self._live)
        if training and self._is_idle():
            self._pages.show_run(training[0].run)
        unseen = [one for one in interrupted if one.run != self._pages.run_on_screen()]
        if unseen:
            self.strip.show_interrupted(unseen)

    def _is_idle(self) -> bool:
        """Whether the window has just opened and the person hasn't done anything yet."""
        form = self._pages.new_run
        focus = QApplication.focusWidget()
        is_typing = focus is not None and form.isAncestorOf(focus)
        is_late = time.monotonic() - self._opened > JUMP_SECONDS
        has_stayed = self._pages.currentWidget() is self._page
        return has_stayed and not (is_typing or _is_asked() or is_late or self.has_request)

    def _show(self, run: RunFolder | None) -> None:
        if run is None:
            self._pages.go_to(Place.RUNS)
        else:
            self._pages.show_run(run)

    def _resume(self, runs: list[RunFolder]) -> None:
        if len(runs) == 1:
            self._pages.resume_run(runs[0])
            return
        for run in runs:
            self._thread.do(partial(starting.resume, run, queued=True))
        self._pages.go_to(Place.RUNS)


def _is_asked() -> bool:
    return bool(QApplication.activePopupWidget() or QApplication.activeModalWidget())


def _working(live: Sequence[LiveRun]) -> list[LiveRun]:
    return [one for one in live if one.state is not State.QUEUED]
