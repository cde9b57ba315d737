"""The libraries Qt takes from a Linux system: find what is missing, install it or say how."""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence

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


def ensure(platforms: Sequence[str] = ()) -> None:
    """Install what Qt lacks on this Linux system, where that is allowed. Elsewhere Qt brings everything along.

    Args:
        platforms: Qt's names of the platforms it may open a window on (see `main.qt_platforms`); one of them is enough.

    Raises:
        SetupError: Something is missing and only the person may install it; it holds the line to run.
    """
    if not sys.platform.startswith("linux"):
        return
    wanted = wanted_for(platforms)
    lacking = missing(wanted)
    if lacking and apt.may_install():
        apt.install(sorted(wanted[name] for name in lacking))
        lacking = missing(wanted)
    if lacking:
        raise SetupError(explain(lacking, wanted))


def wanted_for(platforms: Sequence[str], load: Callable[[str], object] = ctypes.CDLL) -> dict[str, str]:
    """The libraries for the first platform that has all of its own; where none has, for the first platform."""
    sets = [BY_PLATFORM.get(name, {}) for name in platforms] or [{}]
    complete = [libraries for libraries in sets if not missing(libraries, load)]
    return {**ALWAYS, **(complete or sets)[0]}


def missing(wanted: Iterable[str], load: Callable[[str], object] = ctypes.CDLL) -> list[str]:
    """The libraries that don't load, in order."""
    return [name for name in wanted if not _loads(name, load)]


def _loads(name: str, load: Callable[[str], object]) -> bool:
    try:
        load(name)
    except OSError:
        return False
    return True


def explain(
    lacking: list[str], wanted: dict[str, str], which: Callable[[str], str | None] = shutil.which
) -> str:
    """What is missing, and the one line that installs it on this system."""
    text = f"Qt, which draws Hone's window, needs system libraries that are missing here: {', '.join(lacking)}.\n"
    if which("apt-get"):
        packages = " ".join(sorted(wanted[name] for name in lacking))
        return f"{text}Install them, then start again:\n  sudo apt-get install {packages}"
    if which("dnf"):
        capabilities = " ".join(f"'{name}()(64bit)'" for name in lacking)
        return f"{text}Install them, then start again:\n  sudo dnf install {capabilities}"
    return f"{text}Install the packages of your system that hold these files, then start again."
