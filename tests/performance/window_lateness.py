"""How late a 16 ms timer of the window is while a model trains: in the engine process, and in a thread of the window.

Both train the same run file at the same niceness, and both show it live on the run page of Hone's window. Each
measurement has a process of its own and begins at the tenth training step; each figure is the median of the repeats.
"""

import argparse
import os
import signal
import sys
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from PySide6.QtCore import QObject, QThread, QTimer

from core.base.processes import NICENESS
from core.options import run_file
from core.runs import library, start
from core.runs.folder import RunFolder
from gui.app.window import MainWindow
from tests.performance.figures import (
    DIGITS,
    Figure,
    apart,
    at_most,
    figure,
    main,
    medians,
    own_home,
    progress,
)
from tests.performance.windows import Lateness, guarded, open_window, seconds_of_others

WARM_STEPS = 10
START_SECONDS = 180.0
"""How long a training may take to start before the measurement is given up."""
ENDLESS = ("training.epochs=100000", "output.keep_checkpoints=0")
PROCESS, THREAD, NOTHING = "in the engine process", "in a thread of the window", "nowhere, the window at rest"


def measure(arguments: argparse.Namespace) -> list[Figure]:
    results: dict[str, list[dict[str, float]]] = {PROCESS: [], THREAD: [], NOTHING: []}
    for number in range(arguments.repeats):
        for where, rounds in results.items():
            progress(f"repeat {number + 1} of {arguments.repeats}: training {where} ...")
            with own_home() as folder, guarded(folder / "runs"):
                limit = arguments.seconds + START_SECONDS
                rounds.append(
                    apart(show, where, folder, arguments.run_file, arguments.seconds, seconds=limit)
                )
    ours, theirs, rest = map(medians, results.values())
    return [
        figure("timer late, p99", ours["p99"], "ms", peer=theirs["p99"], goal=at_most(16.0)),
        figure("timer late, worst", ours["worst"], "ms", peer=theirs["worst"], goal=at_most(50.0)),
        figure("worst while it starts", ours["starting"], "ms", peer=theirs["starting"]),
        figure("steps a second", ours["steps"], peer=theirs["steps"]),
        figure("window's CPU", 100 * ours["cpu"], "%", peer=100 * theirs["cpu"], goal=at_most(10.0)),
        figure("window's CPU at rest, the timer in it", 100 * rest["cpu"], "%"),
        figure("processors others kept busy", max(values["others"] for values in (ours, theirs, rest))),
    ]


class Measurement(QObject):
    """Waits until the charts show `begin_at` steps, measures for some seconds, sends the figures, ends the process."""

    def __init__(
        self,
        window: MainWindow,
        run: RunFolder,
        seconds: float,
        to: Connection,
        *,
        begin_at: int = 0,
    ) -> None:
        super().__init__(window)
        self._window, self._run, self._seconds, self._to = window, run, seconds, to
        self._begin_at = begin_at
        self._lateness = Lateness(self)
        self._lateness.begin()
        self._waiting = QTimer(self, interval=100)
        self._waiting.timeout.connect(self._begin_when_ready)
        self._waiting.start()

    def _steps(self) -> int:
        page = self._window.pages.run
        return 0 if page is None or page.view is None else len(page.view.charts.loss.history.step_seconds)

    def _begin_when_ready(self) -> None:
        if self._steps() < self._begin_at:
            return
        self._waiting.stop()
        self._steps_before, self._began = self._steps(), time.perf_counter()
        self._cpu, self._others = time.process_time(), seconds_of_others(self._run)
        self._starting = max(self._lateness.late, default=0.0)
        self._lateness.late.clear()
        QTimer.singleShot(int(1000 * self._seconds), self._finish)

    def _finish(self) -> None:
        seconds = time.perf_counter() - self._began
        self._to.send(
            {
                **self._lateness.summary(),
                "starting": self._starting,
                "steps": (self._steps() - self._steps_before) / seconds,
                "cpu": (time.process_time() - self._cpu) / seconds,
                "others": max(0.0, (seconds_of_others(self._run) - self._others) / seconds),
            }
        )
        # Closing the window would ask what to do with the run. A guard stops it.
        os._exit(0)


class EngineThread(QThread):
    """The engine's training job inside this process: what Hone doesn't do."""

    def __init__(self, run: RunFolder, parent: QObject) -> None:
        super().__init__(parent)
        self._run = run

    def run(self) -> None:
        if sys.platform == "linux":  # a thread has a niceness of its own there, and its threads inherit it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        signal.signal = lambda *_: None  # only a main thread may set handlers
        from core.engine.__main__ import main as engine

        status = engine(["train", str(self._run.path)])
        os._exit(status or 1)  # it should train for longer than is measured


def show(where: str, folder: Path, file: Path, seconds: float, to: Connection) -> None:
    """One measurement in this process."""
    application, window = open_window()
    run = library.create(run_file.read(file, ENDLESS), folder / "runs")
    if where == PROCESS:
        window.pages.show_run(run, partial(start.start, run))
    elif where == THREAD:
        run.record_keeper(os.getpid())
        window.pages.show_run(run)
        EngineThread(run, window).start()
    Measurement(window, run, seconds, to, begin_at=0 if where == NOTHING else WARM_STEPS)
    application.exec()


if __name__ == "__main__":
    main(
        __doc__,
        measure,
        {"seconds": 60.0, "repeats": 3},
        lambda parser: parser.add_argument("--run-file", type=Path, default=DIGITS),
    )
