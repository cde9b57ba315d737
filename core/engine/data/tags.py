"""Texts whose words have a tag each: names in a text, parts of speech."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.engine.data.checking.repeats import first_of_equals
from core.engine.data.columns import Guess
from core.engine.data.labels import (
    HOLD_OUT_INSTEAD,
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    in_order,
    indices,
    refuse_single,
)
from core.engine.data.leaving_out import LEAVE_OUT, repeats, told
from core.engine.data.shards import read_training
from core.engine.data.split import random_split
from core.engine.data.splits import HeldOut, held_out_of
from core.engine.data.tables import Table
from core.engine.data.tag_columns import check_tag_columns, guess_tag_columns, tag_names
from core.engine.data.text import TextData, read_eval_table
from core.engine.data.text_checks import check_columns_are_there
from core.engine.data.word_lists import BadListError, read_lists, word_lists
from core.errors import DataError, Fix
from core.options import RunOptions

if TYPE_CHECKING:
    from datasets import Dataset

DAMAGED = Fix("Give each word one tag, or remove the row")


@dataclass(frozen=True)
class TaggedTexts:
    """The usable rows of a table: words and the names of their tags, each a list a row, and where each row stands."""

    words: pa.ListArray = field(repr=False)
    tags: pa.ListArray = field(repr=False)
    places: list[int] = field(repr=False)
    table: Table
    notes: tuple[str, ...]

    def where(self, index: int) -> str:
        """Where a text stands, such as "line 17 of train.conll"."""
        return self.table.where(self.places[index])

    def at(self, kept: Any, *notes: str) -> "TaggedTexts":
        """Those at `kept` only, with further notes."""
        chosen = pa.array(kept, pa.int64())
        places = [self.places[place] for place in kept]
        taken = self.words.take(chosen), self.tags.take(chosen)
        return TaggedTexts(*taken, places, self.table, (*self.notes, *notes))

    def names(self) -> list[str]:
        """The tag of every word, one row after the other."""
        names: list[str] = self.tags.flatten().to_pylist()
        return names

    def where_word(self, index: int) -> str:
        """Where a word stands that has this place in `names`."""
        ends = np.cumsum(pc.list_value_length(self.tags).to_numpy())
        return self.where(int(np.searchsorted(ends, index, side="right")))


def load_tagged_texts(options: RunOptions) -> TextData:
    """Read, check and split texts with a tag a word; columns that weren't chosen are guessed.

    Raises:
        DataError: They can't be used; the file and the row or column are named.
    """
    data = options.data
    table = read_training(data)
    columns = guess_tag_columns(table, data.text_columns, data.label_column)
    check_tag_columns(table, columns)
    found = tagged_rows(table.first(data.max_train_samples), columns, skip=data.skip_bad_rows)
    if data.drop_duplicates:
        found = _unrepeated(found)
    labels = in_order(found.names())
    limit_fixes = (USE_ALL_SAMPLES,) if data.max_train_samples else ()
    refuse_single(labels, f"Column “{columns.label}” of {table.path.name}", limit_fixes)
    apart = held_out_of(data)
    fraction = 0.0 if apart else data.eval_fraction
    train, held_out = random_split(len(found.places), fraction, options.training.seed)
    notes = (*table.notes, *found.notes)
    whole = _dataset(found, labels)
    if apart:
        evaluation = read_tagged_eval(apart, columns, data.max_eval_samples, skip=data.skip_bad_rows)
        notes = (*notes, *evaluation.table.notes, *evaluation.notes)
        eval_set = _dataset(evaluation, labels, apart.instead)
    else:
        notes = (*notes, NOTHING_HELD_OUT) if fraction and not held_out else notes
        held_out = held_out[: data.max_eval_samples]
        eval_set = whole.take(held_out) if held_out else None
    assert columns.label is not None, "checked above"
    return TextData(
        _as_dataset(whole.take(train)),
        None if eval_set is None else _as_dataset(eval_set),
        labels,
        columns.text,
        columns.label,
        notes,
    )


def words_of(
    table: Table, text: tuple[str, ...] = (), tags: str | None = None, *, skip: bool = False
) -> pa.ListArray:
    """The words of a table's usable rows; columns that aren't given are guessed; `skip` as `tagged_rows` takes it.

    Raises:
        DataError: There are none.
    """
    columns = guess_tag_columns(table, text, tags)
    check_tag_columns(table, columns)
    return tagged_rows(table, columns, skip=skip).words


def tagged_rows(table: Table, columns: Guess, *, skip: bool = False) -> TaggedTexts:
    """The rows that have words, with their tags; how many have none is noted.

    Args:
        table: The rows.
        columns: Those of words and of tags.
        skip: Leave out rows whose words and tags don't go together, which otherwise are an error.

    Raises:
        DataError: None has words, or a row has another number of tags than of words.
    """
    assert columns.label is not None, "checked before"
    words = _lists(table, columns.text[0], skip=skip)
    tags = _lists(table, columns.label, skip=skip)
    counts, tag_counts = (_lengths(lists) for lists in (words, tags))
    wrong = np.flatnonzero(counts != tag_counts)
    if len(wrong) and not skip:
        first = int(wrong[0])
        raise uneven(table, columns, first, (int(counts[first]), int(tag_counts[first])), len(wrong))
    kept = np.flatnonzero((counts > 0) & (counts == tag_counts))
    if not len(kept):
        raise DataError(
            f"{table.path.name} has no usable rows",
            f"{table.path}: no row has a word in “{columns.text[0]}”.",
            (Fix("Choose other columns, or another file"),),
        )
    empty = int(np.count_nonzero((counts == 0) & (tag_counts == 0)))
    note = f"Left out: {'1 row' if empty == 1 else f'{empty:,} rows'} without a word."
    found = TaggedTexts(
        words.take(pa.array(kept)),
        named(tags.take(pa.array(kept)), tag_names(table, columns.label)),
        kept.tolist(),
        table,
        (note,) if empty else (),
    )
    if not skip:
        _refuse_missing(found, columns)
        return found
    return _without_damage(found, wrong)


def _without_damage(found: TaggedTexts, uneven_rows: Any) -> TaggedTexts:
    """What is left without values that are missing; the note counts those with other numbers of tags, too."""
    damaged = np.union1d(_rows_with_missing(found.words), _rows_with_missing(found.tags))
    places = sorted([*uneven_rows, *(found.places[row] for row in damaged)])
    if not places:
        return found
    table = found.table
    why = "whose words and tags don't go together"
    note = told(len(places), table.row_word, why, table.where(int(places[0])))
    if len(damaged) == len(found.places):
        raise DataError(f"{table.path.name} has no usable rows", f"{table.path}: {note}", (DAMAGED,))
    return found.at(np.setdiff1d(np.arange(len(found.places)), damaged), note)


def _rows_with_missing(lists: pa.ListArray) -> Any:
    missing = np.flatnonzero(pc.is_null(lists.flatten()).to_numpy(zero_copy_only=False))
    return np.unique(np.searchsorted(np.cumsum(_lengths(lists)), missing, side="right"))


def _unrepeated(found: TaggedTexts) -> TaggedTexts:
    words, tags = (map(tuple, lists.to_pylist()) for lists in (found.words, found.tags))
    kept = first_of_equals(words, tags)
    return found.at(kept, *repeats(len(found.places) - len(kept), found.table.row_word))


def read_tagged_eval(
    source: HeldOut, columns: Guess, limit: int | None = None, *, skip: bool = False
) -> TaggedTexts:
    """The usable rows of the evaluation data, by the columns of the training data.

    Raises:
        DataError: It is no file of texts, or its columns aren't what those of the training data are.
    """
    table = read_eval_table(source)
    check_columns_are_there(table, columns, source.instead)
    check_tag_columns(table, columns)
    return tagged_rows(table.first(limit), columns, skip=skip)


def _lists(table: Table, name: str, *, skip: bool) -> pa.ListArray:
    if skip:
        return read_lists(table.rows[name])[0]
    try:
        return word_lists(table.rows[name])
    except BadListError as error:
        raise no_list(table, name, error.index, error.text) from error


def no_list(table: Table, name: str, index: int, text: str, count: int = 1) -> DataError:
    """The error for rows whose list of words or tags is none: the first of them, what it has, how many there are."""
    others = f" So it is in {count:,} rows." if count > 1 else ""
    return DataError(
        f"“{name}” can't be read in {table.where(index)}",
        f"{table.path}: it begins as a list and is none: {text[:80]}{others}",
        (Fix('Write it as ["one", "two"], or as words with spaces between them'), LEAVE_OUT),
    )


def _lengths(lists: pa.ListArray) -> np.ndarray:
    found: np.ndarray = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return found


def uneven(table: Table, columns: Guess, index: int, counts: tuple[int, int], rows: int) -> DataError:
    """The error for rows whose words and tags don't match: the first of them, how many it has of each, and how many."""
    similar = "1 row is like that" if rows == 1 else f"{rows:,} rows are like that"
    words, tags = _counted(counts[0], "word"), _counted(counts[1], "tag")
    return DataError(
        f"{table.where(index).capitalize()} has {words} and {tags}",
        f"{table.path}: “{columns.text[0]}” and “{columns.label}” need one tag for each word; {similar}.",
        (DAMAGED, LEAVE_OUT),
    )


