"""How events become series: losses, clocks, memory in bands, processors; and batches are the same as single events."""

import math
import random

import numpy as np
import pytest

from core.runs.event_log import EventReader
from core.runs.events import (
    BatterySampled,
    CheckpointSaved,
    DeviceSampled,
    DiskSampled,
    Evaluated,
    Level,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    Phase,
    PhaseChanged,
    Pressure,
    RunFinished,
    RunStarted,
    Source,
    Throttle,
    TurnAwaited,
    TurnCame,
)
from core.runs.status import RunStatus
from gui.charts.history import BatchBuilder, MarkKind, Pause, RunningMedian
from gui.charts.machine import DeviceHistory, MemoryHistory
from gui.charts.series import Series
from tests.fakes import runs
from tests.fakes.charts import EventHistory
from tests.fakes.runs import make_folder, plan, write_on_card

GB = 1 << 30


def step(number, *, at=None, **figures):
    return runs.step(number, time=float(number if at is None else at), **figures)


def history_of(*events):
    history = EventHistory()
    for event in events:
        history.apply(event)
    return history


def applied(history, *moments):
    """The history after the events of each moment, one second apart."""
    for clock, events in enumerate(moments):
        for event in events:
            history.apply(event, float(clock))
    return history


def test_series_have_a_point_where_a_value_is_known_and_a_gap_where_it_is_no_number():
    history = history_of(
        step(1, loss=2.0, grad_norm=4.0, data_seconds=0.1, compile_seconds=3.0, tokens=100),
        step(2, data_seconds=0.2, forward_seconds=0.3, tokens=100),
        step(3, non_finite="nan", grad_norm=math.inf),
        step(4, loss=1.0),
    )
    nan = math.nan
    expected = {
        "loss": ([1, 3, 4], [2.0, nan, 1.0]),
        "smooth_loss": ([1, 3, 4], [2.0, nan, 1.0]),
        "grad_norm": ([1, 3], [4.0, nan]),
        "forward_seconds": ([1, 2, 3, 4], [nan, 0.3, nan, nan]),
        "samples_per_second": ([1, 2, 3, 4], [nan, 16.0, 16.0, 16.0]),
        "tokens_per_second": ([1, 2, 3, 4], [nan, 200.0, nan, nan]),
    }
    for name, (x, y) in expected.items():
        series = getattr(history, name)
        assert series.x.tolist() == x, name
        np.testing.assert_allclose(series.y, y, rtol=1e-6)
    assert history.first_non_finite[0] == 3


def test_the_median_of_an_even_count_lies_between_the_two_in_the_middle():
    median = RunningMedian()
    assert median.update([3.88, 3.37]) == pytest.approx([3.88, 3.625])
    assert median.update([9.0, 1.0]) == pytest.approx([3.88, 3.625])
    values = [random.random() for _ in range(120)]
    assert RunningMedian().update(values)[-1] == pytest.approx(np.median(values[-51:]))


def test_smoothed_losses_follow_a_steep_loss_and_are_calmer_than_a_flat_one():
    chance = random.Random(1)
    raw = [2.5 * math.exp(-number / 40) * (1 + chance.gauss(0, 0.12)) for number in range(1, 226)]
    smooth = history_of(*(step(number, loss=loss) for number, loss in enumerate(raw, start=1))).smooth_loss.y
    assert smooth[0] == pytest.approx(raw[0])
    assert sum(smooth[:80]) / sum(raw[:80]) == pytest.approx(1, abs=0.06)
    flat = history_of(*(step(number, loss=1 + chance.gauss(0, 0.2)) for number in range(1, 1500)))
    late = [series.y[700:].std() for series in (flat.loss, flat.smooth_loss, flat.smoother_loss)]
    assert late[2] < late[1] / 1.8 < late[0] / 3


