"""The worker thread that looks at all runs that train or wait, those of the terminal too, whichever page is shown."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from core.base import formats
from core.base.errors import Fix, FixAction, UserError
from core.base.language import _
from core.base.settings import home
from core.runs import crash, queue
from core.runs import start as starting
from core.runs.crash import Interrupted
from core.runs.events import Level
from core.runs.folder import Action, RunFolder
from core.runs.queue import EndedRun, LiveRun, LiveRuns
from core.runs.status import State
from gui.app.sidebar import Place
from gui.base.background import wait_briefly
from gui.base.tokens import PAGE_MARGINS
from gui.run.words import state_title
from gui.widgets.cards import BriefStrip, MessageStrip
from gui.widgets.labels import margins
from gui.widgets.layout import vbox

if TYPE_CHECKING:
    from gui.app.window import MainWindow
    from gui.runs.queue_card import QueueCard


log = logging.getLogger("hone")

LOOK_SECONDS = 2.0
FIRST_SECONDS = 0.5
"""The window is painted first."""


class LiveRunsThread(QThread):
    """Looks every two seconds until it is told to end.

    Signals:
        changed: A tuple of `core.runs.queue.LiveRun`, the newest first: one came, went, stands elsewhere, has another
            name, or is a whole percent further.
        queue_changed: A tuple of those that wait, in the order in which they will train.
        run_ended: A `core.runs.queue.EndedRun`.
        first_looked: After the first look: a list of `core.runs.crash.Interrupted`.
        failed: A `core.base.errors.UserError`: what was to be done can't be.

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
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._work: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._live: tuple[LiveRun, ...] = ()
        self._told: list[tuple[Path, str, State, int | None]] = []
        self._told_waiting: tuple[LiveRun, ...] = ()
        self.has_looked = False

    def known(self) -> list[RunFolder] | None:
        """The runs that trained or waited at the last look; None before the first. May be asked in any thread."""
        return [one.run for one in self._live] if self.has_looked else None

    def trains(self) -> bool:
        """Whether a run trained at the last look. May be asked in any thread."""
        return any(one.state is not State.QUEUED for one in self._live)

    def begin(self) -> None:
        self._stopping.clear()
        if not self.isRunning():
            self.start()

    def follow(self, run: RunFolder, starts: bool) -> None:
        """Look at a run, too, wherever its folder is; `starts`: it begins now. Returns at once."""
        self.do(partial(self._runs.follow, run, starts=starts))

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
        if not self.has_looked:
            self.has_looked = True
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

    def _interrupted(self) -> list[crash.Interrupted]:
        try:
            return crash.find(self._folder(), crash.seen_until())
        except OSError as error:
            log.warning("the runs can't be listed: %s", error)
            return []


def percent(live: LiveRun) -> int | None:
    """How much of a run is done; None: that isn't known yet."""
    return None if live.share is None else int(100 * live.share)


SHOWN_MS = 15_000
"""How long the notification's icon stays: where it goes, the notification goes."""


def set_badge(number: int) -> None:
    """Show a number on the application's icon; 0: none."""
    application = QGuiApplication.instance()
    assert isinstance(application, QGuiApplication)
    application.setBadgeNumber(number)


