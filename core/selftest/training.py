"""Training short runs as the window does: through keeper and engine, followed by their files."""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core import run_file, starting
from core.checks import read_options
from core.choices import Task
from core.ending import log_tail
from core.errors import OptionsError
from core.events import StepFinished
from core.figures import counted
from core.follow import RunFollower
from core.options import RunOptions, Tree
from core.run_folder import Action, RunFolder
from core.runs import create
from core.selftest.checking import Failed
from core.story import State
from core.tree import put

SECONDS = 600.0
"""How long a run of a few steps may take."""
POLL_SECONDS = 0.05
ON_CPU = {"device.name": "cpu"}
"""Whatever else there is: the bundle is tried, not the computer's graphics card."""


def runs_folder(folder: Path) -> Path:
    """Where the runs of a self-test go."""
    return folder / "home" / "runs"


def options_for(task: Task, values: Mapping[str, Any]) -> RunOptions:
    """The options of a run, by their paths, such as `data.train`; whether they make a run is not looked at.

    Raises:
        OptionsError: A value isn't what its option takes.
    """
    tree: Tree = {"task": task.value}
    put(tree, {**ON_CPU, **values})
    options, problems = read_options(tree)
    if options is None or problems:
        raise OptionsError(problems)
    return options


def example(path: Path, values: Mapping[str, Any]) -> RunOptions:
    """The options of an example, with some of them changed."""
    return run_file.read(path, tuple(f"{name}={value}" for name, value in {**ON_CPU, **values}.items()))


def train(folder: Path, name: str, options: RunOptions, steps: int) -> tuple[RunFolder, str]:
    """Train a run to its end; returns its folder and a few words.

    Raises:
        Failed: It ended otherwise than it should.
    """
    run = create(options, runs_folder(folder), runs_folder(folder) / name)
    began = time.time()
    return run, _watch(run, starting.start(run), steps, began)


def train_on(run: RunFolder, steps: int) -> str:
    """Go on with a run that is over up to `steps`, from what it has saved; returns a few words.

    Raises:
        Failed: It ended otherwise than it should.
    """
    began = time.time()
    return _watch(run, starting.extend(run, max_steps=steps), steps, began)


def _watch(run: RunFolder, keeper: "subprocess.Popen[bytes]", steps: int, began: float) -> str:
    """Follow a run until nobody works on it any longer, and judge it."""
    follower = RunFollower(run)
    deadline = time.monotonic() + SECONDS
    first: float | None = None
    while not follower.is_over:
        told = (
            event.time for event in follower.poll() if isinstance(event, StepFinished) and event.time > began
        )
        first = first or next(told, None)
        if time.monotonic() > deadline:
            run.ask(Action.KILL)
            raise Failed(f"it was not done after {SECONDS:.0f} s; {_log(run)}")
        time.sleep(POLL_SECONDS)
    keeper.wait()
    _judge(follower, steps)
    waited = f", the first after {first - began:.1f} s" if first is not None else ""
    return f"trained {counted(steps, 'step')}{waited}"


def _judge(follower: RunFollower, steps: int) -> None:
    """Raises `Failed` where a run didn't finish after so many steps, or told anything that can't be read."""
    run, story = follower.run, follower.story
    if follower.state is not State.FINISHED:
        raise Failed(f"it is {follower.state.value}; {_log(run)}")
    if story.step != steps:
        raise Failed(f"it took {counted(story.step, 'step')}, not {steps}")
    if story.skipped or story.trouble:
        raise Failed(f"{counted(story.skipped, 'line')} of its events can't be read {story.trouble}".rstrip())
    if not any(run.model.iterdir()):
        raise Failed(f"nothing was saved in {run.model}")
    log = run.log_file.read_text(encoding="utf-8", errors="replace")
    if "Traceback (most recent call last)" in log:
        raise Failed(f"it finished, but {_log(run)}")


def _log(run: RunFolder) -> str:
    return f"the end of its log: {log_tail(run.log_file)}"
