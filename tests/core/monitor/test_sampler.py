"""Samples of the computer, of an NVIDIA GPU and of a Mac; a Mac's programs by what is documented of their output."""

import os
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from core.base import system as base_system
from core.base.system import WORTH, ProcessorLoad, ProcessTree, system_memory, tree_bytes
from core.monitor import nvidia, system
from core.monitor.apple import (
    IOREG,
    SLOW_SECONDS,
    STALE_SECONDS,
    VM_STAT,
    AppleGpu,
    AppleSource,
    compressed_bytes,
    read_gpu,
    thermal_level,
)
from core.monitor.apple import THERMAL_COMMAND as THERMAL
from core.monitor.nvidia import find_gpu, gpu_of
from core.monitor.sampler import Sampler
from core.monitor.system import (
    DEAR_SECONDS,
    Background,
    Processor,
    Query,
    battery,
    disk,
    linux_pressure,
    memory_pressure,
    processor_clock,
    processor_temperature,
)
from core.runs.events import DeviceSampled, DiskSampled, Event, MemorySampled, Pressure, Source
from tests.fakes.machines import FakeClock, FakeNvml

GB = 1 << 30


# --- Query and background


@pytest.mark.parametrize("failure", [OSError("gone"), None])
def test_a_query_that_fails_or_has_no_answer_is_not_repeated(failure):
    answers: list[Any] = [0, failure, 7]

    def ask() -> int | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    query = Query(ask, OSError)
    assert [query(), query(), query(), query()] == [0, None, None, None]
    assert answers == [7]
    with pytest.raises(ZeroDivisionError):
        Query(lambda: 1 // 0, OSError)()


class Slow:
    """Counts its readings, each of which takes until `done` is set."""

    def __init__(self, *, done: bool = False) -> None:
        self.count = 0
        self.done = threading.Event()
        if done:
            self.done.set()

    def __call__(self) -> Sequence[Event]:
        assert self.done.wait(10)
        self.count += 1
        return [DiskSampled(free=self.count, total=100)]


def test_a_slow_source_is_not_waited_for_and_its_samples_come_later():
    source = Slow()
    behind = Background(source, patience=0.01)
    assert [behind.read() for _ in range(3)] == [[], [], []]
    source.done.set()
    behind.finish()
    assert source.count == 1, "no second reading was begun meanwhile"
    assert [event.free for event in behind.read()] == [1, 2]
    behind.finish()


def test_a_quick_source_is_waited_for_and_read_no_more_often_than_wanted():
    clock = FakeClock(100.0)
    behind = Background(Slow(done=True), every=10.0, patience=10.0, clock=clock.monotonic)
    for clock.now, count in ((100.0, 1), (105.0, 0), (110.0, 1), (119.9, 0), (120.0, 1)):
        assert len(behind.read()) == count


@pytest.mark.parametrize("ends", ["raises", "none"])
def test_a_source_that_raises_or_returns_none_is_dropped(ends, monkeypatch):
    raised: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda error: raised.append(error.exc_type))
    calls = []

    def source() -> None:
        calls.append(1)
        if ends == "raises":
            raise ZeroDivisionError

    behind = Background(source, patience=10.0)
    assert [behind.read() for _ in range(3)] == [[], [], []]
    assert (len(calls), raised) == (1, [ZeroDivisionError] if ends == "raises" else [])


# --- The computer


def test_system_memory_adds_up():
    found = system_memory()
    assert found.total == psutil.virtual_memory().total
    assert found.used + psutil.virtual_memory().available == pytest.approx(found.total, rel=0.05)


def test_a_tree_counts_its_children_and_one_that_is_gone_has_no_figure():
    alone = tree_bytes(os.getpid())
    code = "data = bytearray(64 << 20); print('ready', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        together = tree_bytes(os.getpid())
        child.communicate(b"\n")
    assert together - alone > 60 << 20
    assert tree_bytes(child.pid) is None


def test_processor_load_needs_two_readings():
    load = ProcessorLoad()
    assert load.read() is None
    end = psutil.cpu_times().user + 0.05
    while psutil.cpu_times().user < end:
        sum(range(10_000))
    assert 0 < load.read() <= 1


