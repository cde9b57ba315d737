"""The command line."""

import os
import sys
import time
import traceback
from collections.abc import Sequence

from core.base import settings
from core.base.errors import OptionsError, TargetError, UserError
from core.base.jobs import EngineCrashed
from core.base.language import _
from core.base.settings import VERSION
from core.cli import benchmark, data, memory, models, runs, train
from core.cli.output import INTERRUPTED, WRONG_REQUEST, Commands, Parser, note
from core.runs.words import error_text


def main(arguments: Sequence[str]) -> int:
    """Run the command in `arguments`, the command line without the program's name; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):  # terminals of Windows may lack letters of names and paths
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(encoding="utf-8", errors="replace")
    parsed = _parser()[0].parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except BrokenPipeError:  # `hone runs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the outer edge of this process
        return _report(error)


def names() -> frozenset[str]:
    """The commands."""
    return _parser()[1].names


def _parser() -> tuple[Parser, Commands]:
    parser = Parser(
        prog="hone",
        description=_(
            "Fine-tune models on your own computer and watch them train. Without arguments the window opens; given a "
            "run file, a run's folder or data, it shows that."
        ),
        epilog=_(
            "`hone COMMAND --help` explains a command. `hone runs` says where runs are saved; HONE_HOME moves them. "
            "Exit status: 0 done, 1 failed, 2 wrong request, 3 the run doesn't fit into memory, 130 interrupted."
        ),
    )
    parser.add_argument("--version", action="version", version=f"Hone {VERSION}")
    commands = Commands(parser)
    opening = commands.add(
        "open", None, summary=_("open the window, with files to show"), example="mine.hone"
    )
    opening.add_argument("files", nargs="*", metavar="FILE", help=_("a run file, a run's folder, or data"))
    for module in (data, train, runs, models, memory, benchmark):
        module.add_commands(commands)
    return parser, commands


def _report(error: Exception) -> int:
    """Print what ended the command, and log what the person can't mend; returns the exit status."""
    match error:
        case UserError():
            note(error_text(error))
        case EngineCrashed():
            note(error)
        case OSError(filename=str() as name):
            _log(error, f"{name}: {error.strerror}")
        case OSError():
            _log(error, str(error))
        case _:
            _log(error, _("A bug in Hone: {name}: {error}").format(name=type(error).__name__, error=error))
    return WRONG_REQUEST if isinstance(error, OptionsError | TargetError) else 1


def _log(error: Exception, message: str) -> None:
    """Print a message and write the traceback to Hone's log; where that can't be written, a bug's is printed."""
    report = "".join(traceback.format_exception(error))
    log = settings.home() / "hone.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} ERROR {' '.join(sys.argv)}\n{report}")
    except OSError:
        note(message if isinstance(error, OSError) else f"{report}\n{message}")
    else:
        note(_("{message}\nThe whole report is in {log}").format(message=message, log=log))