class Attention(QObject):
    """Speaks for one window. Of several runs, the one on screen is told of, else the newest that trains, or waits.

    Args:
        window: Whose title tells the progress.
        may_notify: Whether the person wants to be notified.
        on_screen: The run that the window shows; None: another page.
        show_badge: Shows a number on the application's icon.
        tray: What notifications are shown with.
    """

    def __init__(
        self,
        window: QWidget,
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
        """Tell how far the runs are that train, the newest first; none: nothing goes on any more."""
        self._live = live
        self.refresh()

    def refresh(self) -> None:
        shown = self._on_screen()
        live = min(self._live, key=lambda one: (one.run != shown, one.state is State.QUEUED), default=None)
        done = percent(live) if live is not None and live.state is State.TRAINING else None
        self._show_badge(done or 0)
        if live is None:
            self._window.setWindowTitle(self._name)
            return
        progress = state_title(live.state) if done is None else f"{done} %"
        self._window.setWindowTitle(f"{progress} · {live.title} – {self._name}")

    def tell_end(self, end: EndedRun) -> None:
        """Say that a run has ended, unless the person is looking at it."""
        if self._window.isActiveWindow() and end.run == self._on_screen():
            return
        QApplication.alert(self._window)
        if self._may_notify():
            self._notify(f"{state_title(end.state)}: {end.title}", _what_came_of(end))

    def _notify(self, title: str, words: str) -> None:
        if not (self._tray.isSystemTrayAvailable() and self._tray.supportsMessages()):
            return
        if self._icon is None:
            self._icon = self._tray(self._window.windowIcon(), self)
            self._icon.messageClicked.connect(self._come_forward)
        self._icon.show()
        self._icon.showMessage(title, words, self._window.windowIcon(), SHOWN_MS)
        QTimer.singleShot(SHOWN_MS, self._icon.hide)

    def _come_forward(self) -> None:
        self._window.showNormal()
        self._window.raise_()
        self._window.activateWindow()


def _what_came_of(end: EndedRun) -> str:
    """The figures that the run's page shows, in a line; of a run that failed, why."""
    from gui.run.words import RunFacts, summary

    figures = summary(RunFacts(end.status, end.state))
    errors = (said.title for said in end.status.messages.values() if said.level is Level.ERROR)
    return ", ".join(f"{title} {value}" for title, value in figures) or " ".join(errors)


MOST_NAMES = 3
"""So many runs are named; of more the rest is counted."""


class Notices(QWidget):
    """Strips above every page, each hidden until there is something to say, and again once it is closed.

    They tell why Hone's folder can't be used, which runs train, which were interrupted, why something can't be done,
    and which files were not opened.

    Signals:
        show_requested: The `RunFolder` to be shown; None: the list of runs.
        resume_requested: A list of `RunFolder`s to resume, one after the other.
        seen: What was interrupted need not be told again.
    """

    show_requested = Signal(object)
    resume_requested = Signal(object)
    seen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._training: list[LiveRun] = []
        self._interrupted: list[Interrupted] = []
        self.home, self.training = MessageStrip(closable=True), BriefStrip()
        self.interrupted, self.trouble, self.aside = (MessageStrip(closable=True) for _number in range(3))
        self._strips = self.home, self.training, self.interrupted, self.trouble, self.aside
        layout = vbox(*self._strips)
        start, top, end, _bottom = PAGE_MARGINS
        layout.setContentsMargins(margins(self, start, top, end, 0))
        self.setLayout(layout)
        for strip in self._strips:
            strip.hide()
            strip.closed.connect(self._fit)
        self.training.pressed.connect(self._show_training)
        self.interrupted.fix_chosen.connect(self._choose)
        self.interrupted.closed.connect(self.seen)
        self.hide()

    def tell_training(self, live: Sequence[LiveRun]) -> None:
        """Say that runs train, the newest first."""
        self._training = list(live)
        if len(live) == 1:
            title = _("“{}” is training").format(live[0].title)
            words = _("It went on while Hone was closed.")
        else:
            title = _("{} runs are training").format(len(live))
            words = listed([_with_percent(one) for one in live])
        self.training.show_words(title, words, _("Show it") if len(live) == 1 else _("Show them"))
        self._fit()

    def keep_up(self, live: Sequence[LiveRun]) -> None:
        """These train or wait now: nothing more is said of training that is over, or of runs that go on."""
        now = {one.run: one for one in live}
        self._keep_training(
            [
                now[old.run]
                for old in self._training
                if old.run in now and now[old.run].state is not State.QUEUED
            ]
        )
        self._keep_interrupted([one for one in self._interrupted if one.run not in now])

    def leave_out(self, run: RunFolder) -> None:
        """The person sees a run: its page says all there is to say."""
        self._keep_training([one for one in self._training if one.run != run])
        self._keep_interrupted([one for one in self._interrupted if one.run != run])

    def _keep_training(self, live: list[LiveRun]) -> None:
        if live == self._training or self.training.isHidden():
            return
        self._training = live
        if live:
            self.tell_training(live)
        else:
            self.training.hide()
            self._fit()

    def _keep_interrupted(self, found: list[Interrupted]) -> None:
        if found == self._interrupted or self.interrupted.isHidden():
            return
        self._interrupted = found
        if found:
            self.tell_interrupted(found)
        else:
            self.interrupted.hide()
            self._fit()
            self.seen.emit()

    def tell_interrupted(self, found: Sequence[Interrupted]) -> None:
        """Offer to go on with runs that ended without a word."""
        self._interrupted = list(found)
        one = len(found) == 1
        title = (
            _("“{}” was interrupted").format(found[0].title)
            if one
            else _("{} runs were interrupted").format(len(found))
        )
        self.interrupted.show_message(Level.WARNING, title, self._where(found), self._fixes(one=one))
        self._fit()

    def tell_home(self, error: OSError) -> None:
        """Say why Hone's own folder can't be used, what that means and what to do."""
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = _("{} can't be made: a file stands in the way.").format(home())
        else:
            reason = f"{error.filename or home()}: {error.strerror or error}."
        meaning = _(
            "Hone works all the same, but its log and your settings are not kept, and runs only in another folder, "
            "which you can choose under Settings."
        )
        advice = _(
            "To fix it, make {} a folder that you may write to, or name another one in HONE_HOME; then start Hone "
            "again."
        ).format(home())
        title = _("Nothing can be kept in Hone's folder")
        self.home.show_message(Level.WARNING, title, f"{reason} {meaning}\n{advice}")
        self._fit()

    def tell_aside(self, names: Sequence[str]) -> None:
        """Name the files that were not opened; none: nothing is said any longer."""
        title = _("Hone opens one file or folder at a time")
        self.aside.show_message(Level.INFO, title, _("Left aside: {}").format(listed(names)))
        self.aside.setVisible(bool(names))
        self._fit()

    def tell_trouble(self, error: UserError) -> None:
        """Say why what was asked for can't be done."""
        self.trouble.show_error(error)
        self._fit()

    def _where(self, found: Sequence[Interrupted]) -> str:
        if len(found) == 1:
            step = found[0].step
            if step is None:
                return _("Nothing of it had been saved, so it would start again.")
            return _("It can go on from its checkpoint of step {}.").format(formats.count(step))
        names = [f"“{one.title}”" for one in found]
        order = _("They can go on from their last checkpoints, one after the other.")
        return f"{listed(names)}. {order}"

    def _fixes(self, *, one: bool) -> tuple[Fix, ...]:
        resume = Fix(_("Resume") if one else _("Resume all"), action=FixAction.RESUME)
        return resume, Fix(_("Show it") if one else _("Show them"), action=FixAction.REVEAL)

    def _show_training(self) -> None:
        runs = [one.run for one in self._training]
        self.training.hide()
        self._fit()
        self.show_requested.emit(runs[0] if len(runs) == 1 else None)

    def _choose(self, fix: Fix) -> None:
        runs = [one.run for one in self._interrupted]
        if fix.action is FixAction.RESUME:
            self.interrupted.hide()
            self._fit()
            self.resume_requested.emit(runs)
            self.seen.emit()
        else:
            self.show_requested.emit(runs[0] if len(runs) == 1 else None)

    def _fit(self) -> None:
        self.setVisible(not all(strip.isHidden() for strip in self._strips))


def _with_percent(live: LiveRun) -> str:
    done = percent(live)
    return f"“{live.title}”" if done is None else f"“{live.title}” ({done} %)"


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = list(names[:MOST_NAMES])
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" + {rest}" if rest else "")


