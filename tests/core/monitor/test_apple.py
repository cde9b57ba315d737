"""A Mac's own programs, by what is documented of their output: written by hand, keys left out here and there."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.monitor.apple import (
    IOREG,
    SLOW_SECONDS,
    STALE_SECONDS,
    VM_STAT,
    AppleFigures,
    AppleGpu,
    AppleSource,
    GpuPower,
    compressed_bytes,
    read_gpu,
    thermal_level,
)
from core.monitor.apple import THERMAL_COMMAND as THERMAL
from core.monitor.sampler import Sampler
from core.monitor.system import PressureGauge
from core.runs.events import DeviceSampled, MemorySampled, Source
from tests.fakes.clock import FakeClock

DATA = Path(__file__).parent.parent.parent / "data" / "apple"
HELD = 9_663_676_416
COMPRESSED = 200_000 * 16_384


def recorded(name: str) -> bytes:
    return (DATA / name).read_bytes()


class FakeMac:
    """Answers the programs; an answer may be an error to raise."""

    def __init__(self, **answers: bytes | Exception) -> None:
        self.answers: dict[Sequence[str], bytes | Exception] = {
            IOREG: answers.get("ioreg", recorded("ioreg-list.plist")),
            VM_STAT: answers.get("vm_stat", recorded("vm_stat.txt")),
            THERMAL: answers.get("thermal", recorded("notifyutil-nominal.txt")),
        }
        self.calls: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> bytes:
        self.calls.append(command)
        answer = self.answers[command]
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeEnergy:
    """Stands in for `zeus_apple_silicon`; `gpu_mj` is what the GPU has drawn in all."""

    def __init__(self, gpu_mj: int | None) -> None:
        self.gpu_mj = gpu_mj
        self.monitors = 0

    def AppleEnergyMonitor(self) -> SimpleNamespace:  # noqa: N802 - the library's name
        self.monitors += 1
        return SimpleNamespace(get_cumulative_energy=lambda: SimpleNamespace(gpu_mj=self.gpu_mj))


def source(mac: FakeMac, clock: FakeClock | None = None, energy: FakeEnergy | None = None) -> AppleSource:
    clock = clock or FakeClock()

    def load(_name: str) -> FakeEnergy:
        if energy is None:
            raise ImportError
        return energy

    return AppleSource(AppleFigures(mac), GpuPower(load, clock.monotonic), clock.monotonic)


def device(events: Sequence[object]) -> DeviceSampled:
    [found] = [event for event in events if isinstance(event, DeviceSampled)]
    assert found.source is Source.APPLE
    return found


def test_compressed_pages_count_by_the_room_they_take() -> None:
    assert compressed_bytes(recorded("vm_stat.txt")) == COMPRESSED


@pytest.mark.parametrize("name", ["vm_stat-no-compressor.txt", "vm_stat-no-page-size.txt", "nothing.txt"])
def test_an_unknown_output_of_vm_stat_is_no_figure(name: str) -> None:
    assert compressed_bytes(recorded(name)) is None


@pytest.mark.parametrize("name", ["ioreg-list.plist", "ioreg-dict.plist", "ioreg-two.plist"])
def test_a_list_of_gpus_or_one_alone(name: str) -> None:
    assert read_gpu(recorded(name)) == AppleGpu(name="Apple M3 Max", busy=0.87, memory=HELD)


def test_a_figure_that_is_missing_is_none_and_never_zero() -> None:
    assert read_gpu(recorded("ioreg-no-memory.plist")) == AppleGpu("Apple M3 Max", 0.87, None)
    assert read_gpu(recorded("ioreg-no-duty.plist")) == AppleGpu("Apple M3 Max", None, HELD)


def test_a_name_kept_as_bytes_is_read_and_one_left_out_is_made_up_for() -> None:
    named = read_gpu(recorded("ioreg-name-as-data.plist"))
    nameless = read_gpu(recorded("ioreg-no-name.plist"))
    assert named is not None
    assert nameless is not None
    assert (named.name, nameless.name) == ("Apple M1", "Apple GPU")


@pytest.mark.parametrize(
    "name",
    [
        "nothing.txt",
        "ioreg-empty-list.plist",
        "ioreg-empty-dict.plist",
        "ioreg-no-statistics.plist",
        "ioreg-no-figures.plist",
    ],
)
def test_no_gpu_is_none(name: str) -> None:
    assert read_gpu(recorded(name)) is None


def test_what_is_no_property_list_is_an_error() -> None:
    for text in (b"ioreg: no such class", recorded("ioreg-cut-off.plist")):
        with pytest.raises(ValueError):  # noqa: PT011 - plistlib's own words
            read_gpu(text)


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
def test_the_level_of_heat(name: str, level: int | None) -> None:
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
def test_a_program_that_fails_is_not_started_again_and_the_others_are(answer: bytes | Exception) -> None:
    mac = FakeMac(ioreg=answer, thermal=answer)
    figures = AppleFigures(mac)
    assert [figures.gpu(), figures.gpu()] == [None, None]
    assert [figures.thermal(), figures.thermal()] == [None, None]
    assert [figures.compressed(), figures.compressed()] == [COMPRESSED] * 2
    assert mac.calls == [IOREG, THERMAL, VM_STAT, VM_STAT]


def test_a_mac_that_is_too_busy_to_answer_is_asked_again() -> None:
    mac = FakeMac(ioreg=subprocess.TimeoutExpired("ioreg", 1.0))
    figures = AppleFigures(mac)
    assert figures.gpu() is None
    mac.answers[IOREG] = recorded("ioreg-list.plist")
    assert figures.gpu() is not None


def test_a_gpu_and_the_heat_make_one_event() -> None:
    found = source(FakeMac(thermal=recorded("notifyutil-heavy.txt"))).read()
    assert [event.bytes for event in found if isinstance(event, MemorySampled)] == [HELD]
    told = device(found)
    assert (told.name, told.busy, told.thermal) == ("Apple M3 Max", 0.87, 2)
    assert (told.power, told.temperature, told.throttled) == (None, None, None)


def test_heat_is_told_where_the_gpu_says_nothing_and_nothing_makes_no_event() -> None:
    found = source(FakeMac(ioreg=b"")).read()
    assert [device(found).thermal, device(found).busy] == [0, None]
    assert source(FakeMac(ioreg=b"", thermal=b"")).read() == []


def test_what_changes_slowly_is_asked_for_less_often() -> None:
    clock, mac = FakeClock(), FakeMac()
    mine = source(mac, clock)
    for _ in range(3):
        assert device(mine.read()).thermal == 0, "the last one stands"
        clock.now += SLOW_SECONDS / 4
    assert (mac.calls.count(IOREG), mac.calls.count(THERMAL), mac.calls.count(VM_STAT)) == (3, 1, 1)
    clock.now += SLOW_SECONDS
    mac.answers[THERMAL] = recorded("notifyutil-heavy.txt")
    assert device(mine.read()).thermal == 2


def test_compressed_memory_that_cannot_be_had_any_more_is_soon_none() -> None:
    clock, mac = FakeClock(), FakeMac()
    mine = source(mac, clock)
    assert mine.compressed() is None
    mine.read()
    assert mine.compressed() == COMPRESSED
    mac.answers[VM_STAT] = b""
    clock.now += STALE_SECONDS + 1
    mine.read()
    assert mine.compressed() is None


def test_power_is_the_energy_between_two_readings() -> None:
    clock, energy = FakeClock(), FakeEnergy(50_000)
    mine = source(FakeMac(), clock, energy)
    assert device(mine.read()).power is None
    clock.now, energy.gpu_mj = 2.0, 86_000
    assert device(mine.read()).power == pytest.approx(18.0)
    clock.now, energy.gpu_mj = 3.0, 10
    assert device(mine.read()).power is None, "the counter began anew"
    clock.now, energy.gpu_mj = 4.0, 10
    assert device(mine.read()).power == 0.0, "a GPU that rests draws nothing, and that is told"
    assert energy.monitors == 1


def test_without_its_library_or_its_counter_there_is_no_power() -> None:
    clock = FakeClock()
    without, lacking = source(FakeMac(), clock), source(FakeMac(), clock, FakeEnergy(None))
    for clock.now in (0.0, 1.0, 2.0):
        assert device(without.read()).power is None
        assert device(lacking.read()).power is None


def test_a_macs_sample_tells_of_its_gpu_and_its_compressed_memory() -> None:
    sampler = Sampler(gauge=PressureGauge(None), apple=AppleFigures(FakeMac()))
    at_once = [getattr(event, "source", None) for event in sampler.sample()]
    assert Source.APPLE not in at_once, "nobody waits for it"
    sampler.finish()
    found = sampler.sample()
    sampler.finish()
    memory = {event.source: event for event in found if isinstance(event, MemorySampled)}
    assert memory[Source.APPLE].bytes == HELD
    assert memory[Source.SYSTEM].compressed == COMPRESSED
    gpus = [event for event in found if isinstance(event, DeviceSampled) and event.source is Source.APPLE]
    assert [(gpu.name, gpu.busy) for gpu in gpus] == [("Apple M3 Max", 0.87)]
    assert [event.time for event in found] == sorted(event.time for event in found)
