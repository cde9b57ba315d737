"""The system libraries Qt needs to open a window on Linux, looked for before Qt is: without them it aborts.

`start.py` has the same tables, and installs what is missing; it can't import Hone, which may not be installed then. A
test holds the two together.
"""

import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from gui.old_systems import WITHOUT_A_WINDOW

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


ON_WAYLAND = {
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
}

IN_TURN = {
    "libxcb.so.1": "libxcb1",
    "libX11.so.6": "libx11-6",
    "libXau.so.6": "libxau6",
    "libXdmcp.so.6": "libxdmcp6",
    "libGLX.so.0": "libglx0",
    "libGLdispatch.so.0": "libglvnd0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-util.so.1": "libxcb-util1",
}
"""What those need in turn: the loader names the file that is missing, not the one that was asked for."""

OTHER_PLUGINS = ("QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH")
"""Variables that lead Qt to more plugins than its own."""

_GRAPHICS = {"libEGL.so.1", "libGL.so.1"}


def what_is_missing(
    environment: Mapping[str, str] = os.environ,
    load: Callable[[str], object] = ctypes.CDLL,
    plugins: Path | None = None,
) -> str:
    """What keeps Qt from this screen and what to do; empty: nothing.

    A bundle brings most libraries along, and they are found in it; those of the graphics driver are the system's.

    Args:
        environment: Tells the screen: libraries of X11 are looked for only where Qt has no other.
        load: Loads a library by the name of its file; raises OSError.
        plugins: Where Qt's own plugins for screens lie; None: they are looked for.
    """
    if not sys.platform.startswith("linux"):
        return ""
    plugins = qt_plugins() if plugins is None else plugins
    unreachable = _unknown_platform(environment, plugins) or _unreachable(environment, plugins)
    if unreachable:
        return unreachable
    wanted = {**ALWAYS, **_of_screen(environment)}
    missing = {}
    for name, package in wanted.items():
        culprit = _lacking(name, load)
        if culprit:
            missing[culprit] = IN_TURN.get(culprit) or wanted.get(culprit, package)
    if not missing:
        return ""
    what = (
        "the libraries of OpenGL and others of the system" if _GRAPHICS & set(missing) else "system libraries"
    )
    return (
        f"The window can't be opened: Qt, which draws it, needs {what} that are missing here "
        f"({', '.join(missing)}).\nOn Debian and Ubuntu, this installs them:\n"
        f"  sudo apt-get install {' '.join(sorted(set(missing.values())))}\n"
        f"On other systems, install the packages that hold these files.\n{WITHOUT_A_WINDOW}"
    )


def qt_plugins() -> Path | None:
    """The folder with Qt's plugins for screens, found without loading Qt; None: it isn't where it is expected."""
    found = importlib.util.find_spec("PySide6")
    places = [] if found is None else list(found.submodule_search_locations or ())
    folders = (Path(place) / "Qt" / "plugins" / "platforms" for place in places)
    return next((folder for folder in folders if folder.is_dir()), None)


def _unknown_platform(environment: Mapping[str, str], plugins: Path | None) -> str:
    """What to do where QT_QPA_PLATFORM names no platform of this Qt, at which Qt aborts; empty: it names one."""
    value = environment.get("QT_QPA_PLATFORM", "")
    asked = {
        re.split("[:-]", name)[0].lower() for name in value.split(";") if name
    }  # wayland-egl is of wayland
    if plugins is None or not asked or any(environment.get(name) for name in OTHER_PLUGINS):
        return ""
    known = {re.split("[.-]", file.name)[0].removeprefix("libq") for file in plugins.glob("libq*.so")}
    if not known or asked & known:
        return ""
    return (
        f"The window can't be opened: QT_QPA_PLATFORM={value} names no platform that this Qt has "
        f"({', '.join(sorted(known))}).\nStart Hone without this variable, and Qt finds the screen by itself.\n"
        f"{WITHOUT_A_WINDOW}"
    )


def _unreachable(environment: Mapping[str, str], plugins: Path | None) -> str:
    """What to do where a screen is there and Qt has no way to it; empty: it has one."""
    wayland, x11 = environment.get("WAYLAND_DISPLAY"), environment.get("DISPLAY")
    chosen = environment.get("QT_QPA_PLATFORM", "").partition(":")[0]
    if not wayland or x11 or chosen not in ("", "wayland", "xcb"):
        return ""
    if chosen == "xcb":
        return (
            "The window can't be opened: QT_QPA_PLATFORM asks for X11, and this Wayland session has none.\n"
            "Start Hone with QT_QPA_PLATFORM=wayland, or install XWayland (the package xwayland) and log in again.\n"
            f"{WITHOUT_A_WINDOW}"
        )
    if plugins is None or any(plugins.glob("libqwayland*")):
        return ""
    return (
        "The window can't be opened: this is a Wayland session without XWayland, and this Qt knows only X11.\n"
        f"Install XWayland (the package xwayland) and log in again, or choose a session with X11 where you log in.\n"
        f"{WITHOUT_A_WINDOW}"
    )


def _of_screen(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The libraries of the one screen Qt can take; none where it has a choice, or draws on none."""
    chosen = environment.get("QT_QPA_PLATFORM", "").partition(":")[0]
    if chosen:
        return {"xcb": ON_X11, "wayland": ON_WAYLAND}.get(chosen, {})
    if not environment.get("WAYLAND_DISPLAY"):
        return ON_X11
    return {} if environment.get("DISPLAY") else ON_WAYLAND


def _lacking(name: str, load: Callable[[str], object]) -> str:
    """The file that keeps a library from loading, which may be one that it needs in turn; empty: it loads."""
    try:
        load(name)
    except OSError as error:
        said = str(error.__cause__ or error)  # a bundle's loader wraps the system's error in one of its own
        found = re.match(r"(.+?\.so[.\d]*): ", said)
        return Path(found[1]).name if found else name
    return ""
