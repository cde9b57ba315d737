"""Texts and their labels for training and evaluation."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.engine.data.columns import Guess, as_text, guess_columns, is_blank
from core.engine.data.labels import (
    HOLD_OUT_INSTEAD,
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    in_order,
    indices,
    refuse_single,
)
from core.engine.data.split import stratified_split
from core.engine.data.tables import Table, read_table
from core.engine.data.text_checks import check_eval_columns, check_label_column, check_text_columns
from core.errors import DataError, Fix
from core.options import RunOptions
from core.sources import scheme_of

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class TextData:
    """Texts ready for a tokenizer.

    `train` and `eval` are `datasets.Dataset`s with the columns `text`, `text_pair` (for pairs) and `label` (the
    class index); `eval` is None where nothing is held out.
    """

    train: "Dataset"
    eval: "Dataset | None"
    labels: tuple[str, ...]
    text_columns: tuple[str, ...]
    label_column: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EncodedTexts:
    """What a text model sees: data sets of `input_ids`, `attention_mask` and `labels` (the class index)."""

    train: "Dataset"
    eval: "Dataset | None"
    labels: tuple[str, ...]


@dataclass(frozen=True)
class LabelledTexts:
    """The usable rows of a table: texts as an Arrow table, labels by name, and where each row stands."""

    texts: pa.Table = field(repr=False)
    names: list[str] = field(repr=False)
    places: list[int] = field(repr=False)
    table: Table
    notes: tuple[str, ...]

    def where(self, index: int) -> str:
        """Where a text stands, such as "row 17 of reviews.csv"."""
        return self.table.where(self.places[index])


def load_text_data(options: RunOptions) -> TextData:
    """Read, check and split the texts a run asks for. Columns that weren't chosen are guessed.

    Raises:
        DataError: They can't be used; the file and the row or column are named.
    """
    data = options.data
    table = read_table(Path(data.train))
    columns = guess_columns(table, data.text_columns, data.label_column)
    check_text_columns(table, columns)
    check_label_column(table, columns)
    found = usable_rows(table.first(data.max_train_samples), columns)
    labels = in_order(found.names)
    limit_fixes = (USE_ALL_SAMPLES,) if data.max_train_samples else ()
    refuse_single(labels, f"Column “{columns.label}” of {table.path.name}", limit_fixes)
    classes = indices(found.names, labels, found.where)
    fraction = 0.0 if data.eval else data.eval_fraction
    train, held_out = stratified_split(classes, fraction, options.training.seed)
    notes = (*table.notes, *found.notes)
    if data.eval:
        evaluation = read_eval(data.eval, columns, data.max_eval_samples)
        notes = (*notes, *evaluation.table.notes, *evaluation.notes)
        eval_classes = indices(evaluation.names, labels, evaluation.where, (HOLD_OUT_INSTEAD,))
        eval_set = _dataset(evaluation, eval_classes, list(range(len(eval_classes))))
    else:
        notes = (*notes, NOTHING_HELD_OUT) if fraction and not held_out else notes
        held_out = held_out[: data.max_eval_samples]
        eval_set = _dataset(found, classes, held_out) if held_out else None
    assert columns.label is not None, "checked above"
    return TextData(_dataset(found, classes, train), eval_set, labels, columns.text, columns.label, notes)


def usable_rows(table: Table, columns: Guess) -> LabelledTexts:
    """The rows that have every text and a label; how many don't is noted.

    Raises:
        DataError: None has.
    """
    keep = pa.chunked_array([pa.array(np.ones(table.rows.num_rows, dtype=bool))])
    lacking = []
    for name in (*columns.text, columns.label):
        blank = is_blank(as_text(table.rows[name]))
        places = np.flatnonzero(blank.to_numpy())
        if len(places):
            rows = "1 row" if len(places) == 1 else f"{len(places):,} rows"
            lacking.append(f"no “{name}” in {rows}, the first is {table.where(int(places[0]))}")
        keep = pc.and_(keep, pc.invert(blank))
    if not pc.any(keep).as_py():
        raise DataError(
            f"{table.path.name} has no usable rows",
            f"{table.path}: {'; '.join(lacking)}.",
            (Fix("Fill in the texts and labels, or choose other columns"),),
        )
    names = [as_text(table.rows[name]).filter(keep) for name in columns.text]
    texts = pa.table(dict(zip(("text", "text_pair"), names, strict=False)))
    labels = pc.utf8_trim_whitespace(as_text(table.rows[columns.label])).filter(keep).to_pylist()
    left_out = table.rows.num_rows - len(labels)
    note = f"Left out: {'; '.join(lacking)}."
    kept = np.flatnonzero(keep.to_numpy()).tolist()
    return LabelledTexts(texts, labels, kept, table, (note,) if left_out else ())


def read_eval(source: str, columns: Guess, limit: int | None = None) -> LabelledTexts:
    """The usable rows of the evaluation data, by the columns of the training data.

    Raises:
        DataError: It is no file of texts, or its columns aren't what those of the training data are.
    """
    if scheme_of(source):
        raise DataError(
            f"{source} can't be evaluated on",
            "A model that learns from texts of yours needs texts with the same labels.",
            (HOLD_OUT_INSTEAD,),
        )
    table = read_table(Path(source))
    check_eval_columns(table, columns)
    return usable_rows(table.first(limit), columns)


def _dataset(found: LabelledTexts, classes: list[int], chosen: list[int]) -> "Dataset":
    from datasets import Dataset

    rows = found.texts.append_column("label", pa.array(classes, pa.int64())).take(chosen)
    return Dataset(rows.combine_chunks())
