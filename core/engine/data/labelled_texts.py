"""From texts to tokens, cut off where the model's sight or the person's wish ends."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.engine.data.checks import first_of_equals
from core.engine.data.columns import (
    Guess,
    as_text,
    check_eval_columns,
    check_label_column,
    check_text_columns,
    guess_columns,
    is_blank,
    nested_rows,
    refuse_nested,
)
from core.engine.data.splits import (
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    HeldOut,
    held_out_of,
    in_order,
    indices,
    refuse_single,
    stratified_split,
)
from core.engine.data.tables import Table, read_held_out, read_training
from core.engine.data.text_files import repeats
from core.options import RunOptions
from core.options.sources import Scheme, scheme_of

if TYPE_CHECKING:
    from datasets import Dataset
import json
from collections.abc import Callable

from core.base import settings
from core.engine.data.batches import NO_LABEL, TokenCache, cache_key, lengths_of, tokenizer_print
from core.engine.data.columns import (
    BadListError,
    check_columns_are_there,
    check_tag_columns,
    guess_tag_columns,
    read_lists,
    tag_names,
    word_lists,
)
from core.engine.data.splits import HOLD_OUT_INSTEAD, random_split
from core.engine.data.text_files import LEAVE_OUT, told
from core.engine.reporter import Reporter
from core.options.choices import Padding

# --- Texts and their labels for training and evaluation


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
        eval_set = _labelled_dataset(evaluation, eval_classes, list(range(len(eval_classes))))
    else:
        notes = (*notes, NOTHING_HELD_OUT) if fraction and not held_out else notes
        held_out = held_out[: data.max_eval_samples]
        eval_set = _labelled_dataset(found, classes, held_out) if held_out else None
    assert columns.label is not None, "checked above"
    return TextData(
        _labelled_dataset(found, classes, train), eval_set, labels, columns.text, columns.label, notes
    )


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


def _labelled_dataset(found: LabelledTexts, classes: list[int], chosen: list[int]) -> "Dataset":
    from datasets import Dataset

    rows = found.texts.append_column("label", pa.array(classes, pa.int64())).take(chosen)
    return Dataset(rows.combine_chunks())


# --- From texts to tokens, cut off where the model's sight or the person's wish ends


WORDS = "tokens"
"""The column of a data set whose texts come word by word."""


def encode_texts(
    options: RunOptions, data: TextData, tokenizer: Any, longest: int, reporter: Reporter
) -> EncodedTexts:
    """Tokenize training and evaluation data, and tell what is cut off.

    Args:
        options: What is asked.
        data: The texts, or words.
        tokenizer: The model's; a fast one where there are words.
        longest: The most tokens the model can see.
        reporter: Hears of what is lost.
    """
    length = length_limit(options, longest)
    tokenize = _tokenizing(tokenizer, length)
    train = tokenize(data.train)
    evaluation = None if data.eval is None else tokenize(data.eval)
    _tell_cut_texts(train, length, options.data.max_length, reporter)
    if WORDS in data.train.column_names:
        _tell_lost_words(data.train, train, length, reporter)
    return EncodedTexts(train, evaluation, data.labels)


def texts_of(part: Any) -> list[str]:
    """All texts of a data set, those of pairs one after the other; words with a space before each but the first."""
    names = [name for name in ("text", "text_pair", WORDS) if name in part.column_names]
    found = (part.with_format("arrow")[:][name].to_pylist() for name in names)
    return [" ".join(text) if isinstance(text, list) else text for texts in found for text in texts]


def row_length(options: RunOptions, longest: int) -> int | None:
    """Tokens of every row where padding is fixed; None: each batch decides."""
    return min(options.data.max_length, longest) if options.data.padding is Padding.FIXED else None


def length_limit(options: RunOptions, longest: int) -> int:
    """The length asked for, or the model's own limit where that is shorter."""
    return min(options.data.max_length, longest)


def _tokenizing(tokenizer: Any, length: int) -> Callable[[Any], Any]:
    """What tokenizes texts, or takes them from an earlier run with the same texts, tokenizer and length."""
    known = tokenizer_print(tokenizer)
    cache = TokenCache(settings.home() / "cache" / "tokens")

    def tokenize(part: Any) -> Any:
        if not known:
            return _tokenize(part, tokenizer, length)
        return cache.get(cache_key(part, known, length), lambda: _tokenize(part, tokenizer, length))

    return tokenize


def _tokenize(part: Any, tokenizer: Any, length: int) -> Any:
    """Replace texts by token ids, cut off at `length`; padding is left to the collator, batch by batch."""

    def encode(rows: dict[str, list[Any]]) -> dict[str, Any]:
        return encode_rows(rows, tokenizer, length)

    return part.map(encode, batched=True, remove_columns=part.column_names, keep_in_memory=True)


