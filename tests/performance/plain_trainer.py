"""What Hone costs beside a plain Trainer script: the same run both ways, by turns, each in fresh processes.

Hone trains as usual, with its keeper; the script is `plain_digits.py`, without Hone, with the threads and the precision
that Hone chooses here. A step lasts from the end of the one before to its own. `--first-step` measures the time from
the click on Start (the script: from its process's start) to the end of the first step, after a round on a cold disk.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from core.base.jobs import run_job
from core.base.processes import start_worker
from core.options import RunOptions, run_file
from core.options.device_support import MachineReport, find_device, settle
from core.runs import library, start
from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from tests.performance.figures import (
    DIGITS,
    Figure,
    at_most,
    compared,
    figure,
    main,
    own_home,
    progress,
    ratio_at_least,
    ratio_at_most,
)
from tests.performance.windows import guarded

CHANGES = ("device.name=cpu", "output.keep_checkpoints=0")
SCRIPT = Path(__file__).with_name("plain_digits.py")
WARM_STEPS = 3


class Timed(NamedTuple):
    """When a process was started, when each step ended (unix seconds), and each step's loss."""

    started: float
    ends: list[float]
    losses: list[float | None]

    @property
    def first_step(self) -> float:
        return self.ends[0] - self.started

    @property
    def pace(self) -> float:
        """Steps a second, by the median step."""
        steps = [after - before for before, after in pairwise(self.ends)]
        return 1 / statistics.median(steps[WARM_STEPS:])


def measure(arguments: argparse.Namespace) -> list[Figure]:
    if arguments.first_step:
        arguments.steps, arguments.eval_samples = 2, 32
        rounds = [(hone.first_step, plain.first_step) for hone, plain in by_turns(arguments, warm=1)]
        return [compared("first step", rounds, "s", ratio_at_most(1.1))]
    runs = list(by_turns(arguments))
    paces = [(hone.pace, plain.pace) for hone, plain in runs]
    apart = max(losses_apart(*pair) for pair in runs)
    return [
        compared("steps a second", paces, goal=ratio_at_least(0.99)),
        figure("largest difference of a step's loss", apart, goal=at_most(0.0)),
    ]


def losses_apart(hone: Timed, plain: Timed) -> float:
    pairs = zip(hone.losses, plain.losses, strict=True)
    return max(
        float("inf") if ours is None or theirs is None else abs(ours - theirs) for ours, theirs in pairs
    )


def by_turns(arguments: argparse.Namespace, warm: int = 0) -> Iterator[tuple[Timed, Timed]]:
    """Hone's run and the plain script, one after the other; a pair a round, the `warm` first ones left out."""
    changes = [*CHANGES, f"training.max_steps={arguments.steps}"]
    changes += [f"data.max_eval_samples={arguments.eval_samples}"] if arguments.eval_samples else []
    cpu = find_device(run_job("devices", None, MachineReport), "cpu")
    assert cpu is not None
    options = settle(cpu, run_file.read(DIGITS, tuple(changes)))
    same = (arguments.steps, options.device.threads, options.device.precision, arguments.eval_samples)
    # One guard from before to after all: its own start computes, too.
    with own_home() as folder, guarded(folder / "runs"):
        for number in range(warm + arguments.rounds):
            progress(f"round {number + 1} of {warm + arguments.rounds} ...")
            (place := folder / f"plain-{number}").mkdir()
            pair = run_hone(options, folder / "runs"), run_script(list(map(str, same)), place)
            if number >= warm:
                yield pair


def run_hone(options: RunOptions, folder: Path) -> Timed:
    """Train as the window does: a keeper, an engine, and their files."""
    run = library.create(options, folder)
    started = time.time()
    start.start(run).wait()
    steps = [event for event in EventReader(run.events_file).read_all() if isinstance(event, StepFinished)]
    if not steps:
        raise SystemExit(f"Hone took no step:\n{run.log_file.read_text(errors='replace')[-3000:]}")
    return Timed(started, [step.time for step in steps], [step.loss for step in steps])


def run_script(arguments: list[str], folder: Path) -> Timed:
    """Train by the script, at the niceness that Hone's engine has: other programs favour neither."""
    log = folder / "log.txt"
    with log.open("wb") as output:
        started = time.time()
        process = start_worker(
            [sys.executable, str(SCRIPT), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output.fileno(),
            stderr=subprocess.STDOUT,
            folder=folder,
            environment={"HF_HUB_OFFLINE": "1"},
        )
        process.wait()
    if process.returncode:
        raise SystemExit(f"the plain script failed (status {process.returncode}):\n{log.read_text()[-3000:]}")
    found = json.loads((folder / "steps.json").read_text())
    return Timed(started, found["ends"], found["losses"])


if __name__ == "__main__":
    main(
        __doc__,
        measure,
        {"rounds": 5, "steps": 150, "eval-samples": 32},
        lambda parser: parser.add_argument("--first-step", action="store_true", help="time the start only"),
    )
