"""A result as a table: for a terminal, as Markdown to be pasted, and as CSV for other programs."""

from core import figures
from core.bench import words
from core.bench.as_csv import csv
from core.bench.devices_table import devices_table
from core.bench.plan import Kind
from core.bench.published import ARTICLE_IS, GUIDE_IS, guide_row
from core.bench.result import Result, Row, memory_against, speed_against
from core.bench.trade import best_trade
from core.figures import Table, markdown_lines
from core.figures import markdown as plain

__all__ = ["csv", "markdown", "table", "text"]


AGAINST = "Against plain"
"""Of the column before it: so many times plain's."""

PUBLISHED = ("Published speed", "Published memory")


def table(result: Result, *, published: bool = False) -> Table:
    """The rows of a result; `published` puts the figures of others beside."""
    if result.kind is Kind.DEVICES:
        return devices_table(result, published=published)
    return _methods_table(result, published=published)


def _methods_table(result: Result, *, published: bool) -> Table:
    """A method a row, held against the plain one."""
    titles = ["Method", "Time an epoch", "Samples/s", AGAINST, "Peak memory", AGAINST]
    with_power = any(row.samples_per_joule for row in result.rows)
    if with_power:
        titles.append("Samples/J")
    titles += PUBLISHED if published else ()
    rows = [
        (
            *_method(row, result.plain or row, with_power=with_power),
            *(_published(row) if published else ()),
            words.remarks(row),
        )
        for row in result.rows
    ]
    return Table((*titles, "Notes"), rows, frozenset(range(1, len(titles))))


def _method(row: Row, first: Row, *, with_power: bool) -> tuple[str, ...]:
    epoch = row.epoch_seconds
    joule = row.samples_per_joule
    return (
        row.rung.title,
        f"{words.figure(epoch.median)} s" if epoch else figures.MISSING,
        words.spread(row.samples_per_second),
        words.times(speed_against(row, first)),
        figures.size(row.peak),
        words.times(memory_against(row, first)),
        *((words.figure(joule) if joule else figures.MISSING,) if with_power else ()),
    )


def _published(row: Row) -> tuple[str, ...]:
    found = guide_row(row.rung)
    if found is None:
        return (figures.MISSING,) * len(PUBLISHED)
    return words.times(found.speed), words.times(found.memory)


def markdown(result: Result, *, published: bool = False) -> str:
    """A result to be pasted where Markdown is read: its title, its table, what it comes to, how it was measured."""
    lines = [f"### {plain(result.plan.title)}", ""]
    lines += markdown_lines(table(result, published=published))
    lines += [f"{plain(best_trade(result))}\n"]
    lines += [f"- {plain(line)}" for line in _told_of(result, published=published)]
    return "\n".join(lines) + "\n"


def text(result: Result, *, published: bool = False) -> str:
    """A result for a terminal: what is remarked of a row stands below the table, where there is room for it."""
    found = table(result, published=published)
    rows = [tuple(str(cell) for cell in row) for row in found.rows]
    names = 2 if result.kind is Kind.DEVICES else 1
    titles = tuple(title.upper() for title in found.titles)
    marked = [_marked(row) for row in rows]
    lines = [result.plan.title, "", figures.table(titles[:-1], [row[:-1] for row in marked]), ""]
    lines += [
        f"{', batch '.join(row[:names])}: {row[-1]}"
        for row in rows
        if row[-1] not in ("", words.NOT_MEASURED)
    ]
    return "\n".join([*lines, "", best_trade(result), "", *_told_of(result, published=published)])


def _marked(row: tuple[str, ...]) -> tuple[str, ...]:
    """A row that something disturbed has a star behind its name."""
    return (f"{row[0]} *", *row[1:]) if words.DISTURBED in row[-1] else row


def _told_of(result: Result, *, published: bool) -> list[str]:
    """How it was measured, and whose the other figures are."""
    others = ARTICLE_IS if result.kind is Kind.DEVICES else GUIDE_IS
    return [*words.head(result), *([others] if published else [])]
