"""What Hone takes from a Linux system, for its window, its tests and its bundles: find and install what is missing."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence

from bootstrap import apt
from bootstrap.errors import SetupError

# The names Debian and Ubuntu give to the packages; RPM systems are asked by library name instead.
ALWAYS = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
}
ON_WAYLAND = {
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
}
ON_X11 = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


BY_PLATFORM = {"wayland": ON_WAYLAND, "xcb": ON_X11}
FOR_BUNDLES = {
    **ALWAYS,
    **ON_WAYLAND,
    **ON_X11,
    "objdump": "binutils",
    "Xvfb": "xvfb",
    "xauth": "xauth",
}
"""What building a program takes: the libraries that it takes along, and what looks into files and makes a screen."""
FOR_TESTS = {
    **ALWAYS,
    **ON_X11,
    "git": "git",
    "ip": "iproute2",
    "makensis": "nsis",
    "objdump": "binutils",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
}
"""What the tests take; those that lack something are left out, and say so."""
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where sshd and ip are, and a person's PATH may not lead."""


QT = "Qt, which draws Hone's window, needs"
"""The beginning of a sentence."""


def ensure(wanted: Mapping[str, str], purpose: str = QT) -> None:
    """Install what is missing on this Linux system, where that is allowed; nothing is done on other systems.

    Args:
        wanted: Debian's packages, by the names of libraries and programs in them.
        purpose: What needs that, as the beginning of a sentence.

    Raises:
        SetupError: Something is missing, and apt-get failed or only the person may install it; it has the line to run.
    """
    if not sys.platform.startswith("linux"):
        return
    lacking = missing(wanted)
    if lacking and apt.may_install():
        apt.install(packages_of(lacking, wanted))
        lacking = missing(wanted)
    if lacking:
        raise SetupError(explain(lacking, wanted, purpose))


def not_tried(feature: str, *needed: str) -> str:
    """Why the tests of a feature are left out, such as "other computers, for want of openssh-server", or nothing."""
    lacking = missing(needed)
    return f"{feature}, for want of {', '.join(packages_of(lacking, FOR_TESTS))}" if lacking else ""


def of_python(prefix: str = sys.base_prefix) -> dict[str, str]:
    """The library of the system's own Python, which a bundle takes along and Debian keeps in a package of its own."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    return {name: name.partition(".so")[0]} if prefix == "/usr" and ".so" in name else {}


def packages_of(lacking: Iterable[str], wanted: Mapping[str, str]) -> list[str]:
    """The packages with what is lacking, in order, each once."""
    return sorted({wanted[name] for name in lacking})


def wanted_for(platforms: Sequence[str], load: Callable[[str], object] = ctypes.CDLL) -> dict[str, str]:
    """What Qt needs to open a window: the libraries for the first platform that has all of its own, else for the first.

    Args:
        platforms: Qt's names of the platforms it may open a window on (see `main.qt_platforms`); one of them is enough.
        load: Loads a library by its name; raises OSError.
    """
    sets = [BY_PLATFORM.get(name, {}) for name in platforms] or [{}]
    complete = [libraries for libraries in sets if not missing(libraries, load)]
    return {**ALWAYS, **(complete or sets)[0]}


def missing(wanted: Iterable[str], load: Callable[[str], object] = ctypes.CDLL) -> list[str]:
    """The libraries that don't load and the programs that aren't there, in order. Only Linux lacks libraries of Qt."""
    return [name for name in wanted if not (_loads(name, load) if ".so" in name else find(name))]


def find(program: str) -> str | None:
    """The path of a program, also of one that is root's to start."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_FOLDERS]))


def _loads(name: str, load: Callable[[str], object]) -> bool:
    if not sys.platform.startswith("linux"):
        return True
    try:
        load(name)
    except OSError:
        return False
    return True


def explain(
    lacking: list[str],
    wanted: Mapping[str, str],
    purpose: str = QT,
    which: Callable[[str], str | None] = shutil.which,
) -> str:
    """What is missing, and the one line that installs it on this system."""
    text = f"{purpose} what is missing here: {', '.join(lacking)}.\n"
    if which("apt-get"):
        packages = " ".join(packages_of(lacking, wanted))
        return f"{text}Install it, then start again:\n  sudo apt-get install {packages}"
    if which("dnf") and all(".so" in name for name in lacking):
        capabilities = " ".join(f"'{name}()(64bit)'" for name in lacking)
        return f"{text}Install it, then start again:\n  sudo dnf install {capabilities}"
    return f"{text}Install the packages of your system that hold these files, then start again."