def test_a_later_attempt_takes_steps_evaluations_and_pauses_back():
    saved = CheckpointSaved(time=4.0, step=3, path="checkpoint-3", bytes=1, seconds=0.2)
    evaluated = Evaluated(time=9.0, step=8, epoch=1.0, metrics={"eval_accuracy": 0.5}, seconds=1.5)
    steps = [step(number, loss=1.0) for number in range(1, 9)]
    before = [RunStarted(time=1.0), *steps[:3], saved, *steps[3:], evaluated]
    first, second = Pause(3, 0.2, "checkpoint"), Pause(8, 1.5, "evaluation")
    assert history_of(*before).pauses == [first, second]
    history = history_of(*before, RunStarted(time=9.5, attempt=2, from_step=5), step(6, at=10.0, loss=0.5))
    assert history.loss.x.tolist() == [1, 2, 3, 4, 5, 6]
    assert (history.pauses, history.evaluations) == ([first], [])
    assert len(history.metrics["eval_accuracy"]) == 0


def attempt(number, begin, first):
    """The events of an attempt that waits 900 s for its turn, then makes two steps within 10 s."""
    memory = {"source": Source.SYSTEM, "bytes": 9, "ceiling": 20, "attempt": number}
    return [
        TurnAwaited(time=begin - 900, attempt=number, ahead=1),
        MessageRaised(time=begin - 500, attempt=number, id=f"{number}", level="info", title="It waits"),
        TurnCame(time=begin, attempt=number),
        MemorySampled(time=begin, **memory),
        RunStarted(time=begin + 1, attempt=number, from_step=first - 1),
        PhaseChanged(time=begin + 2, attempt=number, phase=Phase.TRAINING),
        step(first, at=begin + 5, attempt=number),
        MemorySampled(time=begin + 6, **memory),
        step(first + 1, at=begin + 8, attempt=number),
        RunFinished(time=begin + 9, attempt=number, state=Outcome.PAUSED),
        MemorySampled(time=begin + 10, **memory),
    ]


def test_time_is_time_worked_without_the_pauses_between_attempts():
    history = history_of(*attempt(1, 1000.0, 1), *attempt(2, 1910.0, 3))
    clock = history.step_clock
    assert clock.y.tolist() == [5, 8, 15, 18]
    assert (clock.between(2), clock.inverse(11.5), clock.inverse(1e9)) == (8.0, 2.5, 4.0)
    assert history.memory.computer.used.x.tolist() == [0, 6, 10, 10, 16, 20]
    assert [phase_clock for phase_clock, _ in history.phases] == [2, 12]
    assert history.last_clock == 20
    # What is reported while it waits is placed where work goes on.
    assert [mark.clock for mark in history.marks[MarkKind.NOTE]] == [0, 10]


@pytest.mark.parametrize("seed", [0, 1])
def test_batches_are_the_same_as_single_events(tmp_path, seed):
    run, chance = make_folder(tmp_path / "run"), random.Random(seed)
    write_on_card(run, 1000.0, 2.0)
    read = [event for file in (run.events_file, run.machine_file) for event in EventReader(file).read_all()]
    events = sorted(read, key=lambda event: event.time)
    events += [RunStarted(time=5000.0, attempt=2, from_step=50), step(51, at=5001.0, non_finite="inf")]
    events += [MemorySampled(time=5002.0, attempt=2, source=Source.SYSTEM, bytes=9, ceiling=20)]
    batched, single, builder, rest = EventHistory(), history_of(*events), BatchBuilder(), list(events)
    status, whole = RunStatus(), RunStatus()
    while rest:
        size = chance.choice((1, 7, 300))
        builder.add(rest[:size])
        whole.apply_all(rest[:size])
        rest = rest[size:]
        if chance.random() < 0.5 or not rest:
            for batch in builder.build():
                batched.add(batch)
    assert (batched.loss.last_x, builder.build()) == (51, [])
    for found, wanted in ((batched, single), (batched.memory.picture, single.memory.picture)):
        for name, series in vars(wanted).items():
            if isinstance(series, Series):
                np.testing.assert_equal(
                    (vars(found)[name].x, vars(found)[name].y), (series.x, series.y), name
                )
    assert (batched.phases, batched.marks) == (single.phases, single.marks)
    for event in events:
        status.apply(event)
    assert repr(whole) == repr(status)


