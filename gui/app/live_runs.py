"""All runs that train or wait, polled by a thread: notifications, notices, the queue, and the question on closing."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from core.base import formats
from core.base.errors import Fix, FixAction, UserError
from core.base.language import _, isolated, ngettext
from core.base.settings import home
from core.runs import crash, queue
from core.runs import start as starting
from core.runs.crash import Interrupted
from core.runs.events import Level
from core.runs.folder import Action, RunFolder
from core.runs.library import list_runs, run_title
from core.runs.queue import EndedRun, LiveRun, LiveRuns, Move
from core.runs.status import State
from core.runs.summary import summarize
from gui.app.sidebar import Place
from gui.base.background import wait_briefly
from gui.base.tokens import PAGE_MARGINS
from gui.base.trash import Question, distinct_titles
from gui.run.words import state_title
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import margins
from gui.widgets.layout import vbox

if TYPE_CHECKING:
    from gui.app.window import MainWindow
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
                    self.failed.emit(UserError(str(error.strerror or error), str(error.filename or "")))


def percent(live: LiveRun) -> int | None:
    """Returns None if not known yet."""
    return None if live.share is None else int(100 * live.share)


SHOWN_MS = 15_000
"""How long the notification's icon stays; without it, the notification disappears."""


def set_badge(number: int) -> None:
    """Show a number on the application's icon; 0 for none."""
    application = QGuiApplication.instance()
    assert isinstance(application, QGuiApplication)
    application.setBadgeNumber(number)


