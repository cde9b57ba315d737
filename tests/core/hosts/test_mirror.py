"""A run on another computer: an sshd on this one, and the real keeper there, with the real engine or a fake one."""

import hashlib
import os
import random
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from core.hosts import computers
from core.options.catalogue import with_changes
from core.runs import start as runs_start
from core.runs.event_log import EventReader, RunFollower
from core.runs.events import StepFinished
from core.runs.folder import Action, RunFolder
from core.runs.library import create
from core.runs.status import State
from tests.fakes.network import ROOT, Sshd, ssh_config, without_sshd
from tests.fakes.runs import digits_options

pytestmark = pytest.mark.skipif(bool(without_sshd()), reason=without_sshd() or "-")

STREAMS = ("events.jsonl", "machine.jsonl", "log.txt")


@pytest.fixture
def workshop(tmp_path, own_home):
    """Another computer, known and with this Hone."""
    server = Sshd(tmp_path / "there").prepare()
    ssh_config(tmp_path, server)
    with server:
        computers.save(server.computer)
        yield server


def run_on(server: Sshd, home: Path, **changes) -> RunFolder:
    options = with_changes(digits_options(), {"device.name": f"cpu@{server.name}", **changes})
    return create(options, home / "runs")


def until(run: RunFolder, condition, seconds: float = 90.0) -> RunFollower:
    follower = RunFollower(run)
    deadline = time.monotonic() + seconds
    while True:
        follower.poll()
        if condition(follower):
            return follower
        assert time.monotonic() < deadline, (run.connection(), follower.state, follower.status.step)
        time.sleep(0.05)


def there(server: Sshd, run: RunFolder) -> RunFolder:
    return RunFolder(server.far / "home" / "runs" / run.connection().folder)


def is_equal(server: Sshd, run: RunFolder) -> bool:
    far = there(server, run)
    return all((run.path / name).read_bytes() == (far.path / name).read_bytes() for name in STREAMS)


TINY = {"training.max_steps": 6, "memory.batch_size": 8, "data.max_train_samples": 64, "data.max_eval_samples": 16}


def test_a_run_elsewhere_is_that_of_this_computer(workshop, tmp_path, own_home):
    local = create(with_changes(digits_options(), {**TINY, "device.name": "cpu"}), own_home / "runs")
    keepers = [runs_start.start(local)]
    run = run_on(workshop, own_home, **TINY)
    keepers.append(runs_start.start(run))
    for one in (local, run):
        assert until(one, lambda follower: follower.is_over).state is State.FINISHED
    losses = [
        [event.loss for event in EventReader(one.events_file).read_all() if isinstance(event, StepFinished)]
        for one in (local, run)
    ]
    assert losses[0] == losses[1]
    assert is_equal(workshop, run)
    for keeper in keepers:
        assert keeper.wait(10) == 0
    for name in ("model.safetensors", "config.json"):
        model = [(one.model / name).read_bytes() for one in (run, there(workshop, run)) if (one.model / name).is_file()]
        assert len(model) in (0, 2) and len(set(model)) < 2
    assert list(run.model.iterdir())
    assert run.exit_record() == there(workshop, run).exit_record()
    assert run.connection().over