def sample(source, gigabytes, *, of=None, **more):
    """A sample of memory in GB."""
    more |= {name: more[name] * GB for name in ("own", "reserved") if name in more}
    ceiling = None if of is None else of * GB
    return MemorySampled(source=source, bytes=gigabytes * GB, ceiling=ceiling, **more)


def tops(picture):
    """The newest tops of the bands in GB, from below: tensors, held, run, used."""
    series = picture.tensors, picture.held, picture.run, picture.used
    return [None if band.last is None else band.last / GB for band in series]


CUDA = plan(device="cuda:0")
PROCESS, COMPUTER = sample(Source.PROCESS, 3), sample(Source.SYSTEM, 10, of=16)
SHARED = sample(Source.TORCH, 4, reserved=6, of=11, unified=True)
OWN = sample(Source.TORCH, 7, reserved=9, of=24, unified=False)
CARD, CARD_OF_RUN = sample(Source.NVML, 14, of=23), sample(Source.NVML, 14, of=23, own=10)


@pytest.mark.parametrize(
    ("case", "events", "is_of_card", "bands", "ceiling", "limit"),
    [
        ("CPU", [PROCESS, COMPUTER], False, [None, None, 3, 10], 16, None),
        ("all", [sample(Source.PROCESS, 12), COMPUTER], False, [None, None, 12, 12], 16, None),
        ("Mac", [plan(device="mps"), SHARED, PROCESS, COMPUTER], False, [4, 6, 9, 10], 16, 11),
        ("CUDA that shares memory", [CUDA, SHARED, COMPUTER], False, [4, 6, 6, 10], 16, 11),
        ("no driver", [CUDA, OWN], True, [7, 9, 9, None], 24, None),
        ("driver without processes", [CUDA, OWN, CARD], True, [7, 9, 9, 14], 23, None),
        ("card", [CUDA, OWN, PROCESS, CARD_OF_RUN, COMPUTER], True, [7, 9, 10, 14], 23, None),
        ("not planned yet", [CARD, COMPUTER], True, [None, None, None, 14], 23, None),
        ("CPU beside a card", [CARD, COMPUTER, plan(device="cpu")], False, [None, None, None, 10], 16, None),
    ],
)
def test_memory_is_drawn_where_the_run_computes(case, events, *, is_of_card, bands, ceiling, limit):
    history = applied(MemoryHistory(), events)
    picture = history.picture
    assert (history.is_of_card, tops(picture)) == (is_of_card, bands), case
    assert (picture.ceiling, picture.limit) == (ceiling * GB, limit and limit * GB)


def test_the_last_sample_of_torch_is_valid_until_another_attempt():
    moment = [sample(Source.PROCESS, 2), sample(Source.SYSTEM, 15, of=16)]
    before = [SHARED], moment, moment
    assert tops(applied(MemoryHistory(), *before).picture) == [4, 6, 8, 15]
    later = [sample(Source.SYSTEM, 9, of=16, attempt=2)]
    picture = applied(MemoryHistory(), *before, *[[]] * 5, later).picture
    assert tops(picture) == [0, 0, 0, 9]
    assert picture.run.x.tolist() == [1, 2, 8], "nothing is made up in between"


def test_an_unknown_figure_is_no_zero():
    memory = {"source": Source.SYSTEM, "bytes": 1, "swap": None, "compressed": 5}
    for pressure, level in ((None, math.nan), (Pressure.WARN, 1), (Pressure.CRITICAL, 2)):
        history = applied(MemoryHistory(), [MemorySampled(**memory, pressure=pressure)])
        assert history.pressure.last == pytest.approx(level, nan_ok=True)
        assert (history.swap.last, history.compressed.last) == (None, 5.0)


def gpu(busy=0.9, source=Source.NVML, **figures):
    return DeviceSampled(source=source, name="GPU", busy=busy, **figures)


