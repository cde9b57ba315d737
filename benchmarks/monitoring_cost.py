"""What watching a run costs: the same training with all of Hone's monitoring and with none of it, by turns.

    .venv/bin/python benchmarks/monitoring_cost.py [--steps 300] [--repeats 3] [--run-file FILE.hone]

With: a run as Hone starts it, with its keeper, which samples the machine and watches over the run, and an engine that
takes each step apart and tells of it. Without: Trainer with the same arguments, model and data in the same kind of
process (same priority, same threads), with no callback but one that looks at the clock. The pace is that of the median
step, from the end of one to the end of the next, the first steps left out; nothing is evaluated or saved in between.
Every other pair begins with Hone, so that a machine that grows warm favours neither. Prints a table, the median of the
pairs' ratios and what the keeper took of one processor. Goal: a ratio of 0.99 or more. The exit status is 1 where it is
missed.

The ratio says little where other programs keep the processors busy: the table says how much they did.
"""

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from window_guard import guarded  # noqa: E402 - the checkout is on the path only now

from core import jobs, run_file, runs  # noqa: E402
from core.event_files import EventReader  # noqa: E402
from core.events import StepFinished  # noqa: E402
from core.options import RunOptions  # noqa: E402
from core.processes import start_worker  # noqa: E402

DIGITS = ROOT / "resources" / "examples" / "digits.hone"
WARM_STEPS = 10
GOAL = 0.99
LOOK_SECONDS = 0.5


class Turn(NamedTuple):
    """One training: steps a second by the median step, the keeper's share of a processor, and what others kept busy."""

    pace: float
    keeper: float
    others: float


def main() -> int:
    """Train by turns and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--run-file", type=Path, default=DIGITS)
    parser.add_argument("--bare", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        return train_bare(asked.bare, options_of(asked))
    pairs: list[tuple[Turn, Turn]] = []
    for number in range(asked.repeats):
        print(f"pair {number + 1} of {asked.repeats} ...", file=sys.stderr, flush=True)
        order = (False, True) if number % 2 == 0 else (True, False)
        turns = {with_hone: measure(asked, with_hone=with_hone) for with_hone in order}
        pairs.append((turns[False], turns[True]))
    return print_table(pairs, asked)


def options_of(asked: argparse.Namespace) -> RunOptions:
    steps = WARM_STEPS + asked.steps
    changes = (f"training.max_steps={steps}", "output.keep_checkpoints=0", "data.eval_fraction=0")
    return run_file.read(asked.run_file, changes)


def measure(asked: argparse.Namespace, *, with_hone: bool) -> Turn:
    """One training in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder, guarded(Path(folder)):
        if not with_hone:
            return watched(start_bare(asked, Path(folder)), Path(folder) / "ends.json")
        run = runs.create(options_of(asked), Path(folder))
        turn = watched(jobs.start(run), run.events_file)
        if not run.model.is_dir():
            raise SystemExit(f"the run failed:\n{run.log_file.read_text()[-2000:]}")
        return turn


def start_bare(asked: argparse.Namespace, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--bare", str(folder), "--run-file", str(asked.run_file.absolute())]
    with (folder / "log.txt").open("wb") as log:
        return start_worker(
            [*command, "--steps", str(asked.steps)],
            stdin=subprocess.DEVNULL,
            stdout=log.fileno(),
            stderr=log.fileno(),
        )


def watched(process: subprocess.Popen[bytes], told: Path) -> Turn:
    """Wait until a training has ended; what its process and all below it used is no use by others.

    Args:
        process: The keeper, or the bare training itself.
        told: Where the training says when its steps ended.
    """
    usage: list[tuple[float, float, float, float]] = []
    family = psutil.Process(process.pid)
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            usage.append((time.time(), seconds_of([family]), family_seconds(family), busy_seconds()))
        time.sleep(LOOK_SECONDS)
    ends = ends_of(told)
    pace = 1 / statistics.median(after - before for before, after in itertools.pairwise(ends))
    inside = [looked for looked in usage if ends[0] <= looked[0] <= ends[-1]]
    if len(inside) < 2:
        return Turn(pace, 0.0, 0.0)
    took, own, all_own, busy = (last - first for first, last in zip(inside[0], inside[-1], strict=True))
    return Turn(pace, own / took, max(0.0, busy - all_own) / took)


def ends_of(told: Path) -> list[float]:
    """When each step ended, from the last warm one on; unix seconds."""
    if told.suffix != ".json":
        ends = [event.time for event in EventReader(told).read_all() if isinstance(event, StepFinished)]
    elif told.exists():
        ends = json.loads(told.read_text())
    else:
        raise SystemExit(f"the bare training failed:\n{(told.parent / 'log.txt').read_text()[-2000:]}")
    return ends[WARM_STEPS - 1 :]


def family_seconds(process: psutil.Process) -> float:
    return seconds_of([process, psutil.Process(), *process.children(recursive=True)])


def seconds_of(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def busy_seconds() -> float:
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)


def train_bare(folder: Path, options: RunOptions) -> int:
    """In a process of its own: train with nothing of Hone's in the loop, and write down when the steps ended."""
    from core.engine.environment import prepare_environment
    from core.engine.libraries import leave_aside

    prepare_environment(options)
    leave_aside(options)
    from core.engine.torchvision_ops import prepare_torchvision

    prepare_torchvision()
    from transformers import TrainerCallback

    from core.engine.building import build_trainer, chosen_device, prepare
    from core.engine.loading import LoadingTrainer
    from core.engine.reporter import Reporter

    class Bare(LoadingTrainer):
        def floating_point_ops(self, inputs) -> int:  # as in Hone's: no figure that somebody asked for
            return 0

    class Clock(TrainerCallback):
        ends: list[float] = []

        def on_step_end(self, args, state, control, **kwargs) -> None:
            self.ends.append(time.time())

    reporter = Reporter(None)
    with chosen_device(options) as choice:
        prepared = prepare(choice.settled, reporter)
        trainer = build_trainer(folder / "checkpoints", choice, prepared, reporter, Bare)  # type: ignore[arg-type]
        trainer.add_callback(Clock())
        trainer.train()
    (folder / "ends.json").write_text(json.dumps(Clock.ends))
    return 0


def print_table(pairs: list[tuple[Turn, Turn]], asked: argparse.Namespace) -> int:
    print(f"\n{asked.run_file.name}, {asked.steps} steps a turn, {os.cpu_count()} processors\n")
    print("| pair | without, steps/s | with, steps/s | ratio | keeper | others, without | others, with |")
    print("|---|---|---|---|---|---|---|")
    ratios = [hone.pace / bare.pace for bare, hone in pairs]
    for number, ((bare, hone), ratio) in enumerate(zip(pairs, ratios, strict=True), start=1):
        print(
            f"| {number} | {bare.pace:.2f} | {hone.pace:.2f} | {ratio:.3f} | {hone.keeper:.2%} "
            f"| {bare.others:.2f} | {hone.others:.2f} |"
        )
    ratio = statistics.median(ratios)
    keeper = statistics.median(hone.keeper for _, hone in pairs)
    print(
        f"\nwith monitoring: {ratio:.3f} of the pace without; the keeper took {keeper:.2%} of one processor"
    )
    print(f"goal (ratio >= {GOAL}): {'reached' if ratio >= GOAL else 'missed'}")
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
