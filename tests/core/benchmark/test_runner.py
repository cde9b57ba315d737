"""A benchmark that runs: the order of its passes, what fails, what is stopped and saved; and a single pass."""

import contextlib
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
from core.benchmark.plan import Kind, Plan, Variant
from core.benchmark.result import Conditions, Pass, Sample, Standing
from core.benchmark.runner import Bench, DeviceBusy, EnginePass, Watch
from core.memory.model import Room
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from tests.fakes.bench import MACHINE, MB, Measures, plan, sample, variant
from tests.fakes.runs import FAKES

SELF = KeeperRecord.of(os.getpid())
GOOD = Pass(begun=1.0, sample=sample())
FAILED = Pass(begun=1.0, problem="It can't be done.")
TOO_LARGE = Pass(begun=1.0, sample=Sample(device="cpu", out_of_memory="It needed 9 GB."))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def bench(*names, passes=2, measures=None, **more):
    """A benchmark of the variants with these names; `c` is refused."""
    refusals = {"c": "No GPU."}
    planned = plan(*(variant(name, refusal=refusals.get(name, "")) for name in names), passes=passes)
    return Bench(planned, MACHINE, **{"measure": measures or Measures(), "save": results.save, **more})


def train(device="cpu"):
    run = RunFolder(Path("/runs/digits").absolute())
    queue.hold(run, device, SELF)
    return run


def test_every_variant_is_measured_once_before_the_first_is_measured_again():
    one = bench("a", "c", "b", passes=3, measures=(measures := Measures()))
    assert [row.reason for row in one.result.rows] == ["", "No GPU.", ""]
    counts = []
    for result in one.run():
        counts.append([len(row.passes) for row in result.rows])
        assert results.saved()[0].result == result
    assert measures.measured == ["a", "b", "a", "b", "a", "b"]
    assert counts[:3] == [[1, 0, 0], [1, 0, 1], [2, 0, 1]]
    assert (one.result.is_whole, one.result.standing) == (True, Standing.WHOLE)


@pytest.mark.parametrize(
    ("answers", "order", "reasons"),
    [
        ({"a": [FAILED], "b": [FAILED, GOOD]}, "abdabdbd", ["It can't be done.", "", ""]),
        ({"a": [TOO_LARGE]}, "abdbdbd", ["It needed 9 GB.", "", ""]),
    ],
)
def test_a_variant_that_fails_is_tried_twice_unless_it_ran_out_of_memory(answers, order, reasons):
    measures = Measures(**answers)
    *_, result = bench("a", "b", "d", passes=3, measures=measures).run()
    assert "".join(measures.measured) == order
    assert [row.reason for row in result.rows] == reasons
    assert result.is_whole


@pytest.mark.parametrize("answer", [GOOD, FAILED])
def test_what_a_stop_interrupts_is_discarded_and_what_is_done_is_kept(answer):
    measures = Measures(b=[lambda: (one.stop(), answer)[1]])
    one = bench("a", "b", "d", measures=measures)
    *_, result = one.run()
    assert measures.measured == ["a", "b"]
    assert [len(row.passes) for row in result.rows] == [1, 0, 0]
    assert result.standing is Standing.CANCELLED
    assert results.saved()[0].result == result
    assert queue.benchmarks() == []


def test_a_benchmark_stopped_before_it_begins_measures_nothing():
    one = bench("a", measures=(measures := Measures()))
    one.stop()
    (result,) = one.run()
    assert (measures.measured, result.is_whole, results.saved()) == ([], False, [])


def test_closing_the_iterator_ends_it():
    one = bench("a", "b", measures=(measures := Measures()))
    running = one.run()
    assert next(running).standing is Standing.UNDER_WAY
    running.close()
    assert (measures.measured, one.result.standing) == (["a"], Standing.CANCELLED)
    assert queue.benchmarks() == []


def test_a_full_disk_costs_the_file_and_not_the_figures():
    def refuse(_result):
        raise OSError(28, "No space left on device")

    one = bench("a", save=refuse)
    *_, result = one.run()
    assert result.rows[0].is_measured
    assert "No space left" in one.not_saved


def test_progress_counts_what_is_left_and_estimates_its_time():
    def progress(one):
        steps = []
        one.on_begin = steps.append
        list(one.run())
        return steps

    steps = progress(bench("a", "b", "c"))
    counts = [(step.variant.name, step.number, step.done, step.total) for step in steps]
    assert counts == [("a", 1, 0, 4), ("b", 1, 1, 4), ("a", 2, 2, 4), ("b", 2, 3, 4)]
    assert [step.seconds_left is None for step in steps] == [True, True, False, False]
    assert steps[2].seconds_left > steps[3].seconds_left >= 0
    steps = progress(bench("a", "b", passes=3, measures=Measures(a=[TOO_LARGE])))
    assert [(step.done, step.total) for step in steps] == [(0, 6), (1, 4), (2, 4), (3, 4)]


