"""One pass of a benchmark, with a stand-in for the engine: whatever stops it is an answer, only giving up is not."""

import sys
import threading
from collections.abc import Iterator

import psutil
import pytest

from core.base import jobs
from core.base.errors import UserError
from core.base.jobs import EngineCrashed, JobCancelled
from core.base.system import SystemMemory
from core.benchmark import runner
from core.benchmark.conditions import Lookout
from core.benchmark.plan import Kind, Plan, Rung
from core.benchmark.result import Surroundings
from core.benchmark.runner import Taking
from core.memory.model import Room
from core.options import Tree
from tests.fakes.runs import FAKES

MB = 1 << 20
EMPTY = SystemMemory(used=2 << 30, total=64 << 30, swap=0)
PLAN = Plan(kind=Kind.METHODS, title="Bert", rungs=(), steps=3, passes=1, warm_up=2)
ASKED: Tree = {
    "task": "text-classification",
    "model": {"source": "scratch:bert-tiny"},
    "data": {"train": "synthetic:64x8"},
    "device": {"name": "cpu"},
    "memory": {"batch_size": 48},
}


class Watched(Lookout):
    """Notes what it is told, and looks at nothing."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.told: list[str] = [device]

    def follow(self, pid: int) -> None:
        self.told.append("follow" if pid > 0 else "nobody")

    def begin_timed(self) -> None:
        self.told.append("begin")

    def end_timed(self) -> None:
        self.told.append("end")

    def stop(self) -> Surroundings:
        self.told.append("stop")
        return Surroundings(other_load=0.5, watts=40.0, power_source="NVML")


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No engine is left behind, however it ended; and the computer ends none."""
    monkeypatch.setattr(jobs, "out_of_memory_kills", lambda: 0)
    before = {child.pid for child in psutil.Process().children()}
    yield
    started = [child for child in psutil.Process().children() if child.pid not in before]
    _, alive = psutil.wait_procs(started, 5)
    assert not alive


def take(scenario: str, asked: Tree = ASKED, lookout: type[Lookout] = Watched) -> Taking:
    command = [sys.executable, "-P", str(FAKES / "measuring_job.py"), scenario]
    rung = Rung(name="plain", title="Plain", asked=asked)
    return Taking(rung, PLAN, command=command, system=lambda: EMPTY, lookout=lookout)


def test_a_pass_has_what_the_engine_measured_and_what_was_around() -> None:
    seen: list[Watched] = []

    class Kept(Watched):
        def __init__(self, device: str) -> None:
            super().__init__(device)
            seen.append(self)

    found = take("sample", lookout=Kept).run()
    assert found.sample is not None
    assert (found.sample.device, found.sample.seconds, found.problem) == ("cpu", (1.0, 1.0, 1.0), "")
    assert found.surroundings.is_disturbed
    assert found.surroundings.watts == 40.0
    assert found.begun > 1.7e9
    assert seen[0].told == ["cpu", "follow", "begin", "end", "stop"]


def test_power_of_a_device_that_did_not_compute_is_none_of_the_passs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "probable_device", lambda _options: "cuda:0")
    found = take("sample").run()
    assert (found.surroundings.watts, found.surroundings.power_source) == (None, "")


def test_the_real_machine_is_looked_at() -> None:
    found = take("sample", lookout=Lookout).run()
    assert found.failure == ""
    assert found.surroundings.throttled == ()


def test_a_killed_engine_is_a_row_that_names_its_signal() -> None:
    found = take("die").run()
    assert found.sample is None
    assert "SIGKILL" in found.problem
    assert "killed from outside" in found.problem
    assert found.surroundings.other_load == 0.5


def test_what_the_kernel_ended_for_lack_of_memory_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter([4, 5])
    monkeypatch.setattr(jobs, "out_of_memory_kills", lambda: next(counted))
    found = take("die").run()
    assert found.sample is not None
    assert found.sample.seconds == ()
    assert "ended it for lack of memory" in found.failure


def test_what_takes_more_than_is_free_is_ended_and_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    free = 150 * MB
    monkeypatch.setattr(runner, "room_of", lambda _device: Room(free=free, ceiling=64 << 30))
    found = take("grow").run()
    assert found.sample is not None
    assert "A batch of 48 rows didn't fit" in found.failure
    assert 0.9 * free < found.sample.peak == found.sample.parts.total


def test_a_refusal_is_told_in_the_engines_words() -> None:
    assert take("refuse").run().problem == "The data has one class only"


def test_a_bug_is_told_by_its_last_line() -> None:
    assert take("crash").run().problem == "The engine failed: RuntimeError: a bug in the fake dry run"


def test_options_that_are_none_start_nothing() -> None:
    found = take("hang", asked={"task": "weather"}).run()
    assert "task" in found.problem


def test_an_engine_that_can_not_be_started_is_told() -> None:
    rung = Rung(name="plain", title="Plain", asked=ASKED)
    found = Taking(rung, PLAN, command=["/no/such/python"], lookout=Watched).run()
    assert "can't be started" in found.problem


def test_it_can_be_given_up_from_another_thread() -> None:
    asked = take("hang", lookout=Lookout)
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


def test_given_up_before_it_began_it_starts_nothing() -> None:
    asked = take("grow")
    asked.kill()
    with pytest.raises(JobCancelled):
        asked.run()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UserError("The data is empty.", "No row\nis left"), "The data is empty. No row is left"),
        (
            EngineCrashed("sample", -11, ""),
            "The engine was ended by SIGSEGV. A library it uses touched memory that isn't its own. "
            "This is a bug in native code.",
        ),
        (
            EngineCrashed("sample", 1, ""),
            "It ended with exit status 1. The end of the log says why.",
        ),
    ],
)
def test_reasons_fit_on_a_line(error: Exception, words: str) -> None:
    assert runner.in_words(error) == words
