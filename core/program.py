"""The one program, whichever of its parts is asked for: window, command line, keeper or engine.

A bundle has a single executable, so its engine and keeper are the same program with `--engine` or `--keeper`.
This module is the only one outside `core.engine` that imports it, and only in a process that is to be the engine.
"""

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from core import streams
from core.processes import is_frozen

REFUSED = 2
RUN_FILES = (".hone", ".toml")
PARTS = ("--engine", "--keeper", "--selftest")


def run(
    arguments: Sequence[str], open_window: Callable[[], int], test_window: Callable[[Sequence[str]], int]
) -> int:
    """Do what the arguments ask for and return the exit status.

    Args:
        arguments: The command line without the program's name.
        open_window: Opens the window and returns when it is closed.
        test_window: Tries the window out, with the arguments after `--selftest-window`.
    """
    streams.open_missing()
    multiprocessing.freeze_support()
    if is_frozen():
        _support_workers(arguments)
        if _is_for_python(arguments):
            print("This is Hone, not a Python interpreter.", file=sys.stderr)
            return REFUSED
    if arguments[:1] == ["--selftest-window"]:
        return test_window(arguments[1:])
    if opens_window(arguments):
        return open_window()
    return _part(arguments[0])(list(arguments[1:] if arguments[0] in PARTS else arguments))


def _part(first: str) -> Callable[[list[str]], int]:
    """What the first argument asks for beside the window, imported only then."""
    match first:
        case "--engine":
            from core.engine.__main__ import main as engine

            return engine
        case "--keeper":
            from core.keeper import main as keeper

            return keeper
        case "--selftest":
            from core.selftest.command import main as selftest

            return selftest
    from core.cli import main as command_line

    return command_line


def opens_window(arguments: Sequence[str]) -> bool:
    """Whether these arguments ask for the window: none at all, or one run file to open in it."""
    return not arguments or (len(arguments) == 1 and Path(arguments[0]).suffix.lower() in RUN_FILES)


def _support_workers(arguments: Sequence[str]) -> None:
    """Let the worker processes of `datasets` start in a bundle; they use a multiprocessing of their own."""
    if "--multiprocessing-fork" in arguments:
        import multiprocess  # type: ignore[import-untyped]  # comes with datasets

        multiprocess.freeze_support()


def _is_for_python(arguments: Sequence[str]) -> bool:
    """Whether a library means to run Python: in a bundle `sys.executable` is Hone, and no window shall open for it."""
    first = arguments[0] if arguments else ""
    is_flag = first.startswith("-") and not first.startswith("--") and first != "-h"  # -c, -m, -B -c, ...
    return is_flag or Path(first).suffix.lower() in (".py", ".pyc")
