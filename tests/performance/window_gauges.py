"""What the benchmarks of the window share: how it is opened, a timer that is late, and processors that are busy."""

import contextlib
import os
import sys
import time

import psutil
from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication
from window_guard import processes_of

from core.base import settings
from core.base.settings import Appearance
from core.runs.folder import RunFolder
from gui.app.application import dress, take_short_turns
from gui.app.window import MainWindow
from gui.base.background import ask_real_engine
from gui.base.theme import Theme

INTERVAL_MS = 16


class Lateness(QObject):
    """A timer that writes down how late each of its ticks came, in milliseconds."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.late: list[float] = []
        self._last = 0.0
        self._timer = QTimer(self, interval=INTERVAL_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)

    def begin(self) -> None:
        self._last = time.perf_counter()
        self._timer.start()

    def _tick(self) -> None:
        now = time.perf_counter()
        self.late.append(max(0.0, 1000 * (now - self._last) - INTERVAL_MS))
        self._last = now


class Processors:
    """How busy all processors were since this was made, and how much of that was this measurement's own work."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._began = time.perf_counter()
        self._own = self._own_seconds()
        self._all = self._all_seconds()

    def kept_by_others(self) -> float:
        """Processors kept busy by other programs, on average."""
        others = self._all_seconds() - self._all - (self._own_seconds() - self._own)
        return max(0.0, others / (time.perf_counter() - self._began))

    def _own_seconds(self) -> float:
        keeper = self._run.keeper_record()
        family = {*processes_of(os.getpid()), *(processes_of(keeper.pid) if keeper is not None else ())}
        total = 0.0
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    @staticmethod
    def _all_seconds() -> float:
        times = psutil.cpu_times()
        return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)


def open_window(size: tuple[int, int] | None = None) -> tuple[QApplication, MainWindow]:
    """The real window in this process, light, without a screen on Linux; `size` in pixels, None: its own."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen" if sys.platform == "linux" else "")
    take_short_turns()
    application = QApplication(sys.argv[:1])
    dress(application)
    theme = Theme(Appearance.LIGHT)
    theme.apply()
    window = MainWindow(theme, settings.load(), ask_real_engine)
    if size is not None:
        window.resize(*size)
    window.show()
    return application, window
