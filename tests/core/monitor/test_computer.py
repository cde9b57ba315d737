"""The computer's own figures, where it has them and where it hasn't."""

from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from core.monitor import system as monitor_system
from core.monitor.sampler import SLOW_SECONDS, Sampler
from core.monitor.system import (
    DEAR_SECONDS,
    Battery,
    Disk,
    Processor,
    Query,
    processor_clock,
    processor_sensor,
    read_sensor,
)
from core.runs.events import BatterySampled, DeviceSampled, DiskSampled, MemorySampled, Source
from tests.fakes.clock import FakeClock

Power = namedtuple("Power", "percent secsleft power_plugged")
Clock = namedtuple("Clock", "current min max")


class Load:
    """Tells one load after the other."""

    def __init__(self, *loads: float | None) -> None:
        self._loads = iter(loads)

    def read(self) -> float | None:
        return next(self._loads)


class TestBattery:
    @pytest.mark.parametrize(
        ("told", "expected"),
        [
            (Power(43.0, 100, False), [BatterySampled(time=0, share=0.43, is_plugged=False)]),
            (Power(100.0, -2, True), [BatterySampled(time=0, share=1.0, is_plugged=True)]),
            (Power(80.0, -1, None), [BatterySampled(time=0, share=0.8, is_plugged=None)]),
            (None, []),
        ],
    )
    def test_what_is_left_and_whether_it_is_plugged_in(
        self, told: Power | None, expected: list[BatterySampled], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(psutil, "sensors_battery", lambda: told)
        found = Battery().read()
        assert [(event.share, event.is_plugged) for event in found] == [
            (event.share, event.is_plugged) for event in expected
        ]

    def test_a_system_without_the_function_has_no_battery(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(psutil, "sensors_battery")
        assert Battery().read() == []


class TestDisk:
    def test_what_is_free_where_the_run_lies(self, tmp_path: Path) -> None:
        [found] = Disk(tmp_path).read()
        assert isinstance(found, DiskSampled)
        assert 0 < found.free <= found.total

    def test_a_folder_that_is_not_there_has_no_disk(self, tmp_path: Path) -> None:
        assert Disk(tmp_path / "gone").read() == []

    def test_it_is_read_now_and_then(self, tmp_path: Path) -> None:
        sampler = Sampler(folder=tmp_path)
        told: list[DiskSampled] = []
        for _ in range(3):
            told += [event for event in sampler.sample() if isinstance(event, DiskSampled)]
            sampler.finish(10)
        assert len(told) == 1
        assert SLOW_SECONDS == 10.0


class TestProcessor:
    def test_the_clock_of_the_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(psutil, "cpu_freq", lambda: Clock(2596.0, 0.0, 4200.0))
        assert processor_clock("linux")() == (2596.0, 4200.0)
        monkeypatch.setattr(psutil, "cpu_freq", lambda: Clock(2596.0, 0.0, 0.0))
        assert processor_clock("linux")() == (2596.0, None), "an unknown limit is no limit of zero"

    @pytest.mark.parametrize("told", [None, Clock(0.0, 0.0, 0.0)])
    def test_a_clock_that_is_not_told_is_none(
        self, told: Clock | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(psutil, "cpu_freq", lambda: told)
        assert processor_clock("linux")() is None

    def test_only_linux_tells_the_clock_of_this_moment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(psutil, "cpu_freq", lambda: Clock(4056.0, 0.0, 4056.0))
        assert [processor_clock(system)() for system in ("darwin", "win32")] == [None, None]

    @pytest.mark.parametrize(("cost", "is_read"), [(0.9 * DEAR_SECONDS, True), (1.1 * DEAR_SECONDS, False)])
    def test_a_clock_that_takes_long_to_read_is_left_out(
        self, cost: float, is_read: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cpu = FakeClock()

        def read() -> Clock:
            cpu.now += cost
            return Clock(2596.0, 0.0, 0.0)

        monkeypatch.setattr(psutil, "cpu_freq", read)
        assert (processor_clock("linux", cpu.monotonic)() is not None) == is_read

    def test_what_is_told_makes_one_event(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(monitor_system, "ProcessorLoad", lambda: Load(None, None, 0.4, 0.5))
        monkeypatch.setattr(monitor_system, "processor_clock", lambda: Query(lambda: (2596.0, 4200.0)))
        monkeypatch.setattr(monitor_system, "_processor_temperature", lambda: Query(lambda: 71.5))
        processor = Processor()
        assert processor.read() == [], "a load needs a span"
        [found] = processor.read()
        assert isinstance(found, DeviceSampled)
        assert (found.source, found.name, found.busy) == (Source.SYSTEM, "CPU", 0.4)
        assert (found.clock, found.clock_limit, found.temperature) == (2596.0, 4200.0, 71.5)

    def test_what_is_not_told_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(monitor_system, "ProcessorLoad", lambda: Load(None, 0.0))
        monkeypatch.setattr(monitor_system, "processor_clock", lambda: Query(lambda: None))
        monkeypatch.setattr(monitor_system, "_processor_temperature", lambda: Query(lambda: None))
        [found] = Processor().read()
        assert (found.busy, found.clock, found.clock_limit, found.temperature) == (0.0, None, None, None)


class TestSensor:
    def chip(self, folder: Path, number: int, name: str, **files: str) -> None:
        chip = folder / f"hwmon{number}"
        chip.mkdir()
        (chip / "name").write_text(f"{name}\n")
        for file, text in files.items():
            (chip / file).write_text(f"{text}\n")

    def test_the_whole_package_of_an_intel_processor(self, tmp_path: Path) -> None:
        self.chip(tmp_path, 0, "nvme", temp1_input="31000")
        self.chip(
            tmp_path,
            1,
            "coretemp",
            temp1_label="Core 0",
            temp1_input="50000",
            temp2_label="Package id 0",
            temp2_input="71500",
        )
        sensor = processor_sensor(tmp_path)
        assert sensor is not None
        assert read_sensor(sensor) == 71.5

    def test_the_true_temperature_of_an_amd_processor(self, tmp_path: Path) -> None:
        self.chip(
            tmp_path,
            0,
            "k10temp",
            temp1_label="Tctl",
            temp1_input="90000",
            temp2_label="Tdie",
            temp2_input="63000",
        )
        sensor = processor_sensor(tmp_path)
        assert sensor is not None
        assert read_sensor(sensor) == 63.0

    def test_a_board_with_one_sensor_and_no_names_for_it(self, tmp_path: Path) -> None:
        self.chip(tmp_path, 0, "cpu_thermal", temp1_input="48250")
        sensor = processor_sensor(tmp_path)
        assert sensor is not None
        assert read_sensor(sensor) == 48.25

    def test_no_sensor_of_the_processor_is_none(self, tmp_path: Path) -> None:
        assert processor_sensor(tmp_path) is None
        self.chip(tmp_path, 0, "nvme", temp1_input="31000")
        self.chip(tmp_path, 1, "k10temp")
        assert processor_sensor(tmp_path) is None


def test_the_computers_memory_comes_last_of_all_memory(tmp_path: Path) -> None:
    found = Sampler(1, folder=tmp_path).sample()
    memory = [event.source for event in found if isinstance(event, MemorySampled)]
    assert memory[-1] is Source.SYSTEM
