import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from core.base.system import ProcessorLoad, system_memory, tree_bytes
from core.monitor import sampler as monitor_sampler
from core.monitor.nvidia import find_gpu
from core.monitor.sampler import Sampler, gpu_of
from core.runs.events import DeviceSampled, Event, MemorySampled, Source
from tests.fakes.nvml import FakeNvml


class TestMemory:
    def test_what_is_used_and_what_is_available_make_up_the_whole(self) -> None:
        found = system_memory()
        available = psutil.virtual_memory().available
        assert found.total == psutil.virtual_memory().total
        assert found.used + available == pytest.approx(found.total, rel=0.05)

    def test_a_tree_counts_what_its_root_started(self) -> None:
        alone = tree_bytes(os.getpid())
        code = "data = bytearray(64 << 20); print('ready', flush=True); input()"
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            child.stdout.readline()
            together = tree_bytes(os.getpid())
            child.communicate(b"\n")
        assert together - alone > 60 << 20

    def test_a_process_that_is_gone_has_no_figure(self) -> None:
        with subprocess.Popen([sys.executable, "-c", ""]) as child:
            child.wait()
        assert tree_bytes(child.pid) is None

    def test_load_needs_two_looks(self) -> None:
        load = ProcessorLoad()
        assert load.read() is None
        end = psutil.cpu_times().user + 0.05
        while psutil.cpu_times().user < end:
            sum(range(10_000))
        busy = load.read()
        assert busy is not None
        assert 0 < busy <= 1


