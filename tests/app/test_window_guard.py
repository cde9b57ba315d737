"""A benchmark leaves no run behind, however it ends."""

import contextlib
import subprocess
import sys

import psutil
import pytest

from tests.fakes.runs import make_folder
from tests.performance.figures import ROOT

SLEEP = "import time; print('here', flush=True); time.sleep(600)"
KEEP = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"


@pytest.fixture
def keeper():
    """A keeper that answers no request, with an engine below it."""
    process = subprocess.Popen([sys.executable, "-c", KEEP], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"here\n"
    yield process
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
    process.kill()
    process.communicate()


def test_the_end_of_the_pipe_ends_the_runs(tmp_path, keeper):
    make_folder(tmp_path / "never-started")
    run = make_folder(tmp_path / "run")
    run.record_keeper(keeper.pid)
    engine = psutil.Process(keeper.pid).children()[0]
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.performance.windows", tmp_path, "0.3"], stdin=subprocess.PIPE, cwd=ROOT
    )
    assert keeper.poll() is None
    guard.communicate()
    assert guard.returncode == 0
    assert keeper.wait(5) != 0
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE
    assert [request.action.value for request in run.open_requests()] == ["kill"]
