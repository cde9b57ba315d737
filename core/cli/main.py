"""The command line."""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence

from core.base import settings
from core.base.errors import OptionsError, TargetError, UserError, why
from core.base.jobs import EngineCrashed
from core.base.language import LANGUAGES, OPTION, _
from core.base.settings import VERSION
from core.cli import benchmark, data, hosts, memory, models, runs, train
from core.cli.output import (
    INTERRUPTED,
    WRONG_REQUEST,
    CommandParsers,
    Parser,
    did_you_mean,
    note,
    print_no_more,
    refuse,
    say,
)
from core.runs.words import error_text

FIRST_STEPS = _(
    """Fine-tune models on your own computer and watch them train. Without arguments the window opens;
with a run file, a run's folder or data, it shows that.

first steps:
  hone inspect reviews.csv                           see what is in your data
  hone new --task text-classification -o mine.hone   write a run file; fill in the model and the data
  hone train mine.hone                               train
  hone follow latest                                 watch the newest run from another terminal
  hone try latest                                    use its model"""
)


def main(arguments: Sequence[str]) -> int:
    """Runs the command in `arguments`, the command line without the program's name; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):  # terminals of Windows may lack letters of names and paths
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(encoding="utf-8", errors="replace")
    parsed = _parser()[0].parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except BrokenPipeError:  # `hone runs | head`
        print_no_more()
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the outer edge of this process
        return _report(error)


def names() -> frozenset[str]:
    return frozenset(_parser()[1].parsers)


def _parser() -> tuple[Parser, CommandParsers]:
    parser = Parser(
        prog="hone",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=FIRST_STEPS,
        epilog=_(
            "`hone help COMMAND` explains a command with an example. Runs are saved in the folder that `hone runs`\n"
            "names; the environment variable HONE_HOME changes it.\n"
            "Exit status: 0 success, 1 failure, 2 wrong arguments, 3 the run doesn't fit into memory, 130 interrupted."
        ),
    )
    parser.add_argument(OPTION, choices=LANGUAGES, help=_("the language to speak; before the command"))
    parser.add_argument(
        "--version",
        action="version",
        version=f"Hone {VERSION}",
        help=_("show program's version number and exit"),
    )
    commands = CommandParsers(parser)
    opening = commands.add(
        "open", None, summary=_("open the window, with files to show"), example="mine.hone"
    )
    opening.add_argument("files", nargs="*", metavar="FILE", help=_("a run file, a run's folder, or data"))

    def explain(arguments: argparse.Namespace) -> int:
        name = arguments.command
        if name is not None and name not in commands.parsers:
            known = _("`hone help` lists the commands.")
            hint = did_you_mean(name, commands.parsers) or known
            refuse(_("there is no command {name}. {hint}").format(name=name, hint=hint))
        say((commands.parsers[name] if name else parser).format_help(), end="")
        return 0

    helping = commands.add("help", explain, summary=_("explain Hone, or a command"), example="train")
    helping.add_argument("command", nargs="?", metavar="COMMAND", help=_("default: the first steps"))
    for module in (data, train, runs, models, memory, benchmark, hosts):
        module.add_commands(commands)
    return parser, commands


def _report(error: Exception) -> int:
    """Prints what ended the command, and logs what the person can't mend; returns the exit status."""
    match error:
        case UserError():
            note(_("error: {text}").format(text=error_text(error)))
        case EngineCrashed():
            note(_("error: {text}").format(text=error))
        case OSError(filename=str() as name):
            _log(error, f"{name}: {why(error)}")
        case OSError():
            _log(error, str(error))
        case _:
            _log(error, _("A bug in Hone: {name}: {error}").format(name=type(error).__name__, error=error))
    return WRONG_REQUEST if isinstance(error, OptionsError | TargetError) else 1


def _log(error: Exception, message: str) -> None:
    """Prints a message and writes the traceback to Hone's log; where that can't be written, a bug's is printed."""
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
