"""Kills of the window while a run trains: the run goes on, and the next window shows it from its first step."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

from core.runs import start
from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from core.runs.folder import RunFolder
from core.runs.status import State
from core.runs.summary import state_at_end
from tests.performance.faults.case import Case
from tests.performance.faults.training import PATIENCE_SECONDS, new_run, small_options, write_texts
from tests.performance.figures import ROOT

ROWS = 400
MANY_EPOCHS = 100_000.0
"""It trains until it is stopped."""

KINDS = ("opening", "reading", "shown")


class WindowProcess:
    """The real window in a process of its own; `shown` is its last message about the steps it shows."""

    def __init__(self, run: RunFolder, *, starts: bool = False) -> None:
        command = [sys.executable, "-m", "tests.performance.faults", "window", str(run.path)]
        self.shown: dict[str, float] = {}
        self._process = subprocess.Popen(
            [*command, *(["start"] if starts else [])],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self._process.stdout:
            self.shown = json.loads(line)

    def wait_for(self, steps: int) -> bool:
        """Wait until it shows so many steps of a run that trains; False: it doesn't, or lacks some."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            shown = self.shown
            if shown and shown["last"] >= steps and shown["state"] == "training":
                return shown["first"] == 1 and shown["count"] == shown["last"]
            time.sleep(0.01)
        return False

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._listener.join()
        self._process.stdout.close()


def campaign(folder: Path, count: int, seed: int) -> Iterator[Case]:
    """Kill `count` windows one after the other over one run that the first one starts; a guard stops the run."""
    data = write_texts(folder / "texts.csv", ROWS)
    run = new_run(small_options(data, MANY_EPOCHS), folder / "runs" / "long")
    for number in range(count):
        case = kill_window(run, number, Random(f"{seed}:{number}"))
        if number == count - 1:
            last = WindowProcess(run)
            if not last.wait_for(newest_step(run)):
                case.wrong.append(f"the window after the last one shows {last.shown}")
            last.kill()
        yield case


def kill_window(run: RunFolder, number: int, chance: Random) -> Case:
    """Open a window, kill it at a moment, and check that the run goes on."""
    case = Case(KINDS[number % len(KINDS)] if number else "shown", "went on")
    before = newest_step(run)
    window = WindowProcess(run, starts=not number)
    if case.kind == "shown":
        if not window.wait_for(max(before, 1)):
            case.wrong.append(f"it shows {window.shown} of {before} steps")
        time.sleep(chance.uniform(0.0, 0.3))
    else:
        time.sleep(chance.uniform(*((0.0, 1.0) if case.kind == "opening" else (1.0, 3.0))))
    case.words = f"it showed {int(window.shown.get('last', 0))} steps"
    window.kill()
    if not goes_on(run):
        case.wrong.append(f"the run doesn't go on: {state_at_end(run)}")
    return case


def goes_on(run: RunFolder) -> bool:
    """Whether a step is made after this call."""
    before, deadline = newest_step(run), time.monotonic() + 60.0
    while time.monotonic() < deadline:
        if newest_step(run) > before and run.keeper_is_alive():
            return state_at_end(run) is State.TRAINING
        time.sleep(0.05)
    return False


def newest_step(run: RunFolder) -> int:
    events = EventReader(run.events_file).read_all()
    return max((event.step for event in events if isinstance(event, StepFinished)), default=0)


def show(path: Path, *, starts: bool) -> int:
    """The window's process: show the run, and print how much of it is in the charts."""
    from PySide6.QtCore import QTimer

    from tests.performance.windows import open_window

    application, window = open_window((1100, 800))
    run = RunFolder(path)
    window.pages.show_run(run, partial(start.start, run) if starts else None)

    def print_steps() -> None:
        view = window.pages.run.view
        steps = view.charts.loss.history.loss.x
        if len(steps):
            shown = {"first": steps[0], "last": steps[-1], "count": len(steps), "state": view.state.value}
            print(json.dumps(shown), flush=True)

    timer = QTimer(interval=30)
    timer.timeout.connect(print_steps)
    timer.start()
    return application.exec()
