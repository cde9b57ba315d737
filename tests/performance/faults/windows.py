"""Kills of the window while a run trains: the run goes on, and the next window shows it from its first step."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from core.runs import start
from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from core.runs.folder import Action, RunFolder
from core.runs.status import State
from core.runs.summary import state_at_end
from tests.performance.faults.training import PATIENCE_SECONDS, new_run, small_options, write_texts

ROOT = Path(__file__).resolve().parents[3]
ROWS = 400
MANY_EPOCHS = 100_000.0
"""It trains until it is stopped."""

MOMENTS = ("opening", "reading", "shown")


@dataclass
class KilledWindow:
    """A window: when it was killed, and how many steps it showed before; `wrong` says what wasn't as it should."""

    moment: str
    shown: int = 0
    wrong: list[str] = field(default_factory=list)


class WindowProcess:
    """The real window in a process of its own; `shown` is what it said last of the steps it shows."""

    def __init__(self, run: RunFolder, *, starts: bool = False) -> None:
        command = [sys.executable, "-m", "tests.performance.faults", "window", str(run.path)]
        self.shown: dict[str, float] = {}
        self._process = subprocess.Popen(
            [*command, *(["start"] if starts else [])],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen"},
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.shown = json.loads(line)

    def wait_for(self, steps: int, state: str = "training") -> bool:
        """Wait until it shows so many steps, from the first on, and where the run stands; False: it doesn't."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            shown = self.shown
            if shown and shown["last"] >= steps and shown["state"] == state:
                return shown["first"] == 1 and shown["count"] == shown["last"]
            time.sleep(0.01)
        return False

    def kill(self) -> None:
        """End it as nothing else does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._listener.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def campaign(folder: Path, count: int, seed: int, tell=lambda _killed: None) -> list[KilledWindow]:
    """So many windows, killed one after the other over one run that the first one starts; `tell` hears each."""
    os.environ["HONE_HOME"] = str(folder / "home")
    data = write_texts(folder / "texts.csv", ROWS)
    run = new_run(small_options(data, MANY_EPOCHS), folder / "home/runs/long")
    found: list[KilledWindow] = []
    try:
        for number in range(count):
            found.append(kill_window(run, number, Random(f"{seed}:{number}")))
            tell(found[-1])
        last = WindowProcess(run)  # the one after the last that was killed
        if not last.wait_for(steps_of(run)):
            found[-1].wrong.append(f"the window after the last one shows {last.shown}")
        last.kill()
    finally:
        stop(run)
    return found


def kill_window(run: RunFolder, number: int, chance: Random) -> KilledWindow:
    """Open a window, kill it at a moment, and see that the run goes on."""
    killed = KilledWindow("shown" if not number else MOMENTS[number % len(MOMENTS)])
    before = steps_of(run)
    window = WindowProcess(run, starts=not number)
    if killed.moment == "shown":
        if not window.wait_for(max(before, 1)):
            killed.wrong.append(f"it shows {window.shown} of {before} steps")
        time.sleep(chance.uniform(0.0, 0.3))
    else:
        time.sleep(chance.uniform(*((0.0, 1.0) if killed.moment == "opening" else (1.0, 3.0))))
    killed.shown = int(window.shown.get("last", 0))
    window.kill()
    if not goes_on(run):
        killed.wrong.append(f"the run doesn't go on: {state_at_end(run)}")
    return killed


def goes_on(run: RunFolder) -> bool:
    """Whether steps are made after this call."""
    before, deadline = steps_of(run), time.monotonic() + 60.0
    while time.monotonic() < deadline:
        if steps_of(run) > before and run.keeper_is_alive():
            return state_at_end(run) is State.TRAINING
        time.sleep(0.05)
    return False


def steps_of(run: RunFolder) -> int:
    """The newest step that was told."""
    told = [
        event.step for event in EventReader(run.events_file).read_all() if isinstance(event, StepFinished)
    ]
    return told[-1] if told else 0


def stop(run: RunFolder) -> None:
    """End the run."""
    deadline = time.monotonic() + 30.0
    if run.keeper_is_alive():
        run.request(Action.KILL)
        while run.keeper_is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)


def show(path: Path, *, starts: bool) -> int:
    """What the window's process does: show the run, and say how much of it stands in its charts."""
    from PySide6.QtCore import QTimer

    from tests.performance.windows import open_window

    application, window = open_window((1100, 800))
    run = RunFolder(path)
    window.show_run(run, partial(start.start, run) if starts else None)
    timer = QTimer(interval=30)

    def tell() -> None:
        view = window.run.view
        steps, _ = view.charts.loss.history.loss.rows(0)
        if len(steps):
            told = {"first": steps[0], "last": steps[-1], "count": len(steps), "state": view.state.value}
            print(json.dumps(told), flush=True)

    timer.timeout.connect(tell)
    timer.start()
    return application.exec()


def table(found: list[KilledWindow]) -> str:
    """Counts by moment."""
    rows = [
        "| window killed while | kills | the run went on, and the next window showed all |",
        "|---|---|---|",
    ]
    for moment in (*MOMENTS, "all"):
        some = [one for one in found if moment in ("all", one.moment)]
        rows.append(f"| {moment} | {len(some)} | {sum(not one.wrong for one in some)} |")
    most = max(one.shown for one in found)
    rows.append(
        f"\nOne of them showed {most:,} steps when it was killed; none that was waited for lacked any."
    )
    return "\n".join(rows)
