"""`hone rename`, `hone tag` and `hone note`: what a person says of a run."""

import msgspec

from core import run_notes
from core.commands.output import say
from core.commands.runs import find_run
from core.errors import OptionsError, Problem
from core.run_folder import RunFolder
from core.run_notes import RunNotes
from core.run_summary import summarize


def rename(name: str, title: str) -> int:
    """Call a run otherwise; an empty title gives it its own name back.

    Args:
        name: Its folder, or its name among all runs.
        title: The new name.

    Raises:
        OptionsError: There is no such run, or the name is too long.
    """
    run = find_run(name)
    run_notes.write(run.path, msgspec.structs.replace(_notes(run), title=" ".join(title.split())))
    say(f"{run.name} is called “{summarize(run).title}”")
    return 0


def tag(name: str, changes: list[str]) -> int:
    """Give a run tags (`+night`, or `night`) and take some away (`-old`); without any, print those it has.

    Raises:
        OptionsError: There is no such run, a tag is too long, or there are too many.
    """
    run = find_run(name)
    if any(not change.strip("+- \t\n") for change in changes):
        raise OptionsError((Problem("", "a tag has a name, such as +night or -old"),))
    remove = [change.removeprefix("-") for change in changes if change.startswith("-")]
    add = [change.removeprefix("+") for change in changes if not change.startswith("-")]
    notes = run_notes.retagged(_notes(run), add, remove)
    if changes:
        run_notes.write(run.path, notes)
    say(" ".join(notes.tags) or f"{run.name} has no tags.")
    return 0


def note(name: str, text: str | None) -> int:
    """Write a note to a run; None prints the one it has, an empty text takes it away.

    Raises:
        OptionsError: There is no such run, or the text is too long.
    """
    run = find_run(name)
    if text is not None:
        run_notes.write(run.path, msgspec.structs.replace(_notes(run), text=text.strip()))
    say(_notes(run).text or f"{run.name} has no note.")
    return 0


def _notes(run: RunFolder) -> RunNotes:
    return run_notes.read(run.path)
