"""The memory of GPUs, by what PyTorch documents of its counters; and the thread that reports it."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from core.base.system import SystemMemory
from core.engine.devices import memory
from core.engine.devices.choose import resolve_run
from core.engine.devices.memory import (
    DeviceMemory,
    MemoryReports,
    ceiling_of,
    limit_memory,
    memory_limit,
    process_peak,
    share_within,
)
from core.engine.memory.measure import CurrentMemory
from core.engine.reporter import Reporter
from core.monitor import device_memory
from core.options import RunOptions
from core.options.choices import Task
from core.options.sections import DeviceOptions
from core.runs.event_log import EventReader
from core.runs.events import MemorySampled, RunStarted, Source, StepFinished
from core.runs.folder import RunFolder
from tests.fakes.machines import GB, M2_8GB, PC
from tests.fakes.training import run_options

MB = 1 << 20


class FakeCuda:
    """torch.cuda as far as memory goes; reading it before it is initialized would initialize it."""

    initialized = False
    is_integrated = 0
    mem_get_info: Any = None
    set_per_process_memory_fraction: Any = None
    get_per_process_memory_fraction: Any = None

    def is_initialized(self) -> bool:
        return self.initialized

    def current_device(self) -> int:
        assert self.initialized
        return 0

    def get_device_properties(self, device: int) -> SimpleNamespace:
        return SimpleNamespace(total_memory=24_000 * MB, is_integrated=self.is_integrated)

    def memory_allocated(self) -> int:
        assert self.initialized
        return 900 * MB

    def memory_reserved(self) -> int:
        return 1200 * MB


@pytest.fixture
def mps(monkeypatch):
    """torch.mps as far as memory goes."""
    fake = SimpleNamespace(
        held=700 * MB,
        fraction=None,
        set_per_process_memory_fraction=lambda fraction: setattr(fake, "fraction", fraction),
        driver_allocated_memory=lambda: fake.held,
        current_allocated_memory=lambda: 500 * MB,
        recommended_max_memory=lambda: 27_000 * MB,
    )
    monkeypatch.setattr(torch, "mps", fake)
    return fake


def figures(sample: MemorySampled | None) -> tuple[object, ...]:
    """MB used, reserved and at most, and whether the memory is shared with the CPU."""
    assert sample is not None
    assert sample.source is Source.TORCH
    return sample.bytes // MB, (sample.reserved or 0) // MB, (sample.ceiling or 0) // MB, sample.unified


def test_cuda_is_left_alone_until_the_run_uses_it(monkeypatch):
    cuda = FakeCuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    assert DeviceMemory("cuda").sample() is None
    cuda.initialized = True
    assert figures(DeviceMemory("cuda").sample()) == (900, 1200, 24_000, False)
    cuda.is_integrated = 1
    assert figures(DeviceMemory("cuda").sample())[-1] is True


@pytest.mark.parametrize(
    ("free", "total", "held"),
    [
        (7.0, 8.0, 6.5),
        (23.0, 24.0, 22.04),
        (8.0, 8.0, 7.5),
        (1.0, 8.0, 0.8),
        (0.0, 24.0, 2.4),
        (12.0, 1.0, 1.0),
    ],
)
def test_what_a_run_may_hold_of_a_card(free, total, held):
    assert share_within(int(free * GB), int(total * GB)) * total == pytest.approx(held, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "spills", "integrated", "limit"),
    [
        ("cuda", True, 0, 22_500 * MB - 960 * MB),
        ("cuda", True, 1, None),
        ("cuda", False, 0, None),
        ("cpu", True, 0, None),
    ],
)
def test_a_run_is_limited_to_what_is_free_where_the_driver_would_use_the_computers_memory(
    kind, spills, integrated, limit, monkeypatch
):
    cuda, shares = FakeCuda(), [1.0]
    cuda.initialized, cuda.is_integrated = True, integrated
    cuda.mem_get_info = lambda: (22_500 * MB, 24_000 * MB)
    cuda.set_per_process_memory_fraction = shares.append
    cuda.get_per_process_memory_fraction = lambda: shares[-1]
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(memory, "gpu_memory_spills", lambda: spills)
    limit_memory(SimpleNamespace(kind=kind))
    assert memory_limit() == limit
    cuda.initialized = False
    assert memory_limit() is None


def test_every_run_is_limited_before_it_loads_anything(monkeypatch):
    from core.engine.training import build

    limited = []
    monkeypatch.setattr(build, "limit_memory", limited.append)
    with build.chosen_device(run_options()) as resolved:
        assert limited == [resolved]


def test_mps_shares_memory_and_the_highest_sample_is_its_peak(mps):
    device = DeviceMemory("mps", 27_000 * MB)
    assert figures(device.sample()) == (500, 700, 27_000, True)
    mps.held = 300 * MB
    device.sample()
    assert device.peak() == 700 * MB


@pytest.mark.parametrize(("heaps", "peak"), [(900, 900), (600, 700)])
def test_where_torch_keeps_peaks_on_mps_a_higher_one_between_two_samples_counts(
    heaps, peak, mps, monkeypatch
):
    monkeypatch.setattr(torch.accelerator, "max_memory_reserved", lambda: heaps * MB)
    monkeypatch.setattr(torch.accelerator, "max_memory_allocated", lambda: 550 * MB)
    device = DeviceMemory("mps")
    device.sample()
    assert device.peak() == peak * MB
    with CurrentMemory("mps") as held:
        assert held.most() == (peak * MB, 550 * MB)


@pytest.mark.parametrize(
    ("facts", "limit", "ceiling"),
    [
        (M2_8GB, 1.0, 5),
        (M2_8GB, 1.7, 6),
        (M2_8GB, 0.0, 6),
        (M2_8GB, 0.5, 2.5),
        (PC, 1.7, None),
    ],
)
def test_torch_takes_no_more_than_the_one_ceiling(facts, limit, ceiling, mps, monkeypatch):
    """The limit of the allocator, that of the live chart, and that by which a run is said to fit."""
    monkeypatch.setattr(device_memory, "system_memory", lambda: SystemMemory(0, facts.memory_bytes, 0))
    monkeypatch.setattr(device_memory, "group_memory", lambda: None)
    mps.recommended_max_memory = lambda: facts.mps_memory_bytes
    options = RunOptions(task=Task.CHAT, device=DeviceOptions(mps_memory_limit=limit))
    resolved = resolve_run(facts, options)
    limit_memory(resolved)
    assert mps.fraction == (ceiling and pytest.approx(ceiling / 5))
    assert ceiling_of(resolved) == (ceiling and ceiling * GB)
    if ceiling:
        room = device_memory.room_of(resolved.device, mps_limit=limit)
        assert room is not None
        assert room.ceiling == ceiling * GB == DeviceMemory("mps", ceiling_of(resolved)).sample().ceiling


def test_a_cpu_has_no_memory_of_its_own_and_no_thread(tmp_path):
    device = DeviceMemory("cpu")
    assert (device.sample(), device.peak()) == (None, None)
    before = threading.active_count()
    with MemoryReports(device, Reporter(RunFolder(tmp_path))):
        assert threading.active_count() == before


def test_the_peak_is_that_of_this_process_alone(tmp_path):
    status = tmp_path / "status"
    status.write_text("VmPeak:\t  900 kB\nVmHWM:\t  512 kB\nVmRSS:\t  100 kB\n")
    assert process_peak(status) == 512 * 1024


class CountingReporter(Reporter):
    """Sets `reached` when it has written three events."""

    def __init__(self, run: RunFolder) -> None:
        super().__init__(run)
        self.reached = threading.Event()
        self._left = 3

    def write(self, event: object) -> None:
        super().write(event)
        self._left -= 1
        if not self._left:
            self.reached.set()


def test_the_thread_reports_while_the_run_is_busy_and_ends_with_it(tmp_path, mps):
    run = RunFolder(tmp_path)
    reporter = CountingReporter(run)
    with MemoryReports(DeviceMemory("mps"), reporter, interval=0.001) as reports:
        assert reporter.reached.wait(10)
        reports.stop()
        count = len(EventReader(run.events_file).read_all())
        reporter.write(RunStarted())
    events = EventReader(run.events_file).read_all()
    assert all(isinstance(event, MemorySampled) for event in events[:count])
    assert events[count:] == [events[-1]]


def test_figures_that_cannot_be_read_end_the_reports_and_not_the_run(tmp_path, monkeypatch, capsys):
    def fail() -> int:
        raise RuntimeError("no such device")

    monkeypatch.setattr(torch, "mps", SimpleNamespace(driver_allocated_memory=fail))
    run = RunFolder(tmp_path)
    with MemoryReports(DeviceMemory("mps"), Reporter(run), interval=0.001) as reports:
        reports._thread.join(10)
    assert EventReader(run.events_file).read_all() == []
    assert "no such device" in capsys.readouterr().err


class SlowFile:
    """A file that takes a line in two pieces, as an unbuffered one may, and counts who is writing."""

    def __init__(self, file: object) -> None:
        self._file = file
        self._inside = 0
        self.most = 0

    def seek(self, *where: int) -> int:
        self._inside += 1
        self.most = max(self.most, self._inside)
        return self._file.seek(*where)

    def write(self, data: bytes) -> int:
        part = data[: len(data) // 2] if data.startswith(b"{") else data
        written = self._file.write(part)
        if part is data:
            self._inside -= 1
        return written


def test_two_threads_write_whole_lines(tmp_path, capsys):
    run = RunFolder(tmp_path)
    reporter = Reporter(run)
    file = SlowFile(reporter._writer._file)
    reporter._writer._file = file
    step = StepFinished(step=1, epoch=0.1, seconds=0.1, learning_rate=1e-3, samples=8, loss=0.5)

    def write() -> None:
        for _ in range(200):
            reporter.write(step)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = EventReader(run.events_file)
    assert (len(reader.read_all()), reader.skipped) == (400, 0)
    assert file.most == 1, "never two at once"
