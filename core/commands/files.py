"""`hone new` and `hone options`: run files to start from, and what may stand in them."""

import sys
from pathlib import Path

from core import run_file
from core.checks import read_options
from core.choices import Task
from core.errors import OptionsError, Problem
from core.files import write_atomically
from core.options import RunOptions
from core.presets import differences, find, presets
from core.reference import as_markdown, as_text
from core.starting_values import starting_options
from core.targets import new_file, writing
from core.tree import put


def new(task: Task | None, output: Path | None, preset: str | None = None) -> int:
    """Print a run file with every option explained, or write it to `output`.

    Args:
        task: What is to be learned; None: what the preset is for.
        output: A new file.
        preset: The name of one to begin with.

    Raises:
        OptionsError: There is no such preset or it is for another task, or neither it nor a task is given.
        TargetError: There is a file called `output` already, or it can't be written there.
    """
    text = run_file.dumps_with_help(_starting_with(task, preset))
    if output is None:
        sys.stdout.write(text)
    else:
        write_new(output, text)
    return 0


def _starting_with(task: Task | None, name: str | None) -> RunOptions:
    preset = find(name) if name else None
    if name and preset is None:
        known = ", ".join(preset.name for preset in presets())
        raise OptionsError((Problem("preset", f"there is no {name}; there are {known}"),))
    own = Task(preset.tree["task"]) if preset and "task" in preset.tree else None
    chosen = task or own
    if chosen is None:
        raise OptionsError((Problem("task", "say which one with --task"),))
    if own not in (None, chosen):
        raise OptionsError((Problem("task", f"{name} is for {own}, got {chosen}"),))
    options = starting_options(chosen)
    if preset is None:
        return options
    tree = run_file.to_tree(options)
    put(tree, {change.path: change.after for change in differences(tree, preset)})
    changed, problems = read_options(tree)
    if changed is None:
        raise OptionsError(problems, f"The preset {name}")
    return changed


def write_new(output: Path, text: str) -> None:
    """Write a file that isn't there yet, whole or not at all.

    Raises:
        TargetError: It is there already, or it can't be written there.
        UserError: It can't be written: the disk is full.
    """
    with writing(new_file(output)):
        write_atomically(output, text.encode("utf-8", "replace"))


def options(*, as_page: bool) -> int:
    """Explain every option, for a terminal or as the page docs/options.md."""
    sys.stdout.write(as_markdown() if as_page else as_text())
    return 0
