"""What watching a run costs, measured within one run: monitoring on and off by turns of 20 steps.

Where a machine's own pace wanders by more than monitoring costs, two runs can't be compared; two neighbouring turns of
one run can. On: the keeper samples the machine and watches, and the engine takes each step apart, reads its figures,
writes them and looks for requests. Off: the keeper stands still (SIGSTOP) and the engine does none of that; only the
thread that reads torch's memory once a second goes on. Not on Windows.
"""

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from core.options import run_file
from core.runs import library
from core.runs.folder import RunFolder
from tests.performance.figures import DIGITS, ROOT, Figure, figure, main, ratio_at_least
from tests.performance.windows import guarded

TURN = 20
LEFT_OUT = 3
"""The first steps of a turn aren't counted: what the other one left behind is worked off in them."""
WARM_TURNS = 2
THIS = [sys.executable, "-m", "tests.performance.monitoring_turns"]


def measure(arguments: argparse.Namespace) -> list[Figure]:
    steps = TURN * (arguments.turns + WARM_TURNS)
    changes = (f"training.max_steps={steps}", "output.keep_checkpoints=0", "data.eval_fraction=0")
    with tempfile.TemporaryDirectory() as folder, guarded(Path(folder)):
        run = library.create(run_file.read(DIGITS, changes), Path(folder))
        subprocess.run([*THIS, "keeper", str(run.path)], check=True, cwd=ROOT)
        ends_file = run.path / "turns.json"
        if not ends_file.exists():
            raise SystemExit(f"the run failed:\n{run.log_file.read_text()[-2000:]}")
        ends = json.loads(ends_file.read_text())
        lasted, computed = json.loads((run.path / "keeper.json").read_text())
    seconds = [after - before for before, after in itertools.pairwise([ends[0], *ends])]
    turns = [
        statistics.median(seconds[first + LEFT_OUT : first + TURN])
        for first in range(WARM_TURNS * TURN, len(seconds) - TURN + 1, TURN)
    ]
    on, off = turns[::2], turns[1::2]
    # each turn that was on against those before and after it: a pace that wanders evenly favours neither
    ratios = [
        (before + after) / 2 / between for before, between, after in zip(off, on[1:], off[1:], strict=False)
    ]
    low, middle, high = statistics.quantiles(ratios, n=4)
    was_off = sum(step for number, step in enumerate(seconds) if number // TURN % 2)
    return [
        figure(
            f"steps a second, quartiles of the ratios {low:.3f} to {high:.3f}",
            1 / statistics.median(on),
            peer=1 / statistics.median(off),
            ratio=middle,
            goal=ratio_at_least(0.99),
        ),
        figure("the keeper, of a processor", 100 * computed / (lasted - was_off), "%"),
    ]


def keep(folder: Path) -> None:
    """The keeper's process."""
    from core.monitor.keeper import Keeper

    begun = time.monotonic(), time.process_time()
    Keeper(RunFolder(folder), [*THIS, "engine", str(folder)]).keep()
    took = time.monotonic() - begun[0], time.process_time() - begun[1]
    (folder / "keeper.json").write_text(json.dumps(took))


def train(run: RunFolder) -> int:
    """The engine's process: train as Hone does, switching its monitoring off and on."""
    from core.engine.environment import hide_libraries, prepare_environment

    options = run.options()
    prepare_environment(options)
    hide_libraries(options)
    from core.engine.environment import prepare_torchvision

    prepare_torchvision()
    from core.engine.reporter import Reporter
    from core.engine.training.callbacks import StepLog
    from core.engine.training.requests import RequestBox
    from core.engine.training.train import train_run

    ends: list[float] = []
    add, look = StepLog.add, RequestBox._poll

    def is_on() -> bool:
        return len(ends) // TURN % 2 == 0

    def add_or_not(log: StepLog, trainer: Any, seconds: float, learning_rate: float) -> None:
        was_on = is_on()
        ends.append(time.perf_counter())
        if was_on:
            add(log, trainer, seconds, learning_rate)
        else:
            trainer.parts.end()
            trainer.forget_step()
        if is_on() != was_on:
            os.kill(os.getppid(), signal.SIGSTOP if was_on else signal.SIGCONT)

    StepLog.add = add_or_not  # type: ignore[method-assign]
    RequestBox._poll = lambda box: look(box) if is_on() else None  # type: ignore[method-assign]
    reporter = Reporter(run)
    reporter.start({})
    try:
        status = train_run(run, options, reporter)
    finally:
        os.kill(os.getppid(), signal.SIGCONT)
    (run.path / "turns.json").write_text(json.dumps(ends))
    return status


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["keeper", path]:
            keep(Path(path))
        case ["engine", path]:
            sys.exit(train(RunFolder(Path(path))))
        case _:
            main(__doc__, measure, {"turns": 60})
