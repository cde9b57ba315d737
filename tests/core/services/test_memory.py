"""Dry runs, which are ended before they take memory that isn't free, and the memory of devices."""

import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.base import jobs
from core.base.errors import UserError
from core.base.jobs import EngineCrashed, JobCancelled
from core.base.processes import out_of_memory_kills
from core.base.system import GroupMemory, SystemMemory
from core.memory.model import Room, Verdict
from core.monitor.nvidia import find_gpu
from core.options import RunOptions
from core.options.choices import Task
from core.options.device_support import DeviceReport
from core.options.sections import DeviceOptions, MemoryOptions
from core.services import memory
from core.services.memory import DryRun
from tests.fakes.machines import FakeNvml
from tests.fakes.runs import FAKES

MB = 1 << 20
ROOMY = Room(free=64 << 30, ceiling=64 << 30)
SMALL = Room(free=150 * MB, ceiling=64 << 30)
EMPTY = SystemMemory(used=2 << 30, total=64 << 30, swap=0)


def options(device: str = "cpu") -> RunOptions:
    return RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        device=DeviceOptions(name=device),
        memory=MemoryOptions(batch_size=48),
    )


def dry_run(
    scenario: str, room: Room | None = None, *, device: str = "cpu", system: SystemMemory = EMPTY
) -> DryRun:
    command = [sys.executable, "-P", str(FAKES / "measuring_job.py"), scenario]
    return DryRun(options(device), room, command=command, system=lambda: system)


@pytest.fixture(autouse=True)
def nothing_left():
    """No engine is left behind, however it ended."""
    before = {child.pid for child in psutil.Process().children()}
    yield
    started = [child for child in psutil.Process().children() if child.pid not in before]
    _, alive = psutil.wait_procs(started, 5)
    assert not alive


def test_the_answer_comes_with_the_room_it_was_measured_in():
    found = dry_run("answer", ROOMY).run()
    assert (found.peak, found.room, found.out_of_memory) == (100, ROOMY, "")
    assert found.forecast.verdict is Verdict.FITS


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process be offered to its killer")
def test_linux_is_told_to_end_the_dry_run_before_other_programs():
    assert dry_run("answer", ROOMY).run().total_steps == memory.SCORE
    assert int(Path("/proc/self/oom_score_adj").read_text()) < memory.SCORE


def test_a_dry_run_that_grows_beyond_the_room_is_ended_and_that_is_the_answer():
    found = dry_run("grow", SMALL).run()
    assert "A batch of 48 rows didn't fit" in found.out_of_memory
    assert "150 MB of 64 GB were free" in found.out_of_memory
    assert SMALL.free * 0.9 < found.peak < 4 * SMALL.free
    assert found.parts.total == found.peak


def test_where_other_programs_fill_the_computer_it_is_ended_too():
    full = SystemMemory(used=(64 << 30) - 10 * MB, total=64 << 30, swap=0)
    assert "only 10 MB of memory were left" in dry_run("hang", ROOMY, system=full).run().out_of_memory


def test_what_the_kernel_ended_for_lack_of_memory_is_out_of_memory(monkeypatch):
    if out_of_memory_kills() is not None:  # only Linux tells whom it has ended
        with pytest.raises(EngineCrashed):
            dry_run("die", ROOMY).run()
    counted = iter([4, 5])
    monkeypatch.setattr(jobs, "out_of_memory_kills", lambda: next(counted))
    assert "stopped it because memory ran out" in dry_run("die", ROOMY).run().out_of_memory


@pytest.mark.parametrize(
    ("scenario", "device", "error", "says"),
    [
        (
            "grow",
            "cuda:0",
            EngineCrashed,
            "",
        ),  # a GPU's memory is not the computer's: it grew as far as it wanted
        ("crash", "cpu", EngineCrashed, "a bug in the fake dry run"),
        ("refuse", "cpu", UserError, "one class only"),
    ],
)
def test_all_else_that_ends_it_is_raised(scenario, device, error, says):
    with pytest.raises(error, match=says):
        dry_run(scenario, SMALL if scenario == "grow" else ROOMY, device=device).run()


def test_it_can_be_ended_from_another_thread():
    asked = dry_run("hang", ROOMY)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            asked.run()
        except JobCancelled as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    asked.kill()
    thread.join(10)
    assert len(caught) == 1
    unstarted = dry_run("grow", SMALL)
    unstarted.kill()
    with pytest.raises(JobCancelled):
        unstarted.run()


def test_who_gives_up_waiting_leaves_no_engine_behind(monkeypatch):
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs.EngineJob, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dry_run("hang", ROOMY).run()


# --- Memory of a device

GB = 1 << 30
SYSTEM = SystemMemory(used=6 * GB, total=16 * GB, swap=0)


@pytest.fixture
def computer(monkeypatch):
    monkeypatch.setattr(memory, "system_memory", lambda: SYSTEM)
    monkeypatch.setattr(memory, "group_memory", lambda: None)


def device(name: str, memory_bytes: int | None = None) -> DeviceReport:
    return DeviceReport(name=name, title=name, available=True, memory_bytes=memory_bytes)


def gpu(**facts: Any) -> Any:
    return find_gpu("0", FakeNvml(**facts))


def room(free: float, ceiling: float) -> Room:
    return Room(free=int(free * GB), ceiling=int(ceiling * GB))


@pytest.mark.usefixtures("computer")
@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (None, room(10, 16)),
        (GroupMemory(limit=8 * GB, used=GB), room(7, 8)),
        (GroupMemory(limit=12 * GB, used=GB), room(10, 12)),  # others of the computer have the rest
        (GroupMemory(limit=GB, used=2 * GB), room(0, 1)),
        (GroupMemory(limit=64 * GB, used=GB), room(10, 16)),
    ],
)
def test_a_cpu_has_what_the_computer_or_its_control_group_has_left(monkeypatch, group, expected):
    monkeypatch.setattr(memory, "group_memory", lambda: group)
    assert memory.room_of(device("cpu", 16 * GB)) == expected


@pytest.mark.usefixtures("computer")
def test_an_nvidia_gpu_has_its_own_or_shares_the_computers(monkeypatch):
    own = memory.room_of(device("cuda:0", 8 * GB), gpu=gpu())
    assert own == room(4, 7)  # 3 in use, 1 reserved, of 8
    assert memory.room_of(device("cuda:0", 12 * GB), gpu=gpu(total=0)) == room(10, 12)
    monkeypatch.setattr(memory, "gpu_of", lambda _name: None)
    assert memory.room_of(device("cuda:0", 8 * GB)) is None, "no driver's library"


@pytest.mark.usefixtures("computer")
@pytest.mark.parametrize(
    ("recommended", "limit", "used", "expected"),
    [
        (11, 1.7, 6, room(10, 11)),
        (11, 1.0, 6, room(10, 11)),
        (11, 0.5, 6, room(5.5, 5.5)),
        (11, 0.0, 6, room(10, 11)),
        (11, 1.7, 2, room(11, 11)),
        (0, 1.7, 2, room(14, 16)),  # nothing is recommended
    ],
)
def test_a_mac_has_what_macos_recommends_or_less_where_that_is_asked(
    monkeypatch, recommended, limit, used, expected
):
    system = SystemMemory(used=used * GB, total=16 * GB, swap=0)
    monkeypatch.setattr(memory, "system_memory", lambda: system)
    mac = device("mps", recommended * GB or None)
    assert memory.room_of(mac, mps_limit=limit) == expected
