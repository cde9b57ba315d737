"""Runs for tests: a small valid request, a keeper with a fake engine, and waiting for what a run does."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions
from core.runs import start as runs_start
from core.runs.event_log import EventWriter, RunFollower
from core.runs.events import Event
from core.runs.folder import RunFolder
from core.runs.library import create
from core.runs.start import QUEUE_FLAG

FAKES = Path(__file__).parent


def digits_options(name: str | None = "Digits") -> RunOptions:
    return RunOptions(
        task=Task.IMAGE_CLASSIFICATION,
        model=ModelOptions(source="torchvision:resnet18", pretrained=False),
        data=DataOptions(train="builtin:digits"),
        output=OutputOptions(name=name),
    )


def new_run(folder: Path) -> RunFolder:
    return create(digits_options(), folder)


def write_events(file: Path, *events: Event) -> None:
    """Append events to a file of a run, as its only writer would."""
    writer = EventWriter(file)
    for event in events:
        writer.write(event)
    writer.close()


def save_checkpoint(run: RunFolder, step: int) -> None:
    """Put a checkpoint into a run that is complete by its names and sizes; nothing could go on from it."""
    folder = run.checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}")
    marker = '{"trainer_state.json": {"bytes": 2, "sha256": ""}}'
    (folder / "complete.json").write_text(marker)


def keeper_command(run: RunFolder | Path, scenario: str, *, queued: bool = False) -> list[str]:
    """What starts the real keeper with the fake engine playing `scenario`."""
    flags = [QUEUE_FLAG] if queued else []
    folder = run.path if isinstance(run, RunFolder) else run
    return [sys.executable, "-P", str(FAKES / "keeper.py"), scenario, str(folder.absolute()), *flags]


def play(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engines of all runs that are started play `scenario`."""
    command = partial(keeper_command, scenario=scenario)
    monkeypatch.setattr(runs_start, "keeper_command", command)


def start(run: RunFolder, scenario: str, *, queued: bool = False) -> subprocess.Popen[bytes]:
    """Start the real keeper with the fake engine playing `scenario`."""
    return runs_start.start(run, keeper_command(run, scenario, queued=queued), queued=queued)


def follow_until(
    follower: RunFollower,
    process: subprocess.Popen[bytes],
    condition: Callable[[], bool],
    seconds: float = 10.0,
) -> None:
    """Poll until `condition` holds; fails after `seconds`. Between polls it waits for `process`."""
    deadline = time.monotonic() + seconds
    follower.poll()
    while not condition():
        assert time.monotonic() < deadline, f"still {follower.state} at step {follower.status.step}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
        follower.poll()