def _counted(count: Any, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _refuse_missing(found: TaggedTexts, columns: Guess) -> None:
    """Stop at a word without a tag, or a tag without a word."""
    for name, lists in zip((*columns.text, columns.label), (found.words, found.tags), strict=True):
        missing = np.flatnonzero(pc.is_null(lists.flatten()).to_numpy(zero_copy_only=False))
        if len(missing):
            assert name is not None, "checked before"
            raise missing_value(found.table, name, found.where_word(int(missing[0])), len(missing))


def missing_value(table: Table, name: str, where: str, count: int) -> DataError:
    """The error for words without a tag, or the reverse: where the first is, and how many values are missing."""
    return DataError(
        f"A value of “{name}” is missing in {where}",
        f"{table.path}: each word needs a tag. {_counted(count, 'value')} in all.",
        (DAMAGED, LEAVE_OUT),
    )


def named(tags: pa.ListArray, names: tuple[str, ...]) -> pa.ListArray:
    """Tags as names: numbers stand for the names a data set brings, where it does."""
    values = tags.flatten()
    if names:
        numbers = pc.cast(values, pa.int64())
        known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
        values = pc.take(pa.array(names, pa.string()), pc.if_else(known, numbers, None))
    else:
        values = pc.utf8_trim_whitespace(values)
    return pa.ListArray.from_arrays(_offsets(tags), values)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """Where each row begins among the values of all rows, from 0 whatever was cut out of a longer array."""
    lengths = pc.list_value_length(lists).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _dataset(found: TaggedTexts, labels: tuple[str, ...], instead: Fix = HOLD_OUT_INSTEAD) -> pa.Table:
    classes = indices(found.names(), labels, found.where_word, (instead,), "word")
    tags = pa.ListArray.from_arrays(_offsets(found.tags), pa.array(classes, pa.int64()))
    return pa.table({"tokens": found.words, "label": tags})


def _as_dataset(rows: pa.Table) -> "Dataset":
    from datasets import Dataset

    return Dataset(rows.combine_chunks())
