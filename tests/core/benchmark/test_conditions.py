"""What else the machine did during the timed steps of a pass: None if unknown, never a zero."""

import subprocess
import sys

import psutil
import pytest

from core.base.system import ProcessorTimes
from core.benchmark import runner
from core.benchmark.result import Conditions
from core.benchmark.runner import Load, LoadReader, Watch
from core.runs.events import BatterySampled, DeviceSampled, MemorySampled, Source, Throttle

CORES = psutil.cpu_count() or 1
BEGIN, END = 100.0, 110.0
HOT = (Throttle.THERMAL_HARDWARE.value,)
GIB = 1 << 30


def load(seconds, others, own):
    """After `seconds` in which other programs and Hone used these fractions of all cores."""
    total = seconds * CORES
    return Load(total, (others + own) * total, own * total)


START = Load(0.0, 0.0, 0.0)


class OneSample:
    def __init__(self, events):
        self._events = list(events)

    def sample(self):
        events, self._events = self._events, []
        return events

    def finish(self, seconds=None):
        pass


def watched(device, *events, loads=(None, None, None), is_timed=True):
    """Conditions of steps timed from `BEGIN` to `END`; `loads` are read at the start of the job and at these two."""
    times, loads = iter((BEGIN, END)), iter(loads)
    watch = Watch(
        device,
        sampler=lambda _pid: OneSample(events),
        load=lambda _pid: lambda: next(loads),
        clock=lambda: next(times),
        interval=60.0,
    )
    watch._run = lambda sampler: watch._events.extend(sampler.sample())  # reads no load by itself
    watch.follow(1)
    if is_timed:
        watch.mark()
        watch.mark()
    return watch.stop()


def gpu(time, throttled=()):
    return DeviceSampled(time=time, source=Source.NVML, busy=1.0, throttled=throttled)


def held(time, total, own):
    return MemorySampled(time=time, source=Source.NVML, bytes=total * GIB, own=own and own * GIB)


@pytest.mark.parametrize(
    ("loads", "share"),
    [
        ((None, None, None), None),
        ((START, load(8.0, 0.75, 0.25), load(10.0, 0.625, 0.375)), 0.125),  # of the timed steps
        ((START, load(8.0, 0.5, 0.5), load(8.1, 0.5, 0.5)), 0.5),  # too short: of the whole job
        ((START, START, load(0.1, 0.9, 0.0)), None),
        ((START, START, Load(10.0 * CORES, 1.0, 2.0)), 0.0),
        ((START, START, Load(10.0 * CORES, 99.0 * CORES, 0.0)), 1.0),
    ],
)
def test_the_load_of_other_programs_is_a_fraction_of_all_cores(loads, share):
    assert watched("cpu", loads=loads).other_load == (None if share is None else pytest.approx(share))


def test_the_job_and_this_process_are_hones_own(monkeypatch):
    monkeypatch.setattr(runner, "processor_times", lambda: ProcessorTimes(busy=1.0, total=2.0))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as job:
        read = LoadReader(job.pid)
        reading = read()
        assert reading.own == pytest.approx(sum(psutil.Process().cpu_times()[:4]), abs=2)
        assert (reading.busy, reading.total) == (1.0, 2.0)
        job.kill()
    assert read() is None


@pytest.mark.parametrize(
    ("device", "events", "throttled"),
    [
        ("cuda:0", [gpu(BEGIN, throttled=HOT), gpu(END, throttled=HOT)], HOT),
        ("cuda:0", [gpu(BEGIN - 9, throttled=HOT)], ()),
        ("cpu", [DeviceSampled(time=BEGIN, source=Source.APPLE, thermal=2)], (Throttle.PRESSURE.value,)),
    ],
)
def test_each_reason_for_a_reduced_clock_is_given_once(device, events, throttled):
    result = watched(device, *events)
    assert (result.throttled, result.is_disturbed) == (throttled, bool(throttled))


@pytest.mark.parametrize(
    ("events", "others"),
    [
        ([held(BEGIN, 10, 8), held(END, 11, 8)], 3 * GIB),
        ([held(BEGIN - 9, 1, None), held(END, 11, None)], GIB),  # before the job used any
        ([], None),
    ],
)
def test_gpu_memory_of_other_programs_is_without_the_jobs_own(events, others):
    assert watched("cuda:0", *events).gpu_others == others


@pytest.mark.parametrize(("plugged", "on_battery"), [(True, False), (False, True), (None, None)])
def test_whether_a_battery_is_used(plugged, on_battery):
    result = watched("cuda:0", gpu(BEGIN), BatterySampled(share=0.5, is_plugged=plugged), is_timed=False)
    assert result == Conditions(on_battery=on_battery)