class Notifications(QObject):
    """Progress in the window's title and on its icon, and a notification when a run ends.

    Progress is that of a run that trains: the one on screen, else the newest.
    """

    def __init__(
        self,
        window: MainWindow,
        may_notify: Callable[[], bool],
        on_screen: Callable[[], RunFolder | None],
        show_badge: Callable[[int], None] = set_badge,
        tray: type[QSystemTrayIcon] = QSystemTrayIcon,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._may_notify = may_notify
        self._on_screen = on_screen
        self._show_badge = show_badge
        self._tray = tray
        self._icon: QSystemTrayIcon | None = None
        self._name = window.windowTitle()
        self._live: tuple[LiveRun, ...] = ()

    def show_live(self, live: tuple[LiveRun, ...]) -> None:
        self._live = live
        self.refresh()

    def refresh(self) -> None:
        shown = self._on_screen()
        later = {State.STARTING: 1, State.QUEUED: 2}
        live = min(self._live, key=lambda one: (later.get(one.state, 0), one.run != shown), default=None)
        done = percent(live) if live is not None and live.state is State.TRAINING else None
        self._show_badge(done or 0)
        if live is None:
            name = "" if shown is None else f"{run_title(shown)} — "
            self._window.setWindowTitle(f"{name}{self._name}")
            return
        progress = state_title(live.state, is_test=live.is_test) if done is None else f"{done} %"
        if live.is_test and done is not None:
            progress = _("Test: {percent}").format(percent=progress)
        self._window.setWindowTitle(f"{progress} · {isolated(live.title)} — {self._name}")

    def notify_end(self, end: EndedRun) -> None:
        """Notify that a run has ended, unless the person is looking at it or has asked for that."""
        if was_asked(end):
            return
        if self._window.isActiveWindow() and end.run == self._on_screen():
            return
        QApplication.alert(self._window)
        if self._may_notify():
            self._notify(_end_title(end), _outcome(end))

    def _notify(self, title: str, text: str) -> None:
        if not (self._tray.isSystemTrayAvailable() and self._tray.supportsMessages()):
            return
        if self._icon is None:
            self._icon = self._tray(self._window.windowIcon(), self)
            self._icon.messageClicked.connect(lambda: self._window.come_forward(()))
        self._icon.show()
        self._icon.showMessage(title, text, self._window.windowIcon(), SHOWN_MS)
        QTimer.singleShot(SHOWN_MS, self._icon.hide)


def was_asked(end: EndedRun) -> bool:
    """Whether a run has paused or stopped, or left the queue, because a person asked for it."""
    asked = {Action.STOP, Action.PAUSE, Action.KILL}
    accepted = {action for action, attempt in end.status.accepted.items() if attempt >= end.status.attempt}
    return end.state in (State.PAUSED, State.STOPPED) and bool(asked & accepted)


def _end_title(end: EndedRun) -> str:
    return f"{state_title(end.state, stopped_early=end.status.stopped_early)}: {isolated(end.title)}"


def _outcome(end: EndedRun, most: int | None = None) -> str:
    """The figures of a run on one line, or the first of them, or why it failed."""
    from gui.run.words import RunFacts, summary

    figures = summary(RunFacts(end.status, end.state))
    messages = end.status.messages.values()
    errors = (message.title for message in messages if message.level is Level.ERROR)
    return ", ".join(f"{title} {value}" for title, value in figures[:most]) or " ".join(errors)


JUMP_SECONDS = 5.0
"""Later after the window has opened, a run that trains is not opened by itself."""

MOST_NAMES = 3
"""Number of runs that are named."""


class Notices(QWidget):
    """Strips, each hidden until there is something to show, and when it is closed.

    Above every page: `home`: Hone's folder can't be used; `trouble`: an error; `aside`: files that were not opened.
    In the sidebar, as they appear by themselves and must not move a page: `ended`: a run has just ended or paused;
    `interrupted`: runs crashed.
    """

    show_requested = Signal(object)  # a `RunFolder`; None: the list of runs
    resume_requested = Signal(object)  # a list of `RunFolder`s to resume one after the other
    seen = Signal()  # the crashed runs need not be shown again

    def __init__(self) -> None:
        super().__init__()
        self._interrupted: list[Interrupted] = []
        self._ended: RunFolder | None = None
        self._above = [MessageStrip(closable=True) for _number in range(3)]
        self.home, self.trouble, self.aside = self._above
        beside = [MessageStrip(closable=True, narrow=True) for _number in range(2)]
        self.ended, self.interrupted = beside
        self.beside = QWidget()
        self.beside.setLayout(vbox(*beside))
        layout = vbox(*self._above)
        start, top, end, _bottom = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end, 0))
        self.setLayout(layout)
        for strip in (*self._above, *beside):
            strip.closed.connect(self._fit)
        self.ended.fix_chosen.connect(lambda: self.show_requested.emit(self._ended))
        self.interrupted.fix_chosen.connect(self._on_interrupted_fix)
        self.interrupted.closed.connect(self.seen)
        self.hide()

    def show_end(self, end: EndedRun) -> None:
        """Show how a run ended, in place of the one before, until the run is shown or this is closed."""
        self._ended = end.run
        level = Level.ERROR if end.state in (State.FAILED, State.CRASHED) else Level.INFO
        fix = Fix(_("Show it"), action=FixAction.REVEAL)
        self.ended.show_message(level, _end_title(end), _outcome(end, most=1), (fix,))

    def show_interrupted(self, runs: Sequence[Interrupted]) -> None:
        """Offer to resume runs that ended without reporting it, or one that is paused."""
        self._interrupted = list(runs)
        count, step, is_paused = len(runs), runs[0].step, runs[0].is_paused
        title = ngettext("“{run}” crashed", "{count} runs crashed", count)
        if count > 1:
            names = listed([f"“{isolated(run.title)}”" for run in runs])
            text = _("{runs}. They can be resumed from their last checkpoints, one after the other.").format(
                runs=names
            )
        elif is_paused and step is not None:
            text = _("Paused at step {step}. It continues exactly there.").format(step=formats.count(step))
        elif step is None:
            text = _("It has no checkpoint, so it would start over.")
        else:
            text = _("It can be resumed from its checkpoint of step {step}.").format(step=formats.count(step))
        fixes = (
            Fix(ngettext("Resume", "Resume all", count), action=FixAction.RESUME),
            Fix(ngettext("Show it", "Show them", count), action=FixAction.REVEAL),
        )
        if is_paused:
            title = _("“{run}” is paused")
        title = title.format(run=isolated(runs[0].title), count=count)
        self.interrupted.show_message(Level.INFO if is_paused else Level.WARNING, title, text, fixes)

    def update_live(self, live: Sequence[LiveRun]) -> None:
        """Remove runs from the notices that have been resumed."""
        self._leave_out([one.run for one in live])

    def leave_out(self, run: RunFolder) -> None:
        """Remove a run whose page is shown."""
        self._leave_out([run])

    def _leave_out(self, runs: Collection[RunFolder]) -> None:
        interrupted = [one for one in self._interrupted if one.run not in runs]
        if not interrupted and not self.interrupted.isHidden():
            self.interrupted.hide()
            self.seen.emit()
        elif interrupted != self._interrupted and not self.interrupted.isHidden():
            self.show_interrupted(interrupted)
        if self._ended is not None and self._ended in runs:
            self._ended = None
            self.ended.hide()

    def show_home_error(self, error: OSError) -> None:
        """Show why Hone's own folder can't be used, and what to do."""
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = _("{folder} can't be created: there is a file of this name.").format(folder=home())
        else:
            reason = f"{error.filename or home()}: {error.strerror or error}."
        detail = _(
            "{reason} Hone works without it, but its log and your settings are not saved, and runs need another "
            "folder, which you can choose under Settings.\nTo fix it, make {folder} a folder that you may write to, or "
            "name another one in HONE_HOME; then start Hone again."
        ).format(reason=reason, folder=home())
        self.home.show_message(Level.WARNING, _("Nothing can be saved in Hone's folder"), detail)
        self._fit()

    def show_aside(self, names: Sequence[str]) -> None:
        """Name the files that were not opened; hide the notice if there are none."""
        title = _("Hone opens one file or folder at a time")
        self.aside.show_message(Level.INFO, title, _("Not opened: {files}").format(files=listed(names)))
        self.aside.setVisible(bool(names))
        self._fit()

    def show_error(self, error: UserError) -> None:
        self.trouble.show_error(error)
        self._fit()

    def _on_interrupted_fix(self, fix: Fix) -> None:
        runs = [one.run for one in self._interrupted]
        if fix.action is FixAction.RESUME:
            self.interrupted.hide()
            self.resume_requested.emit(runs)
            self.seen.emit()
        else:
            self.show_requested.emit(runs[0] if len(runs) == 1 else None)

    def _fit(self) -> None:
        self.setVisible(not all(strip.isHidden() for strip in self._above))


