"""How much processor time a process uses: what tells one that computes from one that waits."""

import time
from collections import deque

import psutil

from core.machine.memory import process_tree

LOOKS = 10


class Activity:
    """Processor time of a process and everything it started, as a share of one core.

    Args:
        pid: The process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looks: deque[tuple[float, float]] = deque(maxlen=LOOKS)

    def read(self) -> float | None:
        """The share since the tenth call before, or the first after `forget`; None then, and where it can't be read."""
        used = self._used()
        now = time.monotonic()
        if used is None:
            return None
        self._looks.append((now, used))
        begun, before = self._looks[0]
        return max(0.0, used - before) / (now - begun) if now > begun else None

    def forget(self) -> None:
        """Begin anew with the next call."""
        self._looks.clear()

    def _used(self) -> float | None:
        total = None
        for process in process_tree(self._pid):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total = (total or 0.0) + times.user + times.system
        return total
