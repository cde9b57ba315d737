"""What is told of the machine beside a pass: the timed steps' figures, unknown where nobody tells, never a zero."""

import subprocess
import sys

import psutil
import pytest

from core.base.system import ProcessorTimes
from core.benchmark.conditions import Busy, BusyGauge, Lookout, other_load
from core.benchmark.result import Surroundings
from core.monitor.apple import Throttle
from core.runs.events import BatterySampled, DeviceSampled, Event, MemorySampled, Source

CORES = psutil.cpu_count() or 1
BEGIN, END = 100.0, 110.0


def busy(seconds: float, *, others: float, own: float) -> Busy:
    """After so many seconds in which others and Hone itself have taken a share of all cores each."""
    total = seconds * CORES
    return Busy(ProcessorTimes(busy=(others + own) * total, total=total), own * total)


START = Busy(ProcessorTimes(0.0, 0.0), 0.0)


class Seen:
    """A machine of which these events are read, at once."""

    def __init__(self, *events: Event) -> None:
        self._events = list(events)

    def sample(self) -> list[Event]:
        found, self._events = self._events, []
        return found

    def finish(self, seconds: float | None = None) -> None:
        pass


class Load:
    """Tells what the processor's times are `now`."""

    now: Busy | None = None

    def read(self) -> Busy | None:
        return self.now


def looked(
    device: str, *events: Event, loads: tuple[Busy | None, ...] = (None,) * 3, is_timed: bool = True
) -> Surroundings:
    """What is told where these events are read, steps are timed from `BEGIN` to `END`, and the processor's times are
    `loads` at the start of the job and at these two."""
    times, load = iter((BEGIN, END)), Load()
    lookout = Lookout(
        device,
        sampler=lambda _pid: Seen(*events),
        gauge=lambda _pid: load,
        clock=lambda: next(times),
        interval=60.0,
    )
    load.now = loads[0]
    lookout.follow(1)
    if is_timed:
        load.now = loads[1]
        lookout.begin_timed()
        load.now = loads[2]
        lookout.end_timed()
    return lookout.stop()


def gpu(time: float, watts: float | None = 300.0, throttled: tuple[str, ...] = ()) -> DeviceSampled:
    return DeviceSampled(time=time, source=Source.NVML, power=watts, busy=1.0, throttled=throttled)


class TestLoadOfOthers:
    def test_hones_own_work_is_not_theirs(self) -> None:
        assert other_load(START, busy(10.0, others=0.25, own=0.5), CORES) == pytest.approx(0.25)

    def test_a_span_too_short_tells_nothing(self) -> None:
        assert other_load(START, busy(0.1, others=0.9, own=0.0), CORES) is None

    def test_it_is_a_share_however_the_counting_went(self) -> None:
        assert other_load(START, Busy(ProcessorTimes(1.0, 10.0 * CORES), 2.0), CORES) == 0.0
        assert other_load(START, Busy(ProcessorTimes(99.0 * CORES, 10.0 * CORES), 0.0), CORES) == 1.0

    def test_it_is_unknown_where_the_processor_is_not_told_of(self) -> None:
        assert looked("cpu").other_load is None

    def test_where_the_timed_steps_were_too_short_it_is_that_of_the_job(self) -> None:
        begun, ended = busy(8.0, others=0.5, own=0.5), busy(8.1, others=0.5, own=0.5)
        assert looked("cpu", loads=(START, begun, ended)).other_load == pytest.approx(0.5)

    def test_where_they_were_long_enough_it_is_theirs(self) -> None:
        begun, ended = busy(8.0, others=0.75, own=0.25), busy(10.0, others=0.625, own=0.375)
        assert looked("cpu", loads=(START, begun, ended)).other_load == pytest.approx(0.125)


class TestGauge:
    def test_the_job_and_this_process_are_hones_own(self) -> None:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as job:
            gauge = BusyGauge(job.pid, times=lambda: ProcessorTimes(1.0, 2.0))
            found = gauge.read()
            assert found is not None
            this = psutil.Process().cpu_times()
            assert found.own == pytest.approx(
                this.user + this.system + this.children_user + this.children_system, abs=2
            )
            assert found.all == ProcessorTimes(1.0, 2.0)
            job.kill()
        assert gauge.read() is None


def test_watts_are_the_mean_while_steps_were_timed() -> None:
    found = looked("cuda:0", gpu(BEGIN - 1, 50.0), gpu(BEGIN + 1, 300.0), gpu(END, 500.0), gpu(END + 5, 60.0))
    assert (found.watts, found.power_source) == (400.0, "NVML")


def test_the_first_figure_of_power_is_of_the_time_before() -> None:
    early = gpu(BEGIN + 0.01, 50.0)
    assert looked("cuda:0", early, gpu(END, 500.0)).watts == 500.0
    assert looked("cuda:0", early).watts is None


def test_power_nobody_tells_is_not_zero() -> None:
    assert looked("cuda:0", gpu(BEGIN, None)).watts is None
    on_cpu = looked("cpu", gpu(BEGIN, 300.0))  # of a GPU that computes something else
    assert (on_cpu.watts, on_cpu.power_source) == (None, "")


def test_why_a_clock_was_held_down_is_told_once_and_in_words() -> None:
    hot = (Throttle.THERMAL_HARDWARE.value,)
    found = looked("cuda:0", gpu(BEGIN, throttled=hot), gpu(END, throttled=hot))
    assert found.throttled == hot
    assert found.is_disturbed
    assert looked("cuda:0", gpu(BEGIN - 9, throttled=hot)).throttled == ()


def test_heat_of_a_mac_counts_on_its_cpu_too() -> None:
    found = looked("cpu", DeviceSampled(time=BEGIN, source=Source.APPLE, thermal=2))
    assert found.throttled == (Throttle.PRESSURE.value,)


def test_what_others_hold_of_the_gpu_is_without_the_jobs_own() -> None:
    def held(time: float, all_of_it: int, own: int | None) -> MemorySampled:
        return MemorySampled(time=time, source=Source.NVML, bytes=all_of_it, own=own)

    told_apart = looked("cuda:0", held(BEGIN, 10 << 30, 8 << 30), held(END, 11 << 30, 8 << 30))
    assert told_apart.gpu_others == 3 << 30
    before_the_job = looked("cuda:0", held(BEGIN - 9, 1 << 30, None), held(END, 11 << 30, None))
    assert before_the_job.gpu_others == 1 << 30
    assert looked("cuda:0").gpu_others is None


@pytest.mark.parametrize(("plugged", "on_battery"), [(True, False), (False, True), (None, None)])
def test_a_battery_is_known_to_be_used_or_not(plugged: bool | None, on_battery: bool | None) -> None:
    assert looked("cpu", BatterySampled(share=0.5, is_plugged=plugged)).on_battery is on_battery


def test_a_pass_without_timed_steps_tells_what_it_can() -> None:
    found = looked("cuda:0", gpu(BEGIN), BatterySampled(share=0.5, is_plugged=True), is_timed=False)
    assert found == Surroundings(on_battery=False)