def listed(names: Sequence[str]) -> str:
    """The first few names, and the number of others."""
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} + {len(names) - MOST_NAMES}" if len(names) > MOST_NAMES else shown


class UnfinishedRuns(QObject):
    """Shows in a window what the thread reports."""

    def __init__(self, window: MainWindow, thread: LiveRunsThread) -> None:
        super().__init__(window)
        self._window, self._thread = window, thread
        self._live: tuple[LiveRun, ...] = ()
        self._waiting: tuple[LiveRun, ...] = ()
        self._card: QueueCard | None = None
        self.has_request = False  # for a page: then none opens by itself
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
        self._page = self._page or self._window.pages.currentWidget()

    def attach(self, card: QueueCard) -> None:
        """Show the queue on a card, and do what is requested there."""
        self._card = card
        card.show_waiting(self._waiting)
        card.run_opened.connect(self._window.show_run)
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
        self._window.sidebar.show_working(len(working) - tests, tests)
        self.strip.update_live(live)
        page = self._window.run
        view = page.view if page is not None else None
        is_over = view is not None and view.state is not None and view.state.is_over
        if view is not None and is_over and view.run in [one.run for one in live]:
            view.follow_again()
        elif view is not None and is_over:
            view.show_other()

    def _on_end(self, end: EndedRun) -> None:
        page = self._window.run
        view = page.view if page is not None else None
        if view is None or end.run != self._window.run_on_screen():
            if not was_asked(end):
                self.strip.show_end(end)
        elif view.next_run is not None and end.state is State.FINISHED and not _is_asked():
            QTimer.singleShot(0, self, partial(self._window.show_run, view.next_run))

    def _on_queue(self, waiting: tuple[LiveRun, ...]) -> None:
        self._waiting = waiting
        if self._card is not None:
            self._card.show_waiting(waiting)

    def _on_first_poll(self, interrupted: Sequence[Interrupted]) -> None:
        """Open the run that trains, unless the person is busy already: the sidebar tells that it trains."""
        training = _working(self._live)
        if training and self._is_idle():
            self._window.show_run(training[0].run)
        unseen = [one for one in interrupted if one.run != self._window.run_on_screen()]
        if unseen:
            self.strip.show_interrupted(unseen)

    def _is_idle(self) -> bool:
        """Whether the window has just opened and the person hasn't done anything yet."""
        form = self._window.new_run
        focus = QApplication.focusWidget()
        is_typing = focus is not None and form.isAncestorOf(focus)
        is_late = time.monotonic() - self._opened > JUMP_SECONDS
        has_stayed = self._window.pages.currentWidget() is self._page
        return has_stayed and not (is_typing or _is_asked() or is_late or self.has_request)

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


def _is_asked() -> bool:
    return bool(QApplication.activePopupWidget() or QApplication.activeModalWidget())


def _working(live: Sequence[LiveRun]) -> list[LiveRun]:
    return [one for one in live if one.state is not State.QUEUED]


# --- Closing the window while runs train or wait: the person is asked once what becomes of them

MOST_ASKED = 4
"""Number of runs that the question names."""


class Closing(Enum):
    """What to do with unfinished runs when the window closes."""

    KEEP_TRAINING = auto()
    PAUSE = auto()
    STOP = auto()
    CANCEL = auto()


@dataclass(frozen=True)
class Underway:
    """An unfinished run."""

    run: RunFolder
    title: str
    is_waiting: bool = False
    is_test: bool = False


