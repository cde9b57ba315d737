"""The one program, whichever of its parts is asked for: window, command line, keeper or engine.

A bundle has a single executable, so its engine and keeper are the same program with `--engine` or `--keeper`.
This module is the only one outside `core.engine` that imports it, and only in a process that is to be the engine.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from core.base.files import is_there
from core.base.processes import is_frozen

REFUSED = 2
PARTS = ("--engine", "--keeper")


def run(
    arguments: Sequence[str],
    open_window: Callable[[], int],
    complain: Callable[[str], None] | None = None,
) -> int:
    """Do what the arguments ask for and return the exit status.

    Args:
        arguments: The command line without the program's name.
        open_window: Opens the window and returns when it is closed.
        complain: Says what is wrong with the arguments; None: somebody reads what is printed.
    """
    open_missing()
    multiprocessing.freeze_support()
    if is_frozen():
        _support_workers(arguments)
        if _is_for_python(arguments):
            print("This is Hone, not a Python interpreter.", file=sys.stderr)
            return REFUSED
    if opens_window(arguments):
        return open_window()
    if arguments[0] in PARTS:
        return _part(arguments[0])(list(arguments[1:]))
    return _command_line(list(arguments), complain)


def _part(name: str) -> Callable[[list[str]], int]:
    """A part beside window and command line, imported only when it is asked for."""
    if name == "--engine":
        from core.engine.__main__ import main as engine

        return engine
    from core.monitor.keeper import main as keeper

    return keeper


def _command_line(arguments: list[str], complain: Callable[[str], None] | None) -> int:
    """Do what a command asks for. Argparse tells a terminal what is wrong; who has none would learn nothing of it."""
    from core.cli.main import main, names

    first = arguments[0]
    if complain is not None and not first.startswith("-") and first not in names():
        complain(
            f"Hone doesn't understand “{' '.join(arguments)}”. It takes a command (`hone --help` lists them), or "
            "files and folders to open and nothing else."
        )
        return REFUSED
    return main(arguments)


def opens_window(arguments: Sequence[str]) -> bool:
    """Whether these arguments ask for the window: none at all, or files and folders to open in it."""
    if any(argument.startswith("-") for argument in arguments):
        return False
    return not arguments or _is_to_open(arguments[0])


def _is_to_open(first: str) -> bool:
    """Whether it is plainly a path, there or not, or the name of what is there; a command goes before the latter."""
    from core.options.presets import DATA_ENDINGS
    from core.options.run_file import ENDINGS

    is_below = any(mark in first for mark in (os.sep, os.altsep) if mark)
    if is_below or Path(first.lower().removesuffix(".gz")).suffix in DATA_ENDINGS.union(ENDINGS):
        return True
    if not first or not is_there(Path(first)):
        return False
    from core.cli.main import names

    return first not in names()


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


FLAGS = {0: os.O_RDONLY, 1: os.O_WRONLY, 2: os.O_WRONLY}


def open_missing() -> None:
    """Let streams that are closed lead nowhere, for this process and for those it starts."""
    for number, flags in FLAGS.items():
        if not _is_open(number):
            _lead_nowhere(number, flags)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - for as long as the process lives
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _lead_nowhere(number: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)
