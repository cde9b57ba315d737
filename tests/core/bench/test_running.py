"""A benchmark that runs: the order of its passes, what fails, what is stopped, what is kept."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from core.base.processes import describe
from core.benchmark import result as benchmark_result
from core.benchmark.plan import Plan, Rung
from core.benchmark.result import Pass, Result, Sample, Standing
from core.benchmark.runner import Bench, DeviceBusy, Underway
from core.options.sections import DeviceOptions
from core.runs import queue
from core.runs.folder import KeeperRecord, RunFolder
from core.runs.queue import BENCHMARK
from tests.fakes.bench import MACHINE, Takes, plan, rung, sample

SELF = KeeperRecord.of(os.getpid())
GOOD = Pass(begun=1.0, sample=sample())
FAILED = Pass(begun=1.0, problem="It can't be done.")
TOO_LARGE = Pass(begun=1.0, sample=Sample(device="cpu", out_of_memory="It needed 9 GB."))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def bench(asked: Plan, takes: Takes, *, beside: bool = False) -> Bench:
    return Bench(asked, MACHINE, take=takes, save=benchmark_result.save, beside=beside)


def names(result: Result) -> list[tuple[str, int]]:
    return [(row.rung.name, len(row.passes)) for row in result.rows]


def train(device: str = "cpu") -> RunFolder:
    run = RunFolder(Path("/runs/digits").absolute())
    queue.hold(run, device, SELF)
    return run


class TestOrder:
    def test_every_rung_is_measured_once_before_the_first_is_measured_again(self) -> None:
        takes = Takes()
        found = list(bench(plan(rung("a"), rung("b"), passes=3), takes).run())
        assert takes.taken == ["a", "b", "a", "b", "a", "b"]
        assert names(found[-1]) == [("a", 3), ("b", 3)]
        assert (found[-1].is_whole, found[-2].ended, found[-1].ended is not None) == (True, None, True)

    def test_a_result_is_told_after_every_pass_and_a_rung_that_is_refused_is_a_row_at_once(self) -> None:
        refused = rung("c", refusal="It needs a GPU.")
        one = bench(plan(rung("a"), refused, rung("b"), passes=1), takes := Takes())
        assert [row.reason for row in one.result.rows] == ["", "It needs a GPU.", ""]
        told = [names(result) for result in one.run()]
        after_a, after_b = [("a", 1), ("c", 0), ("b", 0)], [("a", 1), ("c", 0), ("b", 1)]
        assert told == [after_a, after_b, after_b]
        assert takes.taken == ["a", "b"]
        assert one.result.is_whole

    def test_where_nothing_can_be_measured_nothing_is_kept(self) -> None:
        (found,) = bench(plan(rung("a", refusal="It needs a GPU.")), Takes()).run()
        assert found.is_whole
        assert benchmark_result.kept() == []


class TestFailures:
    def test_a_rung_that_fails_has_a_second_try_and_the_rest_go_on(self) -> None:
        takes = Takes(a=[FAILED], b=[FAILED, GOOD])
        *_, found = bench(plan(rung("a"), rung("b"), rung("c"), passes=3), takes).run()
        assert takes.taken == ["a", "b", "c", "a", "b", "c", "b", "c"]
        assert [row.reason for row in found.rows] == ["It can't be done.", "", ""]
        assert found.rows[1].is_measured
        assert found.is_whole

    def test_a_rung_that_lacked_memory_has_none(self) -> None:
        takes = Takes(a=[TOO_LARGE])
        *_, found = bench(plan(rung("a"), rung("b"), passes=3), takes).run()
        assert takes.taken == ["a", "b", "b", "b"]
        assert (found.rows[0].reason, found.is_whole) == ("It needed 9 GB.", True)

    @pytest.mark.skipif(os.name != "posix", reason="ends a process with a POSIX signal")
    def test_a_killed_rung_is_a_row_with_its_reason(self) -> None:
        takes = Takes(a=[killed_from_outside])
        *_, found = bench(plan(rung("a"), rung("b"), passes=1), takes).run()
        assert "killed from outside" in found.rows[0].reason
        assert found.rows[1].is_measured
        assert found.is_whole


def killed_from_outside() -> Pass:
    """A pass whose process somebody ends, told as the engine's jobs tell it."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    process.send_signal(signal.SIGKILL)
    return Pass(begun=time.time(), problem=describe(process.wait()))


class TestStopping:
    def test_what_is_done_is_kept(self) -> None:
        takes = Takes(b=[lambda: (one.stop(), GOOD)[1]])
        one = bench(plan(rung("a"), rung("b"), rung("c")), takes)
        *_, found = one.run()
        assert takes.taken == ["a", "b"]
        assert names(found) == [("a", 1), ("b", 0), ("c", 0)]
        assert (found.is_whole, found.ended is None) == (False, False)
        assert benchmark_result.kept()[0].result == found

    def test_what_failed_because_of_the_stop_is_no_failure(self) -> None:
        asked = plan(rung("a"), rung("b"), passes=1)
        one = Bench(asked, MACHINE, take=lambda of, _plan: Stopped(of, one.stop), save=benchmark_result.save)
        *_, found = one.run()
        assert names(found) == [("a", 1), ("b", 0)]

    def test_one_that_is_stopped_before_it_begins_measures_nothing(self) -> None:
        one = bench(plan(rung("a")), takes := Takes())
        one.stop()
        (found,) = one.run()
        assert (takes.taken, found.is_whole, benchmark_result.kept()) == ([], False, [])

    def test_whoever_asks_for_no_more_results_ends_it(self) -> None:
        one = bench(plan(rung("a"), rung("b")), takes := Takes())
        results = one.run()
        next(results)
        results.close()
        assert (takes.taken, one.result.ended is None) == (["a"], False)
        assert queue.benchmarks() == []