def underway(folder: Path, known: Iterable[RunFolder] | None = None) -> list[Underway]:
    """The runs of a folder and of the queue that train or wait.

    Args:
        known: Runs that have just been found to train or wait, so that the folder need not be read.
    """
    if known is None:
        try:
            known = list_runs(folder)
        except OSError as error:
            log.warning("the runs can't be listed: %s", error)
            known = ()
    runs = {run.path: run for run in (*known, *queue.training(), *queue.waiting())}.values()
    alive = [run for run in runs if run.exit_record() is None and run.keeper_is_alive()]
    rows = [row for row in map(summarize, alive) if not row.state.is_over]
    titles = distinct_titles([(row.run.path, row.title) for row in rows])
    return [
        Underway(row.run, title, row.state is State.QUEUED, row.is_test)
        for row, title in zip(rows, titles, strict=True)
    ]


def request_all(runs: Iterable[Underway], action: Action) -> None:
    """Request the same of each run; one whose folder can't be written to goes on."""
    for one in runs:
        try:
            one.run.request(action)
        except OSError as error:
            log.warning("%s can't be asked to %s: %s", one.run.path, action, error)


def question_about(
    runs: Sequence[Underway],
    parent: QWidget | None,
    *,
    is_shutting_down: bool = False,
) -> Question[Closing] | None:
    """The question on closing, if anything goes on; when the computer shuts down, training can't go on."""
    if not runs:
        return None
    training = [run for run in runs if not (run.is_waiting or run.is_test)]
    testing = [run for run in runs if run.is_test and not run.is_waiting]
    waiting = [run for run in runs if run.is_waiting]
    first, *others = training or testing or waiting
    lines = [_names([first, *others])] if others else []
    if training:
        title = ngettext("“{run}” is training", "{count} runs are training", len(training))
        goes_on, end = _("Training continues without this window."), _("Stop and save model")
        keep, lost = _("Close, keep training"), _("Unsaved progress is lost when the computer shuts down.")
        effects = _(
            "Pause saves a checkpoint to resume from. Stop ends training and saves the model as it is now."
        )
        if testing:
            lines.append(_("Being tested: {runs}").format(runs=_names(testing)))
            effects += " " + _("Both end a test without a result.")
    elif testing:
        title = ngettext("“{run}” is not finished", "{count} tests are not finished", len(testing))
        goes_on, end = _("The test goes on without this window."), _("End the test")
        keep, lost = _("Close, keep testing"), _("Its result is lost when the computer shuts down.")
        effects = _("A test that is ended has no result. It can be started again.")
    else:
        title = ngettext("“{run}” is queued", "{count} runs are queued", len(waiting))
        goes_on, end = (
            _("Each queued run starts in its turn, without this window."),
            _("Remove from the queue"),
        )
        keep, lost = _("Close, keep the queue"), _("The queue ends when the computer shuts down.")
        effects = _("Runs that are removed from the queue can be started later.")
    if waiting and (training or testing):
        goes_on = _("All of them go on without this window: each queued run starts in its turn.")
        effects += " " + _("Queued runs are then removed from the queue; they can be started later.")
        lines.append(_("Queued: {runs}").format(runs=_names(waiting)))
    lines.append(f"{lost if is_shutting_down else goes_on} {effects}")
    answers = {Closing.KEEP_TRAINING: keep, Closing.PAUSE: _("Pause"), Closing.STOP: end}
    if is_shutting_down:
        answers.pop(Closing.KEEP_TRAINING)
    if not training:
        answers.pop(Closing.PAUSE)  # would be the same
    title = title.format(run=isolated(first.title), count=1 + len(others))
    return Question(title, "\n\n".join(lines), answers, parent)


def _names(runs: Sequence[Underway]) -> str:
    names = ", ".join(f"“{isolated(run.title)}”" for run in runs[:MOST_ASKED])
    if len(runs) <= MOST_ASKED:
        return names
    return _("{runs} and {count} more").format(runs=names, count=len(runs) - MOST_ASKED)


AskClosing = Callable[[Question[Closing]], Closing]


def ask_on_close(question: Question[Closing]) -> Closing:
    return question.ask(Closing.CANCEL)


def may_close(runs: Sequence[Underway], question: Question[Closing] | None, ask: AskClosing) -> bool:
    """Ask what becomes of runs, if there is a question, and do so; returns whether the window may close."""
    choice = Closing.KEEP_TRAINING if question is None else ask(question)
    actions = {Closing.PAUSE: Action.PAUSE, Closing.STOP: Action.STOP}
    if choice in actions:
        request_all(runs, actions[choice])
    return choice is not Closing.CANCEL
