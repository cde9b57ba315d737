"""Where Hone begins: `hone`, `python -m gui` and the bundle's executable."""

import gc
import os
import sys

from core import program
from gui.old_systems import this_system, why_too_old
from gui.plain_words import is_watched, tell
from gui.screen_libraries import what_is_missing
from gui.screens import why_no_answer

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


def open_window() -> int:
    """Show the window. Qt is imported here and not before: the command line works where Qt can't be loaded."""
    reason = why_no_window()
    if reason:
        tell(reason)
        return 1
    gc.disable()  # to look for garbage among what is just being made takes 30 ms; run_app sets it going again
    from gui.app import run_app

    return run_app(sys.argv)


def why_no_window() -> str:
    """Why the window can't be opened and what to do; empty where it can."""
    if not has_screen():
        return "There is no screen here to open the window on; `hone train RUN.hone` trains without one."
    return why_too_old(this_system()) or what_is_missing() or why_no_answer()


def has_screen() -> bool:
    """Whether Qt may find a screen. Asked on Linux only, where Qt aborts without one; elsewhere it finds its own."""
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in SCREENS)


def main() -> int:
    """Run the program with the process's arguments and return its exit status."""
    return program.run(sys.argv[1:], open_window, None if is_watched() else tell)


if __name__ == "__main__":
    sys.exit(main())
