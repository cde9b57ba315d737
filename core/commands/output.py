"""How the command line prints: text with nothing in it that a terminal would act on, and values as JSON."""

import sys
from typing import Any, TextIO

import msgspec

from core.figures import visible


def say(text: object, stream: TextIO | None = None, *, end: str = "\n") -> None:
    """Print text that may hold words of data, models or names, with control characters made visible.

    Args:
        text: What to print.
        stream: Where to; None: standard output.
        end: What follows it.
    """
    print(visible(str(text)), file=stream or sys.stdout, end=end, flush=True)


def agrees(question: str) -> bool:
    """Ask whoever is at the terminal; anything but yes is no."""
    return input(f"{question} [y/N] ").strip().casefold() in ("y", "yes")


def print_json(value: Any) -> None:
    """Print a value as JSON, indented."""
    say(msgspec.json.format(msgspec.json.encode(value)).decode())
