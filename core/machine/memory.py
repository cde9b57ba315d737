"""Memory and processor load as the operating system counts them (psutil)."""

from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class SystemMemory:
    """Bytes. `used` is what all programs hold and can't be taken back, `swap` what lies on disk; None: not known."""

    used: int
    total: int
    swap: int | None


def system_memory() -> SystemMemory:
    """Read the memory of the whole computer. Caches count as free, because they are given back when asked for."""
    memory = psutil.virtual_memory()
    return SystemMemory(used=memory.total - memory.available, total=memory.total, swap=_swap_used())


def _swap_used() -> int | None:
    """Bytes of swap in use, which psutil reads: on a Mac from `vm.swapusage`, by sysctl and without a program."""
    try:
        return int(psutil.swap_memory().used)
    except (OSError, RuntimeError):  # Windows without performance counters, sandboxes without /proc/vmstat
        return None


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and everything it started, the process first; empty once it has gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def resident_bytes(processes: Iterable[psutil.Process], *, without_files: bool = False) -> int | None:
    """Resident bytes of processes together, those that have gone left out; None where nothing is left.

    Pages that several of them share count for each. `without_files` leaves out what is a part of a file, and can be had
    back from there, where the system tells (Linux).
    """
    total = 0
    for process in processes:
        try:
            info = process.memory_info()
            total += int(info.rss) - (int(getattr(info, "shared", 0)) if without_files else 0)
        except psutil.Error:
            continue
    return total or None


def tree_bytes(pid: int) -> int | None:
    """Resident bytes of a process and everything it started; None once it has gone."""
    return resident_bytes(process_tree(pid))


SHORTEST_SPAN = 0.02
"""Seconds a core over which a load means something: operating systems count in steps of about a hundredth."""


@dataclass(frozen=True)
class ProcessorTimes:
    """Seconds that all cores together have been busy, and busy or idle (`total`), since some moment in the past."""

    busy: float
    total: float


def processor_times() -> ProcessorTimes:
    """Read them; what a core waits for a disk counts as idle."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # guest time is already within user time on Linux
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return ProcessorTimes(busy=total - idle, total=total)


class ProcessorLoad:
    """How busy all processor cores are since the last call, 0 to 1; None where there is no span yet to speak of."""

    def __init__(self) -> None:
        self._shortest = SHORTEST_SPAN * (psutil.cpu_count() or 1)
        self._before: ProcessorTimes | None = None

    def read(self) -> float | None:
        """The share of time the cores were busy since the last call."""
        now = processor_times()
        if self._before is not None and 0 <= now.total - self._before.total < self._shortest:
            return None
        before, self._before = self._before, now
        if before is None or now.total <= before.total:
            return None
        return float(min(1.0, max(0.0, (now.busy - before.busy) / (now.total - before.total))))
