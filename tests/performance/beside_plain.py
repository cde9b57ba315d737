"""A run of Hone's and the same run as a plain Trainer script, each timed from outside, for `plain_trainer.py` and
`first_step.py`. The script is `plain_digits.py`, with the threads and the precision that Hone takes here.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "performance")]

from window_guard import guarded  # noqa: E402 - the checkout is on the path only now

from core.base.jobs import run_job  # noqa: E402
from core.base.processes import start_worker  # noqa: E402
from core.options import (  # noqa: E402
    RunOptions,
    run_file,
)
from core.options.device_support import (  # noqa: E402
    MachineReport,
    find_device,
    settle,
)
from core.runs import (  # noqa: E402
    library,
    start,
)
from core.runs.event_log import EventReader  # noqa: E402
from core.runs.events import (  # noqa: E402
    PhaseChanged,
    StepFinished,
)
from tests.performance.suite.figures import add_json  # noqa: E402 - as above

DIGITS = ROOT / "resources" / "examples" / "digits.hone"
CHANGES = ("device.name=cpu", "output.keep_checkpoints=0")
SCRIPT = ROOT / "tests" / "performance" / "plain_digits.py"


class Told(NamedTuple):
    """What one process told: when it was asked for, when each step ended (unix seconds), each step's loss.

    `phases` are the times at which Hone says that it began with something; a script has none.
    """

    asked: float
    ends: list[float]
    losses: list[float | None]
    phases: dict[str, float]

    @property
    def first_step(self) -> float:
        """Seconds from its being asked for to the end of its first step."""
        return self.ends[0] - self.asked

    @property
    def steps(self) -> list[float]:
        """Seconds of each further step, with all that lies between two."""
        return [after - before for before, after in zip(self.ends, self.ends[1:], strict=False)]


def read_arguments(description: str | None, *, rounds: int, steps: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--eval-samples", type=int, default=0, help="evaluate on so many; 0: all held out")
    add_json(parser)
    return parser.parse_args()


def by_turns(asked: argparse.Namespace) -> Iterator[tuple[Told, Told]]:
    """Hone's run and the plain script, one after the other (A B A B), each in fresh processes; a pair a round."""
    changes = [*CHANGES, f"training.max_steps={asked.steps}"]
    changes += [f"data.max_eval_samples={asked.eval_samples}"] if asked.eval_samples else []
    cpu = find_device(run_job("devices", None, MachineReport), "cpu")
    assert cpu is not None
    options = settle(cpu, run_file.read(DIGITS, tuple(changes)))
    told = (asked.steps, options.device.threads, options.device.precision, asked.eval_samples)
    # One guard from before to after all: its own start computes, too.
    with tempfile.TemporaryDirectory() as folder, guarded(Path(folder) / "runs"):
        os.environ["HONE_HOME"] = str(Path(folder) / "home")  # nothing is learned from other runs, nor taught
        for number in range(asked.rounds):
            print(f"round {number + 1} of {asked.rounds} ...", file=sys.stderr, flush=True)
            place = Path(folder) / f"plain-{number}"
            place.mkdir()
            yield run_hone(options, Path(folder) / "runs"), run_script(list(map(str, told)), place)


def run_hone(options: RunOptions, folder: Path) -> Told:
    """Train as the window does: a keeper, an engine, and their files."""
    run = library.create(options, folder)
    asked = time.time()
    start.start(run).wait()
    events = EventReader(run.events_file).read_all()
    steps = [event for event in events if isinstance(event, StepFinished)]
    if not steps:
        raise SystemExit(f"Hone took no step:\n{run.log_file.read_text(errors='replace')[-3000:]}")
    phases = {str(event.phase): event.time for event in events if isinstance(event, PhaseChanged)}
    return Told(asked, [step.time for step in steps], [step.loss for step in steps], phases)


def run_script(told: list[str], folder: Path) -> Told:
    """Train by the script, at the niceness that Hone's engine has: other programs favour neither."""
    with (folder / "said.txt").open("wb") as said:
        asked = time.time()
        process = start_worker(
            [sys.executable, str(SCRIPT), *told],
            stdin=subprocess.DEVNULL,
            stdout=said.fileno(),
            stderr=subprocess.STDOUT,
            folder=folder,
            environment={"HF_HUB_OFFLINE": "1"},
        )
        process.wait()
    if process.returncode:
        raise SystemExit(
            f"the plain script failed (status {process.returncode}):\n{(folder / 'said.txt').read_text()[-3000:]}"
        )
    found = json.loads((folder / "told.json").read_text())
    return Told(asked, found["ends"], found["losses"], {})


def compared(pairs: list[tuple[Told, Told]], of: Callable[[Told], float]) -> list[tuple[float, float]]:
    """One figure of both, round by round."""
    return [(of(hone), of(plain)) for hone, plain in pairs]
