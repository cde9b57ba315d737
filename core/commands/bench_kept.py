"""`hone bench results`, `show` and `compare`: what was measured before."""

from pathlib import Path
from typing import Any

from core import figures
from core.bench import kept
from core.bench.comparison import compare as hold_against
from core.bench.comparison_table import comparison_table
from core.bench.kept import Kept
from core.bench.result import Result
from core.commands.bench_showing import Showing
from core.commands.output import print_json, say
from core.errors import OptionsError, Problem
from core.figures import markdown, markdown_lines
from core.files import is_there

NAME_HELP = "its number in `hone bench results` (1 is the newest), its name there, or a file"

_TITLES = ("", "NAME", "MEASURED", "WHAT", "ROWS", "ON")


def results(*, as_json: bool) -> int:
    """Print what is kept, the newest first."""
    found = kept.kept()
    if as_json:
        print_json([_as_plain(one) for one in found])
    elif found:
        say(figures.table(_TITLES, [_row(number, one) for number, one in enumerate(found, 1)]))
    else:
        say("Nothing was measured yet. `hone bench methods` and `hone bench devices` do.")
    return 0


def _row(number: int, one: Kept) -> tuple[str, ...]:
    when = figures.moment(one.begun)
    if one.result is None:
        return (str(number), one.path.stem, when, figures.MISSING, "", one.problem)
    return (
        str(number),
        one.path.stem,
        when,
        one.result.plan.title,
        _rows(one.result),
        one.result.machine.title,
    )


def _rows(result: Result) -> str:
    measured = sum(row.is_measured for row in result.rows)
    standing = "" if result.is_whole else f", {result.standing}"
    return f"{measured} of {len(result.rows)}{standing}"


def _as_plain(one: Kept) -> dict[str, Any]:
    result = one.result
    told: dict[str, Any] = {"file": str(one.path), "begun": one.begun, "problem": one.problem}
    if result is None:
        return told
    return {**told, "kind": result.kind, "title": result.plan.title, "machine": result.machine.title}


def show(name: str, showing: Showing) -> int:
    """Show a result again.

    Raises:
        OptionsError: There is no such result.
        CantRead: It can't be read.
    """
    showing.check()
    showing.show(find(name))
    return 0


def compare(one: str, other: str, *, as_markdown: bool) -> int:
    """Print two results against each other, whichever is named first: the older one stands first.

    Raises:
        OptionsError: There is no such result, both are the same, or they measured different things.
        CantRead: One can't be read.
    """
    earlier, later = sorted((find(one), find(other)), key=lambda result: result.begun)
    if earlier == later:
        raise OptionsError((Problem("", f"{one} and {other} are the same result"),), "The comparison")
    found = hold_against(earlier, later)
    table = comparison_table(found)
    if as_markdown:
        say("\n".join([*markdown_lines(table), *(f"- {markdown(note)}" for note in found.notes)]))
        return 0
    rows = [tuple(str(cell) for cell in row) for row in table.rows]
    say(figures.table(tuple(title.upper() for title in table.titles), rows))
    if found.notes:
        say("\n" + "\n".join(found.notes))
    return 0


def find(name: str) -> Result:
    """The result of a number, a name or a file.

    Raises:
        OptionsError: There is none.
        CantRead: It can't be read.
    """
    found = kept.kept()
    if name.isascii() and name.isdecimal() and 0 < int(name[:9]) <= len(found):
        return kept.load(found[int(name[:9]) - 1].path)
    for one in found:
        if name in (one.path.name, one.path.stem):
            return kept.load(one.path)
    if is_there(Path(name)):
        return kept.load(Path(name))
    there = f"there are 1 to {len(found)}" if found else "none is kept yet"
    raise OptionsError((Problem("", f"{name} is no result: {there}, see `hone bench results`"),))
