"""How events become series: losses, clocks, memory in bands, processors; and that batches come to the same."""

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
    MemorySampled,
    Pressure,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    Throttle,
)
from core.runs.status import RunStatus
from gui.charts.history import BatchBuilder, DeviceHistory, MemoryHistory, Pause, RunHistory, RunningMedian
from gui.charts.series import Series
from tests.fakes.runs import make_folder, write_on_card

GB = 1 << 30


def step(number, *, at=None, seconds=0.5, **figures):
    """A step with 8 samples, a tenth of an epoch."""
    return StepFinished(
        time=float(number if at is None else at),
        step=number,
        epoch=number / 10,
        seconds=seconds,
        learning_rate=1e-3,
        samples=8,
        **figures,
    )


def history_of(*events):
    history = RunHistory()
    for event in events:
        history.apply(event)
    return history


def planned(device):
    return RunPlanned(
        total_steps=3, epochs=1, train_samples=3, eval_samples=0, effective_batch=1, device=device
    )


def applied(history, *moments):
    """A history given the events of each moment, a second after the other."""
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


def test_smoothed_losses_run_through_the_middle_and_are_calmer():
    chance = random.Random(1)
    raw = [2.5 * math.exp(-number / 40) * (1 + chance.gauss(0, 0.12)) for number in range(1, 226)]
    smooth = history_of(*(step(number, loss=loss) for number, loss in enumerate(raw, start=1))).smooth_loss.y
    assert smooth[0] == pytest.approx(raw[0])
    assert sum(smooth[:80]) / sum(raw[:80]) == pytest.approx(1, abs=0.06)
    flat = history_of(*(step(number, loss=1 + chance.gauss(0, 0.2)) for number in range(1, 1500)))
    late = [series.y[700:].std() for series in (flat.loss, flat.smooth_loss, flat.smoother_loss)]
    assert late[2] < late[1] / 1.8 < late[0] / 3


def test_the_median_forgets_old_steps():
    median = RunningMedian()
    for value, count in ((100.0, 1), (1.0, 60), (2.0, 60)):
        assert median.update([value] * count)[-1] == value


def test_a_later_attempt_takes_steps_evaluations_and_pauses_back():
    saved = CheckpointSaved(time=4.0, step=3, path="checkpoint-3", bytes=1, seconds=0.2)
    found = Evaluated(time=9.0, step=8, epoch=1.0, metrics={"eval_accuracy": 0.5}, seconds=1.5)
    steps = [step(number, loss=1.0) for number in range(1, 9)]
    before = [RunStarted(time=1.0), *steps[:3], saved, *steps[3:], found]
    kept, taken_back = Pause(3, 3.0, 0.2, "checkpoint"), Pause(8, 8.0, 1.5, "evaluation")
    assert history_of(*before).pauses == [kept, taken_back]
    history = history_of(*before, RunStarted(time=9.5, attempt=2, from_step=5), step(6, at=10.0, loss=0.5))
    assert history.loss.x.tolist() == [1, 2, 3, 4, 5, 6]
    assert (history.pauses, history.evaluations) == ([kept], [])
    assert len(history.metrics["eval_accuracy"]) == 0


def test_steps_epochs_and_seconds_turn_into_each_other():
    history = history_of(
        RunStarted(time=100.0), *(step(number, at=100.0 + 2 * number) for number in range(1, 11))
    )
    clock = history.step_clock
    assert (clock.between(5), clock.inverse(11.0), clock.inverse(1e9)) == (10.0, 5.5, 10.0)
    assert history.step_epoch.between(5) == pytest.approx(0.5)


def known(thing):
    """All that a history holds, by name, parts of it included."""
    found = {}
    for name, value in vars(thing).items():
        if isinstance(value, Series):
            found[name] = np.stack((value.x, value.y))
        elif isinstance(value, dict):
            found[name] = {key: one.y for key, one in value.items() if isinstance(one, Series)}
        elif type(value).__module__.startswith("gui.charts") and name != "_builder":
            found[name] = known(value)
        elif not name.startswith("_"):
            found[name] = value
    return found


