"""What may be wrong with the chosen columns; the form shows it before a run, a run stops on it."""

import difflib

from core.data_report import Column, ColumnKind
from core.engine.data.column_names import listed
from core.engine.data.columns import MOST_LABELS, Guess, describe, guess_columns, kind_of, may_be_label
from core.engine.data.labels import HOLD_OUT_INSTEAD
from core.engine.data.tables import Table
from core.errors import DataError, Fix


def check_text_columns(table: Table, guess: Guess) -> None:
    """Stop where the texts can't be what was chosen.

    Raises:
        DataError: A column is missing, or holds numbers or something else than text.
    """
    if not guess.text:
        raise DataError(
            f"{table.path.name} has no column of texts",
            f"{table.path} has the columns {listed(table.columns)}; none of them holds texts.",
            (Fix("Choose a file with a column of texts"),),
        )
    for name in guess.text:
        if name not in table.columns:
            likely = guess_columns(table).text
            raise missing_column(table, name, "data.text_columns", guess.text, next(iter(likely), None))
        kind = kind_of(table.rows[name])
        if kind is not ColumnKind.TEXT:
            likely = guess_columns(table).text
            raise _no_text(table, name, kind, (_use_texts(likely),) if likely else ())


def check_label_column(table: Table, guess: Guess) -> None:
    """Stop where the labels can't be what was chosen.

    Raises:
        DataError: The column is missing, empty, or has nearly as many values as there are rows.
    """
    if guess.label is None:
        raise DataError(
            f"{table.path.name} has no column that looks like a label",
            f"{table.path} has the columns {listed(table.columns)}. A label column has a few values that repeat.",
            (Fix("Choose the label column yourself, or another file"),),
        )
    if guess.label not in table.columns:
        likely = guess_columns(table).label
        raise missing_column(table, guess.label, "data.label_column", (guess.label,), likely)
    column = next(column for column in describe(table) if column.name == guess.label)
    if column.distinct == 0:
        raise DataError(
            f"Label column “{guess.label}” is empty",
            f"{table.path}: none of the {table.rows.num_rows:,} rows has a value in it.",
            _other_label(table, guess),
        )
    if column.distinct > 1 and not may_be_label(column, table.rows.num_rows):
        raise _too_many_labels(table, guess, column)


def check_eval_columns(table: Table, columns: Guess, instead: Fix = HOLD_OUT_INSTEAD) -> None:
    """Stop where an evaluation file lacks a column of the training file, or has something else in it.

    Raises:
        DataError: It does.
    """
    check_columns_are_there(table, columns, instead)
    for name in columns.text:
        kind = kind_of(table.rows[name])
        if kind is not ColumnKind.TEXT:
            raise _no_text(table, name, kind, (instead,))


def check_columns_are_there(table: Table, columns: Guess, instead: Fix = HOLD_OUT_INSTEAD) -> None:
    """Stop where an evaluation file lacks a column of the training file.

    Raises:
        DataError: It does.
    """
    for name in (*columns.text, columns.label):
        if name is not None and name not in table.columns:
            raise DataError(
                f"{table.path.name} has no column “{name}”",
                f"The evaluation data needs the columns of the training data. {table.path} has the columns "
                f"{listed(table.columns)}.",
                (Fix(f"Rename its column to “{name}”"), instead),
            )


def missing_column(
    table: Table, name: str, path: str, chosen: tuple[str, ...], likely: str | None
) -> DataError:
    """The error for a chosen column that isn't there.

    Args:
        table: Where it isn't.
        name: Its name.
        path: The option that names it.
        chosen: All columns of that option.
        likely: What else it could be, where no column is called nearly the same.
    """
    by_lower = {column.lower(): column for column in table.columns}
    close = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)]
    if not close and likely:
        close = [likely]
    fixes = []
    for match in close:
        replaced = [match if column == name else column for column in chosen]
        fixes.append(Fix(f"Use “{match}”", {path: match if path == "data.label_column" else replaced}))
    return DataError(
        f"{table.path.name} has no column “{name}”",
        f"{table.path} has the columns {listed(table.columns)}.",
        tuple(fixes),
    )


def _use_texts(names: tuple[str, ...]) -> Fix:
    return Fix(f"Use {listed(names)}", {"data.text_columns": list(names)})


def _no_text(table: Table, name: str, kind: ColumnKind, fixes: tuple[Fix, ...]) -> DataError:
    column = next(column for column in describe(table) if column.name == name)
    what = "numbers" if kind is ColumnKind.NUMBER else "something else than text"
    return DataError(
        f"Text column “{name}” of {table.path.name} holds {what}",
        f"{table.path}, {table.where(0).partition(' of ')[0]} and on: {', '.join(column.examples)}. A text model "
        "learns from words.",
        fixes,
    )


def _too_many_labels(table: Table, guess: Guess, column: Column) -> DataError:
    rows = table.rows.num_rows
    return DataError(
        f"Column “{column.name}” has too many different values to be a label",
        f"{table.path}: {column.distinct:,} different values in {rows:,} rows ({', '.join(column.examples)}, ...). "
        f"A label repeats from row to row, and there are at most {MOST_LABELS:,} of them.",
        _other_label(table, guess),
    )


def _other_label(table: Table, guess: Guess) -> tuple[Fix, ...]:
    columns = [
        column
        for column in describe(table)
        if column.name not in (*guess.text, guess.label) and may_be_label(column, table.rows.num_rows)
    ]
    best = min(columns, key=lambda column: column.distinct, default=None)
    if best is None:
        return (Fix("Choose another label column"),)
    return (Fix(f"Use “{best.name}”", {"data.label_column": best.name}),)
