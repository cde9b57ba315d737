"""What the runs of a benchmark have measured, read from their events."""

import pytest

from core.benchmark.figures import Spread, read_figures, read_result
from core.benchmark.plan import BenchmarkRow
from core.runs.events import (
    BatterySampled,
    DeviceSampled,
    Level,
    MemorySampled,
    MessageRaised,
    Outcome,
    RunFinished,
    RunStarted,
    Source,
    Throttle,
)
from core.runs.status import State
from tests.fakes.bench import BEGUN, GB, LADDER, make_benchmark
from tests.fakes.runs import crash, make_folder, plan, step, write_events

ROW = BenchmarkRow(name="plain", title="plain")


@pytest.fixture
def run(tmp_path):
    return make_folder(tmp_path / "run")


def begin(run, *events, attempt=1):
    opening = RunStarted(time=100, versions={"torch": "2.13"}), plan(time=101, train_samples=64)
    write_events(run.events_file, *opening, *events, attempt=attempt)


def steps(*seconds, **changes):
    return [step(place, time=102 + place, seconds=one, **changes) for place, one in enumerate(seconds, 1)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([3.0], Spread(3.0, 3.0, 3.0)),
        ([1.0, 2.0, 9.0], Spread(2.0, 1.0, 9.0)),
        ([5.0, 1.0, 3.0, 2.0, 4.0], Spread(3.0, 2.0, 4.0)),
    ],
)
def test_a_spread_has_quartiles_or_the_ends_of_few_values(values, expected):
    assert Spread.of(values) == expected


def test_steps_after_the_warm_up_with_a_full_batch_are_timed(run):
    compiled = step(1, time=103, seconds=9.0, compile_seconds=30.0, loss=2.5)
    short = step(5, time=107, seconds=0.1, samples=3)
    begin(run, compiled, *steps(0.0, 0.4, 0.5, 0.6)[1:], short)
    found = read_figures(ROW, run, warm_up=1)
    assert found.seconds == (0.4, 0.5, 0.6)
    assert (found.samples, found.rows, found.compile_seconds, found.first_loss) == (8, 64, 30.0, 2.5)
    assert found.samples_per_second == Spread(16.0, pytest.approx(8 / 0.6), 20.0)
    assert found.epoch_seconds == pytest.approx(0.5 * 64 / 8)
    assert found.versions == {"torch": "2.13"}


def test_each_attempt_begins_with_a_warm_up(run):
    begin(run, *steps(9.0, 0.4, 0.5))
    again = [step(place, time=210 + place, seconds=one) for place, one in ((4, 9.0), (5, 0.6))]
    write_events(run.events_file, RunStarted(time=200, from_step=3), *again, attempt=2)
    assert read_figures(ROW, run, warm_up=1).seconds == (0.4, 0.5, 0.6)


def test_conditions_during_the_timed_steps_are_remarks(run):
    begin(run, *steps(9.0, 0.5, 0.5), RunFinished(time=110, state=Outcome.FINISHED, steps=3, peak_bytes=70))
    write_events(
        run.machine_file,
        DeviceSampled(time=103, source=Source.NVML, throttled=(Throttle.HARDWARE,)),  # in the warm-up
        DeviceSampled(time=104.5, source=Source.NVML, throttled=(Throttle.THERMAL_HARDWARE,)),
        MemorySampled(time=104.5, source=Source.NVML, bytes=9 * GB, own=6 * GB),
        BatterySampled(time=104.5, share=0.8, is_plugged=False),
        MessageRaised(time=105, id="slowed", level=Level.WARNING, title="Others use 40 % of the CPU"),
    )
    found = read_figures(ROW, run, warm_up=1)
    assert found.is_disturbed
    assert found.remarks == (
        "Others use 40 % of the CPU",
        "slowed down: thermal slowdown (hardware)",
        "others held 3.00 GB of the GPU",
        "on battery",
    )
    assert (found.peak, found.state, found.problem) == (70, State.FINISHED, "")


def test_a_run_that_failed_says_why_and_keeps_its_figures(run, tmp_path):
    begin(run, *steps(9.0, 0.5))
    error = MessageRaised(time=105, id="memory", level=Level.ERROR, title="Memory ran out", detail="A batch.")
    write_events(run.events_file, error, RunFinished(time=106, state=Outcome.FAILED))
    found = read_figures(ROW, run, warm_up=1)
    assert (found.problem, found.seconds) == ("Memory ran out. A batch.", (0.5,))
    killed = make_folder(tmp_path / "killed")
    begin(killed)
    crash(killed, 105.0)
    assert "ended" in read_figures(ROW, killed, warm_up=1).problem


def test_a_result_has_all_rows_and_is_over_once_no_run_goes_on(tmp_path):
    assert read_result(make_benchmark(tmp_path / "whole")).is_over
    measured = make_benchmark(tmp_path / "begun", done=3)
    found = read_result(measured)
    assert [one.row for one in found.rows] == [one.row for one in LADDER]
    assert [one.row.name for one in found.measured] == ["plain", "accumulation", "checkpointing"]
    plain, accumulation = found.rows[:2]
    assert accumulation.speed_against(plain) == pytest.approx(1.29 / 1.43)
    assert accumulation.memory_against(plain) == pytest.approx(8.5 / 14.6, rel=1e-3)
    assert plain.is_faster(accumulation)
    assert not accumulation.is_faster(plain)
    assert (plain.begun, plain.peak) == (BEGUN, int(14.6 * GB))
    refused = next(one for one in found.rows if one.row.refusal)
    assert (refused.state, refused.run) == (None, None)
    assert not found.is_over
