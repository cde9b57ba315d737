"""Texts and their labels for training and evaluation."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.engine.data.checking.repeats import first_of_equals
from core.engine.data.columns import Guess, as_text, guess_columns, is_blank
from core.engine.data.labels import (
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    in_order,
    indices,
    refuse_single,
)
from core.engine.data.leaving_out import repeats
from core.engine.data.nested_values import nested_rows, refuse_nested
from core.engine.data.shards import read_held_out, read_training
from core.engine.data.split import stratified_split
from core.engine.data.splits import HeldOut, held_out_of
from core.engine.data.tables import Table
from core.engine.data.text_checks import check_eval_columns, check_label_column, check_text_columns
from core.errors import DataError, Fix
from core.options import RunOptions
from core.sources import Scheme, scheme_of

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class TextData:
    """Texts ready for a tokenizer.

    `train` and `eval` are `datasets.Dataset`s; `eval` is None where nothing is held out. Their columns are `text`,
    `text_pair` (for pairs) and `label`: the class index, or the number to learn. Where words are labelled, they are
    `tokens` and `label`, a list of words and a class index for each. `labels` is empty where numbers are learned.
    """

    train: "Dataset"
    eval: "Dataset | None"
    labels: tuple[str, ...]
    text_columns: tuple[str, ...]
    label_column: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EncodedTexts:
    """What a text model sees: data sets of `input_ids`, `attention_mask` and `labels`.

    Those are a class index or a number a text, or a class index a token. The field `labels` names the classes.
    """

    train: "Dataset"
    eval: "Dataset | None"
    labels: tuple[str, ...]


@dataclass(frozen=True)
class LabelledTexts:
    """The usable rows of a table: texts as an Arrow table, labels as the file has them, and where each row stands."""

    texts: pa.Table = field(repr=False)
    names: list[str] = field(repr=False)
    places: list[int] = field(repr=False)
    table: Table
    notes: tuple[str, ...]

    def where(self, index: int) -> str:
        """Where a text stands, such as "row 17 of reviews.csv"."""
        return self.table.where(self.places[index])

    def at(self, kept: Sequence[int], *notes: str) -> "LabelledTexts":
        """Those at `kept` only; the notes tell what became of the others."""
        return LabelledTexts(
            self.texts.take(pa.array(kept, pa.int64())),
            [self.names[place] for place in kept],
            [self.places[place] for place in kept],
            self.table,
            (*self.notes, *notes),
        )


def load_text_data(options: RunOptions) -> TextData:
    """Read, check and split the texts a run asks for. Columns that weren't chosen are guessed.

    Raises:
        DataError: They can't be used; the file and the row or column are named.
    """
    data = options.data
    table = read_training(data)
    columns = guess_columns(table, data.text_columns, data.label_column)
    check_text_columns(table, columns)
    check_label_column(table, columns)
    found = usable_rows(table.first(data.max_train_samples), columns, skip=data.skip_bad_rows)
    if data.drop_duplicates:
        found = found.at(*unrepeated(found, found.names))
    labels = in_order(found.names)
    limit_fixes = (USE_ALL_SAMPLES,) if data.max_train_samples else ()
    refuse_single(labels, f"Column “{columns.label}” of {table.path.name}", limit_fixes)
    classes = indices(found.names, labels, found.where)
    apart = held_out_of(data)
    fraction = 0.0 if apart else data.eval_fraction
    train, held_out = stratified_split(classes, fraction, options.training.seed)
    notes = (*table.notes, *found.notes)
    if apart:
        evaluation = read_eval(apart, columns, data.max_eval_samples, skip=data.skip_bad_rows)
        notes = (*notes, *evaluation.table.notes, *evaluation.notes)
        eval_classes = indices(evaluation.names, labels, evaluation.where, (apart.instead,))
        eval_set = _dataset(evaluation, eval_classes, list(range(len(eval_classes))))
    else:
        notes = (*notes, NOTHING_HELD_OUT) if fraction and not held_out else notes
        held_out = held_out[: data.max_eval_samples]
        eval_set = _dataset(found, classes, held_out) if held_out else None
    assert columns.label is not None, "checked above"
    return TextData(_dataset(found, classes, train), eval_set, labels, columns.text, columns.label, notes)


def labelled_texts(
    table: Table, text: tuple[str, ...] = (), label: str | None = None, *, skip: bool = False
) -> pa.Table:
    """The texts of a table's usable rows, one or two columns; columns that aren't given are guessed.

    `skip` as `usable_rows` takes it.

    Raises:
        DataError: There are none.
    """
    columns = guess_columns(table, text, label)
    check_text_columns(table, columns)
    check_label_column(table, columns)
    return usable_rows(table, columns, skip=skip).texts


def unrepeated(found: LabelledTexts, answers: Iterable[Hashable]) -> tuple[Any, ...]:
    """What `at` takes to leave out the rows that have an earlier one with the same texts and the same answer."""
    texts = zip(*(column.to_pylist() for column in found.texts.columns), strict=True)
    kept = first_of_equals(texts, answers).tolist()
    return (kept, *repeats(len(found.places) - len(kept), found.table.row_word))


def usable_rows(table: Table, columns: Guess, *, skip: bool = False) -> LabelledTexts:
    """The rows that have every text and a label; how many don't is noted.

    Args:
        table: The rows.
        columns: Those of texts and of the label.
        skip: Leave out rows with something else than texts, which otherwise are an error.

    Raises:
        DataError: None has.
    """
    lacking = []
    is_text = np.ones(table.rows.num_rows, dtype=bool)
    if not skip:
        refuse_nested(table, columns.text)
    for text in columns.text if skip else ():
        nested = nested_rows(table, text)
        if nested:
            is_text[nested] = False
            rows = "1 row" if len(nested) == 1 else f"{len(nested):,} rows"
            first = table.where(nested[0])
            lacking.append(f"a list or an object in “{text}” in {rows}, the first is {first}")
    keep = pa.chunked_array([pa.array(is_text)])
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


def read_eval(
    source: HeldOut, columns: Guess, limit: int | None = None, *, skip: bool = False
) -> LabelledTexts:
    """The usable rows of the evaluation data, by the columns of the training data; `skip` as `usable_rows` takes it.

    Raises:
        DataError: It is no file of texts, or its columns aren't what those of the training data are.
    """
    table = read_eval_table(source)
    check_eval_columns(table, columns, source.instead)
    return usable_rows(table.first(limit), columns, skip=skip)


def read_eval_table(source: HeldOut) -> Table:
    """The table to evaluate on.

    Raises:
        DataError: It is no file, or can't be read.
    """
    if scheme_of(source.source) not in (None, Scheme.HUB):
        raise DataError(
            f"{source.source} can't be evaluated on",
            "A model that learns from texts of yours needs texts with the same labels.",
            (source.instead,),
        )
    return read_held_out(source)


def _dataset(found: LabelledTexts, classes: list[int], chosen: list[int]) -> "Dataset":
    from datasets import Dataset

    rows = found.texts.append_column("label", pa.array(classes, pa.int64())).take(chosen)
    return Dataset(rows.combine_chunks())
