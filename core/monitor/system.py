"""Memory, processor, disk, battery and temperature of this computer."""

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Generic, Protocol, TypeVar

import psutil

from core.base.system import ProcessorLoad, ProcessTree, resident_bytes, system_memory
from core.runs.events import (
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    Event,
    MemorySampled,
    Pressure,
    Source,
)

# --- Temperature on Linux


HWMON = Path("/sys/class/hwmon")

CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Drivers of the sensors within processors: Intel, AMD (two of them), ARM boards."""

LABELS = ("Package id 0", "Tdie")
"""The sensors to prefer: the whole package; AMD's true temperature, where the first one is offset for the fan."""


def processor_sensor(folder: Path = HWMON) -> Path | None:
    """The file that holds the processor's temperature in thousandths of a degree Celsius; None where there is none."""
    chips = {_text(chip / "name"): chip for chip in sorted(folder.glob("hwmon*"), reverse=True)}
    chip = next((chips[name] for name in CHIPS if name in chips), None)
    if chip is None:
        return None
    labels = {_text(file): file for file in chip.glob("temp*_label")}
    named = next((labels[label] for label in LABELS if label in labels), chip / "temp1_label")
    sensor = named.with_name(named.name.replace("_label", "_input"))
    return sensor if sensor.is_file() else None


def read_sensor(sensor: Path) -> float:
    """Degrees Celsius.

    Raises:
        OSError: The sensor can't be read.
        ValueError: It holds no number.
    """
    return int(sensor.read_text(encoding="ascii")) / 1000


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


# --- Memory pressure


PSI = Path("/proc/pressure/memory")

WARN_PERCENT = 10.0
"""From this share of the last 10 s on, in which some program stood waiting for memory, Linux counts as short of it.

A computer with memory to spare stays at 0. A tenth of all time spent waiting is what one notices, and near the 7 %
from which Android's low memory killer calls it partly stalled (70 ms of each second).
"""

CRITICAL_PERCENT = 40.0
"""From here on work hardly goes on; systemd-oomd ends programs at 60 %."""

MAC_NAME = "kern.memorystatus_vm_pressure_level"

MAC_LEVELS = {1: Pressure.NORMAL, 2: Pressure.WARN, 4: Pressure.CRITICAL}
"""What macOS's sysctl has for it: the values of DISPATCH_MEMORYPRESSURE_NORMAL, _WARN, _CRITICAL."""


class PressureGauge:
    """Reads the pressure whenever asked. What fails once is not asked again.

    Args:
        read: What is asked; it raises OSError or ValueError, or AttributeError for a missing function, where it fails.
            None: nothing is known of this system.
    """

    def __init__(self, read: Callable[[], Pressure] | None) -> None:
        self._read = read

    def read(self) -> Pressure | None:
        """The pressure now."""
        if self._read is None:
            return None
        try:
            return self._read()
        except (OSError, ValueError, AttributeError):
            self._read = None
            return None


def pressure_gauge(system: str = sys.platform) -> PressureGauge:
    """The gauge of this operating system (named as in `sys.platform`)."""
    if system == "darwin":
        return PressureGauge(lambda: mac_pressure(whole_number(sysctl(MAC_NAME))))
    if system == "linux":
        return PressureGauge(lambda: linux_pressure(PSI.read_text(encoding="ascii")))
    return PressureGauge(None)


def mac_pressure(level: int) -> Pressure:
    """The pressure behind a number that macOS gives.

    Raises:
        ValueError: It is none of the known numbers.
    """
    if level not in MAC_LEVELS:
        raise ValueError(f"macOS tells of a memory pressure {level}, which means nothing known")
    return MAC_LEVELS[level]


def linux_pressure(text: str) -> Pressure:
    """The pressure behind `/proc/pressure/memory`, by its average over 10 s of the time in which some task waited.

    Source: https://docs.kernel.org/accounting/psi.html.

    Raises:
        ValueError: The text holds no such figure.
    """
    for line in text.splitlines():
        kind, *fields = line.split()
        if kind == "some":
            waited = float(dict(field.split("=", 1) for field in fields).get("avg10", "none"))
            return _by_share(waited)
    raise ValueError("no line of tasks that wait for memory")


