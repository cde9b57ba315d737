"""The system libraries Qt needs to open a window on Linux, looked for before Qt is: without them it aborts.

`start.py` has the same tables, and installs what is missing; it can't import Hone, which may not be installed then. A
test holds the two together.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Mapping

from core.processes import is_frozen

ALWAYS = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
}
"""By the name of the file, the package of Debian and Ubuntu that has it."""

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


def what_is_missing(
    environment: Mapping[str, str] = os.environ, load: Callable[[str], object] = ctypes.CDLL
) -> str:
    """Which libraries are missing and how they are installed; empty: none, or the bundle brings its own.

    Args:
        environment: Tells the screen: those of X11 are looked for only where Qt has no other.
        load: Loads a library by the name of its file; raises OSError.
    """
    if not sys.platform.startswith("linux") or is_frozen():
        return ""
    wanted = {**ALWAYS, **(ON_X11 if _is_x11(environment) else {})}
    missing = {name: package for name, package in wanted.items() if not _loads(name, load)}
    if not missing:
        return ""
    return (
        "The window can't be opened: Qt, which draws it, needs system libraries that are missing here "
        f"({', '.join(missing)}).\nOn Debian and Ubuntu, this installs them:\n"
        f"  sudo apt-get install {' '.join(sorted(missing.values()))}\n"
        "`hone train RUN.hone` trains without a window."
    )


def _is_x11(environment: Mapping[str, str]) -> bool:
    chosen = environment.get("QT_QPA_PLATFORM")
    if chosen:
        return chosen.partition(":")[0] == "xcb"
    return not environment.get("WAYLAND_DISPLAY")


def _loads(name: str, load: Callable[[str], object]) -> bool:
    try:
        load(name)
    except OSError:
        return False
    return True
