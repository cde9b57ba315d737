"""Sample the computer, a process tree and a GPU as events."""

import importlib
import plistlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar
from xml.parsers.expat import ExpatError

from core.base.language import _
from core.base.system import ProcessTree, resident_bytes, system_memory
from core.monitor.nvidia import NvidiaGpu, NvidiaSource
from core.monitor.system import Background, Processor, Query, Value, battery, disk, memory_pressure
from core.runs.events import BatterySampled, DeviceSampled, Event, MemorySampled, Pressure, Source

# --- A Mac, read from programs of macOS without special rights


Run: TypeAlias = Callable[[Sequence[str]], bytes]

VM_STAT = ("/usr/bin/vm_stat",)
IOREG = ("/usr/sbin/ioreg", "-a", "-r", "-d", "1", "-c", "IOAccelerator")
THERMAL_COMMAND = ("/usr/bin/notifyutil", "-g", "com.apple.system.thermalpressurelevel")
TIMEOUT_SECONDS = 1.0

PROGRAM_SECONDS = 5.0  # between readings of values that change slowly: each one starts a program
COMPRESSED_SECONDS = 15.0  # how long the last figure of compressed memory is used if no new one can be read
POWER_LIBRARY = "zeus_apple_silicon"  # optional

_PAGE_SIZE = re.compile(r"page size of (\d+) bytes")
_COMPRESSOR = re.compile(r"^Pages occupied by compressor:\s+(\d+)\.?$", re.MULTILINE)
_LEVEL = re.compile(r"thermalpressurelevel\s+([0-4])\s*$")


class AppleGpu(NamedTuple):
    """The GPU of a Mac: its load from 0 to 1, and the bytes of the computer's memory that it uses for all programs."""

    name: str
    busy: float | None
    memory: int | None


class AppleSource:
    """Samples a Mac's GPU. A program that fails, or whose output can't be read, is not started again."""

    def __init__(
        self,
        run: Run | None = None,
        load: Callable[[str], Any] = importlib.import_module,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run or _run
        self._load = load
        self._clock = clock
        self._gpu = self._query(IOREG, read_gpu)
        self._compressed_query = self._query(VM_STAT, compressed_bytes)
        self._thermal_query = self._query(THERMAL_COMMAND, thermal_level)
        # RuntimeError: the library finds no counters, as in a virtual machine; AttributeError: it has changed
        self._energy = Query(self._read_energy, ImportError, RuntimeError, AttributeError)
        self._energy_monitor: Any = None
        self._energy_before: tuple[float, int] | None = None
        self._next_slow = clock()
        self._thermal: int | None = None
        self._compressed: tuple[float, int] | None = None
        self._name = _("Apple GPU")

    def _query(self, command: Sequence[str], read: Callable[[bytes], Value | None]) -> Query[Value]:
        return Query(lambda: read(self._run(command)), OSError, ValueError, subprocess.CalledProcessError)

    def compressed(self) -> int | None:
        """Bytes of memory that macOS keeps compressed, as of the last reading; may be called from any thread."""
        known = self._compressed
        return known[1] if known is not None and self._clock() - known[0] <= COMPRESSED_SECONDS else None

    def read(self) -> list[Event]:
        """Sample the memory in use by the GPU, and its load, power and thermal pressure."""
        now = self._clock()
        if now >= self._next_slow:
            self._next_slow = now + PROGRAM_SECONDS
            self._thermal = self._thermal_query()
            compressed = self._compressed_query()
            if compressed is not None:
                self._compressed = (now, compressed)
        gpu, power, busy = self._gpu(), self._power(), None
        found: list[Event] = []
        if gpu is not None:
            self._name, busy = gpu.name, gpu.busy
            if gpu.memory is not None:
                found.append(MemorySampled(source=Source.APPLE, bytes=gpu.memory))
        if (power, busy, self._thermal) != (None, None, None):
            found.append(
                DeviceSampled(
                    source=Source.APPLE, name=self._name, busy=busy, power=power, thermal=self._thermal
                )
            )
        return found

    def _power(self) -> float | None:
        """Mean power of the GPU in watts since the last call; None for the first call."""
        energy = self._energy()
        if energy is None:
            return None
        now = self._clock()
        before, self._energy_before = self._energy_before, (now, energy)
        if before is None or now <= before[0] or energy < before[1]:
            return None
        return (energy - before[1]) / 1000 / (now - before[0])

    def _read_energy(self) -> int | None:
        """Energy in millijoules since an arbitrary moment."""
        if self._energy_monitor is None:
            self._energy_monitor = self._load(POWER_LIBRARY).AppleEnergyMonitor()
        found = self._energy_monitor.get_cumulative_energy().gpu_mj
        return None if found is None else int(found)


def compressed_bytes(text: bytes) -> int | None:
    """Bytes in use by the memory compressor, from the output of `vm_stat`; None if it has no such line."""
    words = text.decode(errors="replace")
    size, pages = _PAGE_SIZE.search(words), _COMPRESSOR.search(words)
    return int(size[1]) * int(pages[1]) if size and pages else None


def thermal_level(text: bytes) -> int | None:
    """Thermal pressure from 0 (nominal) to 4 (sleeping), from the output of `notifyutil -g`; None if unknown."""
    found = _LEVEL.search(text.decode(errors="replace"))
    return int(found[1]) if found else None


def read_gpu(plist: bytes) -> AppleGpu | None:
    """The first GPU in the output of `ioreg -a`; None if there is none, or none with figures.

    Raises:
        ValueError: `plist` is not a property list.
    """
    if not plist.strip():
        return None
    try:
        found = plistlib.loads(plist)
    except ExpatError as error:
        raise ValueError(str(error)) from error
    entry = found[0] if isinstance(found, list) and found else found
    figures = entry.get("PerformanceStatistics") if isinstance(entry, dict) else None
    if not isinstance(figures, dict):
        return None
    percent = _whole(figures.get("Device Utilization %"))
    memory = _whole(figures.get("In use system memory"))
    if percent is None and memory is None:
        return None
    model = entry.get("model") or ""  # some entries keep text as bytes that end with a zero
    name = (model.decode(errors="replace") if isinstance(model, bytes) else str(model)).rstrip("\0")
    return AppleGpu(name or _("Apple GPU"), None if percent is None else min(1.0, percent / 100), memory)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _run(command: Sequence[str]) -> bytes:
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=True).stdout


