"""Where Hone begins: `hone`, `python -m gui` and the bundle's executable."""

import os
import sys

from core import program
from gui.screen_libraries import what_is_missing

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


def open_window() -> int:
    """Show the window. Qt is imported here and not before: the command line works where Qt can't be loaded."""
    if not has_screen():
        print(
            "There is no screen here to open the window on; `hone train RUN.hone` trains without one.",
            file=sys.stderr,
        )
        return 1
    missing = what_is_missing()
    if missing:
        print(missing, file=sys.stderr)
        return 1
    from gui.app import run_app

    return run_app(sys.argv)


def has_screen() -> bool:
    """Whether Qt may find a screen. Asked on Linux only, where Qt aborts without one; elsewhere it finds its own."""
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in SCREENS)


def main() -> int:
    """Run the program with the process's arguments and return its exit status."""
    return program.run(sys.argv[1:], open_window)


if __name__ == "__main__":
    sys.exit(main())
