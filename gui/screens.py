"""Whether the screen that a Linux session names answers: where none does, Qt ends the process in a harsh way."""

import ctypes
import os
import sys
from collections.abc import Callable, Mapping

from gui.old_systems import WITHOUT_A_WINDOW

DESKTOPS = {"wayland": "WAYLAND_DISPLAY", "xcb": "DISPLAY"}
"""The platforms of Qt that need a desktop, and the variable that names it."""


def why_no_answer(
    environment: Mapping[str, str] = os.environ, answers: Callable[[str], bool] | None = None
) -> str:
    """Why no screen can be reached and what to do; empty where one can, or where Qt was told to draw on none.

    Args:
        environment: Names the screens.
        answers: Whether the screen of a platform answers; raises OSError where that can't be found out.
    """
    if not sys.platform.startswith("linux"):
        return ""
    answers = answers or _answers
    value = environment.get("QT_QPA_PLATFORM", "")
    asked = [name.partition(":")[0] for name in value.split(";") if name]
    here = [name for name, variable in DESKTOPS.items() if environment.get(variable)]
    platforms = asked or here
    if not platforms or any(name not in DESKTOPS or _is_there(name, answers) for name in platforms):
        return ""
    if any(name not in platforms and _is_there(name, answers) for name in here):
        return (
            f"The window can't be opened: QT_QPA_PLATFORM={value} asks for a screen that doesn't answer, and another "
            f"one does.\nStart Hone without this variable, and Qt finds the screen by itself.\n{WITHOUT_A_WINDOW}"
        )
    named = ", ".join(f"{DESKTOPS[name]}={environment.get(DESKTOPS[name], '')}" for name in platforms)
    return (
        f"The window can't be opened: the screen doesn't answer ({named}).\n"
        "Start Hone from the desktop or from a terminal on it; over a network, with `ssh -X`, and as yourself, not as "
        f"another user.\n{WITHOUT_A_WINDOW}"
    )


def _is_there(platform: str, answers: Callable[[str], bool]) -> bool:
    try:
        return answers(platform)
    except OSError:  # the library to ask with is missing, which others tell
        return True


def _answers(platform: str) -> bool:
    """Connect as Qt will, rights included, and hang up again."""
    return _wayland_answers() if platform == "wayland" else _x11_answers()


def _x11_answers() -> bool:
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
    refused = xcb.xcb_connection_has_error(connection)
    xcb.xcb_disconnect(connection)
    return not refused


def _wayland_answers() -> bool:
    wayland = ctypes.CDLL("libwayland-client.so.0")
    wayland.wl_display_connect.restype = ctypes.c_void_p
    display = wayland.wl_display_connect(None)
    if display is None:
        return False
    wayland.wl_display_disconnect(ctypes.c_void_p(display))
    return True
