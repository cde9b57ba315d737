"""Samples of the computer, of an NVIDIA GPU and of a Mac; a Mac's programs by what is documented of their output."""

import os
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest
from msgspec.structs import replace

from core.base.system import process_tree, resident_bytes, system_memory
from core.monitor import nvidia, sampler
from core.monitor.nvidia import find_gpu, gpu_of
from core.monitor.sampler import (
    COMPRESSED_SECONDS,
    DEAR_SECONDS,
    IOREG,
    PROGRAM_SECONDS,
    VM_STAT,
    AppleGpu,
    AppleSource,
    Background,
    Query,
    Sampler,
    battery,
    compressed_bytes,
    disk,
    memory_pressure,
    processor_clock,
    processor_temperature,
    read_gpu,
    thermal_level,
)
from core.monitor.sampler import THERMAL_COMMAND as THERMAL
from core.runs.events import DeviceSampled, DiskSampled, Event, MemorySampled, Pressure, Source
from tests.fakes.machines import FakeClock, FakeNvml

GB = 1 << 30
DISK = DiskSampled(free=1, total=100)


# --- Query and background


@pytest.mark.parametrize("failure", [OSError("gone"), None])
def test_a_query_that_fails_or_has_no_answer_is_not_repeated(failure):
    ask = Mock(side_effect=[0, failure, 7])
    query = Query(ask, OSError)
    assert [query() for _ in range(4)] == [0, None, None, None]
    assert ask.call_count == 2
    with pytest.raises(ZeroDivisionError):
        Query(lambda: 1 // 0, OSError)()


def test_a_slow_source_is_not_waited_for_and_its_samples_come_later():
    done = threading.Event()
    source = Mock(side_effect=lambda: [DISK] if done.wait(10) else None)
    background = Background(source, patience=0.01)
    assert [background.read() for _ in range(3)] == [[], [], []]
    done.set()
    background.finish()
    assert source.call_count == 1, "no second reading began meanwhile"
    assert background.read()[0] == DISK
    background.finish()


def test_a_quick_source_is_waited_for_and_read_no_more_often_than_wanted():
    clock = FakeClock(100.0)
    background = Background(lambda: [DISK], every=10.0, patience=10.0, clock=clock.monotonic)
    for clock.now, count in ((100.0, 1), (105.0, 0), (110.0, 1), (119.9, 0), (120.0, 1)):
        assert len(background.read()) == count


@pytest.mark.parametrize("result", [ZeroDivisionError, None])
def test_a_source_that_raises_or_returns_none_is_dropped(result, monkeypatch):
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda error: raised.append(error.exc_type))
    source = Mock(side_effect=[result])
    background = Background(source, patience=10.0)
    assert [background.read() for _ in range(3)] == [[], [], []]
    assert source.call_count == 1
    assert raised == ([result] if result else [])


# --- The computer


def test_memory_of_the_computer_and_of_a_process_with_its_children():
    found = system_memory()
    assert found.used + psutil.virtual_memory().available == pytest.approx(found.total, rel=0.05)
    alone = resident_bytes(process_tree(os.getpid()))
    code = "data = bytearray(64 << 20); print('ready', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        together = resident_bytes(process_tree(os.getpid()))
        child.communicate(b"\n")
    assert together - alone > 60 << 20
    assert resident_bytes(process_tree(child.pid)) is None