# --- All samples


Sample = TypeVar("Sample", bound=Event)

# --- Newest sample of each kind

STALE_SECONDS = 8.0  # older samples are not shown
BATTERY_SECONDS = 30.0  # the same for the battery, which is read less often


@dataclass(frozen=True)
class MachinePicture:
    """The last samples, None if not available.

    `memory` is the computer's, `card` that of a graphics card with its own memory; `gpu` and `processor` are their
    loads. `swap_grown` is the growth of the swap since its lowest sample, in bytes.
    """

    memory: MemorySampled | None = None
    card: MemorySampled | None = None
    gpu: DeviceSampled | None = None
    processor: DeviceSampled | None = None
    battery: BatterySampled | None = None
    swap_grown: int = 0


class MachineView:
    """Keeps the last sample of each kind. `picture` may be called from any thread."""

    def __init__(self) -> None:
        self._newest: dict[tuple[type[Event], Source | None], Event] = {}
        self._least_swap: int | None = None

    def take(self, events: Iterable[Event]) -> None:
        """Add events in the order of time; those that aren't samples are ignored."""
        for event in events:
            match event:
                case MemorySampled() | DeviceSampled():
                    self._newest[type(event), event.source] = event
                case BatterySampled():
                    self._newest[BatterySampled, None] = event
            if isinstance(event, MemorySampled) and event.swap is not None:
                least = event.swap if self._least_swap is None else self._least_swap
                self._least_swap = min(event.swap, least)

    def picture(self, now: float) -> MachinePicture:
        """The samples that are current at `now` (unix seconds)."""

        def newest(kind: type[Sample], source: Source | None = None) -> Sample | None:
            found = self._newest.get((kind, source))
            seconds = BATTERY_SECONDS if kind is BatterySampled else STALE_SECONDS
            return found if isinstance(found, kind) and now - found.time <= seconds else None

        system = newest(MemorySampled, Source.SYSTEM)
        swap = system.swap if system is not None else None
        return MachinePicture(
            memory=system,
            card=newest(MemorySampled, Source.NVML),
            gpu=newest(DeviceSampled, Source.NVML) or newest(DeviceSampled, Source.APPLE),
            processor=newest(DeviceSampled, Source.SYSTEM),
            battery=newest(BatterySampled),
            swap_grown=0 if swap is None or self._least_swap is None else swap - self._least_swap,
        )


# --- Sampler

SLOW_SECONDS = 10.0  # between readings of battery and disk
PATIENCE_SECONDS = 0.05  # drivers and disks answer within a millisecond or two, or they hang


class Sampler:
    """Reads all sources on each call; what can't be read has no event.

    A GPU, a disk and a battery may take long, or hang, and are read in the background: if a reading takes long, its
    samples are returned by a later call.

    Args:
        pid: The process whose memory, with that of its children, is the run's.
        find_gpu: Finds the NVIDIA GPU; called in the background.
        folder: A folder on the disk to sample.
        pressure: Reads the memory pressure; None: that of this operating system.
        apple: Samples a Mac's GPU; None: if this is a Mac.
    """

    def __init__(
        self,
        pid: int | None = None,
        find_gpu: Callable[[], NvidiaGpu | None] | None = None,
        *,
        folder: Path | None = None,
        pressure: Callable[[], Pressure | None] | None = None,
        apple: AppleSource | None = None,
    ) -> None:
        self._processes = ProcessTree(pid)
        self._processor = Processor()
        self._pressure = pressure or memory_pressure()
        self._apple = AppleSource() if apple is None and sys.platform == "darwin" else apple
        self._nvidia = NvidiaSource(find_gpu, self._processes)
        self._background = [
            Background(self._nvidia.read, patience=PATIENCE_SECONDS),
            Background(battery(), every=SLOW_SECONDS, patience=PATIENCE_SECONDS),
        ]
        if self._apple is not None:
            self._background.append(Background(self._apple.read))
        if folder is not None:
            self._background.append(Background(disk(folder), every=SLOW_SECONDS, patience=PATIENCE_SECONDS))

    def let_gpu_sleep(self) -> None:
        self._nvidia.find = None

    def sample(self) -> list[Event]:
        """The current samples in the order of time; of those of memory, the computer's is last."""
        found = [event for source in self._background for event in source.read()]
        held = resident_bytes(self._processes.read())
        if held is not None:
            found.append(MemorySampled(source=Source.PROCESS, bytes=held))
        system = system_memory()
        found.append(
            MemorySampled(
                source=Source.SYSTEM,
                bytes=system.used,
                ceiling=system.total,
                swap=system.swap,
                compressed=self._apple.compressed() if self._apple is not None else None,
                pressure=self._pressure(),
            )
        )
        return sorted([*found, *self._processor.read()], key=attrgetter("time"))

    def finish(self, seconds: float | None = None) -> None:
        """Wait for all readings in the background, at most `seconds` for each."""
        for source in self._background:
            source.finish(seconds)
