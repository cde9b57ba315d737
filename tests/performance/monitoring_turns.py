"""What watching a run costs, within one run: monitoring on and off by turns of 20 steps.

    .venv/bin/python tests/performance/monitoring_turns.py [--turns 60] [--run-file FILE.hone]

Where a machine's own pace wanders by more than monitoring costs, two runs can't be compared; two neighbouring turns of
one run can. On: the keeper samples the machine and watches, and the engine takes each step apart, reads its figures,
writes them and looks for requests. Off: the keeper stands still (SIGSTOP) and the engine does none of that; only the
thread that reads torch's memory once a second goes on. Prints the median step of both, the median ratio of neighbouring
turns with its quartiles, and what the keeper took of a processor while it was on. Goal: 0.99 or more. Not on Windows.
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

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "performance")]

from window_guard import guarded  # noqa: E402 - the checkout is on the path only now

from core.options import run_file  # noqa: E402
from core.runs import library  # noqa: E402
from core.runs.folder import RunFolder  # noqa: E402
from tests.performance.suite.figures import Figure, add_json, figure, hand_over, ratio_at_least  # noqa: E402

DIGITS = ROOT / "resources" / "examples" / "digits.hone"
TURN = 20
LEFT_OUT = 3
"""The first steps of a turn aren't counted: what the other one left behind is worked off in them."""

WARM_TURNS = 2
GOAL = 0.99


def main() -> int:
    """Train once and print what the turns tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--run-file", type=Path, default=DIGITS)
    add_json(parser)
    parser.add_argument("--keeper", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--engine", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.keeper:
        return keep(asked.keeper)
    if asked.engine:
        return train(RunFolder(asked.engine))
    steps = TURN * (asked.turns + WARM_TURNS)
    changes = (f"training.max_steps={steps}", "output.keep_checkpoints=0", "data.eval_fraction=0")
    with tempfile.TemporaryDirectory() as folder, guarded(Path(folder)):
        run = library.create(run_file.read(asked.run_file, changes), Path(folder))
        subprocess.run([sys.executable, __file__, "--keeper", str(run.path)], check=True)
        told = run.path / "turns.json"
        if not told.exists():
            raise SystemExit(f"the run failed:\n{run.log_file.read_text()[-2000:]}")
        steps, off = print_turns(json.loads(told.read_text()))
        lasted, computed = json.loads((run.path / "keeper.took.json").read_text())
        print(
            f"the keeper took {computed / (lasted - off):.2%} of one processor while it was on, loading included"
        )
    keeper = figure("the keeper, of a processor", 100 * computed / (lasted - off), "%")
    hand_over(asked.json, [steps, keeper])
    return 0 if steps.reached else 1


def keep(folder: Path) -> int:
    from core.monitor.keeper import Keeper

    begun = time.monotonic(), time.process_time()
    Keeper(RunFolder(folder), [sys.executable, __file__, "--engine", str(folder)]).keep()
    took = time.monotonic() - begun[0], time.process_time() - begun[1]
    (folder / "keeper.took.json").write_text(json.dumps(took))
    return 0


def train(run: RunFolder) -> int:
    """In the engine's process: train as Hone does, switching its monitoring off and on."""
    from core.engine.environment import leave_aside, prepare_environment

    options = run.options()
    prepare_environment(options)
    leave_aside(options)
    from core.engine.environment import prepare_torchvision

    prepare_torchvision()
    from core.engine.reporter import Reporter
    from core.engine.training.callbacks import StepLog
    from core.engine.training.requests import RequestBox
    from core.engine.training.train import train_run

    ends: list[float] = []
    add, look = StepLog.add, RequestBox._look

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
    RequestBox._look = lambda box: look(box) if is_on() else None  # type: ignore[method-assign]
    reporter = Reporter(run)
    reporter.start({})
    try:
        status = train_run(run, options, reporter)
    finally:
        os.kill(os.getppid(), signal.SIGCONT)
    (run.path / "turns.json").write_text(json.dumps(ends))
    return status


def print_turns(ends: list[float]) -> tuple[Figure, float]:
    """Print the table; returns the figure of a step, and for how many seconds monitoring was off."""
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
    print(f"\n{len(turns)} turns of {TURN} steps, by turns with monitoring and without\n")
    print("| median step with, ms | without, ms | ratio of neighbouring turns, median | quartiles |")
    print("|---|---|---|---|")
    steps = f"{1000 * statistics.median(on):.2f} | {1000 * statistics.median(off):.2f}"
    print(f"| {steps} | {middle:.4f} | {low:.3f} to {high:.3f} |")
    print(f"\ngoal (ratio >= {GOAL}): {'reached' if middle >= GOAL else 'missed'}")
    was_off = sum(step for number, step in enumerate(seconds) if number // TURN % 2)
    step = figure(
        f"steps a second, ratio of neighbours {low:.3f} to {high:.3f}",
        1 / statistics.median(on),
        peer=1 / statistics.median(off),
        ratio=middle,
        goal=ratio_at_least(GOAL),
    )
    return step, was_off


if __name__ == "__main__":
    sys.exit(main())
