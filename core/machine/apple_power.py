"""The watts that a Mac's GPU draws, with the optional package `zeus-apple-silicon`; without it there is no figure.

Written from the documentation of its version 1.1 (https://github.com/ml-energy/zeus-apple-silicon), never seen at work.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any

from core.machine.sources import Query

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
