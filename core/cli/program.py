"""The one program, whichever of its parts is asked for: window, command line, keeper or engine.

A bundle has a single executable, so its engine and keeper are the same program with `--engine` or `--keeper`.
This module is the only one outside `core.engine` that imports it, and only in a process that is to be the engine.
The window opens without importing the commands.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from core.base import settings
from core.base.errors import UserError
from core.base.files import is_there, remove_left_over
from core.base.language import LANGUAGES, VARIABLE, _
from core.base.processes import is_frozen


def run(
    arguments: Sequence[str],
    open_window: Callable[[], int],
    complain: Callable[[str], None] | None = None,
) -> int:
    """Starts the part of the program that the arguments name; returns the exit status.

    Args:
        arguments: The command line without the program's name.
        open_window: Opens the window and returns when it is closed.
        complain: Shows what is wrong with the arguments; None: there is a terminal.
    """
    _open_missing_streams()
    multiprocessing.freeze_support()
    if is_frozen():
        if "--multiprocessing-fork" in arguments:  # the worker processes of `datasets`
            import multiprocess  # type: ignore[import-untyped]  # comes with datasets

            multiprocess.freeze_support()
        if _is_for_python(arguments):
            print(_("This is Hone, not a Python interpreter."), file=sys.stderr)
            return 2
    try:
        settings.home()
        _check_language(os.environ.get(VARIABLE, ""))
    except UserError as error:
        message = _("error: {text}").format(text=error)
        complain(message) if complain is not None else print(message, file=sys.stderr)
        return 2
    if arguments[:1] not in (["--engine"], ["--keeper"]):
        remove_left_over()
    if opens_window(arguments):
        return open_window()
    first = arguments[0]
    if first == "--engine":
        from core.engine.__main__ import main as engine

        return engine(list(arguments[1:]))
    if first == "--keeper":
        from core.monitor.keeper import main as keeper

        return keeper(list(arguments[1:]))
    from core.cli.main import main, names

    if complain is not None and not first.startswith("-") and first not in names():
        from core.cli.output import did_you_mean

        hint = did_you_mean(first, names()) or _("`hone help` lists the commands.")
        message = _("“{arguments}” is neither a command nor a file. {hint}")
        complain(message.format(arguments=" ".join(arguments), hint=hint))
        return 2
    return main(arguments)


def _check_language(code: str) -> None:
    if code and code not in LANGUAGES:
        raise UserError(
            _("{code} is no language of Hone").format(code=code),
            _("There are {codes}.").format(codes=", ".join(LANGUAGES)),
        )


def opens_window(arguments: Sequence[str]) -> bool:
    """Returns whether the window is asked for: no arguments, `open`, or files and folders to open in it."""
    if any(argument.startswith("-") for argument in arguments):
        return False
    return not arguments or arguments[0] == "open" or _is_to_open(arguments[0])


def files_to_open(arguments: Sequence[str]) -> list[str]:
    """Returns the files and folders among arguments for which `opens_window` is true."""
    return list(arguments[1:] if arguments[:1] == ["open"] else arguments)


def _is_to_open(first: str) -> bool:
    """Returns whether it is plainly a path, there or not, or the name of an existing file that is no command."""
    from core.options.presets import DATA_ENDINGS
    from core.options.run_file import ENDINGS

    has_separator = any(mark in first for mark in (os.sep, os.altsep) if mark)
    if has_separator or Path(first.lower().removesuffix(".gz")).suffix in DATA_ENDINGS.union(ENDINGS):
        return True
    if not first or not is_there(Path(first)):
        return False
    from core.cli.main import names

    return first not in names()


def _is_for_python(arguments: Sequence[str]) -> bool:
    """Returns whether a library means to run Python: in a bundle `sys.executable` is Hone."""
    first = arguments[0] if arguments else ""
    is_flag = first.startswith("-") and not first.startswith("--") and first != "-h"  # -c, -m, -B -c, ...
    return is_flag or Path(first).suffix.lower() in (".py", ".pyc")


def _open_missing_streams() -> None:
    """Opens the null device for closed standard streams, in this process and in those it starts."""
    for number, flags in {0: os.O_RDONLY, 1: os.O_WRONLY, 2: os.O_WRONLY}.items():
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
