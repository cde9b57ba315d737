"""GPU, compressed memory and heat of a Mac, read from programs of macOS without special rights."""

import importlib
import plistlib
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar
from xml.parsers.expat import ExpatError

from core.monitor.system import Query
from core.runs.events import DeviceSampled, Event, MemorySampled, Source

# --- Power, with the optional package `zeus-apple-silicon`


LIBRARY = "zeus_apple_silicon"


class GpuPower:
    """The mean power of a Mac's GPU between one reading and the next.

    Args:
        load: Imports the library.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        load: Callable[[str], Any] = importlib.import_module,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._clock = clock
        self._monitor: Any = None
        # RuntimeError: the library finds no counters, as within a virtual machine; AttributeError: it has changed
        self._energy = Query(self._read_energy, ImportError, RuntimeError, AttributeError)
        self._before: tuple[float, int] | None = None

    def read(self) -> float | None:
        """Watts since the last call; None the first time, and where they aren't told."""
        energy = self._energy()
        if energy is None:
            return None
        now = self._clock()
        before, self._before = self._before, (now, energy)
        if before is None or now <= before[0] or energy < before[1]:
            return None
        return (energy - before[1]) / 1000 / (now - before[0])

    def _read_energy(self) -> int | None:
        """Millijoules since some moment in the past."""
        if self._monitor is None:
            self._monitor = self._load(LIBRARY).AppleEnergyMonitor()
        found = self._monitor.get_cumulative_energy().gpu_mj
        return None if found is None else int(found)


# --- Thermal pressure


THERMAL_NAMES = ("nominal", "moderate", "heavy", "trapping", "sleeping")
"""Apple's names of the levels, from 0 on (`OSThermalPressureLevel` in OSThermalNotification.h)."""

SLOWED_FROM = THERMAL_NAMES.index("heavy")
"""The level from which on a Mac slows down: at moderate the fans turn and the pace is kept."""


def thermal_name(level: int) -> str:
    """Apple's name of a level; its number where it has none that is known."""
    return THERMAL_NAMES[level] if 0 <= level < len(THERMAL_NAMES) else str(level)


# --- Throttling


class Throttle(StrEnum):
    """What `core.runs.events.DeviceSampled.throttled` may hold, and what `core.monitor.system_rules` finds.

    A power cap is the usual state of a card that works hard; the others mean that something is not as it should be. No
    driver tells of the last two: they follow from other figures.
    """

    POWER_CAP = "power cap"
    POWER_BRAKE = "power brake"
    THERMAL_SOFTWARE = "thermal slowdown (software)"
    THERMAL_HARDWARE = "thermal slowdown (hardware)"
    HARDWARE = "hardware slowdown"
    PRESSURE = "thermal pressure"
    HOT = "it is hot, and its clock is low"


THERMAL = frozenset({Throttle.THERMAL_SOFTWARE, Throttle.THERMAL_HARDWARE, Throttle.PRESSURE, Throttle.HOT})
"""The processor, or its memory, is too hot."""

_BITS = {
    0x04: Throttle.POWER_CAP,
    0x20: Throttle.THERMAL_SOFTWARE,
    0x40: Throttle.THERMAL_HARDWARE,
    0x80: Throttle.POWER_BRAKE,
}
"""By the values of `nvmlClocksEventReason…` in nvml.h.

Left out is what slows nothing down: an idle GPU (0x01), clocks that somebody asked for (0x02), a group of GPUs kept in
step (0x10), the display's clocks (0x100).
"""

_HARDWARE = 0x08
"""Set together with the hardware's thermal slowdown and the power brake; alone on cards that don't tell these apart."""


def throttle_reasons(mask: int) -> tuple[Throttle, ...]:
    """The words for a mask of `nvmlDeviceGetCurrentClocksEventReasons`; empty: nothing holds the clocks down."""
    found = tuple(word for bit, word in _BITS.items() if mask & bit)
    told_apart = {Throttle.THERMAL_HARDWARE, Throttle.POWER_BRAKE}
    if mask & _HARDWARE and not told_apart.intersection(found):
        return (*found, Throttle.HARDWARE)
    return found


# --- GPU and memory


Value = TypeVar("Value")
Run: TypeAlias = Callable[[Sequence[str]], bytes]

VM_STAT = ("/usr/bin/vm_stat",)
IOREG = ("/usr/sbin/ioreg", "-a", "-r", "-d", "1", "-c", "IOAccelerator")
THERMAL_COMMAND = ("/usr/bin/notifyutil", "-g", "com.apple.system.thermalpressurelevel")
TIMEOUT_SECONDS = 1.0
"""A Mac that pages may take long to start a program: it is asked again at the next sample."""

_PAGE_SIZE = re.compile(r"page size of (\d+) bytes")
_COMPRESSOR = re.compile(r"^Pages occupied by compressor:\s+(\d+)\.?$", re.MULTILINE)
_LEVEL = re.compile(r"thermalpressurelevel\s+(\d+)\s*$")