def test_processes_are_listed_no_more_often_than_it_is_worth(monkeypatch):
    clock, cpu, listed = FakeClock(), FakeClock(), []

    def processes(pid: int) -> list[str]:
        listed.append(pid)
        cpu.now += 0.006
        return [f"listing {len(listed)}"]

    monkeypatch.setattr(base_system, "process_tree", processes)
    tree, pause = ProcessTree(7, clock.monotonic, cpu.monotonic), 0.006 / WORTH
    for at, found in ((0.0, 1), (0.9, 1), (1.01, 2), (1.5, 2), (2.1, 3)):
        clock.now = at * pause
        assert tree.read() == [f"listing {found}"]
    assert ProcessTree(None).read() == []


PSI = "some avg10={some} avg60=1.00 avg300=0.20 total=123456\nfull avg10=99.00 avg60=0.00 total=1234\n"


@pytest.mark.parametrize(
    ("waited", "expected"),
    [
        ("0.00", Pressure.NORMAL),
        ("9.99", Pressure.NORMAL),
        ("10.00", Pressure.WARN),
        ("39.99", Pressure.WARN),
        ("40.00", Pressure.CRITICAL),
    ],
)
def test_pressure_on_linux(waited, expected):
    assert linux_pressure(PSI.format(some=waited)) is expected


@pytest.mark.parametrize("text", ["", "full avg10=1.00 total=1\n", "some avg60=1.00\n", "some avg10=much\n"])
def test_pressure_that_linux_does_not_report_is_unknown(text, tmp_path, monkeypatch):
    monkeypatch.setattr(system, "PSI", tmp_path / "memory")
    assert memory_pressure("linux")() is None, "no such file"
    (tmp_path / "memory").write_text(text)
    assert memory_pressure("linux")() is None
    (tmp_path / "memory").write_text(PSI.format(some="12.00"))
    assert memory_pressure("linux")() is Pressure.WARN
    assert memory_pressure("win32")() is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x01\x00\x00\x00", Pressure.NORMAL),
        (b"\x02\x00\x00\x00", Pressure.WARN),
        (b"\x04\x00\x00\x00", Pressure.CRITICAL),
        (b"\x00\x00\x00\x04", None),  # the highest byte first, as on no Mac
        (b"\x03\x00\x00\x00", None),
        (b"\x01\x00\x00\x00\x00\x00\x00\x00", None),
        (b"", None),
        (OSError(2, "sysctl"), None),
    ],
)
def test_pressure_on_macos(value, expected, monkeypatch):
    def sysctl(name: str) -> bytes:
        assert name == "kern.memorystatus_vm_pressure_level"
        if isinstance(value, OSError):
            raise value
        return value

    monkeypatch.setattr(system, "sysctl", sysctl)
    assert memory_pressure("darwin")() is expected


Power = namedtuple("Power", "percent secsleft power_plugged")
Clock = namedtuple("Clock", "current min max")


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        (Power(43.0, 100, False), [(0.43, False)]),
        (Power(100.0, -2, True), [(1.0, True)]),
        (Power(80.0, -1, None), [(0.8, None)]),
        (None, []),
    ],
)
def test_battery(power, expected, monkeypatch):
    monkeypatch.setattr(psutil, "sensors_battery", lambda: power)
    assert [(event.share, event.is_plugged) for event in battery()()] == expected
    monkeypatch.delattr(psutil, "sensors_battery")
    assert battery()() == []


def test_disk(tmp_path):
    [found] = disk(tmp_path)()
    assert 0 < found.free <= found.total
    assert disk(tmp_path / "gone")() == []


@pytest.mark.parametrize(
    ("system_name", "clock", "expected"),
    [
        ("linux", Clock(2596.0, 0.0, 4200.0), (2596.0, 4200.0)),
        ("linux", Clock(2596.0, 0.0, 0.0), (2596.0, None)),
        ("linux", Clock(0.0, 0.0, 0.0), None),
        ("linux", None, None),
        ("darwin", Clock(4056.0, 0.0, 4056.0), None),  # not the clock of this moment
        ("win32", Clock(4056.0, 0.0, 4056.0), None),
    ],
)
def test_processor_clock(system_name, clock, expected, monkeypatch):
    monkeypatch.setattr(psutil, "cpu_freq", lambda: clock)
    assert processor_clock(system_name)() == expected


