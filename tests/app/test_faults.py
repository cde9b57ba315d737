"""The short form of performance/faults: one small run that is killed and kept from writing, and damaged folders."""

import os
import socket
import subprocess
import sys
from random import Random

import pytest

from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from core.runs.models import newest_first
from core.runs.status import State
from tests.fakes.jobs import ROOT
from tests.performance.faults.disk import limited_keeper
from tests.performance.faults.kills import differences, kill_at, train_alone, wrong_with_crash
from tests.performance.faults.ports import listening, local_sockets
from tests.performance.faults.training import (
    Attended,
    lost_lines,
    new_run,
    small_options,
    whole_lines,
    write_texts,
)
from tests.performance.faults.windows import WindowProcess

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills and limits processes as POSIX does")

EPOCHS = 1.0
MUTATIONS = 4


def test_a_run_that_is_killed_takes_the_same_steps_again(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    run = new_run(small_options(write_texts(tmp_path / "texts.csv", 200), EPOCHS), tmp_path / "killed")
    attended = Attended(run)
    try:
        assert kill_at(attended, "stepping", Random(1)) is not None
        told = whole_lines(run)
        attended.until_over()
        assert wrong_with_crash(attended) == []
        attended.resume()
        attended.until_over()
    finally:
        attended.end()
    assert attended.follower.state is State.FINISHED
    assert lost_lines(told) == 0
    steps = [event for event in EventReader(run.events_file).read_all() if isinstance(event, StepFinished)]
    first, second = ({step.step: step.loss for step in steps if step.attempt == one} for one in (1, 2))
    again = first.keys() & second.keys()
    assert again or min(second) == max(first) + 1
    assert [first[step] for step in again] == [second[step] for step in again]
    assert first.keys() | second.keys() == set(range(1, max(second) + 1))


@pytest.mark.long
def test_a_run_that_is_killed_and_finds_no_room_learns_what_it_would_have(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    data = write_texts(tmp_path / "texts.csv", 200)
    reference = train_alone(tmp_path / "alone", data, EPOCHS)
    [*_, checkpoint] = newest_first(tmp_path / "alone/checkpoints")
    run = new_run(small_options(data, EPOCHS), tmp_path / "killed")
    told = []
    attended = Attended(run)
    try:
        assert kill_at(attended, "stepping", Random(1)) is not None
        told.append(whole_lines(run))
        attended.until_over()
        assert wrong_with_crash(attended) == []
        limit = (checkpoint.path / "model.safetensors").stat().st_size - 1000
        attended.resume(limited_keeper(run, limit))
        attended.until_over()
        assert attended.follower.state is State.PAUSED
        titles = [message.title for message in attended.follower.status.messages.values()]
        assert "Paused: the disk is full" in titles
        attended.resume()
        window = WindowProcess(run)
        attended.until(lambda: bool(window.shown), seconds=60)
        window.kill()
        assert listening(attended.keeper.pid) == []
        attended.until_over()
    finally:
        attended.end()
    assert differences(attended, reference) == []
    assert sum(map(lost_lines, told)) == 0


def test_damaged_runs_are_opened_or_refused(tmp_path):
    command = [sys.executable, "-m", "tests.performance.faults", "mutations", "--every", "5"]
    command += ["--count", str(MUTATIONS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout
    assert f"| all | {MUTATIONS} |" in done.stdout


@pytest.mark.skipif(
    sys.platform != "linux", reason="reads the sockets of other processes as Linux shows them"
)
def test_the_app_listens_at_nothing_but_its_own_local_socket(tmp_path, qtbot):
    environment = {**os.environ, "HONE_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"}
    app = subprocess.Popen([sys.executable, "-m", "gui"], cwd=ROOT, env=environment)
    try:
        qtbot.waitUntil(
            lambda: any("hone" in name.lower() for name in local_sockets(app.pid)), timeout=30_000
        )
        assert listening(app.pid) == []
        with socket.create_server(("127.0.0.1", 0)):
            assert len(listening(os.getpid())) == 1  # one that did would have been found
    finally:
        app.kill()
        app.wait()
