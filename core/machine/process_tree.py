"""A process and everything it started, looked up no more often than it is worth."""

import time
from collections.abc import Callable

import psutil

from core.machine.memory import process_tree

WORTH = 0.003
"""The share of a core that looking for new processes may take.

The operating system is asked for the parent of every process there is: 22 µs for each on Linux, so 11 ms on a desktop
with 500 of them.
"""


class ProcessTree:
    """The processes of a run. Those that it starts are found at once on a quiet computer, within seconds on a full one.

    Args:
        pid: The first of them; None: there are none.
        clock: Tells the time in seconds.
        cpu: Tells the processor time that this thread has taken, in seconds.
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
        """The processes, the first of all first; some may have gone meanwhile."""
        if self._pid is not None and self._clock() >= self._next:
            before = self._cpu()
            self._found = process_tree(self._pid)
            self._next = self._clock() + (self._cpu() - before) / WORTH
        return self._found
