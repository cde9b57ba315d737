"""`hone import`: a run file out of TrainingArguments or a command line of run_glue.py."""

import sys
from pathlib import Path

import tomli_w

from core import figures
from core.commands.files import write_new
from core.commands.output import say
from core.importing import Imported, import_file, import_text


def import_options(source: str, output: Path | None) -> int:
    """Print the run file that `source` comes to, and on standard error what was taken over and what was not.

    Args:
        source: A file, or `-` for standard input.
        output: A new file to write to; None: standard output.

    Returns:
        0, or 1 where something in it can't be asked for like that.

    Raises:
        OptionsError: There are no options in it.
    """
    imported = import_text(sys.stdin.read()) if source == "-" else import_file(Path(source))
    say("\n".join(import_lines(imported)), sys.stderr)
    text = tomli_w.dumps(imported.tree)
    if output is None:
        say(text, end="")
    else:
        write_new(output, text)
    return 1 if imported.problems else 0


def import_lines(imported: Imported) -> list[str]:
    """What was taken over and what was not, for a terminal."""
    taken = [
        (found.name, ", ".join(f"{path} = {value}" for path, value in found.options.items()), found.note)
        for found in imported.taken
    ]
    left = [(found.name, found.reason) for found in imported.left]
    lines = [figures.table(("TAKEN OVER", "AS", "NOTE"), taken)] if taken else []
    lines += ["", figures.table(("LEFT OUT", "BECAUSE"), left)] if left else []
    return [*lines, *(f"Problem: {problem}" for problem in imported.problems)]
