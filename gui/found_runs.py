"""What the window makes of runs that it finds or hears of: it opens, offers, counts and orders them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from core import interrupted, queue, starting
from core.interrupted import Interrupted
from core.live_runs import LiveRun
from core.queue import Move
from core.run_folder import Action, RunFolder
from core.story import State
from gui.sidebar import Place
from gui.start_strip import StartStrip

if TYPE_CHECKING:
    from gui.live_runs import LiveRunsThread
    from gui.pages.queue_card import QueueCard
    from gui.window import MainWindow

log = logging.getLogger("hone")


class FoundRuns(QObject):
    """Stands between one window and the thread that looks at runs."""

    def __init__(self, window: MainWindow, thread: LiveRunsThread) -> None:
        super().__init__(window)
        self._window, self._thread = window, thread
        self._live: tuple[LiveRun, ...] = ()
        self._waiting: tuple[LiveRun, ...] = ()
        self._card: QueueCard | None = None
        self._is_asked = False
        self.strip = StartStrip()
        thread.changed.connect(self._take_live)
        thread.queue_changed.connect(self._take_queue)
        thread.first_looked.connect(self._greet)
        thread.failed.connect(self.strip.tell_trouble)
        self.strip.show_requested.connect(self._show)
        self.strip.resume_requested.connect(self._resume)
        self.strip.seen.connect(partial(thread.do, interrupted.mark_seen))

    def leave_be(self) -> None:
        """The person has asked for something: no page is opened by itself from now on."""
        self._is_asked = True

    def title_of(self, name: str) -> str:
        """What the run in a folder of this name is called, where it trains or waits."""
        return next((f"“{live.title}”" for live in self._live if live.run.name == name), name)

    def note_shown(self, run: RunFolder) -> None:
        """The person sees this run: nothing more is said of it above the page."""
        self.strip.leave_out(run)

    def attach(self, card: QueueCard) -> None:
        """Show on a card who waits, and do what is asked there."""
        self._card = card
        card.show_waiting(self._waiting)
        card.run_opened.connect(self._window.show_run)
        card.move_requested.connect(self._move)
        card.leave_requested.connect(self._leave)

    def end_work(self) -> None:
        """Keep in mind that what was interrupted has been told, unless the person has said nothing to it yet."""
        if self._thread.has_looked and self.strip.interrupted.isHidden():
            try:
                interrupted.mark_seen()
            except OSError as error:
                log.warning("what was seen can't be kept: %s", error)

    def _take_live(self, live: tuple[LiveRun, ...]) -> None:
        self._live = live
        self._window.sidebar.show_training(len(_training(live)))
        self.strip.keep_up(live)
        page = self._window.run
        view = page.view if page is not None else None
        if (
            view is not None
            and view.state is not None
            and view.state.is_over
            and view.run in [one.run for one in live]
        ):
            view.follow_again()

    def _take_queue(self, waiting: tuple[LiveRun, ...]) -> None:
        self._waiting = waiting
        if self._card is not None:
            self._card.show_waiting(waiting)

    def _greet(self, found: Sequence[Interrupted]) -> None:
        """Once the window knows what there is: open the run that trains, or offer it to who is busy already."""
        training = _training(self._live)
        if training and self._is_idle():
            self._window.show_run(training[0].run)
        elif training and self._window.pages.run_on_screen() not in [one.run for one in training]:
            self.strip.tell_training(training)
        unseen = [one for one in found if one.run != self._window.pages.run_on_screen()]
        if unseen:
            self.strip.tell_interrupted(unseen)

    def _is_idle(self) -> bool:
        """Whether the window is as it opened, and nobody has begun to fill in anything."""
        form = self._window.new_run
        focus = QApplication.focusWidget()
        is_typing = focus is not None and form.isAncestorOf(focus)
        return form.isVisible() and not is_typing and not self._is_asked

    def _show(self, run: RunFolder | None) -> None:
        if run is None:
            self._window.go_to(Place.RUNS)
        else:
            self._window.show_run(run)

    def _resume(self, runs: list[RunFolder]) -> None:
        if len(runs) == 1:
            self._window.resume_run(runs[0])
            return
        for run in runs:
            self._thread.do(partial(starting.resume, run, queued=True))
        self._window.go_to(Place.RUNS)

    def _move(self, run: RunFolder, to: Move) -> None:
        self._thread.do(partial(queue.move, run, to))

    def _leave(self, run: RunFolder) -> None:
        self._thread.do(partial(run.ask, Action.STOP))


def _training(live: Sequence[LiveRun]) -> list[LiveRun]:
    return [one for one in live if one.state is not State.QUEUED]
