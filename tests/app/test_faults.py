"""The short form of performance/faults: a small run that is killed, damaged folders, and open ports."""

import os
import socket
import subprocess
import sys
from random import Random

import pytest

from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from core.runs.status import State
from tests.fakes.jobs import ROOT
from tests.performance.faults.kills import kill_at, wrong_with_crash
from tests.performance.faults.ports import listening, local_sockets
from tests.performance.faults.training import (
    Attended,
    lost_lines,
    new_run,
    small_options,
    whole_lines,
    write_texts,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills and limits processes as POSIX does")

MUTATIONS = 4


def test_a_run_that_is_killed_takes_the_same_steps_again(tmp_path, own_home):
    run = new_run(small_options(write_texts(tmp_path / "texts.csv", 200), epochs=1.0), tmp_path / "killed")
    attended = Attended(run)
    try:
        assert kill_at(attended, "stepping", Random(1)) is not None
        written = whole_lines(run)
        attended.until_over()
        assert wrong_with_crash(attended) == []
        attended.resume()
        attended.until_over()
    finally:
        attended.end()
    assert attended.follower.state is State.FINISHED
    assert lost_lines(written) == 0
    steps = [event for event in EventReader(run.events_file).read_all() if isinstance(event, StepFinished)]
    first, second = ({step.step: step.loss for step in steps if step.attempt == one} for one in (1, 2))
    again = first.keys() & second.keys()
    assert again or min(second) == max(first) + 1
    assert [first[step] for step in again] == [second[step] for step in again]
    assert first.keys() | second.keys() == set(range(1, max(second) + 1))


def test_damaged_runs_are_opened_or_refused():
    command = [sys.executable, "-m", "tests.performance.faults", "mutations", "--every", "5"]
    command += ["--count", str(MUTATIONS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr[-3000:] + ended.stdout
    assert f"| all | {MUTATIONS} |" in ended.stdout


@pytest.mark.skipif(
    sys.platform != "linux", reason="reads the sockets of other processes as Linux shows them"
)
def test_the_app_listens_at_nothing_but_its_own_local_socket(tmp_path, qtbot):
    environment = {**os.environ, "HONE_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"}
    app = subprocess.Popen([sys.executable, "-m", "gui"], cwd=ROOT, env=environment)
    try:
        qtbot.waitUntil(
            lambda: any(name.startswith(str(tmp_path)) for name in local_sockets(app.pid)), timeout=30_000
        )
        assert listening(app.pid) == []
        with socket.create_server(("127.0.0.1", 0)):
            assert len(listening(os.getpid())) == 1  # one that did would have been found
    finally:
        app.kill()
        app.wait()
