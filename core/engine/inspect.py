"""Look into a data file or folder before a run: what is in it, which columns are what, what would stop a run."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.choices import Task
from core.errors import DataError, Problem
from core.reports import DataReport, InspectRequest
from core.sources import parse_synthetic

if TYPE_CHECKING:
    from core.engine.data.image_sets import LabelledImages
    from core.engine.data.tables import Table
    from core.engine.data.text import LabelledTexts

PREVIEW_ROWS = 200
PREVIEW_CHARACTERS = 300
MOST_LABELS_SHOWN = 200


def inspect(request: InspectRequest) -> DataReport:
    """Answer "what is in this data?" with the checks a run makes.

    Raises:
        DataError: The source can't be read at all. What is wrong with its columns or labels is in the answer.
    """
    if request.task is Task.IMAGE_CLASSIFICATION:
        return _inspect_images(request)
    synthetic = parse_synthetic(request.source)
    if synthetic:
        return DataReport(source=request.source, format="synthetic", rows=synthetic[0])
    return _inspect_table(request)


def _inspect_table(request: InspectRequest) -> DataReport:
    from core.engine.data.columns import describe, guess_columns
    from core.engine.data.labels import in_order, refuse_single
    from core.engine.data.tables import read_table
    from core.engine.data.text import LabelledTexts, read_eval, usable_rows
    from core.engine.data.text_checks import check_label_column, check_text_columns

    table = read_table(Path(request.source))
    guess = guess_columns(table, request.text_columns, request.label_column)
    problems = [
        *_problem("data.text_columns", lambda: check_text_columns(table, guess)),
        *_problem("data.label_column", lambda: check_label_column(table, guess)),
    ]
    usable: list[LabelledTexts] = []
    if not problems:
        problems += _problem("data.train", lambda: usable.append(usable_rows(table, guess)))
    names = usable[0].names if usable else []
    held_out = _HeldOut()
    if usable:
        column = f"Column “{guess.label}” of {table.path.name}"
        problems += _problem("data.label_column", lambda: refuse_single(in_order(names), column))
        held_out = _look_at(request.evaluation, names, lambda source: read_eval(source, guess))
    return DataReport(
        source=request.source,
        format=table.format,
        rows=table.rows.num_rows,
        columns=describe(table),
        preview=_preview(table),
        text_columns=guess.text,
        label_column=guess.label,
        labels=_counts(names),
        eval_rows=held_out.rows,
        problems=(*problems, *held_out.problems),
        notes=(*table.notes, *(note for found in usable for note in found.notes)),
    )


def _preview(table: "Table") -> tuple[tuple[str, ...], ...]:
    """The first rows as text, long values cut."""
    from core.engine.data.columns import as_text

    first = table.first(PREVIEW_ROWS).rows
    columns = [as_text(column).to_pylist() for column in first.columns]
    return tuple(
        tuple((value or "")[:PREVIEW_CHARACTERS] for value in row) for row in zip(*columns, strict=True)
    )


def _inspect_images(request: InspectRequest) -> DataReport:
    from core.engine.data.images import find_eval_images, find_images
    from core.engine.data.labels import in_order, refuse_single

    found = find_images(request.source)
    names = found.train.names
    problems = (
        []
        if parse_synthetic(request.source)
        else _problem("data.train", lambda: refuse_single(in_order(names), Path(request.source).name))
    )
    held_out = _look_at(request.evaluation, names, find_eval_images)
    own_eval = (
        (f"{found.eval_name} is used for evaluation unless you choose other data.",) if found.eval else ()
    )
    return DataReport(
        source=request.source,
        format=found.format,
        rows=len(names),
        labels=_counts(names),
        eval_rows=held_out.rows,
        problems=(*problems, *held_out.problems),
        notes=(*found.notes, *own_eval),
    )


@dataclass(frozen=True)
class _HeldOut:
    """What evaluation data holds, or what would stop a run there."""

    rows: int | None = None
    problems: tuple[Problem, ...] = ()


def _look_at(
    source: str | None, names: Sequence[str], read: Callable[[str], "LabelledTexts | LabelledImages"]
) -> _HeldOut:
    """Read the evaluation data, if any was asked for, and compare its labels with those trained on."""
    from core.engine.data.labels import HOLD_OUT_INSTEAD, in_order, indices

    if not source:
        return _HeldOut()
    try:
        found = read(source)
        indices(found.names, in_order(names), found.where, (HOLD_OUT_INSTEAD,))
    except DataError as error:
        return _HeldOut(problems=(_as_problem("data.eval", error),))
    return _HeldOut(len(found.names))


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names).most_common(MOST_LABELS_SHOWN))


def _problem(path: str, check: Callable[[], None]) -> list[Problem]:
    """What a check of a run would stop on, as a problem of the option at `path`."""
    try:
        check()
    except DataError as error:
        return [_as_problem(path, error)]
    return []


def _as_problem(path: str, error: DataError) -> Problem:
    return Problem(path, f"{error.title}. {error.detail}", error.fixes)
