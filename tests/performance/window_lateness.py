"""How late a 16 ms timer of the window is while a model trains: in the engine process, and in a thread of the window.

Both train the same run file at the same niceness, and both show it live on the run page of Hone's window. Each
measurement has a process of its own and begins at the tenth training step; each figure is the median of the repeats.
"""

import argparse
import os
import signal
import sys
import tempfile
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
from tests.performance.figures import (
    DIGITS,
    Figure,
    apart,
    at_most,
    figure,
    main,
    medians,
    progress,
    use_home,
)
from tests.performance.windows import GOAL_P99, GOAL_WORST, Lateness, Processors, guarded, open_window

WARM_STEPS = 10
START_SECONDS = 180.0
"""How long a training may take to get going before the measurement is given up."""
ENDLESS = ("training.epochs=100000", "output.keep_checkpoints=0")
GOAL_CPU = 10.0
PROCESS, THREAD, NOTHING = "in the engine process", "in a thread of the window", "nowhere, the window at rest"


def measure(arguments: argparse.Namespace) -> list[Figure]:
    found: dict[str, list[dict[str, float]]] = {PROCESS: [], THREAD: [], NOTHING: []}
    for number in range(arguments.repeats):
        for where, results in found.items():
            progress(f"repeat {number + 1} of {arguments.repeats}: training {where} ...")
            with tempfile.TemporaryDirectory() as folder, guarded(Path(folder) / "runs"):
                use_home(folder)
                seconds = arguments.seconds + START_SECONDS
                results.append(
                    apart(show, where, folder, arguments.run_file, arguments.seconds, seconds=seconds)
                )
    ours, theirs, rest = map(medians, found.values())
    return [
        figure("timer late, p99", ours["p99"], "ms", peer=theirs["p99"], goal=at_most(GOAL_P99)),
        figure("timer late, worst", ours["worst"], "ms", peer=theirs["worst"], goal=at_most(GOAL_WORST)),
        figure("worst while it starts", ours["starting"], "ms", peer=theirs["starting"]),
        figure("steps a second", ours["steps_per_second"], peer=theirs["steps_per_second"]),
        figure("window's CPU", 100 * ours["cpu"], "%", peer=100 * theirs["cpu"], goal=at_most(GOAL_CPU)),
        figure("window's CPU at rest, the timer in it", 100 * rest["cpu"], "%"),
        figure("processors others kept busy", max(one["others"] for one in (ours, theirs, rest))),
    ]


class EngineThread(QThread):
    """The engine's training job inside this very process: what Hone doesn't do."""

    def __init__(self, run: RunFolder, parent: QObject) -> None:
        super().__init__(parent)
        self._run = run

    def run(self) -> None:
        if sys.platform == "linux":  # a thread has a niceness of its own there, and its threads inherit it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        signal.signal = lambda *_: (
            None
        )  # only a main thread may set handlers; nothing ends this one by a signal
        from core.engine.__main__ import main as engine

        status = engine(["train", str(self._run.path)])
        os._exit(status or 1)  # it should train for longer than is measured


class Measurement(QObject):
    """Waits until the run trains, measures for a while, sends the result and ends the process."""

    def __init__(
        self, parent: QObject, run: RunFolder, view: QObject | None, seconds: float, to: Connection
    ) -> None:
        super().__init__(parent)
        self._run, self._view, self._seconds, self._to = run, view, seconds, to
        self._lateness = Lateness(self)
        self._lateness.begin()
        self._warming = QTimer(self, interval=100)
        self._warming.timeout.connect(self._begin_when_warm)
        self._warming.start()

    def _steps(self) -> int:
        return len(self._view.charts.loss.history.step_seconds) if self._view is not None else WARM_STEPS

    def _begin_when_warm(self) -> None:
        if self._steps() < WARM_STEPS:
            return
        self._warming.stop()
        self._steps_before, self._began = self._steps(), time.perf_counter()
        self._cpu = time.process_time()
        self._processors = Processors(self._run)
        self._starting = max(self._lateness.late, default=0.0)
        self._lateness.late.clear()
        QTimer.singleShot(int(1000 * self._seconds), self._finish)

    def _finish(self) -> None:
        seconds = time.perf_counter() - self._began
        self._to.send(
            {
                **self._lateness.summary(),
                "starting": self._starting,
                "steps_per_second": (self._steps() - self._steps_before) / seconds,
                "cpu": (time.process_time() - self._cpu) / seconds,
                "others": self._processors.kept_by_others(),
            }
        )
        # Not by closing the window, which would ask what becomes of the run; and the thread can't be ended from
        # outside at all: one of the reasons why Hone trains in none. The guard stops the run.
        os._exit(0)


def show(where: str, folder: str, file: Path, seconds: float, to: Connection) -> None:
    """One measurement in this process."""
    application, window = open_window()
    run = library.create(run_file.read(file, ENDLESS), Path(folder) / "runs")
    if where == PROCESS:
        window.show_run(run, partial(start.start, run))
    elif where == THREAD:
        run.record_keeper(os.getpid())
        window.show_run(run)
        EngineThread(run, window).start()
    Measurement(window, run, window.run.view if window.run is not None else None, seconds, to)
    application.exec()


if __name__ == "__main__":
    main(
        __doc__,
        measure,
        {"seconds": 60.0, "repeats": 3},
        lambda parser: parser.add_argument("--run-file", type=Path, default=DIGITS),
    )
