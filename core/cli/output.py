"""What all commands share: printing, asking, exit statuses, and how a command is added to the parser."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from core.base.formats import visible
from core.base.language import _

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

WRONG_REQUEST = 2
TOO_LARGE = 3
"""Exit status: the run doesn't fit into memory."""
INTERRUPTED = 130

NAME_HELP = _("a run's folder, or its name in `hone runs`")


def say(text: object, stream: TextIO | None = None, *, end: str = "\n") -> None:
    """Print to standard output or `stream`, with control characters from data and names made visible."""
    print(visible(str(text)), file=stream or sys.stdout, end=end, flush=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    say(msgspec.json.format(msgspec.json.encode(value)).decode())


def agrees(question: str) -> bool:
    """Ask in the terminal; anything but yes is no."""
    return input(f"{question} [y/N] ").strip().casefold() in ("y", "yes")


def add_command(
    commands: "Commands",
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    summary: str,
    example: str,
    details: str = "",
) -> argparse.ArgumentParser:
    """Add a command.

    Args:
        commands: Where to.
        name: Its name.
        run: Takes the parsed arguments and returns the exit status.
        summary: What it does, in a line of `hone --help`.
        example: Its arguments in the example of its own help.
        details: More for its own help.
    """
    sentence = f"{summary[0].upper()}{summary[1:]}."
    command = commands.add_parser(
        name,
        help=summary,
        description=f"{sentence} {details}".rstrip(),
        epilog=f"Example: hone {name} {example}".rstrip(),
    )
    command.set_defaults(run=run)
    return command


def add_json(command: argparse.ArgumentParser, summary: str = _("print the answer as JSON")) -> None:
    """Add `--json`."""
    command.add_argument("--json", action="store_true", help=summary)