@pytest.mark.parametrize("seed", range(3))
def test_batches_come_to_the_same_as_single_events(tmp_path, seed):
    run, chance = make_folder(tmp_path / "run"), random.Random(seed)
    write_on_card(run, 1000.0, 2.0)
    found = [event for file in (run.events_file, run.machine_file) for event in EventReader(file).read_all()]
    events = sorted(found, key=lambda event: event.time)
    again = [RunStarted(time=5000.0, attempt=2, from_step=50), step(51, at=5001.0, non_finite="inf")]
    events += [*again, MemorySampled(time=5002.0, attempt=2, source=Source.SYSTEM, bytes=9, ceiling=20)]
    one_by_one, batched, maker, first = history_of(*events), RunHistory(), BatchBuilder(), 0
    status, whole = RunStatus(), RunStatus()
    while first < len(events):
        last = first + chance.choice((1, 7, 300))
        maker.add(events[first:last])
        whole.apply_all(events[first:last])
        if chance.random() < 0.5 or last >= len(events):
            for batch in maker.build():
                batched.add(batch)
        first = last
    np.testing.assert_equal(known(batched), known(one_by_one))
    assert batched.loss.last_x == 51
    assert len(batched.devices.picture.busy) > 10
    assert maker.build() == []
    for event in events:
        status.apply(event)
    assert repr(whole) == repr(status)


def sample(source, gigabytes, **figures):
    scaled = {
        name: value * GB if isinstance(value, int) and value > 1 else value for name, value in figures.items()
    }
    return MemorySampled(source=source, bytes=gigabytes * GB, **scaled)


def torch(live, held, *, of, unified):
    return sample(Source.TORCH, live, reserved=held, ceiling=of, unified=unified)


def tops(picture):
    """The newest tops of the bands in GB, from below: tensors, held, run, used."""
    series = picture.tensors, picture.held, picture.run, picture.used
    return [None if one.last is None else one.last / GB for one in series]


CUDA = planned("cuda:0")
PROCESS, COMPUTER = sample(Source.PROCESS, 3), sample(Source.SYSTEM, 10, ceiling=16)
SHARED, OWN = torch(4, 6, of=11, unified=True), torch(7, 9, of=24, unified=False)
CARD = sample(Source.NVML, 14, ceiling=23)


@pytest.mark.parametrize(
    ("events", "is_of_card", "bands", "ceiling", "limit"),
    [
        pytest.param([PROCESS, COMPUTER], False, [None, None, 3, 10], 16, None, id="CPU"),
        pytest.param([sample(Source.PROCESS, 12), COMPUTER], False, [None, None, 12, 12], 16, None, id="all"),
        pytest.param([planned("mps"), SHARED, PROCESS, COMPUTER], False, [4, 6, 9, 10], 16, 11, id="Mac"),
        pytest.param([CUDA, SHARED, COMPUTER], False, [4, 6, 6, 10], 16, 11, id="CUDA that shares memory"),
        pytest.param([CUDA, OWN], True, [7, 9, 9, None], 24, None, id="no driver"),
        pytest.param([CUDA, OWN, CARD], True, [7, 9, 9, 14], 23, None, id="driver without processes"),
        pytest.param(
            [CUDA, OWN, PROCESS, sample(Source.NVML, 14, ceiling=23, own=10), COMPUTER],
            True,
            [7, 9, 10, 14],
            23,
            None,
            id="card",
        ),
        pytest.param([CARD, COMPUTER], True, [None, None, None, 14], 23, None, id="not planned yet"),
        pytest.param(
            [CARD, COMPUTER, planned("cpu")], False, [None, None, None, 10], 16, None, id="CPU beside a card"
        ),
    ],
)
def test_memory_is_drawn_where_the_run_computes(events, is_of_card, bands, ceiling, limit):
    history = applied(MemoryHistory(), events)
    picture = history.picture
    assert (history.is_of_card, tops(picture)) == (is_of_card, bands)
    assert (picture.ceiling, picture.limit) == (ceiling * GB, None if limit is None else limit * GB)


