"""Two results against each other as a table."""

from core import figures
from core.bench import words
from core.bench.comparison import Change, Compared, Comparison
from core.bench.result import Row
from core.figures import Table

CHANGES = {
    Change.FASTER: "faster",
    Change.SLOWER: "slower",
    Change.SAME: "within the spread",
    Change.UNKNOWN: figures.MISSING,
}


def comparison_table(found: Comparison) -> Table:
    """A rung a row: samples a second of both with their spreads, whether that is a change, and both peaks."""
    then, now = (figures.moment(result.begun) for result in (found.earlier, found.later))
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
    return words.spread(row.samples_per_second) if row is not None else figures.MISSING


def _peak(row: Row | None) -> str:
    return figures.size(row.peak) if row is not None else figures.MISSING
