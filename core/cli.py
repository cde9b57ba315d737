"""The command line: everything the window does, without a screen.

Exit status: 0 done; 1 failed, and standard error says why; 2 the request was wrong; 130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core import jobs, run_file
from core.commands import reports, runs, train
from core.commands.run_text import error_text
from core.errors import OptionsError, UserError
from core.jobs import EngineCrashed
from core.options import Task
from core.reference import as_markdown, as_text
from core.starting_values import starting_options

VERSION = "0.1.0"
TASKS = tuple(task.value for task in Task)
WRONG_REQUEST = 2

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def main(arguments: Sequence[str], start: train.Start = jobs.start) -> int:
    """Do what the command line asks for and return the exit status.

    Args:
        arguments: The command line without the program's name.
        start: What starts a run.
    """
    _speak_utf8()
    parsed = _parser(start).parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except OptionsError as error:
        print(error_text(error), file=sys.stderr)
        return WRONG_REQUEST
    except UserError as error:
        print(error_text(error), file=sys.stderr)
        return 1
    except EngineCrashed as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # `hone runs | head`: who read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _speak_utf8() -> None:
    """Terminals of Windows may speak a code page that lacks letters in names and paths."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")


def _parser(start: train.Start) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hone",
        description="Fine-tune models on your own computer and watch them train. Without arguments the window opens.",
        epilog="Runs are kept where `hone runs` says; HONE_HOME moves them.",
    )
    parser.add_argument("--version", action="version", version=f"Hone {VERSION}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_train(commands, start)
    _add_runs(commands)
    _add_questions(commands)
    _add_files(commands)
    return parser


def _add_train(commands: "Commands", start: train.Start) -> None:
    command = commands.add_parser(
        "train",
        help="train what a run file asks for",
        description="Train what a run file asks for. Ctrl-C stops and keeps what is trained; twice ends it at once.",
    )
    command.add_argument("file", type=Path, metavar="RUN.hone")
    command.add_argument("--run-dir", type=Path, metavar="DIR", help="the run's own folder: new or empty")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="SECTION.OPTION=VALUE",
        help="change an option of the file; may be repeated (see `hone options`)",
    )
    command.add_argument("--json", action="store_true", help="print what happens as JSON lines")
    command.set_defaults(
        run=lambda asked: train.train(
            asked.file, tuple(asked.overrides), asked.run_dir, as_json=asked.json, start=start
        )
    )


def _add_runs(commands: "Commands") -> None:
    listing = commands.add_parser("runs", help="list all runs, newest first")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(run=lambda asked: runs.list_all(as_json=asked.json))
    showing = commands.add_parser("show", help="tell all about one run")
    showing.add_argument("name", metavar="RUN", help="a run's folder, or its name in `hone runs`")
    showing.add_argument("--json", action="store_true")
    showing.set_defaults(run=lambda asked: runs.show(asked.name, as_json=asked.json))


def _add_questions(commands: "Commands") -> None:
    devices = commands.add_parser("devices", help="say what this computer can train on")
    devices.add_argument("--json", action="store_true")
    devices.set_defaults(run=lambda asked: reports.devices(as_json=asked.json))
    inspect = commands.add_parser(
        "inspect",
        help="say what is in a data file",
        description="Say what is in a data file or folder. Ends with 1 when a problem would stop a run.",
    )
    inspect.add_argument("source", metavar="FILE")
    inspect.add_argument("--task", choices=TASKS, help="default: judged by the file")
    inspect.add_argument("--text-column", action="append", default=[], metavar="NAME")
    inspect.add_argument("--label-column", metavar="NAME")
    inspect.add_argument("--json", action="store_true")
    inspect.set_defaults(
        run=lambda asked: reports.inspect(
            asked.source,
            Task(asked.task) if asked.task else None,
            tuple(asked.text_column),
            asked.label_column,
            as_json=asked.json,
        )
    )


def _add_files(commands: "Commands") -> None:
    new = commands.add_parser("new", help="print a run file to start from")
    new.add_argument("--task", choices=TASKS, required=True)
    new.set_defaults(run=lambda asked: _print(run_file.dumps_with_help(starting_options(Task(asked.task)))))
    options = commands.add_parser("options", help="explain every option of a run file")
    options.add_argument("--markdown", action="store_true", help="as the page docs/options.md")
    options.set_defaults(run=lambda asked: _print(as_markdown() if asked.markdown else as_text()))


def _print(text: str) -> int:
    sys.stdout.write(text)
    return 0