def encode_rows(rows: dict[str, list[Any]], tokenizer: Any, length: int) -> dict[str, Any]:
    """What the model gets of texts, or of words, by column: `input_ids`, `labels` and what else the tokenizer makes.

    Args:
        rows: The columns `text`, `text_pair` (for pairs) and `label`, or `tokens` and `label`.
        tokenizer: The model's.
        length: Tokens at which texts are cut off.
    """
    if WORDS in rows:
        return encode_words(rows[WORDS], rows["label"], tokenizer, length)
    columns = [rows[name] for name in ("text", "text_pair") if name in rows]
    encoded = tokenizer(*columns, truncation=True, max_length=length)
    return {**encoded, "labels": rows["label"]}


def encode_words(
    texts: list[list[str]], tags: list[list[int]], tokenizer: Any, length: int
) -> dict[str, list[Any]]:
    """Token ids of texts given word by word, with a label for the first token of each word and none for the others.

    A text of which no word comes to a token is left out: there is nothing to learn from it.

    Args:
        texts: The words of each text.
        tags: The class index of each word.
        tokenizer: A fast one, which can tell the word of a token.
        length: Tokens at which texts are cut off.
    """
    encoded = tokenizer(
        [spaced(words, tokenizer) for words in texts],
        is_split_into_words=True,
        truncation=True,
        max_length=length,
    )
    labels = [_at_first_tokens(encoded.word_ids(row), classes) for row, classes in enumerate(tags)]
    kept = [row for row, found in enumerate(labels) if any(label != NO_LABEL for label in found)]
    columns = {**encoded, "labels": labels}
    return {name: [values[row] for row in kept] for name, values in columns.items()}


def spaced(words: list[str], tokenizer: Any) -> list[str]:
    """The words as they stand in a running text: byte-level tokenizers take the space before a word for part of it."""
    if not _is_byte_level(tokenizer):
        return words
    return [*words[:1], *(f" {word}" if word else "" for word in words[1:])]


def _is_byte_level(tokenizer: Any) -> bool:
    steps = json.loads(tokenizer.backend_tokenizer.to_str()).get("pre_tokenizer") or {}
    all_steps = steps.get("pretokenizers", [steps])
    return any(step.get("type") == "ByteLevel" for step in all_steps)


def _at_first_tokens(words: list[int | None], classes: list[int]) -> list[int]:
    """A label for each token: that of its word where it is the word's first."""
    before = [None, *words]
    return [
        NO_LABEL if word is None or word == last else classes[word]
        for last, word in zip(before, words, strict=False)
    ]


def _tell_cut_texts(train: Any, length: int, asked: int, reporter: Reporter) -> None:
    """Say how many texts are as long as is allowed, and whether that is less than was asked for."""
    cut = sum(tokens >= length for tokens in lengths_of(train) or ())
    title = f"{cut:,} of {len(train):,} texts reach {length:,} tokens"
    if cut and length < asked:
        why = f"Anything beyond is cut off: the model can't see more. {asked:,} were asked for."
        reporter.warn("length-limit", title, why)
    elif cut:
        reporter.note("texts-cut", title, "Anything beyond is cut off.")


def _tell_lost_words(texts: Any, encoded: Any, length: int, reporter: Reporter) -> None:
    """Say how many words are not learned from."""
    words = int(pc.sum(pc.list_value_length(_column(texts, WORDS))).as_py() or 0)
    labels = pc.list_flatten(_column(encoded, "labels")).to_numpy()
    lost = words - int(np.count_nonzero(labels != NO_LABEL))
    if lost:
        count = f"{lost:,} of {words:,} words {'is' if lost == 1 else 'are'}"
        reporter.note(
            "words-lost",
            f"{count} not learned from",
            f"They lie beyond {length} tokens, or the model has no token for them.",
        )


def _column(part: Any, name: str) -> Any:
    return part.with_format("arrow")[:][name]


# --- Texts whose words have a tag each: names in a text, parts of speech


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
    whole = _tagged_dataset(found, labels)
    if apart:
        evaluation = read_tagged_eval(apart, columns, data.max_eval_samples, skip=data.skip_bad_rows)
        notes = (*notes, *evaluation.table.notes, *evaluation.notes)
        eval_set = _tagged_dataset(evaluation, labels, apart.instead)
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


def _tagged_dataset(found: TaggedTexts, labels: tuple[str, ...], instead: Fix = HOLD_OUT_INSTEAD) -> pa.Table:
    classes = indices(found.names(), labels, found.where_word, (instead,), "word")
    tags = pa.ListArray.from_arrays(_offsets(found.tags), pa.array(classes, pa.int64()))
    return pa.table({"tokens": found.words, "label": tags})


def _as_dataset(rows: pa.Table) -> "Dataset":
    from datasets import Dataset

    return Dataset(rows.combine_chunks())
