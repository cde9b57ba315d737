"""Dry runs, which are ended before they take memory that isn't free."""

import sys
import threading
from pathlib import Path

import psutil
import pytest

from core.base import jobs
from core.base.errors import UserError
from core.base.jobs import EngineCrashed, JobCancelled
from core.base.processes import out_of_memory_kills
from core.base.system import SystemMemory
from core.memory.model import FitVerdict, Room
from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import DeviceOptions, MemoryOptions
from core.services import memory
from core.services.memory import DryRun, GuardedJob
from tests.fakes.runs import FAKES

MB, GB = 1 << 20, 1 << 30
ROOMY = Room(free=64 * GB, ceiling=64 * GB)
SMALL = Room(free=150 * MB, ceiling=64 * GB)
EMPTY = SystemMemory(used=2 * GB, total=64 * GB, swap=0)


def dry_run(
    scenario: str, room: Room = ROOMY, *, device: str = "cpu", system: SystemMemory = EMPTY
) -> DryRun:
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        device=DeviceOptions(name=device),
        memory=MemoryOptions(batch_size=48),
    )
    command = [sys.executable, "-P", str(FAKES / "measuring_job.py"), scenario]
    return DryRun(options, room, command=command, system=lambda: system)


@pytest.fixture(autouse=True)
def nothing_left():
    """No engine is left behind, however it ended."""
    before = {child.pid for child in psutil.Process().children()}
    yield
    started = [child for child in psutil.Process().children() if child.pid not in before]
    _, alive = psutil.wait_procs(started, 5)
    assert not alive


def test_the_answer_comes_with_the_room_it_was_measured_in_and_linux_would_end_it_first():
    found = dry_run("answer").run()
    assert (found.peak, found.room, found.out_of_memory) == (100, ROOMY, "")
    assert found.forecast.verdict is FitVerdict.FITS
    if sys.platform == "linux":  # only Linux lets a process be offered to its killer
        assert found.total_steps == memory.SCORE
        assert int(Path("/proc/self/oom_score_adj").read_text()) < memory.SCORE


def test_a_dry_run_that_grows_beyond_the_room_is_ended_and_that_is_the_answer():
    found = dry_run("grow", SMALL).run()
    assert "A batch of 48 examples didn't fit" in found.out_of_memory
    assert "150 MB of 64.0 GB were free" in found.out_of_memory
    assert SMALL.free * 0.9 < found.peak < 4 * SMALL.free
    assert found.parts.total == found.peak


def test_where_other_programs_fill_the_computer_it_is_ended_too():
    full = SystemMemory(used=64 * GB - 10 * MB, total=64 * GB, swap=0)
    assert "only 10.0 MB of memory were left" in dry_run("hang", system=full).run().out_of_memory


def test_what_the_kernel_ended_for_lack_of_memory_is_out_of_memory(monkeypatch):
    if out_of_memory_kills() is not None:  # only Linux says which processes it has ended
        with pytest.raises(EngineCrashed):
            dry_run("die").run()
    counted = iter([4, 5])
    monkeypatch.setattr(jobs, "out_of_memory_kills", lambda: next(counted))
    assert "stopped it because memory ran out" in dry_run("die").run().out_of_memory


@pytest.mark.parametrize(
    ("scenario", "device", "error", "message"),
    [
        ("grow", "cuda:0", EngineCrashed, None),  # a GPU's memory is not the computer's: it grew to its end
        ("crash", "cpu", EngineCrashed, "a bug in the fake dry run"),
        ("refuse", "cpu", UserError, "one class only"),
    ],
)
def test_all_else_that_ends_it_is_raised(scenario, device, error, message):
    with pytest.raises(error, match=message):
        dry_run(scenario, SMALL if scenario == "grow" else ROOMY, device=device).run()


def test_what_is_measured_on_another_computer_may_take_more_than_is_free_here():
    command = [sys.executable, "-P", str(FAKES / "measuring_job.py"), "grow"]
    job = GuardedJob("measure", "cpu@workshop", SMALL, command=command, system=lambda: EMPTY)
    assert job.ask(b"", timeout=60) == b"", "it grew to its end"


def test_it_can_be_ended_from_another_thread_also_before_it_has_begun():
    running, caught = dry_run("hang"), []

    def run() -> None:
        try:
            running.run()
        except JobCancelled as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    running.kill()
    thread.join(10)
    assert len(caught) == 1
    with pytest.raises(JobCancelled):
        running.run()


def test_ctrl_c_leaves_no_engine_behind(monkeypatch):
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs.EngineJob, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dry_run("hang").run()
