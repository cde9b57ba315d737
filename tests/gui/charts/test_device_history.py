"""How samples of processors become series, a second apart."""

import math

import pytest

from core.runs.events import BatterySampled, DeviceSampled, DiskSampled, RunPlanned, Source, Throttle
from gui.charts.history import DeviceHistory


def cpu(busy=0.5, **figures):
    return DeviceSampled(source=Source.SYSTEM, name="CPU", busy=busy, **figures)


def gpu(busy=0.9, source=Source.NVML, **figures):
    return DeviceSampled(source=source, name="GPU", busy=busy, **figures)


def planned(device):
    return RunPlanned(
        total_steps=3, epochs=1, train_samples=3, eval_samples=0, effective_batch=1, device=device
    )


def told(*moments):
    """A history that was told the events of each moment, a second after the other."""
    history = DeviceHistory()
    for clock, events in enumerate(moments):
        for event in events:
            history.apply(event, float(clock))
    return history


@pytest.mark.parametrize(
    ("device", "source", "name"),
    [
        ("cuda:0", Source.NVML, "GPU"),
        ("mps", Source.APPLE, "GPU"),
        ("cpu", Source.NVML, "CPU"),
        ("cuda:0", None, "CPU"),
    ],
)
def test_the_processor_that_trains_is_looked_at(device, source, name):
    samples = [cpu()] if source is None else [cpu(), gpu(source=source)]
    assert told([planned(device)], samples).picture.name == name


def test_all_figures_are_kept_over_time():
    history = told(
        [gpu(power=90.0, power_limit=300.0, temperature=60.0, clock=1500.0, clock_limit=1900.0, thermal=1)],
        [gpu(busy=0.2)],
    )
    picture = history.gpu
    assert picture.busy.y.tolist() == [0.9, 0.2]
    figures = (picture.power, picture.temperature, picture.clock, picture.thermal)
    assert [series.y[0] for series in figures] == [90.0, 60.0, 1500.0, 1.0]
    assert all(math.isnan(series.y[1]) for series in figures), "what is not known is no zero"
    assert (picture.power_limit, picture.clock_limit) == (300.0, 1900.0)


def test_what_nobody_ever_tells_has_no_series():
    picture = told([cpu()], [cpu()]).cpu
    assert (len(picture), len(picture.busy), len(picture.power)) == (2, 2, 0)


def test_throttling_stands_until_a_sample_says_otherwise():
    hot, braked, free = (
        gpu(throttled=(Throttle.THERMAL_HARDWARE,)),
        gpu(throttled=(Throttle.POWER_BRAKE,)),
        gpu(throttled=()),
    )
    history = told([free], [hot], [hot], [braked], [free], [free], [hot])
    assert history.gpu.throttled == [
        (1.0, 3.0, ("thermal slowdown (hardware)",)),
        (3.0, 4.0, ("power brake",)),
        (6.0, 6.0, ("thermal slowdown (hardware)",)),
    ]


def test_a_gpu_at_its_cap_of_power_is_not_held_back_and_a_hot_mac_is():
    capped = gpu(throttled=(Throttle.POWER_CAP,), clock=2500.0, clock_limit=2800.0)
    assert told([capped], [capped]).gpu.throttled == []
    hot = gpu(source=Source.APPLE, thermal=2)
    assert told([hot], [hot]).gpu.throttled == [(0.0, 1.0, ("thermal pressure",))]


def test_nobody_sampled_between_two_attempts():
    history = told([gpu(throttled=(Throttle.POWER_BRAKE,))], [], [], [], [gpu(attempt=2)])
    assert history.gpu.busy.x.tolist() == [0.0, 4.0, 4.0]
    assert math.isnan(history.gpu.busy.y[1])
    assert history.gpu.throttled == [(0.0, 0.0, ("power brake",))]


def test_battery_and_disk_are_kept_too():
    history = told([BatterySampled(share=0.4, is_plugged=False), DiskSampled(free=5, total=9)])
    assert (history.battery.last, history.disk_free.last) == (0.4, 5.0)