def test_what_torch_reported_last_stands_until_another_attempt():
    later = [MemorySampled(source=Source.SYSTEM, bytes=9 * GB, ceiling=16 * GB, attempt=2)]
    moment = [sample(Source.PROCESS, 2), sample(Source.SYSTEM, 15, ceiling=16)]
    before = applied(MemoryHistory(), [SHARED], moment, moment)
    assert tops(before.picture) == [4, 6, 8, 15]
    picture = applied(MemoryHistory(), [SHARED], moment, moment, *[[]] * 5, later).picture
    assert tops(picture) == [0, 0, 0, 9]
    assert picture.run.x.tolist() == [1, 2, 8], "nothing is made up in between"


@pytest.mark.parametrize(
    ("pressure", "level"), [(None, math.nan), (Pressure.WARN, 1), (Pressure.CRITICAL, 2)]
)
def test_pressure_is_a_level_and_what_is_not_known_is_no_zero(pressure, level):
    event = MemorySampled(source=Source.SYSTEM, bytes=1, swap=None, compressed=5, pressure=pressure)
    history = applied(MemoryHistory(), [event])
    assert history.pressure.last == pytest.approx(level, nan_ok=True)
    assert (history.swap.last, history.compressed.last) == (None, 5.0)


def cpu(busy=0.5):
    return DeviceSampled(source=Source.SYSTEM, name="CPU", busy=busy)


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
def test_the_processor_that_trains_is_shown(device, source, name):
    samples = [cpu()] if source is None else [cpu(), gpu(source=source)]
    assert applied(DeviceHistory(), [planned(device)], samples).picture.name == name


def test_all_figures_of_a_processor_are_kept_over_time():
    figures = {
        "power": 90.0,
        "temperature": 60.0,
        "clock": 1500.0,
        "power_limit": 300.0,
        "clock_limit": 1900.0,
    }
    others = [BatterySampled(share=0.4, is_plugged=False), DiskSampled(free=5, total=9)]
    history = applied(DeviceHistory(), [gpu(**figures), *others], [gpu(busy=0.2)])
    picture = history.gpu
    assert picture.busy.y.tolist() == [0.9, 0.2]
    for name in ("power", "temperature", "clock"):
        np.testing.assert_equal(getattr(picture, name).y, [figures[name], math.nan])
    assert (picture.power_limit, picture.clock_limit, len(picture.thermal)) == (300.0, 1900.0, 0)
    assert (history.battery.last, history.disk_free.last) == (0.4, 5.0)


HOT, BRAKED = gpu(throttled=(Throttle.THERMAL_HARDWARE,)), gpu(throttled=(Throttle.POWER_BRAKE,))
CAPPED = gpu(throttled=(Throttle.POWER_CAP,), clock=2500.0, clock_limit=2800.0)
HOT_MAC = gpu(source=Source.APPLE, thermal=2)


@pytest.mark.parametrize(
    ("samples", "throttled"),
    [
        (
            [gpu(), HOT, HOT, BRAKED, gpu(), gpu(), HOT],
            [
                (1.0, 3.0, Throttle.THERMAL_HARDWARE),
                (3.0, 4.0, Throttle.POWER_BRAKE),
                (6.0, 6.0, Throttle.THERMAL_HARDWARE),
            ],
        ),
        ([CAPPED, CAPPED], []),
        ([HOT_MAC, HOT_MAC], [(0.0, 1.0, Throttle.PRESSURE)]),
        ([BRAKED, gpu(attempt=2)], [(0.0, 0.0, Throttle.POWER_BRAKE)]),
    ],
)
def test_throttling_stands_until_a_sample_says_otherwise(samples, throttled):
    history = applied(DeviceHistory(), *([one] for one in samples))
    assert history.gpu.throttled == [(begun, ended, (reason,)) for begun, ended, reason in throttled]


def test_nobody_sampled_between_two_attempts():
    busy = applied(DeviceHistory(), [gpu()], [], [], [], [gpu(attempt=2)]).gpu.busy
    assert busy.x.tolist() == [0.0, 4.0, 4.0]
    assert math.isnan(busy.y[1])
