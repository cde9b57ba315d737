"""Memory of the computer and of processes; the limit of a Linux control group counts."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

# --- Memory and processor load


@dataclass(frozen=True)
class SystemMemory:
    """In bytes. `used` is the memory of all programs without caches, `swap` the swap in use (None if unknown)."""

    used: int
    total: int
    swap: int | None


def system_memory() -> SystemMemory:
    """Reads the memory of the whole computer; caches count as free."""
    memory = psutil.virtual_memory()
    return SystemMemory(used=memory.total - memory.available, total=memory.total, swap=_swap_used())


def _swap_used() -> int | None:
    try:
        return int(psutil.swap_memory().used)
    except (OSError, RuntimeError):  # Windows without performance counters, sandboxes without /proc/vmstat
        return None


RUSAGE_INFO_V0 = 0


class RusageInfo(ctypes.Structure):
    """`struct rusage_info_v0` of macOS (`bsd/sys/resource.h` in XNU)."""

    _fields_ = (
        ("uuid", ctypes.c_uint8 * 16),
        *(
            (name, ctypes.c_uint64)
            for name in (
                "user_time", "system_time", "pkg_idle_wkups", "interrupt_wkups", "pageins", "wired_size",
                "resident_size", "phys_footprint", "proc_start_abstime", "proc_exit_abstime",
            )
        ),
    )  # fmt: skip


def physical_footprint(library: Any = None) -> int | None:
    """Returns what this process takes of a Mac's memory, as Activity Monitor shows it; None on other computers.

    With buffers of Metal and what is compressed, neither of which psutil counts. `library` is macOS's; tests have
    another. Never run on a Mac.
    """
    if library is None and sys.platform == "darwin":
        library = ctypes.CDLL(None)
    if library is None:
        return None
    info = RusageInfo()
    failed = library.proc_pid_rusage(os.getpid(), RUSAGE_INFO_V0, ctypes.byref(info))
    return None if failed else int(info.phys_footprint)


def gpu_memory_spills(kernel: str = "", gpu_of_wsl: Path = Path("/dev/dxg")) -> bool:
    """Returns whether NVIDIA's driver uses the computer's memory once a card is full: on Windows, also in WSL.

    WSL's kernels are named after Microsoft; in any kernel there, the GPU is `/dev/dxg`.
    """
    if sys.platform != "linux":
        return sys.platform == "win32"
    return "microsoft" in (kernel or os.uname().release).lower() or gpu_of_wsl.exists()


def process_tree(pid: int) -> list[psutil.Process]:
    """Returns a process and all it started, the process first; empty once it has ended."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def resident_bytes(processes: Iterable[psutil.Process], *, without_files: bool = False) -> int | None:
    """Returns the resident bytes of processes together; None if all of them have ended.

    Shared pages count for each process. `without_files` leaves out pages of mapped files, where known (Linux).
    """
    total = 0
    for process in processes:
        try:
            info = process.memory_info()
            total += int(info.rss) - (int(getattr(info, "shared", 0)) if without_files else 0)
        except psutil.Error:
            continue
    return total or None


SHORTEST_SPAN = 0.02
"""Shortest span of a load, in seconds per core: operating systems count in steps of about 10 ms."""


@dataclass(frozen=True)
class ProcessorTimes:
    """Seconds that all cores together have been busy, and busy or idle (`total`), since some moment in the past."""

    busy: float
    total: float


def processor_times() -> ProcessorTimes:
    """Reads the processor times; waiting for a disk counts as idle."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # guest time is already within user time on Linux
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return ProcessorTimes(busy=total - idle, total=total)


class ProcessorLoad:
    """Load of all processor cores, 0 to 1."""

    def __init__(self) -> None:
        self._shortest = SHORTEST_SPAN * (psutil.cpu_count() or 1)
        self._before: ProcessorTimes | None = None

    def read(self) -> float | None:
        """Returns the share of time the cores were busy since the last call; None if that was too recent."""
        now = processor_times()
        if self._before is not None and 0 <= now.total - self._before.total < self._shortest:
            return None
        before, self._before = self._before, now
        if before is None or now.total <= before.total:
            return None
        return float(min(1.0, max(0.0, (now.busy - before.busy) / (now.total - before.total))))


# --- Control groups


CONTROL_GROUPS = "sys/fs/cgroup"
UNLIMITED = 1 << 60
"""Version 1 says "no limit" with a number about so large, version 2 with the word max."""


@dataclass(frozen=True)
class GroupMemory:
    """Bytes: the group's `limit`, and what is `used` of it that can't be taken back at once."""

    limit: int
    used: int


def group_memory(root: Path = Path("/")) -> GroupMemory | None:
    """Returns the tightest limit of this process's control groups; None if there is none.

    Inactive cached files count as free, as in `docker stats` (`inactive_file`).
    Source: https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files, and v1's memory.txt.
    """
    found = [memory for folder in control_groups(root) if (memory := _read(folder)) is not None]
    return min(found, key=lambda memory: memory.limit - memory.used, default=None)


def control_groups(root: Path) -> list[Path]:
    """Returns the folders of this process's groups that limit memory, from its own to the outermost."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            top = root / CONTROL_GROUPS / ("memory" if controllers else "")
            inside = top / path.strip("/")
            found += [inside, *(parent for parent in inside.parents if parent.is_relative_to(top))]
    return found


def _read(folder: Path) -> GroupMemory | None:
    for limit_file, used_file, idle in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            limit = (folder / limit_file).read_text(encoding="ascii").strip()
            used = int((folder / used_file).read_text(encoding="ascii"))
            lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
            spare = int(dict(line.split() for line in lines).get(idle, 0))
        except (OSError, ValueError):
            continue
        if limit.isdecimal() and int(limit) < UNLIMITED:
            return GroupMemory(limit=int(limit), used=max(0, used - spare))
    return None


# --- Process trees


WORTH = 0.003
"""The share of a core that listing processes may take: 22 µs for each on Linux, so 11 ms on a desktop with 500."""


class ProcessTree:
    """The processes of a run, listed as often as `WORTH` allows: within seconds on a computer with very many.

    Args:
        pid: The first of them; None: there are none.
    """

    def __init__(
        self,
        pid: int | None,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._pid = pid
        self._clock = clock
        self._cpu = cpu
        self._found: list[psutil.Process] = []
        self._next = clock()

    def read(self) -> list[psutil.Process]:
        """Returns the processes, the first of all first; some may have gone meanwhile."""
        if self._pid is not None and self._clock() >= self._next:
            before = self._cpu()
            self._found = process_tree(self._pid)
            self._next = self._clock() + (self._cpu() - before) / WORTH
        return self._found
