"""No job goes on once whoever asked is gone, however that came."""

import subprocess
import sys
import threading

import psutil
import pytest

from core.base.processes import ASKER, child_environment
from core.engine.__main__ import end_with_asker

JOB = """
import subprocess, sys, time
from core.engine import __main__ as asker
asker.LOOK_SECONDS = 0.05
asker.end_with_asker()
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(worker.pid, flush=True)
time.sleep(60)
"""
ASKS = f"""
import sys, time
from core.base.jobs import EngineJob
job = EngineJob("measure", [sys.executable, "-P", "-c", {JOB!r}])
print(job.pid, job._process.stdout.readline().decode(), flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a job's children have no group there")
def test_a_job_and_its_children_end_with_a_window_that_was_killed() -> None:
    asks = subprocess.Popen(
        [sys.executable, "-P", "-c", ASKS], stdout=subprocess.PIPE, env=child_environment(), text=True
    )
    assert asks.stdout is not None
    job, worker = (psutil.Process(int(pid)) for pid in asks.stdout.readline().split())
    asks.kill()
    asks.communicate()
    _, alive = psutil.wait_procs([job, worker], timeout=20)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []


def test_a_job_started_by_hand_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ASKER, raising=False)
    end_with_asker()
    assert "asker" not in {thread.name for thread in threading.enumerate()}
