"""A benchmark that runs: the order of its passes, what fails, what is stopped, what is saved; and one real pass."""

import os
import sys
import threading
from functools import partial
from pathlib import Path

import psutil
import pytest

from core.base import jobs
from core.base.jobs import JobCancelled
from core.base.system import SystemMemory
from core.benchmark import result as results
from core.benchmark import runner
from core.benchmark.conditions import Watch
from core.benchmark.plan import Kind, Plan, Variant
from core.benchmark.result import Conditions, Pass, Sample, Standing
from core.benchmark.runner import Bench, DeviceBusy, EnginePass
from core.memory.model import Room
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from tests.fakes.bench import MACHINE, Measures, plan, sample, variant
from tests.fakes.runs import FAKES

SELF = KeeperRecord.of(os.getpid())
GOOD = Pass(begun=1.0, sample=sample())
FAILED = Pass(begun=1.0, problem="It can't be done.")
TOO_LARGE = Pass(begun=1.0, sample=Sample(device="cpu", out_of_memory="It needed 9 GB."))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def bench(asked, measures=None, **more):
    return Bench(asked, MACHINE, measure=measures or Measures(), save=results.save, **more)


def counts(result):
    return [len(row.passes) for row in result.rows]


def train(device="cpu"):
    run = RunFolder(Path("/runs/digits").absolute())
    queue.hold(run, device, SELF)
    return run


def test_every_variant_is_measured_once_before_the_first_is_measured_again():
    one = bench(
        plan(variant("a"), variant("c", refusal="No GPU."), variant("b"), passes=3), measures := Measures()
    )
    assert [row.reason for row in one.result.rows] == ["", "No GPU.", ""]
    found = []
    for result in one.run():
        found.append(counts(result))
        assert results.saved()[0].result == result
    assert measures.measured == ["a", "b", "a", "b", "a", "b"]
    assert found[:3] == [[1, 0, 0], [1, 0, 1], [2, 0, 1]]
    assert (one.result.is_whole, one.result.standing) == (True, Standing.WHOLE)


@pytest.mark.parametrize(
    ("answers", "order", "reasons"),
    [
        ({"a": [FAILED], "b": [FAILED, GOOD]}, "abcabcbc", ["It can't be done.", "", ""]),
        ({"a": [TOO_LARGE]}, "abcbcbc", ["It needed 9 GB.", "", ""]),
    ],
)
def test_a_variant_that_fails_has_a_second_try_unless_it_lacked_memory(answers, order, reasons):
    measures = Measures(**answers)
    *_, found = bench(plan(variant("a"), variant("b"), variant("c"), passes=3), measures).run()
    assert "".join(measures.measured) == order
    assert [row.reason for row in found.rows] == reasons
    assert found.is_whole


@pytest.mark.parametrize("answer", [GOOD, FAILED])
def test_what_a_stop_interrupts_is_not_kept_and_what_is_done_is(answer):
    measures = Measures(b=[lambda: (one.stop(), answer)[1]])
    one = bench(plan(variant("a"), variant("b"), variant("c")), measures)
    *_, found = one.run()
    assert measures.measured == ["a", "b"]
    assert counts(found) == [1, 0, 0]
    assert found.standing is Standing.CANCELLED
    assert results.saved()[0].result == found
    assert queue.benchmarks() == []


def test_one_that_is_stopped_before_it_begins_measures_nothing():
    one = bench(plan(variant("a")), measures := Measures())
    one.stop()
    (found,) = one.run()
    assert (measures.measured, found.is_whole, results.saved()) == ([], False, [])


def test_closing_the_iterator_ends_it():
    one = bench(plan(variant("a"), variant("b")), measures := Measures())
    running = one.run()
    assert next(running).standing is Standing.UNDER_WAY
    running.close()
    assert (measures.measured, one.result.standing) == (["a"], Standing.CANCELLED)
    assert queue.benchmarks() == []


def test_a_full_disk_costs_the_file_and_not_the_figures():
    def refuse(_result):
        raise OSError(28, "No space left on device")

    one = Bench(plan(variant("a")), MACHINE, measure=Measures(), save=refuse)
    *_, found = one.run()
    assert found.rows[0].is_measured
    assert "No space left" in one.not_saved


def test_progress_counts_what_is_left_and_estimates_its_time():
    heard = []
    one = bench(plan(variant("a"), variant("b"), variant("c", refusal="No.")))
    one.on_begin = heard.append
    list(one.run())
    told = [(step.variant.name, step.number, step.done, step.total) for step in heard]
    assert told == [("a", 1, 0, 4), ("b", 1, 1, 4), ("a", 2, 2, 4), ("b", 2, 3, 4)]
    assert [step.seconds_left is None for step in heard] == [True, True, False, False]
    assert heard[2].seconds_left > heard[3].seconds_left >= 0
    heard.clear()
    one = bench(plan(variant("a"), variant("b"), passes=3), Measures(a=[TOO_LARGE]))
    one.on_begin = heard.append
    list(one.run())
    assert [(step.done, step.total) for step in heard] == [(0, 6), (1, 4), (2, 4), (3, 4)]