def psi(waited: str) -> str:
    return (
        f"some avg10={waited} avg60=1.00 avg300=0.20 total=123456\nfull avg10=99.00 avg60=0.00 total=1234\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (psi("9.99"), Pressure.NORMAL),
        (psi("10.00"), Pressure.WARN),
        (psi("39.99"), Pressure.WARN),
        (psi("40.00"), Pressure.CRITICAL),
        ("full avg10=1.00 total=1\n", None),
        ("some avg60=1.00\n", None),
        ("some avg10=much\n", None),
        (None, None),
    ],
)
def test_memory_pressure_on_linux(text, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(sampler, "PSI", tmp_path / "memory")
    if text is not None:
        (tmp_path / "memory").write_text(text)
    assert memory_pressure("linux")() is expected
    assert memory_pressure("win32")() is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x01\x00\x00\x00", Pressure.NORMAL),
        (b"\x02\x00\x00\x00", Pressure.WARN),
        (b"\x04\x00\x00\x00", Pressure.CRITICAL),
        (b"\x00\x00\x00\x04", None),  # the highest byte first, as on no Mac
        (b"\x01\x00\x00\x00\x00\x00\x00\x00", None),
        (OSError(2, "sysctl"), None),
    ],
)
def test_memory_pressure_on_macos(value, expected, monkeypatch):
    sysctl = Mock(side_effect=[value])
    monkeypatch.setattr(sampler, "sysctl", sysctl)
    assert memory_pressure("darwin")() is expected
    sysctl.assert_called_once_with("kern.memorystatus_vm_pressure_level")


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
    monkeypatch.delattr(psutil, "sensors_battery")  # some systems lack it
    assert battery()() == []


def test_a_disk_that_is_gone_has_no_sample(tmp_path):
    assert [event.free <= event.total for event in disk(tmp_path)()] == [True]
    assert disk(tmp_path / "gone")() == []


@pytest.mark.parametrize(
    ("system_name", "clock", "cost", "expected"),
    [
        ("linux", Clock(2596.0, 0.0, 4200.0), 0.9, (2596.0, 4200.0)),
        ("linux", Clock(2596.0, 0.0, 0.0), 0.9, (2596.0, None)),
        ("linux", Clock(2596.0, 0.0, 0.0), 1.1, None),  # it takes too long to read
        ("linux", Clock(0.0, 0.0, 0.0), 0.0, None),
        ("linux", None, 0.0, None),
        ("darwin", Clock(4056.0, 0.0, 4056.0), 0.0, None),  # not the clock of this moment
        ("win32", Clock(4056.0, 0.0, 4056.0), 0.0, None),
    ],
)
def test_processor_clock(system_name, clock, cost, expected, monkeypatch):
    cpu = FakeClock()

    def read() -> Clock | None:
        cpu.now += cost * DEAR_SECONDS
        return clock

    monkeypatch.setattr(psutil, "cpu_freq", read)
    assert processor_clock(system_name, cpu.monotonic)() == expected


@pytest.mark.parametrize(
    ("chips", "expected"),
    [
        ({}, None),
        ({"nvme": {"": 31_000}, "k10temp": {}}, None),
        ({"cpu_thermal": {"": 48_250}}, 48.25),
        ({"nvme": {"": 31_000}, "coretemp": {"Core 0": 50_000, "Package id 0": 71_500}}, 71.5),
        ({"k10temp": {"Tctl": 90_000, "Tdie": 63_000}}, 63.0),
    ],
)
def test_the_temperature_is_that_of_the_whole_processor(chips, expected, tmp_path):
    for name, sensors in chips.items():
        chip = tmp_path / f"hwmon-{name}"
        chip.mkdir()
        (chip / "name").write_text(f"{name}\n")
        for number, (label, value) in enumerate(sensors.items(), 1):
            (chip / f"temp{number}_input").write_text(f"{value}\n")
            if label:
                (chip / f"temp{number}_label").write_text(f"{label}\n")
    assert processor_temperature(tmp_path)() == expected


# --- NVIDIA