class TestStanding:
    def test_it_is_under_way_as_long_as_its_process_lives(self) -> None:
        one = bench(plan(rung("a"), rung("b")), Takes())
        results = one.run()
        assert next(results).standing is Standing.UNDER_WAY
        assert benchmark_result.load(benchmark_result.path_of(one.result)).standing is Standing.UNDER_WAY
        assert list(results)[-1].standing is Standing.WHOLE

    def test_what_a_process_left_that_is_gone_was_broken_off(self) -> None:
        one = bench(plan(rung("a"), rung("b")), Takes())
        results = one.run()
        left = next(results)
        assert left.measured_by is not None
        gone = msgspec.structs.replace(left.measured_by, started=left.measured_by.started - 3600)
        assert msgspec.structs.replace(left, measured_by=gone).standing is Standing.BROKEN_OFF
        results.close()
        assert one.result.standing is Standing.CANCELLED


class Stopped:
    """A pass that tells of its own end as a failure, as a process does that was killed."""

    def __init__(self, of: Rung, stop: object) -> None:
        self._of, self._stop = of, stop

    def run(self) -> Pass:
        if self._of.name == "a":
            return GOOD
        self._stop()  # type: ignore[operator]
        return Pass(begun=1.0, problem="It was ended.")

    def kill(self) -> None:
        """It ends by itself."""


class TestKeeping:
    def test_the_file_can_be_read_after_every_pass(self) -> None:
        for found in bench(plan(rung("a"), rung("b")), Takes(b=[FAILED])).run():
            (one,) = benchmark_result.kept()
            assert one.result == found

    def test_a_full_disk_costs_the_file_and_not_the_figures(self) -> None:
        def refuse(_result: Result) -> None:
            raise OSError(28, "No space left on device")

        one = Bench(plan(rung("a")), MACHINE, take=Takes(), save=refuse)
        *_, found = one.run()
        assert found.rows[0].is_measured
        assert "No space left" in one.not_kept


class TestUnderway:
    def test_it_tells_how_much_is_done_and_what_is_left_of_it(self) -> None:
        heard: list[Underway] = []
        one = bench(plan(rung("a"), rung("b"), rung("c", refusal="No.")), Takes())
        one.heed(heard.append)
        list(one.run())
        told = [(step.rung.name, step.number_of_pass, step.done, step.total) for step in heard]
        assert told == [("a", 1, 0, 4), ("b", 1, 1, 4), ("a", 2, 2, 4), ("b", 2, 3, 4)]
        assert [step.seconds_left is None for step in heard] == [True, True, False, False]
        assert heard[3].seconds_left is not None
        assert heard[2].seconds_left > heard[3].seconds_left >= 0

    def test_passes_that_are_given_up_are_no_longer_counted(self) -> None:
        heard: list[Underway] = []
        one = bench(plan(rung("a"), rung("b"), passes=3), Takes(a=[TOO_LARGE]))
        one.heed(heard.append)
        list(one.run())
        assert [(step.done, step.total) for step in heard] == [(0, 6), (1, 4), (2, 4), (3, 4)]


class TestTheDevice:
    def test_no_run_may_begin_there_meanwhile(self) -> None:
        results = bench(plan(rung("a")), Takes()).run()
        assert queue.ahead_of("cpu") is None
        next(results)
        awaited = queue.ahead_of("cpu")
        assert awaited is not None
        assert (awaited.ahead, awaited.behind, awaited.title) == (1, BENCHMARK, "")
        waits = RunFolder(Path("/runs/waits").absolute())
        assert queue.take_turn(waits, "cpu", SELF) is not None
        assert (queue.training(), queue.waiting()) == ([], [waits])
        assert [entry.benchmark for entry in queue.benchmarks()] == ["Tiny BERT, 64 rows"]
        list(results)
        assert queue.take_turn(waits, "cpu", SELF, has_waited=True) is None

    def test_none_may_train_there(self) -> None:
        train()
        with pytest.raises(DeviceBusy, match="training") as caught:
            list(bench(plan(rung("a")), takes := Takes()).run())
        assert "hone pause digits" in str(caught.value)
        assert "--beside" in str(caught.value)
        assert takes.taken == []
        assert queue.benchmarks() == []

    def test_it_is_measured_beside_one_where_that_is_wanted(self) -> None:
        run = train()
        *_, found = bench(plan(rung("a")), Takes(), beside=True).run()
        assert found.is_whole
        assert queue.training() == [run]

    def test_a_run_on_another_gpu_is_no_hindrance(self) -> None:
        train("cuda:1")
        first = Rung(name="a", title="A", asked={"device": {"name": "cuda:0"}})
        *_, found = bench(plan(first), Takes()).run()
        assert found.is_whole
        anywhere = Rung(name="a", title="A", asked={"device": {"name": DeviceOptions().name}})
        with pytest.raises(DeviceBusy):
            list(bench(plan(anywhere), Takes()).run())

    def test_two_benchmarks_are_not_measured_at_once(self) -> None:
        first = bench(plan(rung("a")), Takes()).run()
        next(first)
        with pytest.raises(DeviceBusy, match="already"):
            list(bench(plan(rung("a")), Takes()).run())
        first.close()

    def test_it_holds_the_device_again_where_the_queues_file_was_lost(self, home: Path) -> None:
        results = bench(plan(rung("a"), rung("b")), Takes()).run()
        next(results)
        (home / "queue" / "order.json").unlink()
        next(results)
        assert len(queue.benchmarks()) == 1
        results.close()