@dataclass(frozen=True)
class AppleGpu:
    """The GPU of a Mac: `busy` 0 to 1, `memory` the bytes of the computer's that it holds for all programs."""

    name: str
    busy: float | None
    memory: int | None


class AppleFigures:
    """Asks whenever it is told to. A program that fails, or gives nothing to read, is not started again.

    Args:
        run: Starts a program and returns what it printed; None: for real.
    """

    def __init__(self, run: Run | None = None) -> None:
        self._run = run or _run
        self._compressed = self._query(VM_STAT, compressed_bytes)
        self._gpu = self._query(IOREG, read_gpu)
        self._thermal = self._query(THERMAL_COMMAND, thermal_level)

    def compressed(self) -> int | None:
        """Bytes that compressed pages take up in memory."""
        return self._patiently(self._compressed)

    def gpu(self) -> AppleGpu | None:
        """What the GPU does and holds."""
        return self._patiently(self._gpu)

    def thermal(self) -> int | None:
        """The level of thermal pressure, from 0 (nominal) to 4 (sleeping)."""
        return self._patiently(self._thermal)

    def _query(self, command: Sequence[str], read: Callable[[bytes], Value | None]) -> Query[Value]:
        return Query(lambda: read(self._run(command)), OSError, ValueError, subprocess.CalledProcessError)

    def _patiently(self, query: Query[Value]) -> Value | None:
        try:
            return query()
        except subprocess.TimeoutExpired:
            return None


def compressed_bytes(text: bytes) -> int | None:
    """What `vm_stat` tells of the compressor; None where it doesn't."""
    words = text.decode(errors="replace")
    size, pages = _PAGE_SIZE.search(words), _COMPRESSOR.search(words)
    return int(size[1]) * int(pages[1]) if size and pages else None


def thermal_level(text: bytes) -> int | None:
    """What `notifyutil -g` tells: the notification's name and its state; None where that is no known level."""
    found = _LEVEL.search(text.decode(errors="replace"))
    return int(found[1]) if found and int(found[1]) < len(THERMAL_NAMES) else None


def read_gpu(plist: bytes) -> AppleGpu | None:
    """The first GPU that `ioreg -a` lists, in a list or alone; None where it lists none, or no figures of it.

    Raises:
        ValueError: That is no property list.
    """
    if not plist.strip():
        return None
    try:
        found = plistlib.loads(plist)
    except ExpatError as error:
        raise ValueError(str(error)) from error
    entry = found[0] if isinstance(found, list) and found else found
    if not isinstance(entry, dict) or not entry:
        return None
    statistics = entry.get("PerformanceStatistics")
    figures: dict[str, Any] = statistics if isinstance(statistics, dict) else {}
    percent, memory = _whole(figures.get("Device Utilization %")), _whole(figures.get("In use system memory"))
    if percent is None and memory is None:
        return None
    busy = None if percent is None else min(1.0, percent / 100)
    return AppleGpu(name=_text(entry.get("model")) or "Apple GPU", busy=busy, memory=memory)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(value: Any) -> str:
    """Some entries keep text as bytes that end with a zero."""
    return (value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")).rstrip("\0")


def _run(command: Sequence[str]) -> bytes:
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=True)
    return done.stdout


# --- Source of samples


SLOW_SECONDS = 5.0
"""How often heat and compressed memory are asked for. Each costs the start of a program, and changes slowly."""

STALE_SECONDS = 15.0
"""How long the last figure of compressed memory stands where a new one can't be had."""


class AppleSource:
    """What a Mac's GPU does and holds.

    Args:
        figures: Asks macOS.
        power: Tells the GPU's watts.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        figures: AppleFigures,
        power: GpuPower | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._figures = figures
        self._power = power or GpuPower()
        self._clock = clock
        self._next_slow = clock()
        self._thermal: int | None = None
        self._compressed: tuple[float, int] | None = None
        self._name = "Apple GPU"

    def compressed(self) -> int | None:
        """The bytes that macOS kept compressed when last asked; may be called from any thread."""
        known = self._compressed
        return known[1] if known is not None and self._clock() - known[0] <= STALE_SECONDS else None

    def read(self) -> Sequence[Event]:
        """The memory that the GPU holds, and what it does."""
        self._ask_slow()
        gpu = self._figures.gpu()
        found: list[Event] = []
        if gpu is not None and gpu.memory is not None:
            found.append(MemorySampled(source=Source.APPLE, bytes=gpu.memory))
        return [*found, *self._device(gpu)]

    def _device(self, gpu: AppleGpu | None) -> Sequence[Event]:
        power, busy = self._power.read(), None
        if gpu is not None:
            self._name, busy = gpu.name, gpu.busy
        if power is None and busy is None and self._thermal is None:
            return []
        device = DeviceSampled(
            source=Source.APPLE, name=self._name, busy=busy, power=power, thermal=self._thermal
        )
        return [device]

    def _ask_slow(self) -> None:
        now = self._clock()
        if now < self._next_slow:
            return
        self._next_slow = now + SLOW_SECONDS
        self._thermal = self._figures.thermal()
        compressed = self._figures.compressed()
        if compressed is not None:
            self._compressed = (now, compressed)