def test_figures_of_a_gpu_have_their_units():
    gpu = find_gpu("0", FakeNvml())
    assert (gpu.name, gpu.memory(), gpu.capability()) == ("Fake GPU 0", (3 * GB, 7 * GB), (8, 6))
    assert replace(gpu.sample(), time=0.0) == DeviceSampled(
        time=0.0,
        source=Source.NVML,
        name="Fake GPU 0",
        busy=0.4,
        power=123.4,
        power_limit=200.0,
        temperature=61.0,
        clock=1410.0,
        clock_limit=1980.0,
        throttled=(),
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
        (0x1 | 0x2 | 0x10 | 0x100, ()),
        (0x4, ("power cap",)),
        (0x20 | 0x1, ("thermal slowdown (software)",)),
        (0x40 | 0x8, ("thermal slowdown (hardware)",)),
        (0x80 | 0x8, ("power brake",)),
        (0x4 | 0x8, ("power cap", "hardware slowdown")),
    ],
)
def test_why_a_clock_is_held_down(mask, reasons):
    current, before_530 = (f"nvmlDeviceGetCurrentClocks{name}Reasons" for name in ("Event", "Throttle"))
    for broken, found in ({}, reasons), ({current}, reasons), ({current, before_530}, None):
        nvml = FakeNvml(set(broken))
        nvml.reasons = mask
        assert find_gpu("0", nvml).sample().throttled == found


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

DATA = Path(__file__).parents[2] / "data" / "apple"
HELD = 9_663_676_416
COMPRESSED = 200_000 * 16_384
M3_MAX = AppleGpu("Apple M3 Max", 0.87, HELD)


def recorded(name: str) -> bytes:
    return (DATA / name).read_bytes()


@pytest.mark.parametrize(
    ("read", "name", "expected"),
    [
        (compressed_bytes, "vm_stat.txt", COMPRESSED),
        (compressed_bytes, "vm_stat-no-compressor.txt", None),
        (compressed_bytes, "vm_stat-no-page-size.txt", None),
        (compressed_bytes, "nothing.txt", None),
        (read_gpu, "ioreg-list.plist", M3_MAX),
        (read_gpu, "ioreg-dict.plist", M3_MAX),
        (read_gpu, "ioreg-two.plist", M3_MAX),
        (read_gpu, "ioreg-no-memory.plist", M3_MAX._replace(memory=None)),
        (read_gpu, "ioreg-no-duty.plist", M3_MAX._replace(busy=None)),
        (read_gpu, "ioreg-name-as-data.plist", M3_MAX._replace(name="Apple M1")),
        (read_gpu, "ioreg-no-name.plist", M3_MAX._replace(name="Apple GPU")),
        (read_gpu, "nothing.txt", None),
        (read_gpu, "ioreg-empty-list.plist", None),
        (read_gpu, "ioreg-empty-dict.plist", None),
        (read_gpu, "ioreg-no-statistics.plist", None),
        (read_gpu, "ioreg-no-figures.plist", None),
        (thermal_level, "notifyutil-nominal.txt", 0),
        (thermal_level, "notifyutil-heavy.txt", 2),
        (thermal_level, "notifyutil-unknown-level.txt", None),
        (thermal_level, "notifyutil-failed.txt", None),
        (thermal_level, "nothing.txt", None),
    ],
)
def test_recorded_output_of_a_macs_programs(read, name, expected):
    assert read(recorded(name)) == expected


class FakeMac:
    """Answers the programs; an answer may be an error to raise. `gpu_mj` is the energy the GPU has drawn in all."""

    def __init__(self, **answers: bytes | Exception) -> None:
        self.answers = {
            IOREG: answers.get("ioreg", recorded("ioreg-list.plist")),
            VM_STAT: answers.get("vm_stat", recorded("vm_stat.txt")),
            THERMAL: answers.get("thermal", recorded("notifyutil-nominal.txt")),
        }
        self.calls = []
        self.clock = FakeClock()
        self.gpu_mj: int | None = None
        self.source = AppleSource(self.run, self.load, self.clock.monotonic)

    def run(self, command):
        self.calls.append(command)
        answer = self.answers[command]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def load(self, _name):
        if self.gpu_mj is None:
            raise ImportError
        energy = SimpleNamespace(get_cumulative_energy=lambda: SimpleNamespace(gpu_mj=self.gpu_mj))
        return SimpleNamespace(AppleEnergyMonitor=lambda: energy)

    def device(self) -> DeviceSampled:
        [found] = [event for event in self.source.read() if isinstance(event, DeviceSampled)]
        return found


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
    memory, device = FakeMac(thermal=recorded("notifyutil-heavy.txt")).source.read()
    assert (memory.source, memory.bytes) == (Source.APPLE, HELD)
    expected = DeviceSampled(time=0.0, source=Source.APPLE, name="Apple M3 Max", busy=0.87, thermal=2)
    assert replace(device, time=0.0) == expected
    assert FakeMac(ioreg=b"").device().thermal == 0


