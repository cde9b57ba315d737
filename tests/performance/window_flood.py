"""How late a 16 ms timer of the window is while a run with a million steps behind it writes 1,000 events a second.

A process of its own writes the run; another one shows it on the run page of Hone's real window, 1400 x 900, with all
eight charts in view. What is measured begins once the past is read; each figure is the median of the repeats.
"""

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QMainWindow

from core.runs.events import encode
from core.runs.folder import RunFolder
from tests.performance.figures import Figure, apart, at_most, figure, main, medians, progress, use_home
from tests.performance.long_story import START, STEP_SECONDS, samples, step, write_long_run
from tests.performance.windows import GOAL_P99, GOAL_WORST, Lateness, Processors, open_window

PATIENCE_SECONDS = 180.0
WARM_MS = 2000
TURN_SECONDS = 0.01


def measure(arguments: argparse.Namespace) -> list[Figure]:
    found = []
    for number in range(arguments.repeats):
        progress(f"repeat {number + 1} of {arguments.repeats}: writing the past ...")
        with tempfile.TemporaryDirectory() as folder:
            use_home(folder)
            run = write_long_run(Path(folder) / "runs", arguments.steps, is_over=False)
            seconds = arguments.seconds + 2 * PATIENCE_SECONDS
            found.append(
                apart(show, run.path, arguments.steps, arguments.pace, arguments.seconds, seconds=seconds)
            )
    middle = medians(found)
    return [
        figure("timer late, p99", middle["p99"], "ms", goal=at_most(GOAL_P99)),
        figure("timer late, worst", middle["worst"], "ms", goal=at_most(GOAL_WORST)),
        figure("events that reached the charts a second", middle["pace"]),
        figure("redraws of a chart a second", middle["redraws"]),
        figure("processors others kept busy", middle["others"]),
    ]


def write(path: Path, done: int, pace: float, begin: Event, end: Event) -> None:
    """Go on with a run as if it trained a hundred times too fast, between two signals."""
    run, chance = RunFolder(path), random.Random(5)
    begin.wait()
    began, written = time.monotonic(), 0
    with (
        run.events_file.open("ab", buffering=0) as events,
        run.machine_file.open("ab", buffering=0) as machine,
    ):
        while not end.wait(TURN_SECONDS):
            steps = range(done + 1, done + 1 + int(pace * (time.monotonic() - began)) - written)
            events.write(b"".join(encode(step(number, 2 * done, chance)) for number in steps))
            for number in steps:
                if number % round(1 / STEP_SECONDS) == 0:
                    machine.write(b"".join(map(encode, samples(START + number * STEP_SECONDS, chance))))
            done, written = done + len(steps), written + len(steps)


class Flood(QObject):
    """Waits until the past is read, lets the flood begin, measures for a while and sends what it found."""

    def __init__(
        self, window: QMainWindow, run: RunFolder, steps: int, pace: float, *, seconds: float, to: Connection
    ) -> None:
        super().__init__(window)
        self._run, self._past, self._seconds, self._to = run, steps, seconds, to
        self._redraws = 0
        self._lateness = Lateness(self)
        context = multiprocessing.get_context("spawn")
        self._go, self._end = context.Event(), context.Event()
        self._writer = context.Process(
            target=write, args=(run.path, steps, pace, self._go, self._end), daemon=True
        )
        self._writer.start()
        run.record_keeper(self._writer.pid)
        window.show_run(run)
        self._charts = window.run.view.charts.charts
        self._history = self._charts[0].history
        self._reading = QTimer(self, interval=100)
        self._reading.timeout.connect(self._begin_when_read)
        self._reading.start()

    def _begin_when_read(self) -> None:
        if len(self._history.step_seconds) >= self._past:
            self._reading.stop()
            self._go.set()
            QTimer.singleShot(WARM_MS, self._begin)

    def _begin(self) -> None:
        chart = self._charts[0]
        redraw = chart.redraw

        def counted() -> None:
            self._redraws += 1
            redraw()

        chart.redraw = counted
        self._processors = Processors(self._run)
        self._steps, self._began = len(self._history.step_seconds), time.perf_counter()
        self._lateness.begin()
        QTimer.singleShot(int(1000 * self._seconds), self._finish)

    def _finish(self) -> None:
        seconds = time.perf_counter() - self._began
        self._to.send(
            {
                **self._lateness.summary(),
                "pace": (len(self._history.step_seconds) - self._steps) / seconds,
                "redraws": self._redraws / seconds,
                "others": self._processors.kept_by_others(),
            }
        )
        self._end.set()
        self._writer.join()
        os._exit(0)


def show(path: Path, steps: int, pace: float, seconds: float, to: Connection) -> None:
    """One measurement in this process."""
    application, window = open_window((1400, 900))
    Flood(window, RunFolder(path), steps, pace, seconds=seconds, to=to)
    application.exec()


if __name__ == "__main__":
    main(__doc__, measure, {"seconds": 60.0, "repeats": 3, "steps": 1_000_000, "pace": 1000.0})