@pytest.mark.parametrize(
    ("device", "source", "name"),
    [
        ("cuda:0", Source.NVML, "GPU"),
        ("mps", Source.APPLE, "GPU"),
        ("cpu", Source.NVML, "CPU"),
        ("cuda:0", None, "CPU"),
    ],
)
def test_the_processor_that_trains_is_drawn(device, source, name):
    cpu = DeviceSampled(source=Source.SYSTEM, name="CPU", busy=0.5)
    samples = [cpu] if source is None else [cpu, gpu(source=source)]
    assert applied(DeviceHistory(), [plan(device=device)], samples).picture.name == name


def test_figures_of_a_processor_over_time_with_a_gap_between_attempts():
    figures = {"power": 90.0, "temperature": 60.0, "clock": 1500.0}
    others = [BatterySampled(share=0.4, is_plugged=False), DiskSampled(free=5, total=9)]
    first = gpu(**figures, power_limit=300.0, clock_limit=1900.0)
    history = applied(DeviceHistory(), [first, *others], [gpu(busy=0.2)], [], [], [gpu(attempt=2)])
    picture = history.gpu
    assert picture.busy.x.tolist() == [0.0, 1.0, 4.0, 4.0]
    np.testing.assert_equal(picture.busy.y, [0.9, 0.2, math.nan, 0.9])
    for name, value in figures.items():
        np.testing.assert_equal(getattr(picture, name).y, [value, math.nan, math.nan, math.nan])
    assert (picture.power_limit, picture.clock_limit, len(picture.thermal)) == (300.0, 1900.0, 0)
    assert (history.battery.last, history.disk_free.last) == (0.4, 5.0)


HOT, BRAKED = gpu(throttled=(Throttle.THERMAL_HARDWARE,)), gpu(throttled=(Throttle.POWER_BRAKE,))
CAPPED = gpu(throttled=(Throttle.POWER_CAP,), clock=2500.0, clock_limit=2800.0)
HOT_MAC = gpu(source=Source.APPLE, thermal=2)
HEAT, BRAKE = Throttle.THERMAL_HARDWARE, Throttle.POWER_BRAKE


@pytest.mark.parametrize(
    ("samples", "throttled"),
    [
        ([gpu(), HOT, HOT, BRAKED, gpu(), gpu(), HOT], [(1, 3, HEAT), (3, 4, BRAKE), (6, 6, HEAT)]),
        ([CAPPED, CAPPED], []),
        ([HOT_MAC, HOT_MAC], [(0, 1, Throttle.PRESSURE)]),
        ([BRAKED, gpu(attempt=2)], [(0, 0, BRAKE)]),
    ],
)
def test_throttling_lasts_until_a_sample_without_it(samples, throttled):
    history = applied(DeviceHistory(), *([one] for one in samples))
    assert history.gpu.throttled == [(begin, end, (reason,)) for begin, end, reason in throttled]


def test_a_message_is_marked_once_where_it_was_raised_first_until_another_follows_it():
    def raised(time, title="Hot", level=Level.WARNING):
        return MessageRaised(time=time, attempt=1, id="hot", level=level, title=title)

    history = history_of(RunStarted(time=0.0, attempt=1, pid=1), step(1, at=1), raised(2.0), step(2, at=3))
    history.apply(raised(3.0, level=Level.ERROR))
    assert not history.marks[MarkKind.WARNING]
    for event in (MessageWithdrawn(time=4.0, attempt=1, id="hot"), raised(5.0)):
        history.apply(event)
    [mark] = history.marks[MarkKind.WARNING]
    assert (mark.clock, mark.is_over) == (2.0, False)
    for event in (MessageWithdrawn(time=6.0, attempt=1, id="hot"), raised(7.0, "Too hot")):
        history.apply(event)
    assert [(mark.title, mark.is_over) for mark in history.marks[MarkKind.WARNING]] == [
        ("Hot", True),
        ("Too hot", False),
    ]