@pytest.mark.parametrize(("cost", "is_read"), [(0.9 * DEAR_SECONDS, True), (1.1 * DEAR_SECONDS, False)])
def test_a_clock_that_takes_long_to_read_is_left_out(cost, is_read, monkeypatch):
    cpu = FakeClock()

    def read() -> Clock:
        cpu.now += cost
        return Clock(2596.0, 0.0, 0.0)

    monkeypatch.setattr(psutil, "cpu_freq", read)
    assert (processor_clock("linux", cpu.monotonic)() is not None) == is_read


def test_a_processor_makes_one_event_once_its_load_has_a_span(monkeypatch):
    loads = iter([None, None, 0.4, 0.0])
    monkeypatch.setattr(system, "ProcessorLoad", lambda: SimpleNamespace(read=lambda: next(loads)))
    monkeypatch.setattr(system, "processor_clock", lambda: Query(iter([(2596.0, 4200.0), None]).__next__))
    monkeypatch.setattr(system, "processor_temperature", lambda: Query(iter([71.5, None]).__next__))
    processor = Processor()
    assert processor.read() == []
    for figures in ((0.4, 2596.0, 4200.0, 71.5), (0.0, None, None, None)):
        [found] = processor.read()
        assert (found.source, found.name) == (Source.SYSTEM, "CPU")
        assert (found.busy, found.clock, found.clock_limit, found.temperature) == figures


@pytest.mark.parametrize(
    ("chips", "expected"),
    [
        ([{}], None),
        ([{"name": "nvme", "temp1_input": "31000"}, {"name": "k10temp"}], None),
        ([{"name": "cpu_thermal", "temp1_input": "48250"}], 48.25),
        (
            [
                {"name": "nvme", "temp1_input": "31000"},
                {
                    "name": "coretemp",
                    "temp1_label": "Core 0",
                    "temp1_input": "50000",
                    "temp2_label": "Package id 0",
                    "temp2_input": "71500",
                },
            ],
            71.5,
        ),
        (
            [
                {
                    "name": "k10temp",
                    "temp1_label": "Tctl",
                    "temp1_input": "90000",
                    "temp2_label": "Tdie",
                    "temp2_input": "63000",
                }
            ],
            63.0,
        ),
    ],
)
def test_the_temperature_is_that_of_the_whole_processor(chips, expected, tmp_path):
    for number, files in enumerate(chips):
        chip = tmp_path / f"hwmon{number}"
        chip.mkdir()
        for name, text in files.items():
            (chip / name).write_text(f"{text}\n")
    assert processor_temperature(tmp_path)() == expected


# --- NVIDIA


def test_figures_of_a_gpu_have_their_units():
    nvml = FakeNvml()
    gpu = find_gpu("0", nvml)
    assert (gpu.name, gpu.memory(), gpu.capability()) == ("Fake GPU 0", (3 * GB, 7 * GB), (8, 6))
    sample = gpu.sample()
    assert (sample.source, sample.name, sample.busy) == (Source.NVML, "Fake GPU 0", 0.4)
    assert (sample.power, sample.power_limit) == (pytest.approx(123.4), 200.0)
    assert (sample.temperature, sample.clock, sample.clock_limit, sample.throttled) == (
        61.0,
        1410.0,
        1980.0,
        (),
    )


@pytest.mark.parametrize(
    ("name", "nvml"), [("0", FakeNvml({"nvmlInit"})), ("3", FakeNvml()), ("GPU-7-uuid", FakeNvml())]
)
def test_no_driver_or_no_such_card_is_no_gpu(name, nvml):
    assert find_gpu(name, nvml) is None


