"""How a run with a million steps opens in Hone's window: how soon something is drawn, how soon all, in how much memory.

    .venv/bin/python tests/performance/long_run.py [--steps 1000000] [--repeats 3]

Makes up a folder and opens it in the real window, each time in a fresh process. Prints a table: seconds from opening to
the first paint with a line in it, seconds until all is drawn, how late a 16 ms timer of the window is meanwhile (p99,
worst), by how many MB the window grows, and whether a spike of a single step and the newest step stand in what the loss
chart draws; each the median of the repeats. Goals: first paint within 1 s, no more than 200 MB, both seen.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from long_story import NEWEST, SPIKE, spike_at, write_long_run
from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QMainWindow
from window_gauges import INTERVAL_MS, Lateness, open_window

from core.runs.folder import RunFolder
from gui.app.application import import_charts
from tests.performance.suite.figures import Figure, add_json, at_least, at_most, figure, hand_over

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120.0
SETTLING_MS = 1500
GOAL_FIRST, GOAL_MB = 1.0, 200.0
MB = 1e6


def main() -> int:
    """Write a run, open it some times and print the table."""
    options = read_arguments()
    if options.one:
        return open_one(options)
    with tempfile.TemporaryDirectory() as folder:
        print(f"writing {options.steps:,} steps ...", file=sys.stderr, flush=True)
        run = write_long_run(Path(folder) / "runs", options.steps)
        size = run.events_file.stat().st_size / MB
        found = [measure(run, Path(folder), options.steps) for _ in range(options.repeats)]
    print_table(found, options, size)
    hand_over(options.json, figures_of(found))
    return 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    add_json(parser)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(run: RunFolder, home: Path, steps: int) -> dict[str, float]:
    """Open the run in a fresh process."""
    ended = subprocess.run(
        [sys.executable, __file__, "--one", str(run.path), "--steps", str(steps)],
        check=False,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        env={**os.environ, "HONE_HOME": str(home), "PYTHONPATH": str(ROOT)},
    )
    if ended.returncode:
        raise SystemExit(f"it was not drawn (status {ended.returncode})\n{ended.stderr[-3000:]}")
    return json.loads(ended.stdout.splitlines()[-1])


def print_table(found: list[dict[str, float]], options: argparse.Namespace, size: float) -> None:
    middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
    seen = min(one["spike"] for one in found), min(one["newest"] for one in found)
    print(
        f"\nA run of {options.steps:,} steps ({size:.0f} MB of events) opened, median of {options.repeats}\n"
    )
    print(
        f"| first paint s | all drawn s | {INTERVAL_MS} ms timer late: p99 ms | worst ms | grows MB | at most MB |"
    )
    print("|---|---|---|---|---|---|")
    print(
        "| {first:.2f} | {all:.1f} | {p99:.1f} | {worst:.1f} | {growth:.0f} | {peak:.0f} |".format(**middle)
    )
    print(
        f"\na spike of one step is drawn: {'yes' if seen[0] else 'NO'}; the newest one: {'yes' if seen[1] else 'NO'}"
    )
    reached = middle["first"] <= GOAL_FIRST and middle["peak"] <= GOAL_MB and all(seen)
    print(f"goal ({GOAL_FIRST:.0f} s, {GOAL_MB:.0f} MB, both drawn): {'reached' if reached else 'missed'}")


def figures_of(found: list[dict[str, float]]) -> list[Figure]:
    middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
    first = [one["first"] for one in found]
    return [
        figure(
            "first paint", middle["first"], "s", spread=(min(first), max(first)), goal=at_most(GOAL_FIRST)
        ),
        figure("all drawn", middle["all"], "s"),
        figure("most memory it took", middle["peak"], "MB", goal=at_most(GOAL_MB)),
        figure("a spike of one step is drawn", min(one["spike"] for one in found), goal=at_least(1.0)),
        figure("the newest step is drawn", min(one["newest"] for one in found), goal=at_least(1.0)),
        figure("timer late meanwhile, worst", middle["worst"], "ms"),
    ]


class Opening(QObject):
    """Opens a run in a window, watches it being drawn, and prints what it found."""

    def __init__(self, window: QMainWindow, steps: int) -> None:
        super().__init__(window)
        self._window = window
        self._steps = steps
        self._lateness = Lateness(self)
        self._process = psutil.Process()
        self._first = 0.0
        self._peak = 0.0
        self._look = QTimer(self, interval=50)
        self._look.timeout.connect(self._look_on)

    def begin(self, run: RunFolder) -> None:
        self._before = self._process.memory_info().rss
        self._began = time.perf_counter()
        self._window.show_run(run)
        self._loss = self._window.run.view.charts.loss
        for child in self._loss._canvas.children():
            child.installEventFilter(self)
        self._lateness.begin()
        self._look.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Note the first paint that has something to draw."""
        if event.type() == QEvent.Type.Paint and not self._first and len(self._drawn()[0]):
            self._first = time.perf_counter() - self._began
        return False

    def _drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """What the chart of the loss draws of the losses as they came."""
        line = next(drawn for drawn in self._loss._lines if drawn.line.series is self._loss.history.loss)
        x, y = line.item.getData()
        return (np.empty(0), np.empty(0)) if x is None else (x, y)

    def _look_on(self) -> None:
        self._peak = max(self._peak, self._process.memory_info().rss - self._before)
        x, _ = self._drawn()
        if len(x) and x[-1] == self._steps:
            self._all = time.perf_counter() - self._began
            self._look.stop()
            QTimer.singleShot(SETTLING_MS, self._finish)
        elif time.perf_counter() - self._began > PATIENCE_SECONDS:
            os._exit(1)

    def _finish(self) -> None:
        x, y = self._drawn()
        late = sorted(self._lateness.late)
        found = {
            "first": self._first,
            "all": self._all,
            "p99": late[int(len(late) * 0.99)],
            "worst": late[-1],
            "growth": (self._process.memory_info().rss - self._before) / MB,
            "peak": self._peak / MB,
            "spike": float((x[y == SPIKE] == spike_at(self._steps)).any()),
            "newest": float(x[-1] == self._steps and y[-1] == NEWEST),
        }
        print(json.dumps(found), flush=True)
        self._window.end_work()
        os._exit(0)


def open_one(options: argparse.Namespace) -> int:
    """Open the run in this process."""
    application, window = open_window((1400, 900))
    opening = Opening(window, options.steps)
    import_charts().join()  # as the window does while it rests, before anybody can have found the run in the list
    QTimer.singleShot(SETTLING_MS, lambda: opening.begin(RunFolder(options.one)))
    return application.exec()


if __name__ == "__main__":
    sys.exit(main())
