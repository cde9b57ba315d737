"""What macOS tells of its GPU, compressed memory and heat, through its own programs; no rights are needed.

Read and written from documentation, never seen at work: every figure may be missing, and is None then.
"""

import plistlib
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar
from xml.parsers.expat import ExpatError

from core.machine.heat import THERMAL_NAMES
from core.machine.sources import Query

Value = TypeVar("Value")
Run: TypeAlias = Callable[[Sequence[str]], bytes]

VM_STAT = ("/usr/bin/vm_stat",)
IOREG = ("/usr/sbin/ioreg", "-a", "-r", "-d", "1", "-c", "IOAccelerator")
THERMAL = ("/usr/bin/notifyutil", "-g", "com.apple.system.thermalpressurelevel")
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
        self._thermal = self._query(THERMAL, thermal_level)

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