@pytest.mark.parametrize(
    ("broken", "field", "value"),
    [
        ("PowerUsage", "power", None),
        ("EnforcedPowerLimit", "power_limit", None),
        ("ClockInfo", "clock", None),
        ("MaxClockInfo", "clock_limit", None),
        ("UtilizationRates", "busy", None),
        ("TemperatureV", "temperature", 60.0),  # as an older driver has it
    ],
)
def test_what_fails_once_is_none_and_not_repeated(broken, field, value):
    nvml = FakeNvml({f"nvmlDeviceGet{broken}"})
    gpu = find_gpu("0", nvml)
    samples = [gpu.sample() for _ in range(3)]
    assert [getattr(sample, field) for sample in samples] == [value] * 3
    assert all(sample.temperature for sample in samples), "the rest goes on"
    assert nvml.calls.count(f"nvmlDeviceGet{broken}") == 1


@pytest.mark.parametrize(
    ("mask", "reasons"),
    [
        (0x0, ()),
        (0x1, ()),
        (0x2 | 0x10 | 0x100, ()),
        (0x4, ("power cap",)),
        (0x20, ("thermal slowdown (software)",)),
        (0x40 | 0x8, ("thermal slowdown (hardware)",)),
        (0x80 | 0x8, ("power brake",)),
        (0x8, ("hardware slowdown",)),
        (0x4 | 0x8, ("power cap", "hardware slowdown")),
        (0x4 | 0x20 | 0x1, ("power cap", "thermal slowdown (software)")),
    ],
)
@pytest.mark.parametrize("broken", [set(), {"nvmlDeviceGetCurrentClocksEventReasons"}])
def test_why_a_clock_is_held_down(mask, reasons, broken):
    nvml = FakeNvml(broken)
    nvml.reasons = mask
    assert find_gpu("0", nvml).sample().throttled == reasons


def test_a_driver_that_does_not_tell_why_has_no_reasons():
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    assert find_gpu("0", FakeNvml(set(names))).sample().throttled is None


def test_memory_of_a_gpu():
    assert find_gpu("0", FakeNvml(total=0)).memory() is None, "it shares the computer's"
    nvml = FakeNvml()
    nvml.running = {7: 1 * GB, 8: 2 * GB, 9: 4 * GB}
    gpu = find_gpu("0", nvml)
    assert gpu.memory_of({7, 8}) == 3 * GB
    assert gpu.memory_of({1}) is None, "a container's process goes by another number outside"
    nvml.running[8] = None
    assert gpu.memory_of({7, 8}) is None, "Windows keeps it to itself"


