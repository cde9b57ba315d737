"""Is there a screen to open a window on?"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def why_none(system: str = sys.platform, environ: Mapping[str, str] = os.environ) -> str:
    """Say why no window can be opened; empty where one can.

    Only Linux (and its like) is asked: elsewhere Qt finds the screen by itself.
    """
    if system in ("darwin", "win32") or platforms(environ):
        return ""
    return "There is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set), so the window can't open."


def platforms(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The platforms Qt may open a window on here, by its names, in the order it tries them; none without a display.

    A chosen QT_QPA_PLATFORM, such as `offscreen` or `wayland;xcb`, is taken at its word.
    """
    chosen = environ.get("QT_QPA_PLATFORM")
    if chosen:
        return tuple(name.partition(":")[0] for name in chosen.split(";"))
    displays = {"wayland": "WAYLAND_DISPLAY", "xcb": "DISPLAY"}
    return tuple(name for name, variable in displays.items() if environ.get(variable))
