"""How a run with a million steps opens in Hone's window: how soon something is drawn, how soon all, in how much memory.

Writes a run and opens it in the real window, each time in a fresh process: seconds from opening to the first paint with
a line in it and until all is drawn, by how much the window's memory grows, and whether a spike of a single step and the
newest step are drawn.
"""

import argparse
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import psutil
from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QMainWindow

from core.runs.folder import RunFolder
from gui.app.application import import_charts
from tests.performance.figures import (
    MB,
    Figure,
    apart,
    at_least,
    at_most,
    figure,
    main,
    medians,
    own_home,
    progress,
)
from tests.performance.synthetic_run import NEWEST, SPIKE, spike_at, write_long_run
from tests.performance.windows import Lateness, open_window

PATIENCE_SECONDS = 120.0
SETTLING_MS = 1500


def measure(arguments: argparse.Namespace) -> list[Figure]:
    with own_home() as folder:
        progress(f"writing {arguments.steps:,} steps ...")
        run = write_long_run(folder / "runs", arguments.steps)
        rounds = [
            apart(show, run.path, arguments.steps, seconds=PATIENCE_SECONDS) for _ in range(arguments.repeats)
        ]
    middle, first = medians(rounds), [values["first"] for values in rounds]
    spike, newest = (min(values[name] for values in rounds) for name in ("spike", "newest"))
    return [
        figure("first paint", middle["first"], "s", among=first, goal=at_most(1.0)),
        figure("all drawn", middle["all"], "s"),
        figure("most memory it took", middle["peak"], "MB", goal=at_most(200.0)),
        figure("a spike of one step is drawn", spike, goal=at_least(1.0)),
        figure("the newest step is drawn", newest, goal=at_least(1.0)),
        figure("timer late meanwhile, worst", middle["worst"], "ms"),
    ]


class Opening(QObject):
    """Opens a run in a window, measures while it is drawn, and sends the figures."""

    def __init__(self, window: QMainWindow, run: RunFolder, steps: int, to: Connection) -> None:
        super().__init__(window)
        self._window, self._steps, self._to = window, steps, to
        self._lateness = Lateness(self)
        self._process = psutil.Process()
        self._first = self._peak = 0.0
        self._before = self._process.memory_info().rss
        self._began = time.perf_counter()
        window.pages.show_run(run)
        self._loss = window.pages.run.view.charts.loss
        for child in self._loss.canvas.children():
            child.installEventFilter(self)
        self._lateness.begin()
        self._timer = QTimer(self, interval=50)
        self._timer.timeout.connect(self._finish_when_drawn)
        self._timer.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Note the first paint that has something to draw."""
        if event.type() == QEvent.Type.Paint and not self._first and len(self._drawn()[0]):
            self._first = time.perf_counter() - self._began
        return False

    def _drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """The points of the line of the losses."""
        losses = self._loss.history.loss
        drawn = (one.item.getData() for one in self._loss.drawn if one.line.series is losses)
        x, y = next(drawn, (None, None))
        return (np.empty(0), np.empty(0)) if x is None or y is None else (x, y)

    def _finish_when_drawn(self) -> None:
        self._peak = max(self._peak, self._process.memory_info().rss - self._before)
        x, _ = self._drawn()
        if len(x) and x[-1] == self._steps:
            self._all = time.perf_counter() - self._began
            self._timer.stop()
            QTimer.singleShot(SETTLING_MS, self._finish)

    def _finish(self) -> None:
        x, y = self._drawn()
        # A pixel column has two points, both in its middle.
        has_spike = (abs(x[y == SPIKE] - spike_at(self._steps)) <= 2 * self._steps / len(x)).any()
        self._to.send(
            {
                **self._lateness.summary(),
                "first": self._first,
                "all": self._all,
                "peak": self._peak / MB,
                "spike": float(has_spike),
                "newest": float(x[-1] == self._steps and y[-1] == NEWEST),
            }
        )
        self._window.end_work()
        os._exit(0)


def show(path: Path, steps: int, to: Connection) -> None:
    """Open the run in this process."""
    application, window = open_window((1400, 900))
    # The window does so while it is idle, before anyone can have opened a run from the list.
    import_charts().join()
    QTimer.singleShot(SETTLING_MS, lambda: Opening(window, RunFolder(path), steps, to))
    application.exec()


if __name__ == "__main__":
    main(__doc__, measure, {"steps": 1_000_000, "repeats": 3})
