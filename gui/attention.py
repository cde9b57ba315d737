"""How runs draw attention outside their page: their progress in the title bar and on the application's icon, and a
notification when one ends while nobody looks.

The icon's badge is a whole percentage: Qt shows it in the Dock of macOS, on the taskbar of Windows and in those Linux
docks that know it. Only the title has been seen at work; where a system lacks badge or notifications nothing happens.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from core.events import Level
from core.live_runs import EndedRun, LiveRun
from core.run_folder import RunFolder
from core.story import State
from gui.live_runs import percent
from gui.states import state_title

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
        """Tell of the run that the window shows by now."""
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
    from gui.pages.run_words import RunFacts, summary  # first wanted now: the window is up sooner without it

    figures = summary(RunFacts(end.story, end.state))
    errors = (said.title for said in end.story.messages.values() if said.level is Level.ERROR)
    return ", ".join(f"{title} {value}" for title, value in figures) or " ".join(errors)