@pytest.mark.parametrize(
    ("device", "visible", "name"),
    [
        ("auto", None, "Fake GPU 0"),
        ("cuda:1", None, "Fake GPU 1"),
        ("cuda:1", "2,3", "Fake GPU 3"),
        ("auto", "GPU-1-uuid", "Fake GPU 1"),
        ("cuda:1", "2", None),
        ("cuda:4", None, None),
        ("auto", "", None),
        ("cpu", None, None),
        ("mps", None, None),
    ],
)
def test_a_run_has_the_gpu_that_its_engine_will_see(device, visible, name, monkeypatch):
    monkeypatch.setattr(nvidia, "find_gpu", lambda name: find_gpu(name, FakeNvml(count=4)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpu = gpu_of(device)
    assert (gpu.name if gpu else None) == name


# --- A Mac

DATA = Path(__file__).parent.parent.parent / "data" / "apple"
HELD = 9_663_676_416
COMPRESSED = 200_000 * 16_384


def recorded(name: str) -> bytes:
    return (DATA / name).read_bytes()


class FakeMac:
    """Answers the programs; an answer may be an error to raise. `gpu_mj` is the energy the GPU has drawn in all."""

    def __init__(self, **answers: bytes | Exception) -> None:
        self.answers: dict[Sequence[str], bytes | Exception] = {
            IOREG: answers.get("ioreg", recorded("ioreg-list.plist")),
            VM_STAT: answers.get("vm_stat", recorded("vm_stat.txt")),
            THERMAL: answers.get("thermal", recorded("notifyutil-nominal.txt")),
        }
        self.calls: list[Sequence[str]] = []
        self.clock = FakeClock()
        self.gpu_mj: int | None = None
        self.source = AppleSource(self.run, self.load, self.clock.monotonic)

    def run(self, command: Sequence[str]) -> bytes:
        self.calls.append(command)
        answer = self.answers[command]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def load(self, _name: str) -> SimpleNamespace:
        if self.gpu_mj is None:
            raise ImportError
        energy = SimpleNamespace(get_cumulative_energy=lambda: SimpleNamespace(gpu_mj=self.gpu_mj))
        return SimpleNamespace(AppleEnergyMonitor=lambda: energy)

    def device(self) -> DeviceSampled:
        [found] = [event for event in self.source.read() if isinstance(event, DeviceSampled)]
        return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vm_stat.txt", COMPRESSED),
        ("vm_stat-no-compressor.txt", None),
        ("vm_stat-no-page-size.txt", None),
        ("nothing.txt", None),
    ],
)
def test_compressed_memory(name, expected):
    assert compressed_bytes(recorded(name)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ioreg-list.plist", AppleGpu("Apple M3 Max", 0.87, HELD)),
        ("ioreg-dict.plist", AppleGpu("Apple M3 Max", 0.87, HELD)),
        ("ioreg-two.plist", AppleGpu("Apple M3 Max", 0.87, HELD)),
        ("ioreg-no-memory.plist", AppleGpu("Apple M3 Max", 0.87, None)),
        ("ioreg-no-duty.plist", AppleGpu("Apple M3 Max", None, HELD)),
        ("nothing.txt", None),
        ("ioreg-empty-list.plist", None),
        ("ioreg-empty-dict.plist", None),
        ("ioreg-no-statistics.plist", None),
        ("ioreg-no-figures.plist", None),
    ],
)
def test_the_gpu_that_ioreg_lists(name, expected):
    assert read_gpu(recorded(name)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("ioreg-name-as-data.plist", "Apple M1"), ("ioreg-no-name.plist", "Apple GPU")],
)
def test_the_name_of_a_gpu(name, expected):
    assert read_gpu(recorded(name)).name == expected


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("notifyutil-nominal.txt", 0),
        ("notifyutil-heavy.txt", 2),
        ("notifyutil-unknown-level.txt", None),
        ("notifyutil-failed.txt", None),
        ("nothing.txt", None),
    ],
)
def test_the_level_of_thermal_pressure(name, level):
    assert thermal_level(recorded(name)) == level


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"rubbish",
        recorded("ioreg-cut-off.plist"),
        FileNotFoundError("ioreg"),
        subprocess.CalledProcessError(1, "ioreg"),
    ],
)
def test_a_program_that_fails_is_not_started_again(answer):
    mac = FakeMac(ioreg=answer, thermal=answer)
    for mac.clock.now in (0.0, 6.0):
        assert mac.source.read() == []
    assert (mac.calls.count(IOREG), mac.calls.count(THERMAL), mac.calls.count(VM_STAT)) == (1, 1, 2)
    assert mac.source.compressed() == COMPRESSED


def test_a_mac_that_is_too_busy_to_answer_is_asked_again():
    mac = FakeMac(ioreg=subprocess.TimeoutExpired("ioreg", 1.0))
    assert mac.device().busy is None
    mac.answers[IOREG] = recorded("ioreg-list.plist")
    assert mac.device().busy == 0.87


def test_a_gpu_and_thermal_pressure_make_one_event():
    found = FakeMac(thermal=recorded("notifyutil-heavy.txt")).source.read()
    assert [event.bytes for event in found if isinstance(event, MemorySampled)] == [HELD]
    device = found[-1]
    assert (device.source, device.name, device.busy, device.thermal) == (
        Source.APPLE,
        "Apple M3 Max",
        0.87,
        2,
    )
    assert (device.power, device.temperature, device.throttled) == (None, None, None)
    assert FakeMac(ioreg=b"").device().thermal == 0


def test_what_changes_slowly_is_read_less_often_and_goes_stale():
    mac = FakeMac()
    for _ in range(3):
        assert mac.device().thermal == 0, "the last one stands"
        mac.clock.now += SLOW_SECONDS / 4
    assert (mac.calls.count(IOREG), mac.calls.count(THERMAL), mac.calls.count(VM_STAT)) == (3, 1, 1)
    assert mac.source.compressed() == COMPRESSED
    mac.answers |= {THERMAL: recorded("notifyutil-heavy.txt"), VM_STAT: b""}
    mac.clock.now += STALE_SECONDS
    assert (mac.device().thermal, mac.source.compressed()) == (2, None)