def _by_share(percent: float) -> Pressure:
    if percent >= CRITICAL_PERCENT:
        return Pressure.CRITICAL
    return Pressure.WARN if percent >= WARN_PERCENT else Pressure.NORMAL


def whole_number(value: bytes) -> int:
    """The number behind a value of sysctl: an `int` of C, 4 bytes with the lowest first on every Mac.

    Raises:
        ValueError: It has another length, so it is no such number.
    """
    if len(value) != ctypes.sizeof(ctypes.c_int32):
        raise ValueError(f"a number of {len(value)} bytes")
    return int.from_bytes(value, "little", signed=True)


def sysctl(name: str) -> bytes:
    """A value of macOS's sysctl, read without starting a program: a Mac that pages takes long for that.

    Raises:
        OSError: There is none of this name, or one of more than 64 bytes.
        AttributeError: This is no Mac.
    """
    value = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(value))
    library = ctypes.CDLL(None, use_errno=True)
    if library.sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0):
        raise OSError(ctypes.get_errno(), f"sysctl {name}")
    return value.raw[: size.value]


# --- Interface of a source


Value = TypeVar("Value")


class MachineSource(Protocol):
    """Tells what some part of the machine does. What it can't tell makes no event, and is never written as zero."""

    def read(self) -> Sequence[Event]:
        """The figures since the last call, in the order of time."""


class Query(Generic[Value]):
    """One question to the machine. Drivers, laptops and containers lack different answers.

    Args:
        ask: Gives the answer; None: there is none.
        failures: What it raises where it fails. After that, or after None, it is not asked again.
    """

    def __init__(self, ask: Callable[[], Value | None], *failures: type[Exception]) -> None:
        self._ask: Callable[[], Value | None] | None = ask
        self._failures = failures

    def __call__(self) -> Value | None:
        """The answer now; None: not available."""
        if self._ask is None:
            return None
        try:
            found = self._ask()
        except self._failures:
            found = None
        if found is None:
            self._ask = None
        return found


