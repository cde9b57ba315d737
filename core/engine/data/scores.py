"""Texts and the number each is to be given: how alike two sentences are, how good a review is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.base.errors import DataError, Fix
from core.engine.data.columns import (
    Guess,
    as_text,
    check_eval_columns,
    check_text_columns,
    describe,
    guess_columns,
    missing_column,
)
from core.engine.data.labelled_texts import LabelledTexts, TextData, read_eval_table, unrepeated, usable_rows
from core.engine.data.splits import NOTHING_HELD_OUT, USE_ALL_SAMPLES, HeldOut, held_out_of, random_split
from core.engine.data.tables import Table, read_training
from core.engine.data.text_files import LEAVE_OUT, listed, told
from core.options import RunOptions
from core.services.inspect import Column, ColumnKind

if TYPE_CHECKING:
    from datasets import Dataset

SCORE_NAMES = (
    *(
        "score",
        "scores",
        "label",
        "labels",
        "similarity",
        "similarity_score",
        "rating",
        "stars",
        "target",
        "value",
    ),
    *("grade", "quality", "y"),
)
NO_SCORES = ("id", "idx", "index", "row", "number", "no", "year", "unnamed: 0", "")
"""Columns of numbers that count rows."""
LARGE = 100.0
"""Numbers beyond this are learned slowly: the last layer begins near 0, and the usual rates move it in small steps."""
LOOKED_AT = 1000
"""Rows by which is told whether a column holds numbers."""
MOST = 0.5
"""The share of numbers beyond which a column is one of numbers with some wrong cells."""
SHOWN_CELLS = 5
LARGEST = float(np.finfo(np.float32).max)
CLASSIFY = Fix("Learn the labels as classes", {"task": "text-classification"})


@dataclass(frozen=True)
class ScoredTexts:
    """The usable rows of a table: its texts, and the number of each as float64 [rows]."""

    found: LabelledTexts
    scores: NDArray[np.float64] = field(repr=False)

    def at(self, kept: Sequence[int], *notes: str) -> "ScoredTexts":
        """As `LabelledTexts.at`."""
        return ScoredTexts(self.found.at(kept, *notes), self.scores[list(kept)])


def load_scored_texts(options: RunOptions) -> TextData:
    """Read, check and split texts with numbers; columns that weren't chosen are guessed.

    Raises:
        DataError: They can't be used; the file and the row or column are named.
    """
    data = options.data
    table = read_training(data)
    columns = guess_score_columns(table, data.text_columns, data.label_column)
    check_text_columns(table, columns)
    check_score_column(table, columns)
    scored = scored_rows(table.first(data.max_train_samples), columns, skip=data.skip_bad_rows)
    if data.drop_duplicates:
        scored = scored.at(*unrepeated(scored.found, scored.scores.tolist()))
    refuse_constant(scored, columns, (USE_ALL_SAMPLES,) if data.max_train_samples else ())
    apart = held_out_of(data)
    fraction = 0.0 if apart else data.eval_fraction
    train, held_out = random_split(len(scored.scores), fraction, options.training.seed)
    notes = (*table.notes, *scored.found.notes, *large_numbers(float(np.abs(scored.scores).max()), columns))
    if apart:
        evaluation = read_scored_eval(apart, columns, data.max_eval_samples, skip=data.skip_bad_rows)
        notes = (*notes, *evaluation.found.table.notes, *evaluation.found.notes)
        eval_set = _scored_dataset(evaluation, list(range(len(evaluation.scores))))
    else:
        notes = (*notes, NOTHING_HELD_OUT) if fraction and not held_out else notes
        held_out = held_out[: data.max_eval_samples]
        eval_set = _scored_dataset(scored, held_out) if held_out else None
    assert columns.label is not None, "checked above"
    return TextData(_scored_dataset(scored, train), eval_set, (), columns.text, columns.label, notes)


def scored_texts(
    table: Table, text: tuple[str, ...] = (), score: str | None = None, *, skip: bool = False
) -> pa.Table:
    """As `core.engine.data.labelled_texts.labelled_texts`, of texts with numbers."""
    columns = guess_score_columns(table, text, score)
    check_text_columns(table, columns)
    check_score_column(table, columns)
    return usable_rows(table, columns, skip=skip).texts


def guess_score_columns(table: Table, text: tuple[str, ...] = (), score: str | None = None) -> Guess:
    """Fill in the columns that weren't chosen.

    The number is a column of numbers called like a score, else one whose numbers aren't whole, else any that doesn't
    just count rows.
    """
    score = score or _guess_score(table, text)
    if text or score is None:
        return Guess(text or guess_columns(table).text, score)
    return Guess(guess_columns(table, label=score).text, score)


def _guess_score(table: Table, text: tuple[str, ...]) -> str | None:
    rows = table.rows.num_rows
    others = [column for column in describe(table) if column.name not in text]
    free = [column for column in others if column.kind is ColumnKind.NUMBER]
    nearly = [column for column in others if column not in free and holds_numbers(table, column.name)]
    by_name = {column.name.strip().lower(): column.name for column in (*nearly, *free)}
    named = next((by_name[name] for name in SCORE_NAMES if name in by_name), None)
    containing = [
        column.name
        for column in free
        for name in SCORE_NAMES
        if len(name) > 4 and name in column.name.lower()
    ]
    likely = [column for column in free if not _counts_rows(column, rows)]
    fractions = [column.name for column in likely if any("." in example for example in column.examples)]
    return next(
        iter(
            [*filter(None, [named]), *containing, *fractions, *(column.name for column in (*likely, *nearly))]
        ),
        None,
    )


def holds_numbers(table: Table, name: str) -> bool:
    """Whether most cells of a column are numbers, also such with a decimal comma: a few may be wrong."""
    cells = _first_cells(table, name)
    numbers = sum(_is_number(cell.strip().replace(",", ".", 1)) for cell in cells)
    return numbers > len(cells) * MOST


def _first_cells(table: Table, name: str) -> list[str]:
    """The first cells with something in them, as texts."""
    cells = as_text(table.first(LOOKED_AT).rows[name]).to_pylist()
    return [cell for cell in cells if cell and cell.strip()]


def _counts_rows(column: Column, rows: int) -> bool:
    is_whole = not any("." in example for example in column.examples)
    words = column.name.strip().lower().replace("_", " ").split()
    return (
        column.name.strip().lower() in NO_SCORES
        or "id" in words
        or (is_whole and rows > 2 and column.distinct == rows)
    )


def check_score_column(table: Table, guess: Guess) -> None:
    """Stop where the numbers can't be what was chosen.

    Raises:
        DataError: The column is missing, empty, or holds no numbers at all.
    """
    if guess.label is None:
        raise DataError(
            f"{table.path.name} has no column of numbers",
            f"{table.path} has the columns {listed(table.columns)}; none of them holds a number to learn.",
            (Fix("Choose the column yourself, or another file"), CLASSIFY),
        )
    if guess.label not in table.columns:
        likely = _guess_score(table, guess.text)
        raise missing_column(table, guess.label, "data.label_column", (guess.label,), likely)
    column = next(column for column in describe(table) if column.name == guess.label)
    if column.distinct == 0:
        raise DataError(
            f"Column “{guess.label}” is empty",
            f"{table.path}: none of the {table.rows.num_rows:,} rows has a number in it.",
            _other_score(table, guess),
        )
    if column.kind is not ColumnKind.NUMBER and not any(map(_is_number, _first_cells(table, guess.label))):
        raise DataError(
            f"Column “{guess.label}” of {table.path.name} holds no numbers",
            f"{table.path}, {table.where(0).partition(' of ')[0]} and on: {', '.join(column.examples)}. Text scoring "
            f"learns a number.{_decimal_comma(column.examples)}",
            (*_other_score(table, guess), CLASSIFY),
        )


def scored_rows(table: Table, columns: Guess, *, skip: bool = False) -> ScoredTexts:
    """The rows that have every text and a number; how many lack one is noted.

    Args:
        table: The rows.
        columns: Those of texts and of the number.
        skip: Leave out rows with something else than a number, which otherwise are an error.

    Raises:
        DataError: None is complete, or something else than a number stands in one.
    """
    found = usable_rows(table, columns, skip=skip)
    scores = np.array([as_number(name) for name in found.names])
    wrong = np.flatnonzero(np.isnan(scores))
    if not len(wrong):
        return ScoredTexts(found, scores)
    first = int(wrong[0])
    if not skip or len(wrong) == len(scores):
        cells = [
            (int(table.numbers[found.places[place]]), found.names[place]) for place in wrong[:SHOWN_CELLS]
        ]
        raise not_numbers(table, columns, found.where(first), cells, len(wrong))
    why = f"with something else than a number in “{columns.label}”"
    note = told(len(wrong), table.row_word, why, found.where(first))
    return ScoredTexts(found, scores).at(np.flatnonzero(~np.isnan(scores)).tolist(), note)


def not_numbers(
    table: Table, columns: Guess, where: str, cells: Sequence[tuple[int, str]], count: int
) -> DataError:
    """The error for rows with something else than a number.

    Args:
        table: The rows.
        columns: Those of texts and of the number.
        where: Where the first of them stands.
        cells: The row numbers of the first few, and what stands there.
        count: How many there are.
    """
    more = f" and {count - len(cells):,} more" if count > len(cells) else ""
    shown = ", ".join(f'"{text[:40]}" in {table.row_word} {row:,}' for row, text in cells)
    comma = _decimal_comma([text for _, text in cells])
    others = f" So it is in {count:,} {table.row_word}s: {shown}{more}." if count > 1 else ""
    return DataError(
        f'“{columns.label}” is not a number in {where}: "{cells[0][1][:40]}"',
        f"{table.path}: text regression learns a number for each row.{others}{comma}",
        (
            Fix("Mend the row, or leave its number empty: then it is left out"),
            LEAVE_OUT,
            *_other_score(table, columns),
        ),
    )


def refuse_constant(scored: ScoredTexts, columns: Guess, fixes: tuple[Fix, ...] = ()) -> None:
    """Stop where there is nothing to learn.

    Raises:
        DataError: Every row has the same number.
    """
    if np.ptp(scored.scores) == 0:
        raise one_number(scored.found.table, columns, float(scored.scores[0]), len(scored.scores), fixes)


def one_number(
    table: Table, columns: Guess, number: float, rows: int, fixes: tuple[Fix, ...] = ()
) -> DataError:
    """The error for a table with the same number in every row."""
    return DataError(
        f"Column “{columns.label}” of {table.path.name} has the same number in every row",
        f"It is {number:g} in {rows:,} rows: there is nothing to learn.",
        (*fixes, *_other_score(table, columns)),
    )


def read_scored_eval(
    source: HeldOut, columns: Guess, limit: int | None = None, *, skip: bool = False
) -> ScoredTexts:
    """The usable rows of the evaluation data, by the columns of the training data.

    Raises:
        DataError: It is no file of texts, or its columns aren't what those of the training data are.
    """
    table = read_eval_table(source)
    check_eval_columns(table, columns, source.instead)
    try:
        return scored_rows(table.first(limit), columns, skip=skip)
    except DataError as error:
        error.fixes = (*error.fixes[:2], source.instead)
        raise


def _is_number(text: str) -> bool:
    return not np.isnan(as_number(text))


def as_number(text: str) -> float:
    """The number a cell holds; NaN where it holds none that a model can compute with."""
    try:
        number = float(text)
    except ValueError:
        return float("nan")
    is_plain = "_" not in text and text.isascii()  # Python reads 1_000 and digits of other scripts, too
    return number if is_plain and abs(number) <= LARGEST else float("nan")


def _decimal_comma(texts: Sequence[str]) -> str:
    has_comma = any(_is_number(text.replace(",", ".", 1)) for text in texts if "," in text)
    return " Decimals need a point, not a comma." if has_comma else ""


def _other_score(table: Table, guess: Guess) -> tuple[Fix, ...]:
    others = [
        column.name
        for column in describe(table)
        if column.kind is ColumnKind.NUMBER
        and column.name not in (*guess.text, guess.label)
        and column.distinct > 1
        and not _counts_rows(column, table.rows.num_rows)
    ]
    return tuple(Fix(f"Use “{name}”", {"data.label_column": name}) for name in others[:1])


def large_numbers(largest: float, columns: Guess) -> tuple[str, ...]:
    """What to know of numbers that go so far from 0."""
    if largest <= LARGE:
        return ()
    return (
        f"“{columns.label}” goes up to {largest:,g}. Numbers of a few units are learned faster: divide them "
        "beforehand, or train longer at a higher learning rate.",
    )


def _scored_dataset(scored: ScoredTexts, chosen: list[int]) -> "Dataset":
    from datasets import Dataset

    rows = scored.found.texts.append_column("label", pa.array(scored.scores, pa.float64())).take(chosen)
    return Dataset(rows.combine_chunks())
