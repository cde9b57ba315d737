"""The command line."""

import argparse
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
from core.cli.output import INTERRUPTED, WRONG_REQUEST, say
from core.cli.train import KeeperCommand, Start
from core.runs.words import error_text


def main(arguments: Sequence[str], start: Start | None = None, keeper: KeeperCommand | None = None) -> int:
    """Run a command and return the exit status.

    Args:
        arguments: The command line without the program's name.
        start: Starts a new run's keeper; None: Hone's own.
        keeper: What starts the keeper of a run that is resumed; None: Hone's own.
    """
    for stream in (sys.stdout, sys.stderr):  # terminals of Windows may lack letters of names and paths
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(encoding="utf-8", errors="replace")
    parser = _parser()
    parser.set_defaults(start=start, keeper=keeper)
    parsed = parser.parse_args(arguments)
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
    return frozenset(_add_commands(argparse.ArgumentParser()))


class _Parser(argparse.ArgumentParser):
    """Shows the usage of the command whose argument is unknown; argparse shows that of the program."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(_("unrecognized arguments: {unknown}").format(unknown=" ".join(unknown)))
        return parsed, unknown


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hone",
        description="Fine-tune models on your own computer and watch them train. Without arguments the window opens; "
        "given a run file, a run's folder or data, it shows that.",
        epilog="`hone COMMAND --help` explains a command. `hone runs` says where runs are kept; HONE_HOME moves them. "
        "Exit status: 0 done, 1 failed, 2 wrong request, 3 the run doesn't fit into memory, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=_("Hone {version}").format(version=VERSION))
    _add_commands(parser)
    return parser


def _add_commands(parser: argparse.ArgumentParser) -> list[str]:
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    opening = commands.add_parser(
        "open", help=_("open the window, with files to show"), epilog=_("Example: hone open mine.hone")
    )
    opening.add_argument("files", nargs="*", metavar="FILE", help=_("a run file, a run's folder, or data"))
    for module in (data, train, runs, models, memory, benchmark):
        module.add_commands(commands)
    return list(commands.choices)


def _report(error: Exception) -> int:
    """Say on standard error what ended the command; a bug's report goes to Hone's log. Returns the exit status."""
    match error:
        case UserError():
            say(error_text(error), sys.stderr)
        case EngineCrashed():
            say(error, sys.stderr)
        case OSError(filename=str() as name):
            _log(error, f"{name}: {error.strerror}")
        case OSError():
            _log(error, str(error))
        case _:
            _log(error, _("A fault in Hone: {name}: {error}").format(name=type(error).__name__, error=error))
    return WRONG_REQUEST if isinstance(error, OptionsError | TargetError) else 1


def _log(error: Exception, sentence: str) -> None:
    """Say a sentence and write the traceback to Hone's log; where that can't be written, a bug's is printed."""
    report = "".join(traceback.format_exception(error))
    log = settings.home() / "hone.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(
                _("{strftime} ERROR {argv}\n{report}").format(
                    strftime=time.strftime("%Y-%m-%d %H:%M:%S"), argv=" ".join(sys.argv), report=report
                )
            )
    except OSError:
        if not isinstance(error, OSError):
            say(report, sys.stderr)
    else:
        sentence = _("{sentence}\nThe whole report is in {log}").format(sentence=sentence, log=log)
    say(sentence, sys.stderr)
