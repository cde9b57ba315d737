"""How short of memory the operating system says it is; None where it doesn't say (Windows, older Linux kernels)."""

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path

from core.events import Pressure

PSI = Path("/proc/pressure/memory")

WARN_PERCENT = 10.0
"""From this share of the last 10 s on, in which some program stood waiting for memory, Linux counts as short of it.

A computer with memory to spare stays at 0. A tenth of all time spent waiting is what one notices, and near the 7 %
from which Android's low memory killer calls it partly stalled (70 ms of each second).
"""

CRITICAL_PERCENT = 40.0
"""From here on work hardly goes on; systemd-oomd ends programs at 60 %."""

MAC_LEVELS = {1: Pressure.NORMAL, 2: Pressure.WARN, 4: Pressure.CRITICAL}
"""The values of `kern.memorystatus_vm_pressure_level`: those of DISPATCH_MEMORYPRESSURE_NORMAL, _WARN, _CRITICAL."""


class PressureGauge:
    """Reads the pressure whenever asked. What fails once is not asked again.

    Args:
        read: What is asked; it raises OSError or ValueError, or AttributeError for a missing function, where it fails.
            None: nothing is known of this system.
    """

    def __init__(self, read: Callable[[], Pressure] | None) -> None:
        self._read = read

    def read(self) -> Pressure | None:
        """The pressure now."""
        if self._read is None:
            return None
        try:
            return self._read()
        except (OSError, ValueError, AttributeError):
            self._read = None
            return None


def pressure_gauge(system: str = sys.platform) -> PressureGauge:
    """The gauge of this operating system (named as in `sys.platform`)."""
    if system == "darwin":
        return PressureGauge(lambda: mac_pressure(sysctl_number("kern.memorystatus_vm_pressure_level")))
    if system == "linux":
        return PressureGauge(lambda: linux_pressure(PSI.read_text(encoding="ascii")))
    return PressureGauge(None)


def mac_pressure(level: int) -> Pressure:
    """The pressure behind a number that macOS gives.

    Raises:
        ValueError: It is none of the known numbers.
    """
    if level not in MAC_LEVELS:
        raise ValueError(f"macOS tells of a memory pressure {level}, which means nothing known")
    return MAC_LEVELS[level]


def linux_pressure(text: str) -> Pressure:
    """The pressure behind `/proc/pressure/memory`, by its average over 10 s of the time in which some task waited.

    Source: https://docs.kernel.org/accounting/psi.html.

    Raises:
        ValueError: The text holds no such figure.
    """
    for line in text.splitlines():
        kind, *fields = line.split()
        if kind == "some":
            waited = float(dict(field.split("=", 1) for field in fields).get("avg10", "none"))
            return _by_share(waited)
    raise ValueError("no line of tasks that wait for memory")


def _by_share(percent: float) -> Pressure:
    if percent >= CRITICAL_PERCENT:
        return Pressure.CRITICAL
    return Pressure.WARN if percent >= WARN_PERCENT else Pressure.NORMAL


def sysctl_number(name: str) -> int:
    """A whole number of macOS's sysctl, read without starting a program: a Mac that pages takes long for that.

    Raises:
        OSError: There is no such number.
        AttributeError: This is no Mac.
    """
    value = ctypes.c_int()
    size = ctypes.c_size_t(ctypes.sizeof(value))
    library = ctypes.CDLL(None, use_errno=True)
    failed = library.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    if failed:
        raise OSError(ctypes.get_errno(), f"sysctl {name}")
    return value.value
