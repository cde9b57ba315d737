"""Memory pressure, processor, disk and battery of this computer, and classes that read such sources.

What can't be read has no event or is None, never zero.
"""

import ctypes
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

import psutil

from core.base.system import ProcessorLoad
from core.runs.events import BatterySampled, DeviceSampled, DiskSampled, Event, Pressure, Source

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
        """Return the samples read since the last call, with the times of their readings, and start the next reading."""
        if self._source is not None and self._clock() >= self._next:
            self._next = self._clock() + self._every
            self._thread = Thread(target=self._work, args=(self._source,), name="machine source", daemon=True)
            self._thread.start()
            self.finish(self._patience)
        return [self._found.get_nowait() for _rest in range(self._found.qsize())]

    def finish(self, seconds: float | None = None) -> None:
        """Wait for the current reading, at most `seconds`."""
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
    """The pressure for a value of sysctl, a little-endian C `int` on every Mac."""
    is_number = len(value) == ctypes.sizeof(ctypes.c_int32)
    return MAC_LEVELS.get(int.from_bytes(value, "little", signed=True)) if is_number else None


def linux_pressure(text: str) -> Pressure | None:
    """The pressure for the content of `/proc/pressure/memory`: the 10 s average of the time in which some task waited.

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
    """A value of macOS's sysctl, read without starting a program, which takes long on a Mac that pages.

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
        """One sample; none the first time, since the load is an average since the last reading."""
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
    """Samples the computer's battery, if it has one."""
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
