"""How much processor time a process uses: what tells one that computes from one that waits."""

import time

import psutil

from core.machine.memory import process_tree


class Activity:
    """Processor time of a process and everything it started, as a share of one core.

    Args:
        pid: The process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: tuple[float, float] | None = None

    def read(self) -> float | None:
        """The share since the first call after `forget`; None then, and where the process can't be read."""
        used = self._used()
        now = time.monotonic()
        if used is None:
            return None
        if self._before is None:
            self._before = (now, used)
            return None
        begun, before = self._before
        return max(0.0, used - before) / (now - begun) if now > begun else None

    def forget(self) -> None:
        """Begin anew with the next call."""
        self._before = None

    def _used(self) -> float | None:
        total = None
        for process in process_tree(self._pid):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total = (total or 0.0) + times.user + times.system
        return total