def test_no_run_may_begin_on_the_device_meanwhile(home):
    running = bench(plan(variant("a"), variant("b"))).run()
    assert queue.ahead_of("cpu") is None
    next(running)
    awaited = queue.ahead_of("cpu")
    assert (awaited.ahead, awaited.behind, awaited.title) == (1, queue.BENCHMARK, "")
    waits = RunFolder(Path("/runs/waits").absolute())
    assert queue.take_turn(waits, "cpu", SELF) is not None
    assert (queue.training(), queue.waiting()) == ([], [waits])
    with pytest.raises(DeviceBusy, match="already"):
        list(bench(plan(variant("a"))).run())
    (home / "queue" / "order.json").unlink()  # lost
    next(running)
    assert [entry.benchmark for entry in queue.benchmarks()] == ["Tiny BERT, 64 rows"]
    list(running)
    assert queue.take_turn(waits, "cpu", SELF, has_waited=True) is not None, "it was lost with the file"


def test_it_is_measured_beside_a_run_only_where_that_is_wanted():
    run = train()
    with pytest.raises(DeviceBusy, match="training") as caught:
        list(bench(plan(variant("a")), measures := Measures()).run())
    assert "hone pause digits" in str(caught.value)
    assert measures.measured == []
    *_, found = bench(plan(variant("a")), beside=True).run()
    assert found.is_whole
    assert queue.training() == [run]


def test_a_run_on_another_gpu_is_no_hindrance():
    train("cuda:1")
    first = Variant(name="a", title="A", asked={"device": {"name": "cuda:0"}})
    *_, found = bench(plan(first)).run()
    assert found.is_whole
    with pytest.raises(DeviceBusy):
        list(bench(plan(Variant(name="a", title="A", asked={"device": {"name": "auto"}}))).run())


# --- One pass, with a stand-in for the engine


MB = 1 << 20
PLAN = Plan(kind=Kind.METHODS, title="Bert", variants=(), steps=3, passes=1, warm_up=2)
ASKED = {
    "task": "text-classification",
    "model": {"source": "scratch:bert-tiny"},
    "data": {"train": "synthetic:64x8"},
    "device": {"name": "cpu"},
    "memory": {"batch_size": 48},
}


class Watched(Watch):
    """Notes what it is told, and reads nothing."""

    told = []

    def follow(self, pid):
        self.told[:] = ["follow" if pid > 0 else "nobody"]

    def mark(self):
        self.told.append("mark")

    def stop(self):
        self.told.append("stop")
        return Conditions(other_load=0.5, watts=40.0, power_source="NVML")


@pytest.fixture
def measure(monkeypatch):
    """Makes a pass of a scenario. No engine is left behind, and the computer ends none."""
    monkeypatch.setattr(jobs, "out_of_memory_kills", lambda: 0)
    before = {child.pid for child in psutil.Process().children()}

    def make(scenario, asked=ASKED, watch=Watched, command=()):
        command = command or [sys.executable, "-P", str(FAKES / "measuring_job.py"), scenario]
        empty = SystemMemory(used=2 << 30, total=64 << 30, swap=0)
        one = Variant(name="plain", title="Plain", asked=asked)
        return EnginePass(one, PLAN, command=command, system=lambda: empty, watch=watch)

    yield make
    started = [child for child in psutil.Process().children() if child.pid not in before]
    assert not psutil.wait_procs(started, 5)[1]


def test_a_pass_has_what_the_engine_measured_and_the_conditions(measure, monkeypatch):
    found = measure("sample").run()
    assert (found.sample.device, found.sample.seconds, found.problem) == ("cpu", (1.0, 1.0, 1.0), "")
    assert (found.conditions.is_disturbed, found.conditions.watts) == (True, 40.0)
    assert found.begun > 1.7e9
    assert Watched.told == ["follow", "mark", "mark", "stop"]
    monkeypatch.setattr(runner, "probable_device", lambda _options: "cuda:0")
    assert measure("sample").run().conditions.watts is None, "it is that of a GPU that did not compute"


def test_the_real_machine_is_watched(measure):
    found = measure("sample", watch=Watch).run()
    assert (found.failure, found.conditions.throttled) == ("", ())


@pytest.mark.parametrize(
    ("scenario", "more", "words"),
    [
        ("die", {}, "SIGKILL"),
        ("die", {}, "killed by another process"),
        ("refuse", {}, "The data has one class only"),
        ("crash", {}, "The engine failed: RuntimeError: a bug in the fake dry run"),
        ("hang", {"asked": {"task": "weather"}}, "task"),
        ("", {"command": ["/no/such/python"]}, "can't be started"),
    ],
)
def test_whatever_stops_a_pass_is_an_answer(measure, scenario, more, words):
    found = measure(scenario, **more).run()
    assert found.sample is None
    assert words in found.problem


def test_what_lacks_memory_did_not_fit(measure, monkeypatch):
    kills = iter([4, 5])
    monkeypatch.setattr(jobs, "out_of_memory_kills", partial(next, kills))
    found = measure("die").run()
    assert found.sample.seconds == ()
    assert "stopped it because memory ran out" in found.failure
    monkeypatch.setattr(jobs, "out_of_memory_kills", lambda: 0)
    free = 150 * MB
    monkeypatch.setattr(runner, "room_of", lambda _device: Room(free=free, ceiling=64 << 30))
    found = measure("grow").run()
    assert "A batch of 48 rows didn't fit" in found.failure
    assert 0.9 * free < found.sample.peak == found.sample.parts.total


def test_a_pass_can_be_given_up_from_another_thread_or_before_it_began(measure):
    one, caught = measure("hang", watch=Watch), []

    def run():
        try:
            one.run()
        except JobCancelled as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    one.kill()
    thread.join(10)
    assert len(caught) == 1
    with pytest.raises(JobCancelled):
        one.run()