class TestNvidia:
    def test_figures_have_their_units(self) -> None:
        gpu = find_gpu("0", FakeNvml())
        assert gpu is not None
        assert gpu.name == "Fake GPU 0"
        assert (gpu.busy(), gpu.power(), gpu.temperature()) == (0.4, 123.4, 61.0)
        memory = gpu.memory()
        assert memory is not None
        assert (memory.used, memory.ceiling) == (3 << 30, 7 << 30)

    def test_no_driver_or_no_such_card_is_no_gpu(self) -> None:
        assert find_gpu("0", FakeNvml(broken={"nvmlInit"})) is None
        assert find_gpu("3", FakeNvml()) is None

    def test_what_fails_once_is_none_and_not_asked_again_and_the_rest_goes_on(self) -> None:
        nvml = FakeNvml(broken={"nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo"})
        gpu = find_gpu("0", nvml)
        assert gpu is not None
        for _ in range(3):
            assert (gpu.power(), gpu.memory(), gpu.busy()) == (None, None, 0.4)
        assert nvml.calls.count("nvmlDeviceGetPowerUsage") == 1
        assert nvml.calls.count("nvmlDeviceGetMemoryInfo") == 1

    def test_an_older_driver_is_asked_for_the_temperature_in_its_way(self) -> None:
        gpu = find_gpu("0", FakeNvml(broken={"nvmlDeviceGetTemperatureV"}))
        assert gpu is not None
        assert gpu.temperature() == 60.0

    def test_its_limits_and_its_clock(self) -> None:
        gpu = find_gpu("0", FakeNvml())
        assert gpu is not None
        assert (gpu.power_limit(), gpu.clock(), gpu.clock_limit()) == (200.0, 1410.0, 1980.0)

    @pytest.mark.parametrize(
        ("mask", "words"),
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
    def test_why_its_clock_is_held_down(self, mask: int, words: tuple[str, ...], broken: set[str]) -> None:
        nvml = FakeNvml(broken)
        nvml.reasons = mask
        gpu = find_gpu("0", nvml)
        assert gpu is not None
        assert gpu.throttled() == words

    def test_a_driver_that_does_not_say_why_is_not_one_that_holds_nothing_down(self) -> None:
        names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        nvml = FakeNvml(set(names))
        gpu = find_gpu("0", nvml)
        assert gpu is not None
        assert [gpu.throttled(), gpu.throttled()] == [None, None]
        assert [nvml.calls.count(name) for name in names] == [1, 1]

    def test_a_gpu_that_shares_the_computers_memory_has_none_of_its_own(self) -> None:
        gpu = find_gpu("0", FakeNvml(total=0))
        assert gpu is not None
        assert gpu.memory() is None

    def test_what_processes_hold_of_it_together(self) -> None:
        nvml = FakeNvml()
        nvml.running = {7: 1 << 30, 8: 2 << 30, 9: 4 << 30}
        gpu = find_gpu("0", nvml)
        assert gpu is not None
        assert gpu.memory_of({7, 8}) == 3 << 30
        assert gpu.memory_of({1}) is None, "a container's process goes by another number outside"
        nvml.running[8] = None
        assert gpu.memory_of({7, 8}) is None, "Windows keeps it to itself"

    def test_a_gpu_is_found_by_its_uuid(self) -> None:
        gpu = find_gpu("GPU-0-uuid", FakeNvml())
        assert gpu is not None
        assert gpu.name == "Fake GPU 0"
        assert find_gpu("GPU-7-uuid", FakeNvml()) is None

    @pytest.mark.parametrize(
        ("device", "visible", "name"),
        [
            ("auto", None, "Fake GPU 0"),
            ("cuda", None, "Fake GPU 0"),
            ("cuda:1", None, "Fake GPU 1"),
            ("cuda:1", "2,3", "Fake GPU 3"),
            ("auto", "2", "Fake GPU 2"),
            ("auto", "GPU-1-uuid", "Fake GPU 1"),
            ("cuda:1", "2", None),
            ("cuda:4", None, None),
            ("auto", "", None),
            ("cpu", None, None),
            ("mps", None, None),
        ],
    )
    def test_a_run_has_the_gpu_that_its_engine_will_see(
        self, device: str, visible: str | None, name: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(monitor_sampler, "find_gpu", lambda name: find_gpu(name, FakeNvml(count=4)))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        gpu = gpu_of(device)
        assert (gpu.name if gpu else None) == name


@pytest.fixture
def desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer without a battery."""
    monkeypatch.setattr(psutil, "sensors_battery", lambda: None)


def settled(sampler: Sampler) -> list[Event]:
    """A sample, with what is read in the background."""
    sampler.sample()
    sampler.finish(10)
    found = sampler.sample()
    sampler.finish(10)
    return found


@pytest.mark.usefixtures("desktop")
class TestSampler:
    def test_figures_of_the_computer_the_process_and_the_gpu(self) -> None:
        nvml = FakeNvml()
        nvml.running = {os.getpid(): 2 << 30, 1: 1 << 30}
        found = settled(Sampler(os.getpid(), lambda: find_gpu("0", nvml)))
        memory = {event.source: event for event in found if isinstance(event, MemorySampled)}
        assert set(memory) == {Source.SYSTEM, Source.PROCESS, Source.NVML}
        assert (memory[Source.NVML].ceiling, memory[Source.NVML].own) == (7 << 30, 2 << 30)
        gpus = [event for event in found if isinstance(event, DeviceSampled) and event.source is Source.NVML]
        assert {(gpu.name, gpu.busy) for gpu in gpus} == {("Fake GPU 0", 0.4)}

    def test_a_gpu_that_shares_the_computers_memory_tells_the_rest(self) -> None:
        found = settled(Sampler(find_gpu=lambda: find_gpu("0", FakeNvml(total=0))))
        assert not [e for e in found if isinstance(e, MemorySampled) and e.source is Source.NVML]
        gpu = next(event for event in found if isinstance(event, DeviceSampled) and event.name != "CPU")
        assert (gpu.source, gpu.power, gpu.power_limit) == (Source.NVML, 123.4, 200.0)
        assert (gpu.temperature, gpu.clock, gpu.clock_limit, gpu.throttled) == (61.0, 1410.0, 1980.0, ())

    def test_figures_that_a_driver_lacks_are_none(self) -> None:
        asked = ("PowerUsage", "EnforcedPowerLimit", "ClockInfo", "MaxClockInfo", "UtilizationRates")
        nvml = FakeNvml({f"nvmlDeviceGet{name}" for name in asked})
        sampler = Sampler(find_gpu=lambda: find_gpu("0", nvml))
        for _ in range(2):
            gpu = next(event for event in settled(sampler) if getattr(event, "name", "CPU") != "CPU")
            assert (gpu.busy, gpu.power, gpu.power_limit, gpu.clock, gpu.clock_limit) == (None,) * 5
            assert gpu.temperature == 61.0
        assert [nvml.calls.count(f"nvmlDeviceGet{name}") for name in asked] == [1] * len(asked)

    def test_a_gpu_that_is_let_go_of_is_not_asked_again(self) -> None:
        nvml = FakeNvml()
        sampler = Sampler(find_gpu=lambda: find_gpu("0", nvml))
        settled(sampler)
        sampler.let_gpu_sleep()
        asked = len(nvml.calls)
        assert all(event.source is Source.SYSTEM for event in settled(sampler))
        assert len(nvml.calls) == asked

    def test_where_no_gpu_is_found_none_is_looked_for_again(self) -> None:
        looks = []
        sampler = Sampler(find_gpu=lambda: looks.append(1))
        for _ in range(3):
            assert {event.source for event in settled(sampler)} == {Source.SYSTEM}
        assert (len(looks), sampler.has_gpu) == (1, False)

    @pytest.mark.parametrize("hangs", ["the driver", "the disk"])
    def test_what_hangs_keeps_nobody_from_the_rest(
        self, hangs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers = threading.Event()

        def hang(*_: object) -> None:
            assert answers.wait(10)

        monkeypatch.setattr(psutil, "disk_usage", hang)
        sampler = Sampler(find_gpu=hang) if hangs == "the driver" else Sampler(folder=tmp_path)
        try:
            for _ in range(2):
                assert Source.SYSTEM in {event.source for event in sampler.sample()}
            assert not answers.is_set()
        finally:
            answers.set()
            sampler.finish(10)

    def test_what_is_not_there_makes_no_event(self) -> None:
        found = Sampler().sample()
        assert {event.source for event in found} == {Source.SYSTEM}