def test_what_changes_slowly_is_read_less_often_and_goes_stale():
    mac = FakeMac()
    for _ in range(3):
        assert mac.device().thermal == 0, "the last one is repeated"
        mac.clock.now += PROGRAM_SECONDS / 4
    assert (mac.calls.count(IOREG), mac.calls.count(THERMAL), mac.calls.count(VM_STAT)) == (3, 1, 1)
    mac.answers |= {THERMAL: recorded("notifyutil-heavy.txt"), VM_STAT: b""}
    mac.clock.now += COMPRESSED_SECONDS
    assert (mac.device().thermal, mac.source.compressed()) == (2, None)


def test_power_is_the_energy_between_two_readings():
    mac = FakeMac()
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
        sampler = Sampler(os.getpid(), lambda: find_gpu("0", nvml), pressure=lambda: Pressure.WARN)
        found = settled(sampler)
        memory = {event.source: event for event in found if isinstance(event, MemorySampled)}
        assert list(memory)[-1] is Source.SYSTEM
        assert set(memory) == {Source.SYSTEM, Source.PROCESS, Source.NVML}
        assert (memory[Source.NVML].ceiling, memory[Source.NVML].own) == (7 * GB, 2 * GB)
        assert memory[Source.SYSTEM].pressure is Pressure.WARN
        assert "Fake GPU 0" in {event.name for event in found if isinstance(event, DeviceSampled)}
        sampler.let_gpu_sleep()
        calls = len(nvml.calls)
        assert {event.source for event in settled(sampler)} == {Source.SYSTEM, Source.PROCESS}
        assert len(nvml.calls) == calls

    def test_a_gpu_that_shares_the_computers_memory_reports_the_rest(self):
        found = settled(Sampler(find_gpu=lambda: find_gpu("0", FakeNvml(total=0))))
        assert {type(event) for event in found if event.source is Source.NVML} == {DeviceSampled}

    def test_where_no_gpu_is_found_it_is_not_tried_again(self):
        find = Mock(return_value=None)
        sampler = Sampler(find_gpu=find)
        for _ in range(3):
            assert {event.source for event in settled(sampler)} == {Source.SYSTEM}
        assert find.call_count == 1

    def test_compressed_memory_of_a_mac(self):
        found = settled(Sampler(apple=FakeMac().source))
        assert [e.compressed for e in found if getattr(e, "compressed", None)] == [COMPRESSED]


def test_the_gpus_of_several_processes_are_sampled_as_one(monkeypatch):
    monkeypatch.setattr(nvidia, "find_gpu", lambda name: find_gpu(name, FakeNvml(count=4)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,3")
    one, two, all_of_them = gpu_of("cuda"), gpu_of("cuda", 2), gpu_of("auto", 0)
    assert one is not None
    assert two is not None
    assert all_of_them is not None
    single, both = one.sample(), two.sample()
    assert (both.power, both.power_limit) == (2 * (single.power or 0), 2 * (single.power_limit or 0))
    assert (both.busy, both.temperature, both.clock) == (single.busy, single.temperature, single.clock)
    assert two.name == f"2 × {one.name}"
    assert all_of_them.name.startswith("3 ×")
    memory, of_all = one.memory(), two.memory()
    assert memory is not None
    assert of_all == (2 * memory.used, 2 * memory.ceiling)
    assert gpu_of("cuda:1", 2).name == "Fake GPU 2"  # type: ignore[union-attr]
