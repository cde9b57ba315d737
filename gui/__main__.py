"""Where Hone begins: `hone`, `python -m gui` and the bundle's executable."""

import sys

from core import program


def open_window() -> int:
    """Show the window. Qt is imported here and not before: the command line works where Qt can't be loaded."""
    from gui.app import run_app

    return run_app(sys.argv)


def main() -> int:
    """Run the program with the process's arguments and return its exit status."""
    return program.run(sys.argv[1:], open_window)


if __name__ == "__main__":
    sys.exit(main())