def test_power_is_the_energy_between_two_readings():
    mac = FakeMac()
    mac.gpu_mj = 50_000
    watts = []
    for mac.clock.now, mac.gpu_mj in ((0.0, 50_000), (2.0, 86_000), (3.0, 10), (4.0, 10)):
        watts.append(mac.device().power)
    assert watts == [None, pytest.approx(18.0), None, 0.0], "the counter began anew, then the GPU rested"


# --- All together


@pytest.fixture
def _desktop(monkeypatch):
    """A computer without a battery."""
    monkeypatch.setattr(psutil, "sensors_battery", lambda: None)


def settled(sampler: Sampler) -> list[Event]:
    """A sample, with what is read in the background."""
    sampler.sample()
    sampler.finish(10)
    found = sampler.sample()
    sampler.finish(10)
    return found


@pytest.mark.usefixtures("_desktop")
class TestSampler:
    def test_figures_of_the_computer_the_process_and_the_gpu(self):
        nvml = FakeNvml()
        nvml.running = {os.getpid(): 2 * GB, 1: GB}
        found = settled(Sampler(os.getpid(), lambda: find_gpu("0", nvml), pressure=lambda: Pressure.WARN))
        memory = [event for event in found if isinstance(event, MemorySampled)]
        by_source = {event.source: event for event in memory}
        assert set(by_source) == {Source.SYSTEM, Source.PROCESS, Source.NVML}
        assert (by_source[Source.NVML].ceiling, by_source[Source.NVML].own) == (7 * GB, 2 * GB)
        assert (memory[-1].source, memory[-1].pressure) == (Source.SYSTEM, Pressure.WARN)
        names = {event.name for event in found if isinstance(event, DeviceSampled)}
        assert names >= {"Fake GPU 0"}

    def test_a_gpu_that_shares_the_computers_memory_reports_the_rest(self):
        found = settled(Sampler(find_gpu=lambda: find_gpu("0", FakeNvml(total=0))))
        nvml = [event for event in found if getattr(event, "source", None) is Source.NVML]
        assert nvml
        assert all(isinstance(event, DeviceSampled) for event in nvml)

    def test_a_gpu_that_may_sleep_is_not_read_again(self):
        nvml = FakeNvml()
        sampler = Sampler(find_gpu=lambda: find_gpu("0", nvml))
        settled(sampler)
        sampler.let_gpu_sleep()
        calls = len(nvml.calls)
        assert {event.source for event in settled(sampler)} == {Source.SYSTEM}
        assert len(nvml.calls) == calls

    def test_where_no_gpu_is_found_it_is_not_tried_again(self):
        tried = []
        sampler = Sampler(find_gpu=lambda: tried.append(1))
        for _ in range(3):
            assert {event.source for event in settled(sampler)} == {Source.SYSTEM}
        assert (len(tried), sampler._nvidia.find) == (1, None)

    def test_compressed_memory_of_a_mac(self):
        found = settled(Sampler(apple=FakeMac().source))
        [memory] = [e for e in found if isinstance(e, MemorySampled) and e.source is Source.SYSTEM]
        assert memory.compressed == COMPRESSED

    def test_the_disk_is_read_now_and_then(self, tmp_path):
        sampler = Sampler(folder=tmp_path)
        samples = [event for _ in range(3) for event in (*sampler.sample(), sampler.finish(10))]
        assert len([event for event in samples if isinstance(event, DiskSampled)]) == 1

    @pytest.mark.parametrize("hangs", ["the driver", "the disk"])
    def test_a_source_that_hangs_delays_no_other(self, hangs, tmp_path, monkeypatch):
        answers = threading.Event()

        def hang(*_: object) -> None:
            assert answers.wait(10)

        monkeypatch.setattr(psutil, "disk_usage", hang)
        sampler = Sampler(find_gpu=hang) if hangs == "the driver" else Sampler(folder=tmp_path)
        try:
            for _ in range(2):
                assert Source.SYSTEM in {event.source for event in sampler.sample()}
        finally:
            answers.set()
            sampler.finish(10)
