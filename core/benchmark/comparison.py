"""Two results of different days, held against each other rung by rung."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from core.base import format as figures
from core.base.errors import OptionsError, Problem
from core.base.format import Table
from core.benchmark import table as words
from core.benchmark.result import Result, Row, Spread
from core.benchmark.table import how_measured, whole_title, with_side

# --- Two results of different days, held against each other rung by rung


FEWEST_STEPS = 4
"""Fewer steps have no quartiles, and say nothing about by how much they would differ the next time."""


class Change(StrEnum):
    """What became of a rung's pace."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "within the spread"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Compared:
    """A rung in both results; None where one of them lacks it.

    `speed` is how many times as fast the later one is, `memory` what share of the earlier one's memory it took.
    """

    title: str
    earlier: Row | None
    later: Row | None
    speed: float | None
    memory: float | None
    change: Change


@dataclass(frozen=True)
class Comparison:
    """Two results. `notes` say what else differs, so that a change may come from it."""

    earlier: Result
    later: Result
    rows: tuple[Compared, ...]
    notes: tuple[str, ...]


def compare(earlier: Result, later: Result) -> Comparison:
    """Hold two results against each other; rungs of both stand first, in the later one's order.

    Raises:
        OptionsError: One is of methods and one of devices.
    """
    if earlier.kind is not later.kind:
        said = f"one is a benchmark of {earlier.kind.value}, the other of {later.kind.value}"
        raise OptionsError((Problem("", said),), "The comparison")
    before = {row.rung.name: row for row in earlier.rows}
    after = {row.rung.name: row for row in later.rows}
    names = [name for name in after if name in before]
    names += [name for name in (*after, *before) if name not in names]
    titles = _titles(earlier) | _titles(later)
    rows = tuple(_compared(titles[name], before.get(name), after.get(name)) for name in dict.fromkeys(names))
    return Comparison(earlier, later, rows, tuple(_notes(earlier, later)))


def _compared(title: str, earlier: Row | None, later: Row | None) -> Compared:
    old, new = _pace_ratio(earlier), _pace_ratio(later)
    held = earlier.peak if earlier else None
    holds = later.peak if later else None
    return Compared(
        title=title,
        earlier=earlier,
        later=later,
        speed=new.median / old.median if old and new else None,
        memory=holds / held if holds and held else None,
        change=_change(earlier, later, old, new),
    )


def _titles(result: Result) -> dict[str, str]:
    """What each row is called where it stands alone, by name."""
    return {row.rung.name: with_side(row.rung, whole_title(row.rung, result.plan)) for row in result.rows}


def _pace_ratio(row: Row | None) -> Spread | None:
    return row.samples_per_second if row is not None else None


def _change(earlier: Row | None, later: Row | None, old: Spread | None, new: Spread | None) -> Change:
    if old is None or new is None or min(_steps(earlier), _steps(later)) < FEWEST_STEPS:
        return Change.UNKNOWN
    if new.lowest > old.highest:
        return Change.FASTER
    return Change.SLOWER if new.highest < old.lowest else Change.SAME


def _steps(row: Row | None) -> int:
    return sum(len(sample.seconds) for sample in row.samples) if row is not None else 0


def _notes(earlier: Result, later: Result) -> Iterator[str]:
    yield from _different(earlier, later)
    for name, before, after in _versions(earlier, later):
        yield f"{name}: {before} then, {after} later."
    changed = [_titles(later)[row.rung.name] for row in later.rows if _is_asked_otherwise(row, earlier)]
    if changed:
        yield f"Not the same options were asked in: {', '.join(changed)}."
    for word, result in (("earlier", earlier), ("later", later)):
        titles = _titles(result)
        disturbed = [titles[row.rung.name] for row in result.rows if row.is_disturbed]
        if disturbed:
            yield f"In the {word} one other load or heat disturbed: {', '.join(disturbed)}."
        if not result.is_whole:
            yield f"The {word} one was ended before all passes were made."


def _different(earlier: Result, later: Result) -> Iterator[str]:
    """What was measured, where, and how often, where it isn't the same."""
    facts = {
        "What was measured": (earlier.plan.title, later.plan.title),
        "Computer": (earlier.machine.title, later.machine.title),
        "Processor": (earlier.machine.processor, later.machine.processor),
        "Cores": (str(earlier.machine.cores), str(later.machine.cores)),
        "Memory": (figures.size(earlier.machine.memory), figures.size(later.machine.memory)),
        "Accelerator": (earlier.machine.accelerator or "none", later.machine.accelerator or "none"),
        "System": (earlier.machine.system, later.machine.system),
        "Steps": (how_measured(earlier.plan), how_measured(later.plan)),
    }
    for name, (before, after) in facts.items():
        if before != after:
            yield f"{name}: {before} then, {after} later."


def _versions(earlier: Result, later: Result) -> Iterator[tuple[str, str, str]]:
    before, after = earlier.machine.versions, later.machine.versions
    for name in dict.fromkeys((*after, *before)):
        if before.get(name) != after.get(name):
            yield name, before.get(name, "not there"), after.get(name, "not there")


def _is_asked_otherwise(row: Row, other: Result) -> bool:
    same = next((one for one in other.rows if one.rung.name == row.rung.name), None)
    return same is not None and same.rung.asked != row.rung.asked


# --- Two results against each other as a table


CHANGES = {
    Change.FASTER: "faster",
    Change.SLOWER: "slower",
    Change.SAME: "within the spread",
    Change.UNKNOWN: figures.PLAIN_MISSING,
}


def comparison_table(found: Comparison) -> Table:
    """A rung a row: samples a second of both with their spreads, whether that is a change, and both peaks."""
    then, now = (figures.full_moment(result.begun) for result in (found.earlier, found.later))
    pace = (f"Samples/s {then}", f"Samples/s {now}", "Speed", "Change")
    memory = (f"Memory {then}", f"Memory {now}", "Memory")
    return Table(("Row", *pace, *memory), [_row(one) for one in found.rows], frozenset({1, 2, 3, 5, 6, 7}))


def _row(one: Compared) -> tuple[str, ...]:
    return (
        one.title,
        _pace(one.earlier),
        _pace(one.later),
        words.times(one.speed),
        CHANGES[one.change],
        _peak(one.earlier),
        _peak(one.later),
        words.times(one.memory),
    )


def _pace(row: Row | None) -> str:
    return words.spread(row.samples_per_second) if row is not None else figures.PLAIN_MISSING


def _peak(row: Row | None) -> str:
    return figures.size(row.peak) if row is not None else figures.PLAIN_MISSING
