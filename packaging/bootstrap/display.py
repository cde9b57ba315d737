"""Is there a screen to open a window on?"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def why_none(system: str = sys.platform, environ: Mapping[str, str] = os.environ) -> str:
    """Say why no window can be opened; empty where one can.

    Only Linux (and its like) is asked: elsewhere Qt finds the screen by itself. A chosen QT_QPA_PLATFORM, such as
    `offscreen`, is taken at its word.
    """
    if system in ("darwin", "win32") or environ.get("QT_QPA_PLATFORM"):
        return ""
    if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"):
        return ""
    return "There is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set), so the window can't open."
