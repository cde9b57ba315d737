"""GPU, compressed memory and thermal pressure of a Mac, read from programs of macOS without special rights."""

import importlib
import plistlib
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias
from xml.parsers.expat import ExpatError

from core.base.language import _
from core.monitor.system import Query, Value
from core.runs.events import DeviceSampled, Event, MemorySampled, Source

Run: TypeAlias = Callable[[Sequence[str]], bytes]

VM_STAT = ("/usr/bin/vm_stat",)
IOREG = ("/usr/sbin/ioreg", "-a", "-r", "-d", "1", "-c", "IOAccelerator")
THERMAL_COMMAND = ("/usr/bin/notifyutil", "-g", "com.apple.system.thermalpressurelevel")
TIMEOUT_SECONDS = 1.0

SLOW_SECONDS = 5.0  # between readings of values that change slowly: each one starts a program
STALE_SECONDS = 15.0  # how long the last figure of compressed memory is used if no new one can be read
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
        return known[1] if known is not None and self._clock() - known[0] <= STALE_SECONDS else None

    def read(self) -> list[Event]:
        """Sample the memory in use by the GPU, and its load, power and thermal pressure."""
        now = self._clock()
        if now >= self._next_slow:
            self._next_slow = now + SLOW_SECONDS
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
