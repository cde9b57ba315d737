"""What the benchmarks of the window share: the window, how late its timers are, the load by other programs.

`guarded` stops the runs that a benchmark started, however it ends.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from core.base import settings
from core.base.settings import Appearance, Settings
from core.runs.events import Action
from core.runs.folder import RunFolder
from core.runs.library import list_runs
from gui.app.application import SWITCH_SECONDS, set_up
from gui.app.sidebar import Place
from gui.app.window import MainWindow
from gui.base.background import Ask, ask_real_engine
from gui.base.theme import Theme
from tests.performance.figures import ROOT

INTERVAL_MS = 16
PATIENCE_SECONDS = 10.0


class Lateness(QObject):
    """A timer that records how late each of its ticks came, in milliseconds."""

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

    def summary(self) -> dict[str, float]:
        late = sorted(self.late)
        return {"p99": late[int(len(late) * 0.99)], "worst": late[-1]}


def seconds_of_others(run: RunFolder) -> float:
    """The processor time that programs other than this one and the run have taken."""
    times = psutil.cpu_times()
    total = sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
    keeper = run.keeper_record()
    for process in {*family(os.getpid()), *(family(keeper.pid) if keeper is not None else ())}:
        with contextlib.suppress(psutil.NoSuchProcess):
            own = process.cpu_times()
            total -= own.user + own.system
    return total


def open_window(
    size: tuple[int, int] | None = None,
    *,
    own_settings: Settings | None = None,
    make_job: Ask = ask_real_engine,
) -> tuple[QApplication, MainWindow]:
    """The real window in this process, light, without a screen on Linux; `size` in pixels, None: its own."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen" if sys.platform == "linux" else "")
    sys.setswitchinterval(SWITCH_SECONDS)
    application = QApplication(sys.argv[:1])
    set_up(application)
    theme = Theme(Appearance.LIGHT)
    theme.apply()
    window = MainWindow(theme, own_settings or settings.load(), make_job)
    if size is not None:
        window.resize(*size)
    window.pages.go_to(Place.NEW_RUN)
    window.show()
    return application, window


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


@contextlib.contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Leave no run of `folder` behind, however this process ends.

    A run goes on by design when the window is closed. The guard is a process that waits for the end of a pipe, whose
    other end this process holds, and then stops the runs.
    """
    command = [sys.executable, "-m", "tests.performance.windows", str(folder)]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, cwd=ROOT)
    try:
        yield
    finally:
        guard.communicate()


def stop(run: RunFolder, patience: float) -> None:
    """Let the keeper end the engine; kill both if that takes longer than `patience` seconds."""
    keeper = run.keeper_record()
    if keeper is None or not run.keeper_is_alive():
        return
    processes = family(keeper.pid)
    with contextlib.suppress(OSError):
        run.request(Action.KILL)
        deadline = time.monotonic() + patience
        while run.keeper_is_alive() and run.exit_record() is None and time.monotonic() < deadline:
            time.sleep(0.1)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, patience)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    for left in list_runs(Path(sys.argv[1])):
        stop(left, float(sys.argv[2]) if len(sys.argv) > 2 else PATIENCE_SECONDS)