class UnfinishedRuns(QObject):
    """Stands between one window and the thread that looks at runs."""

    def __init__(self, window: MainWindow, thread: LiveRunsThread) -> None:
        super().__init__(window)
        self._window, self._thread = window, thread
        self._live: tuple[LiveRun, ...] = ()
        self._waiting: tuple[LiveRun, ...] = ()
        self._card: QueueCard | None = None
        self._is_asked = False
        self.strip = Notices()
        thread.changed.connect(self._on_live)
        thread.queue_changed.connect(self._on_queue)
        thread.first_looked.connect(self._greet)
        thread.failed.connect(self.strip.tell_trouble)
        self.strip.show_requested.connect(self._show)
        self.strip.resume_requested.connect(self._resume)
        self.strip.seen.connect(partial(thread.do, crash.mark_seen))

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
        card.move_requested.connect(lambda run, to: self._thread.do(partial(queue.move, run, to)))
        card.leave_requested.connect(lambda run: self._thread.do(partial(run.request, Action.STOP)))

    def end_work(self) -> None:
        if self._thread.has_looked and self.strip.interrupted.isHidden():
            try:
                crash.mark_seen()
            except OSError as error:
                log.warning("what was seen can't be kept: %s", error)

    def _on_live(self, live: tuple[LiveRun, ...]) -> None:
        self._live = live
        self._window.sidebar.show_training(len(_training(live)))
        self.strip.keep_up(live)
        page = self._window.run
        view = page.view if page is not None else None
        is_over = view is not None and view.state is not None and view.state.is_over
        if view is not None and is_over and view.run in [one.run for one in live]:
            view.follow_again()

    def _on_queue(self, waiting: tuple[LiveRun, ...]) -> None:
        self._waiting = waiting
        if self._card is not None:
            self._card.show_waiting(waiting)

    def _greet(self, found: Sequence[Interrupted]) -> None:
        """Once the window knows what there is: open the run that trains, or offer it to who is busy already."""
        training = _training(self._live)
        if training and self._is_idle():
            self._window.show_run(training[0].run)
        elif training and self._window.run_on_screen() not in [one.run for one in training]:
            self.strip.tell_training(training)
        unseen = [one for one in found if one.run != self._window.run_on_screen()]
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


def _training(live: Sequence[LiveRun]) -> list[LiveRun]:
    return [one for one in live if one.state is not State.QUEUED]
