"""How a run draws attention outside its page: its progress in the title bar and on the application's icon, and a
notification when it ends while nobody looks.

The icon's badge is a whole percentage: Qt shows it in the Dock of macOS, on the taskbar of Windows and in those Linux
docks that know it. Only the title has been seen at work; where a system lacks badge or notifications nothing happens.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from core.story import State
from gui.states import state_title

SHOWN_MS = 15_000
"""How long the notification's icon stays: where it goes, the notification goes."""


class Attention(QObject):
    """Speaks for one window.

    Args:
        window: Whose title tells the progress.
        may_notify: Whether the person wants to be notified.
    """

    def __init__(self, window: QWidget, may_notify: Callable[[], bool]) -> None:
        super().__init__(window)
        self._window = window
        self._may_notify = may_notify
        self._icon: QSystemTrayIcon | None = None
        self._name = window.windowTitle()

    def show_progress(self, title: str, share: float | None) -> None:
        """Tell how far a run is.

        Args:
            title: The run's.
            share: From 0 to 1; None: no run is being watched any more.
        """
        percent = None if share is None else int(100 * share)
        application = QGuiApplication.instance()
        assert isinstance(application, QGuiApplication)
        application.setBadgeNumber(percent or 0)
        progress = "" if percent is None else f"{percent} % · {title} – "
        self._window.setWindowTitle(f"{progress}{self._name}")

    def tell_end(self, title: str, state: State, summary: str) -> None:
        """Say that a run has ended, unless the person is looking at the window."""
        if self._window.isActiveWindow():
            return
        QApplication.alert(self._window)
        if self._may_notify():
            self.notify(f"{state_title(state)}: {title}", summary)

    def notify(self, title: str, words: str) -> None:
        """Show a notification of the operating system's."""
        if not (QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages()):
            return
        if self._icon is None:
            self._icon = QSystemTrayIcon(self._window.windowIcon(), self)
            self._icon.messageClicked.connect(self._come_forward)
        self._icon.show()
        self._icon.showMessage(title, words, self._window.windowIcon(), SHOWN_MS)
        QTimer.singleShot(SHOWN_MS, self._icon.hide)

    def _come_forward(self) -> None:
        self._window.showNormal()
        self._window.raise_()
        self._window.activateWindow()
