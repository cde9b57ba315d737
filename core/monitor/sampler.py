"""Samples the computer, a process tree and a GPU as events.

What can't be read has no event or is None, never zero.
"""

import ctypes
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
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from xml.parsers.expat import ExpatError

import psutil

from core.base.language import _
from core.base.system import ProcessorLoad, ProcessTree, resident_bytes, system_memory
from core.monitor.nvidia import NvidiaGpu, NvidiaSource
from core.runs.events import (
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    Event,
    MemorySampled,
    Pressure,
    Source,
)

# --- Readings that may fail, and slow ones


Value = TypeVar("Value")


class Query(Generic[Value]):
    """A reading that some drivers, laptops and containers don't support. After a failure it is not repeated.

    Args:
        ask: Returns the value, or None if there is none.
        failures: The exceptions that mean it isn't supported.
    """

    def __init__(self, ask: Callable[[], Value | None], *failures: type[Exception]) -> None:
        self._ask: Callable[[], Value | None] | None = ask
        self._failures = failures

    def __call__(self) -> Value | None:
        if self._ask is None:
            return None
        try:
            found = self._ask()
        except subprocess.TimeoutExpired:  # a Mac that pages takes long to start a program: repeat it later
            return None
        except self._failures:
            found = None
        if found is None:
            self._ask = None
        return found


