"""What a look at any table tells: its columns, its first rows, how it was read, and what that means."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from core.engine.data.checking import kinds
from core.engine.data.columns import as_text, describe
from core.engine.data.delimited import NOT_CLOSED
from core.engine.data.tables import Table
from core.errors import DataError, Problem
from core.findings import Finding, FindingKind

PREVIEW_ROWS = 200
PREVIEW_CHARACTERS = 300


def about_table(table: Table) -> dict[str, Any]:
    """The fields of a report that a table has, whatever it is for."""
    return {
        "format": table.format,
        "rows": table.rows.num_rows,
        "reading": dict(table.reading),
        "columns": describe(table),
        "preview": preview(table),
        "preview_rows": tuple(int(number) for number in table.numbers[:PREVIEW_ROWS]),
    }


def preview(table: Table) -> tuple[tuple[str, ...], ...]:
    """The first rows as text, long values cut."""
    first = table.first(PREVIEW_ROWS).rows
    columns = [as_text(column).to_pylist() for column in first.columns]
    return tuple(
        tuple((value or "")[:PREVIEW_CHARACTERS] for value in row) for row in zip(*columns, strict=True)
    )


def note_findings(notes: Iterable[str]) -> Iterator[Finding]:
    """A warning for each note that tells of another encoding than UTF-8, of damaged letters or of lines left out."""
    for note in notes:
        if kind := _warned(note):
            yield Finding(code=kind.code, level=kind.level, message=note, count=1)


def other_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """The notes that no finding tells."""
    return tuple(note for note in notes if not _warned(note))


def problem_of(path: str, check: Callable[[], object]) -> list[Problem]:
    """What a check of a run would stop on, as a problem of the option at `path`."""
    try:
        check()
    except DataError as error:
        return [as_problem(path, error)]
    return []


def as_problem(path: str, error: DataError) -> Problem:
    """An error as a problem of the option at `path`."""
    return Problem(path, f"{error.title}. {error.detail}", error.fixes)


def _warned(note: str) -> FindingKind | None:
    if "UTF-" in note:  # of all notes on files only these name one
        return kinds.OTHER_ENCODING
    return kinds.LINES_LEFT_OUT if " left out of " in note or NOT_CLOSED in note else None
