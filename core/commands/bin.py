"""`hone bin`: moves runs to the operating system's bin, after asking."""

import sys

from core import bin as the_bin
from core import figures, settings
from core.bin import BinPlan, Going, NoBinError
from core.commands.output import agrees, say
from core.commands.runs import find_run
from core.errors import OptionsError, Problem
from core.run_folder import RunFolder


def throw_away(names: list[str], *, agreed: bool, for_good: bool) -> int:
    """Move runs to the bin; 0 where all of them went, 1 where one didn't or the person said no.

    Args:
        names: Their folders, or their names among all runs.
        agreed: Whether the person has agreed to it beforehand.
        for_good: Whether they are deleted instead.

    Raises:
        OptionsError: One of them is not there, or it can't be asked about.
    """
    runs = list(dict.fromkeys(find_run(name) for name in names))
    planned = the_bin.plan(runs, settings.runs_folder())
    for title in planned.busy:
        say(f"{title} isn't over, so it stays. `hone stop` ends it.", sys.stderr)
    if not planned.going:
        return 1
    _say_plan(planned)
    if not (agreed or _ask("Delete for good?" if for_good else "Move to the bin?")):
        say("Nothing was moved.")
        return 1
    went = [_take(one, agreed=agreed, for_good=for_good) for one in planned.going]
    return 0 if all(went) and not planned.busy else 1


def _say_plan(planned: BinPlan) -> None:
    for one in planned.going:
        say(f"{one.run.name}  {one.title}  {figures.size(one.size)}")
    for one in planned.needed:
        say(f"Note: {', '.join(one.needed_by)} started from the model of {one.title}.")
    say(f"{figures.counted(len(planned.going), 'run')}, {figures.size(planned.size)}")


def _take(one: Going, *, agreed: bool, for_good: bool) -> bool:
    """Move or delete one; returns whether it went."""
    if for_good:
        the_bin.delete(one.run)
        return True
    try:
        the_bin.move(one.run)
    except NoBinError as error:
        say(f"{error.title}: {error.detail}", sys.stderr)
        return _delete_instead(one.run, agreed=agreed)
    return True


def _delete_instead(run: RunFolder, *, agreed: bool) -> bool:
    if agreed or not sys.stdin.isatty():
        say(f"`hone bin --for-good {run.name}` deletes it; it can't be put back then.", sys.stderr)
        return False
    if not _ask(f"Delete {run.name} for good? It can't be put back."):
        return False
    the_bin.delete(run)
    return True


def _ask(question: str) -> bool:
    """Ask in the terminal; anything but yes is no.

    Raises:
        OptionsError: Nobody is there to answer.
    """
    if not sys.stdin.isatty():
        raise OptionsError((Problem("", "nobody is there to ask; --yes agrees beforehand"),), "The bin")
    return agrees(question)
