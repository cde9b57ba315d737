"""Progress in the window's title and on its icon, and the system's notification when a run ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QMainWindow, QSystemTrayIcon

from core.base.formats import enumerated, in_percent, titled
from core.base.language import _, isolated
from core.runs.events import Action, Level
from core.runs.folder import RunFolder
from core.runs.queue import EndedRun, LiveRun
from core.runs.status import State
from gui.run.words import RunFacts, state_title, summary

if TYPE_CHECKING:
    from gui.run.page import RunView  # brings NumPy and pyqtgraph

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

    clicked = Signal()  # a notification

    def __init__(
        self,
        window: QMainWindow,
        may_notify: Callable[[], bool],
        on_screen: Callable[[], RunView | None],
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
        live = min(
            self._live, key=lambda one: (later.get(one.state, 0), not _shows(shown, one.run)), default=None
        )
        done = percent(live) if live is not None and live.state is State.TRAINING else None
        self._show_badge(done or 0)
        if live is None:
            name = "" if shown is None or not shown.title else f"{isolated(shown.title)} — "
            self._window.setWindowTitle(f"{name}{self._name}")
            return
        progress = state_title(live.state, is_test=live.is_test) if done is None else in_percent(str(done))
        if live.is_test and done is not None:
            progress = _("Test: {percent}").format(percent=progress)
        self._window.setWindowTitle(f"{progress} · {isolated(live.title)} — {self._name}")

    def notify_end(self, end: EndedRun) -> None:
        """Notify that a run has ended, unless the person is looking at it or has asked for that."""
        if was_asked(end):
            return
        if self._window.isActiveWindow() and _shows(self._on_screen(), end.run):
            return
        QApplication.alert(self._window)
        if self._may_notify():
            self._notify(end_title(end), outcome(end))

    def _notify(self, title: str, text: str) -> None:
        if not (self._tray.isSystemTrayAvailable() and self._tray.supportsMessages()):
            return
        if self._icon is None:
            self._icon = self._tray(self._window.windowIcon(), self)
            self._icon.messageClicked.connect(self.clicked)
        self._icon.show()
        self._icon.showMessage(title, text, self._window.windowIcon(), SHOWN_MS)
        QTimer.singleShot(SHOWN_MS, self._icon.hide)


def _shows(view: RunView | None, run: RunFolder) -> bool:
    return view is not None and view.run == run


def was_asked(end: EndedRun) -> bool:
    """Whether a run has paused or stopped, or left the queue, because a person asked for it."""
    asked = {Action.STOP, Action.PAUSE, Action.KILL}
    accepted = {action for action, attempt in end.status.accepted.items() if attempt >= end.status.attempt}
    return end.state in (State.PAUSED, State.STOPPED) and bool(asked & accepted)


def end_title(end: EndedRun) -> str:
    return titled(state_title(end.state, stopped_early=end.status.stopped_early), isolated(end.title))


def outcome(end: EndedRun, most: int | None = None) -> str:
    """The figures of a run on one line, or the first of them, or why it failed."""
    figures = summary(RunFacts(status=end.status, state=end.state))
    messages = end.status.messages.values()
    errors = (message.title for message in messages if message.level is Level.ERROR)
    return enumerated(f"{title} {value}" for title, value in figures[:most]) or " ".join(errors)


def percent(live: LiveRun) -> int | None:
    """Returns None if not known yet."""
    return None if live.share is None else int(100 * live.share)
