"""`hone new` and `hone options`: run files to start from, and what may stand in them."""

import sys
from pathlib import Path

from core import run_file
from core.choices import Task
from core.errors import OptionsError, Problem
from core.reference import as_markdown, as_text
from core.starting_values import starting_options


def new(task: Task, output: Path | None) -> int:
    """Print a run file with every option explained, or write it to `output`.

    Raises:
        OptionsError: There is a file called `output` already.
        OSError: It can't be written.
    """
    text = run_file.dumps_with_help(starting_options(task))
    if output is None:
        sys.stdout.write(text)
    else:
        write_new(output, text)
    return 0


def write_new(output: Path, text: str) -> None:
    """Write a file that isn't there yet.

    Raises:
        OptionsError: It is there already.
        OSError: It can't be written.
    """
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OptionsError((Problem("", f"{output} is there already; choose another name"),)) from None


def options(*, as_page: bool) -> int:
    """Explain every option, for a terminal or as the page docs/options.md."""
    sys.stdout.write(as_markdown() if as_page else as_text())
    return 0
