"""Systems too old for what Hone is made of, told before Qt is loaded, which would fail without a word."""

import platform
import sys
from dataclasses import dataclass

OLDEST_MACOS = (14, 0)
"""By the tags of PyTorch's wheels for Macs; packaging/about.py says it to macOS itself."""

OLDEST_WINDOWS = 17763
"""The build of Windows 10, version 1809 (https://doc.qt.io/qt-6/windows.html)."""

WITHOUT_A_WINDOW = "`hone train RUN.hone` trains without a window."


@dataclass(frozen=True)
class System:
    """What decides whether Hone runs here.

    Attributes:
        name: As in `sys.platform`.
        version: Of macOS, such as (13, 6); of Windows, its build alone, such as (19045,). Empty: not known.
        machine: The processor this program is made for, such as `arm64`.
    """

    name: str
    version: tuple[int, ...] = ()
    machine: str = ""


def this_system() -> System:
    """The computer this runs on."""
    if sys.platform == "darwin":
        return System("darwin", _numbers(platform.mac_ver()[0]), platform.machine())
    if sys.platform == "win32":
        return System("win32", (sys.getwindowsversion().build,), platform.machine())
    return System(sys.platform)


def why_too_old(system: System) -> str:
    """Why the window can't open on this system and what to do; empty where it can."""
    if system.name == "darwin":
        return _of_a_mac(system)
    if system.name == "win32" and system.version and system.version[0] < OLDEST_WINDOWS:
        return (
            "This Windows is too old for Hone, which needs Windows 10, version 1809, or newer.\n"
            "Update it: Settings > Update & Security > Windows Update."
        )
    return ""


def _of_a_mac(system: System) -> str:
    if system.machine == "x86_64":
        return (
            "Hone needs a Mac with an Apple chip: PyTorch, which trains, is no longer made for Intel processors.\n"
            "If this Mac has an Apple chip, this program runs as one for Intel: in the Finder, press Command-I on it "
            "and take the mark off “Open using Rosetta”; a Python has to be one for Apple chips.\n"
            "On an Intel Mac nothing helps: use Hone on another computer with macOS, Windows or Linux."
        )
    if system.version and system.version < OLDEST_MACOS:
        found = ".".join(str(number) for number in system.version)
        return (
            f"This Mac has macOS {found}, and Hone needs macOS {OLDEST_MACOS[0]} (Sonoma) or newer.\n"
            "Update it in System Settings > General > Software Update."
        )
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
