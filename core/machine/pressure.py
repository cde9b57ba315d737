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

MAC_NAME = "kern.memorystatus_vm_pressure_level"

MAC_LEVELS = {1: Pressure.NORMAL, 2: Pressure.WARN, 4: Pressure.CRITICAL}
"""What macOS's sysctl has for it: the values of DISPATCH_MEMORYPRESSURE_NORMAL, _WARN, _CRITICAL."""


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
        return PressureGauge(lambda: mac_pressure(whole_number(sysctl(MAC_NAME))))
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


def whole_number(value: bytes) -> int:
    """The number behind a value of sysctl: an `int` of C, 4 bytes with the lowest first on every Mac.

    Raises:
        ValueError: It has another length, so it is no such number.
    """
    if len(value) != ctypes.sizeof(ctypes.c_int32):
        raise ValueError(f"a number of {len(value)} bytes")
    return int.from_bytes(value, "little", signed=True)


def sysctl(name: str) -> bytes:
    """A value of macOS's sysctl, read without starting a program: a Mac that pages takes long for that.

    Raises:
        OSError: There is none of this name, or one of more than 64 bytes.
        AttributeError: This is no Mac.
    """
    value = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(value))
    library = ctypes.CDLL(None, use_errno=True)
    if library.sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0):
        raise OSError(ctypes.get_errno(), f"sysctl {name}")
    return value.raw[: size.value]