class Every:
    """Reads a source less often than it is asked to: what changes slowly is not asked for every second.

    Args:
        seconds: The least time between two readings.
        source: What is read; the first time at once.
        clock: Tells the time in seconds.
    """

    def __init__(
        self, seconds: float, source: MachineSource, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._source = source
        self._clock = clock
        self._next = clock()

    def read(self) -> Sequence[Event]:
        """The figures, where it is time for them."""
        now = self._clock()
        if now < self._next:
            return ()
        self._next = now + self._seconds
        return self._source.read()


class InBackground:
    """Reads a slow source, or one that may hang, in a thread of its own, so that nobody waits for it.

    Each call hands out what has come meanwhile, with the time at which it was read, and begins the next reading unless
    one is under way still. A source that raises is not read again: its bug is told once.

    Args:
        source: What is read.
        every: The least time in seconds between the beginnings of two readings.
        patience: How many seconds a reading that has just begun is waited for, so that a quick one is told at once.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        source: MachineSource,
        *,
        every: float = 0.0,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source: MachineSource | None = source
        self._every = every
        self._patience = patience
        self._clock = clock
        self._next = clock()
        self._found: SimpleQueue[Event] = SimpleQueue()
        self._thread: Thread | None = None

    def read(self) -> Sequence[Event]:
        """What came since the last call, and what can be had without waiting longer than the patience is."""
        found = self._take()
        if self._is_due():
            self._next = self._clock() + self._every
            self._thread = Thread(target=self._work, name="machine source", daemon=True)
            self._thread.start()
            if self._patience:
                self.finish(self._patience)
                found += self._take()
        return found

    def finish(self, seconds: float | None = None) -> None:
        """Wait until the reading under way is done, or for so many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _is_due(self) -> bool:
        is_busy = self._thread is not None and self._thread.is_alive()
        return self._source is not None and not is_busy and self._clock() >= self._next

    def _take(self) -> list[Event]:
        found: list[Event] = []
        while True:
            try:
                found.append(self._found.get_nowait())
            except Empty:
                return found

    def _work(self) -> None:
        if self._source is None:
            return
        try:
            found = self._source.read()
        except Exception:
            self._source = None
            raise  # for the process's own hook, which reports bugs of threads
        for event in found:
            self._found.put(event)


# --- Sources


DEAR_SECONDS = 0.002
"""Processor time from which on a figure isn't worth reading every second.

Linux reads the clock of every core out of `/proc/cpuinfo`: 0.06 ms with 2 cores, more than this with very many.
"""


class ProcessMemory:
    """What a process and everything it started hold of the main memory."""

    def __init__(self, processes: ProcessTree) -> None:
        self._processes = processes

    def read(self) -> Sequence[Event]:
        """One sample; none once the process has gone."""
        held = resident_bytes(self._processes.read())
        return [] if held is None else [MemorySampled(source=Source.PROCESS, bytes=held)]


class MainMemory:
    """What all programs hold of the main memory, and how short of it the operating system is.

    Args:
        gauge: What tells the pressure.
        compressed: Tells the bytes that macOS keeps compressed; None: not known.
    """

    def __init__(self, gauge: PressureGauge, compressed: Callable[[], int | None]) -> None:
        self._gauge = gauge
        self._compressed = compressed

    def read(self) -> Sequence[Event]:
        """One sample."""
        system = system_memory()
        return [
            MemorySampled(
                source=Source.SYSTEM,
                bytes=system.used,
                ceiling=system.total,
                swap=system.swap,
                compressed=self._compressed(),
                pressure=self._gauge.read(),
            )
        ]


class Processor:
    """How busy the processor's cores are together, their clock and temperature where these are told."""

    def __init__(self) -> None:
        self._load = ProcessorLoad()
        self._load.read()
        self._clock = processor_clock()
        self._temperature = _processor_temperature()

    def read(self) -> Sequence[Event]:
        """One sample; none the first time, when there is no span yet over which it could be busy."""
        busy = self._load.read()
        if busy is None:
            return []
        now, limit = self._clock() or (None, None)
        return [
            DeviceSampled(
                source=Source.SYSTEM,
                name="CPU",
                busy=busy,
                clock=now,
                clock_limit=limit,
                temperature=self._temperature(),
            )
        ]


class Battery:
    """The computer's battery, where it has one."""

    def __init__(self) -> None:
        self._query = Query(_read_battery, AttributeError, OSError, RuntimeError, ValueError)

    def read(self) -> Sequence[Event]:
        """One sample."""
        found = self._query()
        if found is None or found.percent is None:
            return []
        return [BatterySampled(share=min(1.0, found.percent / 100), is_plugged=found.power_plugged)]


class Disk:
    """The disk that a folder lies on."""

    def __init__(self, folder: Path) -> None:
        self._query = Query(lambda: psutil.disk_usage(str(folder)), OSError)

    def read(self) -> Sequence[Event]:
        """One sample."""
        found = self._query()
        return [] if found is None else [DiskSampled(free=int(found.free), total=int(found.total))]


def processor_clock(
    system: str = sys.platform, cpu: Callable[[], float] = time.thread_time
) -> Query[tuple[float, float | None]]:
    """What tells the cores' mean clock and its limit in MHz; it tells nothing where reading it once took long.

    Only Linux tells the clock of this moment: psutil has the highest on a Mac and the nominal one on Windows.

    Args:
        system: The operating system, as in `sys.platform`.
        cpu: Tells the processor time that this thread has taken, in seconds.
    """
    query = Query(_clock if system == "linux" else _nothing, OSError, NotImplementedError, ValueError)
    query()  # the first time takes longer
    before = cpu()
    query()
    return query if cpu() - before <= DEAR_SECONDS else Query(_nothing)


def _clock() -> tuple[float, float | None] | None:
    found = psutil.cpu_freq()
    return (float(found.current), float(found.max) or None) if found and found.current else None


def _nothing() -> None:
    return None


def _read_battery() -> Any:
    return psutil.sensors_battery()  # AttributeError: psutil lacks it on some systems


def _processor_temperature() -> Query[float]:
    sensor = processor_sensor() if sys.platform == "linux" else None
    return Query(lambda: read_sensor(sensor) if sensor is not None else None, OSError, ValueError)
