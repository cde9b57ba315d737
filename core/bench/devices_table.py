"""The table of devices: a model and its batch a row, its sides beside each other."""

from core import figures
from core.bench import words
from core.bench.agreement import agreement
from core.bench.published import article_row
from core.bench.result import Result, Row, speed_against
from core.figures import Table

PUBLISHED = ("Published CPU, s for 1,000", "Published MPS, s for 1,000", "Published speed-up")


def devices_table(result: Result, *, published: bool = False) -> Table:
    """A model and its batch a row.

    Args:
        result: What was measured.
        published: Whether the figures of others stand beside, where there are any of the same model and batch.
    """
    sides = list(dict.fromkeys(row.rung.side for row in result.rows))
    titles = ["Model", "Batch", *(f"{side}, s an epoch" for side in sides)]
    others = sides[1:]
    titles += [_beside("Speed-up", side, others) for side in others]
    numbers = set(range(1, len(titles)))
    titles += [_beside("Losses agree", side, others) for side in others]
    if published:
        numbers |= set(range(len(titles), len(titles) + len(PUBLISHED)))
        titles += PUBLISHED
    rows = [
        (*_group(found, sides), *(_published(found[0]) if published else ()), _remarks(found))
        for found in result.groups().values()
    ]
    return Table((*titles, "Notes"), rows, frozenset(numbers))


def _beside(title: str, side: str, others: list[str]) -> str:
    """A column's title; the side is named where there are several such columns."""
    return title if len(others) == 1 else f"{title}, {side}"


def _group(rows: tuple[Row, ...], sides: list[str]) -> tuple[str, ...]:
    first, found = rows[0], {row.rung.side: row for row in rows}
    others = [found.get(side) for side in sides[1:]]
    return (
        model_of(first),
        figures.MISSING if first.rung.batch is None else str(first.rung.batch),
        *(_epoch(found.get(side)) for side in sides),
        *(words.times(speed_against(other, first)) if other else figures.MISSING for other in others),
        *(agreement(first, other).words if other else figures.MISSING for other in others),
    )


def _published(row: Row) -> tuple[str, ...]:
    found = article_row(row.rung)
    if found is None:
        return (figures.MISSING,) * len(PUBLISHED)
    return f"{found.cpu_seconds}", f"{found.mps_seconds}", words.times(found.speed)


def model_of(row: Row) -> str:
    """What the model of a row is called."""
    return row.rung.title.removesuffix(f", batch {row.rung.batch}")


def _epoch(row: Row | None) -> str:
    epoch = row.epoch_seconds if row else None
    return words.spread(epoch) if epoch else figures.MISSING


def _remarks(rows: tuple[Row, ...]) -> str:
    """What is remarked of each side; once what is remarked of all."""
    told = [words.remarks(row) for row in rows]
    if len(set(told)) == 1:
        return told[0]
    return "; ".join(f"{row.rung.side}: {said}" for row, said in zip(rows, told, strict=True) if said)