class Background:
    """Reads a source that is slow, or may hang, in a thread. It is not read again after it returns None or raises.

    Args:
        every: Minimum seconds between two readings.
        patience: Seconds to wait for a reading, so that the samples of a fast source are returned at once.
    """

    def __init__(
        self,
        source: Callable[[], Sequence[Event] | None],
        *,
        every: float = 0.0,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source: Callable[[], Sequence[Event] | None] | None = source
        self._every = every
        self._patience = patience
        self._clock = clock
        self._next = clock()
        self._found: SimpleQueue[Event] = SimpleQueue()
        self._thread: Thread | None = None

    def read(self) -> list[Event]:
        """Returns the samples read since the last call, each with its time, and starts the next reading."""
        if self._source is not None and self._clock() >= self._next:
            self._next = self._clock() + self._every
            self._thread = Thread(target=self._work, args=(self._source,), name="machine source", daemon=True)
            self._thread.start()
            self.finish(self._patience)
        return [self._found.get_nowait() for _rest in range(self._found.qsize())]

    def finish(self, seconds: float | None = None) -> None:
        """Waits for the current reading, at most `seconds`."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self, source: Callable[[], Sequence[Event] | None]) -> None:
        self._source = None  # so that no second reading starts meanwhile
        found = source()  # exceptions go to threading.excepthook, which reports bugs
        if found is not None:
            self._source = source
        for event in found or ():
            self._found.put(event)


# --- Memory pressure

PSI = Path("/proc/pressure/memory")

WARN_PERCENT = 10.0
"""Share of the last 10 s in which some program waited for memory, from which on memory counts as short.

With enough memory it is 0. A tenth is noticeable, and close to the 7 % from which Android's low memory killer reports a
partial stall (70 ms of each second).
"""

CRITICAL_PERCENT = 40.0
"""Memory pressure is critical from this share on; systemd-oomd ends programs at 60 %."""

MAC_LEVELS = {1: Pressure.NORMAL, 2: Pressure.WARN, 4: Pressure.CRITICAL}
"""Values of DISPATCH_MEMORYPRESSURE_NORMAL, _WARN, _CRITICAL."""


def memory_pressure(system: str = sys.platform) -> Query[Pressure]:
    """Reads the memory pressure of an operating system, named as in `sys.platform`."""
    if system == "darwin":
        return Query(
            lambda: mac_pressure(sysctl("kern.memorystatus_vm_pressure_level")), OSError, AttributeError
        )
    if system == "linux":
        return Query(lambda: linux_pressure(PSI.read_text(encoding="ascii")), OSError, ValueError)
    return Query(lambda: None)


def mac_pressure(value: bytes) -> Pressure | None:
    """Returns the pressure for a value of sysctl, a little-endian C `int` on every Mac."""
    is_number = len(value) == ctypes.sizeof(ctypes.c_int32)
    return MAC_LEVELS.get(int.from_bytes(value, "little", signed=True)) if is_number else None


def linux_pressure(text: str) -> Pressure | None:
    """Returns the pressure by `/proc/pressure/memory`: the 10 s average of the time in which some task waited.

    Source: https://docs.kernel.org/accounting/psi.html.

    Raises:
        ValueError: The average is not a number.
    """
    for line in text.splitlines():
        kind, *fields = line.split()
        if kind == "some":
            percent = float(dict(field.split("=", 1) for field in fields).get("avg10", "none"))
            if percent >= CRITICAL_PERCENT:
                return Pressure.CRITICAL
            return Pressure.WARN if percent >= WARN_PERCENT else Pressure.NORMAL
    return None


def sysctl(name: str) -> bytes:
    """Returns a value of macOS's sysctl, read without starting a program, which takes long on a Mac that pages.

    Raises:
        OSError: There is no value of this name, or it has more than 64 bytes.
        AttributeError: This is not a Mac.
    """
    value = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(value))
    library = ctypes.CDLL(None, use_errno=True)
    if library.sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0):
        raise OSError(ctypes.get_errno(), f"sysctl {name}")
    return value.raw[: size.value]


# --- Processor

HWMON = Path("/sys/class/hwmon")
CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Drivers of sensors in processors: Intel, AMD (two drivers), ARM boards."""

PREFERRED_SENSORS = ("Package id 0", "Tdie")
"""The whole package; AMD's true temperature, since its first sensor has an offset for the fan."""

DEAR_SECONDS = 0.002
"""Maximum processor time for reading the clock; it isn't read every second if it takes longer.

Linux reads the clock of every core out of `/proc/cpuinfo`: 0.06 ms with 2 cores, more than this with very many.
"""


class Processor:
    """Samples the load of all cores together, their clock in MHz and temperature in degrees Celsius."""

    def __init__(self) -> None:
        self._load = ProcessorLoad()
        self._load.read()
        self._clock = processor_clock()
        self._temperature = processor_temperature()

    def read(self) -> list[Event]:
        """Returns one sample; none the first time, since the load is an average since the last reading."""
        busy = self._load.read()
        if busy is None:
            return []
        now, limit = self._clock() or (None, None)
        temperature = self._temperature()
        return [
            DeviceSampled(
                source=Source.SYSTEM,
                name="CPU",
                busy=busy,
                clock=now,
                clock_limit=limit,
                temperature=temperature,
            )
        ]


def processor_clock(
    system: str = sys.platform, cpu: Callable[[], float] = time.thread_time
) -> Query[tuple[float, float | None]]:
    """Reads the cores' mean clock and its limit in MHz, unless one reading takes longer than `DEAR_SECONDS`.

    Only on Linux is it the current clock: psutil returns the highest on a Mac and the nominal one on Windows.
    """

    def read() -> tuple[float, float | None] | None:
        found = psutil.cpu_freq() if system == "linux" else None
        return (float(found.current), float(found.max) or None) if found and found.current else None

    query = Query(read, OSError, NotImplementedError, ValueError)
    query()  # the first time takes longer
    before = cpu()
    query()
    return query if cpu() - before <= DEAR_SECONDS else Query(lambda: None)


def processor_temperature(folder: Path = HWMON) -> Query[float]:
    """Reads the processor's sensor on Linux. psutil would read all sensors and wake a sleeping GPU."""
    chips = {_text(chip / "name"): chip for chip in sorted(folder.glob("hwmon*"), reverse=True)}
    chip = next((chips[name] for name in CHIPS if name in chips), folder)
    labels = {_text(file): file for file in chip.glob("temp*_label")}
    named = next((labels[label] for label in PREFERRED_SENSORS if label in labels), chip / "temp1_label")
    sensor = named.with_name(named.name.replace("_label", "_input"))
    return Query(lambda: int(sensor.read_text(encoding="ascii")) / 1000, OSError, ValueError)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


# --- Battery and disk


def battery() -> Callable[[], list[Event]]:
    """Returns samples the computer's battery, if it has one."""
    # psutil lacks the function on some systems
    query = Query(getattr(psutil, "sensors_battery", lambda: None), OSError, RuntimeError, ValueError)

    def read() -> list[Event]:
        found = query()
        if found is None or found.percent is None:
            return []
        return [BatterySampled(share=min(1.0, found.percent / 100), is_plugged=found.power_plugged)]

    return read


def disk(folder: Path) -> Callable[[], list[Event]]:
    query = Query(lambda: psutil.disk_usage(str(folder)), OSError)

    def read() -> list[Event]:
        found = query()
        return [] if found is None else [DiskSampled(free=int(found.free), total=int(found.total))]

    return read


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
        """Returns the bytes that macOS keeps compressed, as of the last reading; may be called from any thread."""
        known = self._compressed
        return known[1] if known is not None and self._clock() - known[0] <= COMPRESSED_SECONDS else None

    def read(self) -> list[Event]:
        """Samples the memory in use by the GPU, and its load, power and thermal pressure."""
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
        """Returns the mean power of the GPU in watts since the last call; None for the first call."""
        energy = self._energy()
        if energy is None:
            return None
        now = self._clock()
        before, self._energy_before = self._energy_before, (now, energy)
        if before is None or now <= before[0] or energy < before[1]:
            return None
        return (energy - before[1]) / 1000 / (now - before[0])

    def _read_energy(self) -> int | None:
        """Reads the energy in millijoules since an arbitrary moment."""
        if self._energy_monitor is None:
            self._energy_monitor = self._load(POWER_LIBRARY).AppleEnergyMonitor()
        found = self._energy_monitor.get_cumulative_energy().gpu_mj
        return None if found is None else int(found)


def compressed_bytes(text: bytes) -> int | None:
    """Returns the bytes in use by the memory compressor, from the output of `vm_stat`; None if it has no such line."""
    words = text.decode(errors="replace")
    size, pages = _PAGE_SIZE.search(words), _COMPRESSOR.search(words)
    return int(size[1]) * int(pages[1]) if size and pages else None


def thermal_level(text: bytes) -> int | None:
    """Reads thermal pressure, 0 (nominal) to 4 (sleeping), in the output of `notifyutil -g`; None if unknown."""
    found = _LEVEL.search(text.decode(errors="replace"))
    return int(found[1]) if found else None


def read_gpu(plist: bytes) -> AppleGpu | None:
    """Returns the first GPU in the output of `ioreg -a`; None if there is none, or none with figures.

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
        """Adds events in the order of time; those that aren't samples are ignored."""
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
        """Returns the samples that are current at `now` (unix seconds)."""

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
        """Returns the current samples in the order of time; of those of memory, the computer's is last."""
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
        """Waits for all readings in the background, at most `seconds` for each."""
        for source in self._background:
            source.finish(seconds)