def test_no_run_may_begin_on_the_device_meanwhile(home):
    running = bench("a", "b").run()
    assert queue.ahead_of("cpu") is None
    next(running)
    awaited = queue.ahead_of("cpu")
    assert (awaited.ahead, awaited.behind, awaited.title) == (1, queue.BENCHMARK, "")
    waits = RunFolder(Path("/runs/waits").absolute())
    assert queue.take_turn(waits, "cpu", SELF) is not None
    assert (queue.training(), queue.waiting()) == ([], [waits])
    with pytest.raises(DeviceBusy, match="already"):
        list(bench("a").run())
    (home / "queue" / "order.json").unlink()  # lost
    next(running)
    assert [entry.benchmark for entry in queue.benchmarks()] == ["Tiny BERT, 64 rows"]
    list(running)
    assert queue.take_turn(waits, "cpu", SELF, has_waited=True) is not None, "it was lost with the file"


def test_it_is_measured_beside_a_run_only_where_that_is_wanted():
    run = train()
    one = bench("a", measures=(measures := Measures()))
    with pytest.raises(DeviceBusy, match="is running") as caught:
        list(one.run())
    assert "hone pause digits" in str(caught.value)
    assert measures.measured == []
    *_, result = bench("a", beside=True).run()
    assert result.is_whole
    assert queue.training() == [run]


@pytest.mark.parametrize(("device", "is_free"), [("cuda:0", True), ("cuda:1", False), ("auto", False)])
def test_a_run_on_another_gpu_is_no_hindrance(device, is_free):
    train("cuda:1")
    planned = plan(Variant(name="a", title="A", asked={"device": {"name": device}}))
    one = Bench(planned, MACHINE, measure=Measures(), save=results.save)
    with contextlib.nullcontext() if is_free else pytest.raises(DeviceBusy):
        list(one.run())
    assert one.result.is_whole is is_free


# --- One pass, with a stand-in for the engine


PLAN = Plan(kind=Kind.METHODS, title="Bert", variants=(), steps=3, passes=1, warm_up=2)
ASKED = {
    "task": "text-classification",
    "model": {"source": "scratch:bert-tiny"},
    "data": {"train": "synthetic:64x8"},
    "device": {"name": "cpu"},
    "memory": {"batch_size": 48},
}


class Watched(Watch):
    """Records its calls, and reads nothing."""

    calls = []

    def follow(self, pid):
        assert pid > 0
        self.calls[:] = ["follow"]

    def mark(self):
        self.calls.append("mark")

    def stop(self):
        self.calls.append("stop")
        return Conditions(other_load=0.5)


@pytest.fixture
def measure(monkeypatch):
    """Creates a pass whose engine plays a scenario of `measuring_job.py`; none is left behind."""
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


def test_a_pass_has_what_the_engine_measured_and_the_conditions(measure):
    result = measure("sample").run()
    assert (result.sample.device, result.sample.seconds, result.problem) == ("cpu", (1.0, 1.0, 1.0), "")
    assert result.conditions.is_disturbed
    assert result.begun > 1.7e9
    assert Watched.calls == ["follow", "mark", "mark", "stop"]
    real = measure("sample", watch=Watch).run()
    assert (real.failure, real.conditions.throttled) == ("", ())


@pytest.mark.parametrize(
    ("scenario", "more", "words"),
    [
        ("die", {}, "killed by another process"),
        ("refuse", {}, "The data has one class only"),
        ("crash", {}, "The engine failed: RuntimeError: a bug in the fake dry run"),
        ("hang", {"asked": {"task": "weather"}}, "task"),
        ("", {"command": ["/no/such/python"]}, "can't be started"),
    ],
)
def test_whatever_prevents_a_sample_is_the_problem_of_the_pass(measure, scenario, more, words):
    result = measure(scenario, **more).run()
    assert result.sample is None
    assert words in result.problem


def test_running_out_of_memory_is_a_sample_that_says_so(measure, monkeypatch):
    kills = iter([4, 5])
    monkeypatch.setattr(jobs, "out_of_memory_kills", partial(next, kills))
    result = measure("die").run()
    assert result.sample.seconds == ()
    assert "stopped it because memory ran out" in result.failure
    monkeypatch.setattr(jobs, "out_of_memory_kills", lambda: 0)
    free = 150 * MB
    monkeypatch.setattr(runner, "room_of", lambda _device: Room(free=free, ceiling=64 << 30))
    result = measure("grow").run()
    assert "A batch of 48 examples didn't fit" in result.failure
    assert 0.9 * free < result.sample.peak == result.sample.parts.total


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
