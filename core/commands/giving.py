"""`hone script`, `hone report` and `hone support`: a run taken elsewhere."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core import run_file, support
from core.commands.arguments import NAME_HELP
from core.commands.files import write_new
from core.commands.output import say
from core.commands.runs import find_run
from core.errors import OptionsError, Problem
from core.report import save_report
from core.script import script_of, script_of_run
from core.targets import new_file

if TYPE_CHECKING:
    from core.commands.arguments import Commands


def add_giving(commands: "Commands") -> None:
    """Add the three commands."""
    writing = commands.add_parser(
        "script",
        help="write a run as a Python script without Hone",
        description="Write a short Python script that trains the same with transformers, TRL, PEFT and datasets. What "
        "it does differently from Hone is listed at its top.",
    )
    writing.add_argument("source", metavar="RUN|FILE.hone", help=f"{NAME_HELP}; or a run file")
    writing.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="a new file; default: it is printed"
    )
    writing.set_defaults(run=lambda asked: script(asked.source, asked.output))
    telling = commands.add_parser(
        "report",
        help="write one page that tells of a run, with its charts",
        description="Write one page that tells of a run: what was asked and what ran, charts, metrics, predictions, "
        "the machine. It needs no other file. It shows examples of your data.",
    )
    telling.add_argument("name", metavar="RUN", help=NAME_HELP)
    telling.add_argument(
        "--to", type=Path, required=True, metavar="FILE", help="a new file that ends in .html"
    )
    telling.set_defaults(run=lambda asked: report(asked.name, asked.to))
    helping = commands.add_parser(
        "support",
        help="gather what somebody needs who helps with a run",
        description=f"Gather a run's files in one zip for somebody who helps. {support.WORDS}",
    )
    helping.add_argument("name", metavar="RUN", help=NAME_HELP)
    helping.add_argument("--to", type=Path, metavar="FILE", help="a new zip file")
    helping.add_argument("--show", action="store_true", help="print what it holds")
    helping.set_defaults(run=lambda asked: support_file(asked.name, asked.to, show=asked.show))


def script(source: str, output: Path | None) -> int:
    """Print the script that does what a run, or a run file, asks for, or write it to a new file.

    Args:
        source: A run's folder or name, or a run file.
        output: A new file; None: standard output.

    Raises:
        OptionsError: There is no such run, or what it asks for is wrong.
        TargetError: Something is at the file's place, or it can't be written there.
        UserError: Its data or model is gone.
    """
    if output is not None:
        new_file(output)  # said now, not after the data has been looked at
    path = Path(source)
    is_file = path.suffix.lower() in run_file.ENDINGS and path.is_file()
    text = script_of(run_file.read(path)) if is_file else script_of_run(find_run(source))
    if output is None:
        say(text, end="")
    else:
        write_new(output, text)
        say(f"The script is in {output}", sys.stderr)
    return 0


def report(name: str, to: Path) -> int:
    """Write the page that tells of a run to a new HTML file.

    Raises:
        OptionsError: There is no such run.
        TargetError: Something is at the file's place, or it can't be written there.
    """
    run = find_run(name)
    save_report(run, new_file(to))
    say(f"The report is in {to}", sys.stderr)
    return 0


def support_file(name: str, to: Path | None, *, show: bool) -> int:
    """Print what a support file holds, write it, or both.

    Raises:
        OptionsError: There is no such run, or neither is asked for.
        TargetError: Something is at the file's place, or it can't be written there.
    """
    if to is None and not show:
        raise OptionsError((Problem("", "name a file with --to, or look at it first with --show"),))
    run = find_run(name)
    if to is not None:
        new_file(to)
    files = support.collect(run)
    if show:
        for file in files:
            say(f"===== {file.name}{f' ({file.note})' if file.note else ''}\n{file.text}")
    if to is not None:
        support.save(files, to)
        say(support.WORDS, sys.stderr)
        say(f"The support file is in {to}", sys.stderr)
    return 0
