"""What else the machine does beside a pass: the figures of the timed steps, None if unknown, never a zero."""

import subprocess
import sys

import psutil
import pytest

from core.base.system import ProcessorTimes
from core.benchmark import conditions
from core.benchmark.conditions import Load, LoadGauge, Watch, other_load
from core.benchmark.result import Conditions
from core.runs.events import BatterySampled, DeviceSampled, MemorySampled, Source, Throttle

CORES = psutil.cpu_count() or 1
BEGIN, END = 100.0, 110.0
HOT = (Throttle.THERMAL_HARDWARE.value,)


def load(seconds, *, others, own):
    """After so many seconds in which others and Hone itself have taken a share of all cores each."""
    total = seconds * CORES
    return Load(total, (others + own) * total, own * total)


START = Load(0.0, 0.0, 0.0)


class Seen:
    """A machine of which these events are read, at once."""

    def __init__(self, *events):
        self._events = list(events)

    def sample(self):
        found, self._events = self._events, []
        return found

    def finish(self, seconds=None):
        pass


def watched(device, *events, loads=(None, None, None), is_timed=True):
    """Conditions of steps timed from `BEGIN` to `END`; `loads` are read at the start of the job and at these two."""
    times, loads = iter((BEGIN, END)), iter(loads)
    watch = Watch(
        device,
        sampler=lambda _pid: Seen(*events),
        gauge=lambda _pid: lambda: next(loads),
        clock=lambda: next(times),
        interval=60.0,
    )
    watch._run = lambda sampler: watch._events.extend(sampler.sample())  # reads no load by itself
    watch.follow(1)
    if is_timed:
        watch.mark()
        watch.mark()
    return watch.stop()


def gpu(time, watts=300.0, throttled=()):
    return DeviceSampled(time=time, source=Source.NVML, power=watts, busy=1.0, throttled=throttled)


def held(time, all_of_it, own):
    return MemorySampled(time=time, source=Source.NVML, bytes=all_of_it, own=own)


@pytest.mark.parametrize(
    ("last", "share"),
    [
        (load(10.0, others=0.25, own=0.5), 0.25),
        (load(0.1, others=0.9, own=0.0), None),  # too short
        (Load(10.0 * CORES, 1.0, 2.0), 0.0),
        (Load(10.0 * CORES, 99.0 * CORES, 0.0), 1.0),
    ],
)
def test_the_load_of_others_is_a_share_without_hones_own(last, share):
    assert other_load(START, last, CORES) == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    ("loads", "share"),
    [
        ((None, None, None), None),
        (
            (START, load(8.0, others=0.5, own=0.5), load(8.1, others=0.5, own=0.5)),
            0.5,
        ),  # too short: the whole job's
        ((START, load(8.0, others=0.75, own=0.25), load(10.0, others=0.625, own=0.375)), 0.125),
    ],
)
def test_the_load_is_that_of_the_timed_steps(loads, share):
    assert watched("cpu", loads=loads).other_load == (None if share is None else pytest.approx(share))


def test_the_job_and_this_process_are_hones_own(monkeypatch):
    monkeypatch.setattr(conditions, "processor_times", lambda: ProcessorTimes(busy=1.0, total=2.0))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as job:
        gauge = LoadGauge(job.pid)
        found = gauge()
        this = psutil.Process().cpu_times()
        assert found.own == pytest.approx(sum(this[:4]), abs=2)
        assert (found.busy, found.total) == (1.0, 2.0)
        job.kill()
    assert gauge() is None


@pytest.mark.parametrize(
    ("device", "events", "watts"),
    [
        ("cuda:0", [gpu(BEGIN - 1, 50.0), gpu(BEGIN + 1), gpu(END, 500.0), gpu(END + 5, 60.0)], 400.0),
        (
            "cuda:0",
            [gpu(BEGIN + 0.01, 50.0), gpu(END, 500.0)],
            500.0,
        ),  # the first is a mean of the time before
        ("cuda:0", [gpu(BEGIN + 0.01, 50.0)], None),
        ("cuda:0", [gpu(BEGIN, None)], None),
        ("cpu", [gpu(BEGIN, 300.0)], None),  # of a GPU that computes something else
    ],
)
def test_power_is_the_mean_of_the_device_while_steps_were_timed(device, events, watts):
    found = watched(device, *events)
    assert (found.watts, found.power_source) == (watts, "NVML" if watts else "")


@pytest.mark.parametrize(
    ("device", "events", "throttled"),
    [
        ("cuda:0", [gpu(BEGIN, throttled=HOT), gpu(END, throttled=HOT)], HOT),
        ("cuda:0", [gpu(BEGIN - 9, throttled=HOT)], ()),
        ("cpu", [DeviceSampled(time=BEGIN, source=Source.APPLE, thermal=2)], (Throttle.PRESSURE.value,)),
    ],
)
def test_reasons_for_a_reduced_clock_are_told_once(device, events, throttled):
    found = watched(device, *events)
    assert found.throttled == throttled
    assert found.is_disturbed is bool(throttled)


@pytest.mark.parametrize(
    ("events", "others"),
    [
        ([held(BEGIN, 10 << 30, 8 << 30), held(END, 11 << 30, 8 << 30)], 3 << 30),
        ([held(BEGIN - 9, 1 << 30, None), held(END, 11 << 30, None)], 1 << 30),  # before the job
        ([], None),
    ],
)
def test_what_others_hold_of_the_gpu_is_without_the_jobs_own(events, others):
    assert watched("cuda:0", *events).gpu_others == others


@pytest.mark.parametrize(("plugged", "on_battery"), [(True, False), (False, True), (None, None)])
def test_a_battery_is_known_to_be_used_or_not(plugged, on_battery):
    found = watched("cuda:0", gpu(BEGIN), BatterySampled(share=0.5, is_plugged=plugged), is_timed=False)
    assert found == Conditions(on_battery=on_battery)
