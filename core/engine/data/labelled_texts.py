"""Texts with an answer each: a label, a number, or a label for each word; read, checked, split and made tokens of.

One reader goes through the rows, of which it counts what is wrong: a run stops on what it found, a preview shows it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data import NO_LABEL, checks
from core.engine.data.checks import first_of_equals, noted, refuse_problems, repeats
from core.engine.data.columns import (
    Guess,
    as_number,
    guess_columns,
    guess_score_columns,
    guess_tag_columns,
    has_decimal_comma,
    is_blank,
    is_mixed,
    nested_places,
    read_lists,
    tag_names,
    text_reader,
)
from core.engine.data.splits import (
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    HeldOut,
    held_out_of,
    in_order,
    random_split,
    refuse_single,
    stratified_split,
)
from core.engine.data.tables import (
    Table,
    cached_tokens,
    lengths_of,
    read_held_out,
    read_training,
    tokenizer_print,
    tokens_key,
)
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Padding, Task
from core.options.sources import Scheme, scheme_of
from core.services.inspect import FindingKind, Tally

if TYPE_CHECKING:
    from datasets import Dataset

BLOCK_ROWS = 2000
WORDS = "tokens"
"""The column of a data set whose texts come word by word."""
EXAMPLE_CHARACTERS = 80


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


# --- The usable rows of a table, block by block


@dataclass(frozen=True)
class Block:
    """Usable rows: the index of each in the table, what the model reads of it, and the answer (of words: one each)."""

    places: list[int]
    inputs: list[tuple[str, ...]]
    answers: list[Any]

    def at(self, kept: Sequence[int]) -> "Block":
        """Those at `kept` only."""
        return Block(
            [self.places[place] for place in kept],
            [self.inputs[place] for place in kept],
            [self.answers[place] for place in kept],
        )


class RowReader:
    """Goes through a table once; `tally` has what is wrong or left out, when all blocks are read.

    Args:
        table: The rows.
        columns: Those of texts and of answers, which are there.
        skip: Whether rows that would stop a run are left out, and no more than a warning.
        progress: Told the number of rows gone through.
    """

    def __init__(
        self,
        table: Table,
        columns: Guess,
        *,
        skip: bool = False,
        progress: Callable[[int], None] = lambda _rows: None,
    ) -> None:
        self.table = table
        self.columns = columns
        self.tally = Tally(table.row_word, skip=skip)
        self._progress = progress

    def texts(self) -> Iterator[Block]:
        """Rows of one text or two, and the label as it is written."""
        names = [*self.columns.text, *filter(None, (self.columns.label,))]
        readers = {name: text_reader(self.table.rows[name]) for name in names}
        mixed = [name for name in self.columns.text if is_mixed(self.table, name)]
        for start, batch in self._batches(names):
            values = [readers[name](batch[name]) for name in names]
            keep = np.ones(batch.num_rows, dtype=bool)
            for name, texts in zip(names, values, strict=True):
                blank = is_blank(texts).to_numpy()
                self._note(checks.EMPTY, start + np.flatnonzero(blank), name)
                keep &= ~blank
                if name in mixed:
                    nested = list(nested_places(texts))
                    self._note(checks.NESTED, [start + place for place in nested], name)
                    keep[nested] = False
            rows = [texts.filter(pa.array(keep)).to_pylist() for texts in values]
            count = int(keep.sum())
            answers = [answer.strip() for answer in rows.pop()] if self.columns.label else [""] * count
            yield Block((start + np.flatnonzero(keep)).tolist(), list(zip(*rows, strict=True)), answers)

    def scores(self) -> Iterator[Block]:
        """Rows of one text or two, and a number."""
        other = checks.other_score(self.table, self.columns)
        for block in self.texts():
            numbers = [as_number(answer) for answer in block.answers]
            for place in np.flatnonzero(np.isnan(numbers)):
                cell = block.answers[place]
                comma = checks.DECIMAL_POINT if has_decimal_comma([cell]) else ""
                example = f'"{cell[:EXAMPLE_CHARACTERS]}".{comma}'
                self._note(
                    checks.NOT_A_NUMBER, [block.places[place]], self.columns.label or "", example, other
                )
            kept = np.flatnonzero(~np.isnan(numbers)).tolist()
            yield Block(block.places, block.inputs, numbers).at(kept)

    def words(self) -> Iterator[Block]:
        """Rows of words, and a tag for each."""
        text, tag = self.columns.text[0], self.columns.label or ""
        names = tag_names(self.table, tag)
        for start, batch in self._batches([text, tag]):
            lists: list[list[list[str | None]]] = []
            broken = set[int]()
            for name in (text, tag):
                found, bad = read_lists(pa.chunked_array([batch[name]]))
                for error in bad:
                    self._note(
                        checks.BROKEN_LIST, [start + error.index], name, f"{error.text[:EXAMPLE_CHARACTERS]}."
                    )
                    broken.add(error.index)
                lists.append((found if name == text else _named(found, names)).to_pylist())
            rows = [
                (start + place, tuple(words), tuple(tags))
                for place, (words, tags) in enumerate(zip(*lists, strict=True))
                if place not in broken and self._fits(start + place, words, tags)
            ]
            yield Block([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])

    def with_known_labels(self, blocks: Iterable[Block], known: Collection[str]) -> Iterator[Block]:
        """The rows whose labels are among those trained on."""
        for block in blocks:
            kept = []
            for place, answer in enumerate(block.answers):
                names = () if isinstance(answer, float) else (answer,) if isinstance(answer, str) else answer
                foreign = [name for name in dict.fromkeys(names) if name not in known]
                for name in foreign:
                    self._note(checks.UNSEEN_LABEL, [block.places[place]], name)
                if not foreign:
                    kept.append(place)
            yield block.at(kept)

    def _fits(self, index: int, words: Sequence[str | None], tags: Sequence[str | None]) -> bool:
        """Whether words and tags go together; where not, that is noted."""
        if len(words) != len(tags):
            self._note(
                checks.TAG_COUNT,
                [index],
                "",
                f"{_counted(len(words), 'word')}, {_counted(len(tags), 'tag')}.",
            )
        elif not words:
            self._note(checks.EMPTY, [index], self.columns.text[0])
        elif None in words or None in tags:
            name = self.columns.text[0] if None in words else self.columns.label
            self._note(checks.MISSING_VALUE, [index], name or "")
        else:
            return True
        return False

    def _batches(self, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        start = 0
        for batch in self.table.rows.select(list(dict.fromkeys(names))).to_batches(max_chunksize=BLOCK_ROWS):
            yield start, batch
            start += batch.num_rows
            self._progress(start)

    def _note(
        self,
        kind: FindingKind,
        indices: Any,
        detail: str,
        example: str = "",
        fixes: tuple[Fix, ...] = (),
    ) -> None:
        for index in indices:
            self.tally.add(kind, int(self.table.numbers[index]), detail=detail, example=example, fixes=fixes)

    def no_usable_rows(self) -> DataError:
        """The error for a table of which nothing is left."""
        told = " ".join(finding.message for finding in self.tally.findings())
        return DataError(
            _("{name} has no usable rows").format(name=self.table.path.name),
            f"{self.table.path}: {told}",
            (Fix(_("Fill in the texts and labels, or choose other columns")),),
        )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _named(tags: pa.ListArray, names: tuple[str, ...]) -> pa.ListArray:
    """Tags as names: numbers stand for the names a data set brings, where it does."""
    values = tags.flatten()
    if names:
        numbers = pc.cast(values, pa.int64())
        known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
        values = pc.take(pa.array(names, pa.string()), pc.if_else(known, numbers, None))
    else:
        values = pc.utf8_trim_whitespace(values)
    ends = np.cumsum(pc.list_value_length(tags).to_numpy())
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), values)


# --- What each task looks for in a table


Check = Callable[[Table, Guess], None]


@dataclass(frozen=True)
class TextKind:
    """How the columns of a task are found and checked, and its rows read. `sample` is what has a label, in one word."""

    guess: Callable[[Table, tuple[str, ...], str | None], Guess]
    checks: tuple[tuple[str, Check], ...]
    check_eval: Callable[[Table, Guess, Fix], None]
    blocks: Callable[[RowReader], Iterator[Block]]
    sample: str = "sample"


_TEXTS: tuple[str, Check] = ("data.text_columns", checks.check_text_columns)
KINDS = {
    Task.TEXT_CLASSIFICATION: TextKind(
        guess_columns,
        (_TEXTS, ("data.label_column", checks.check_label_column)),
        checks.check_eval_columns,
        RowReader.texts,
    ),
    Task.TEXT_REGRESSION: TextKind(
        guess_score_columns,
        (_TEXTS, ("data.label_column", checks.check_score_column)),
        checks.check_eval_columns,
        RowReader.scores,
    ),
    Task.TOKEN_CLASSIFICATION: TextKind(
        guess_tag_columns,
        (("data.text_columns", checks.check_tag_columns),),
        checks.check_eval_tags,
        RowReader.words,
        "word",
    ),
}


# --- Texts and their labels for training and evaluation


@dataclass(frozen=True)
class LabelledTexts:
    """The usable rows of a table: texts as an Arrow table, the answers, and where each row stands."""

    texts: pa.Table = field(repr=False)
    answers: list[Any] = field(repr=False)
    places: list[int] = field(repr=False)
    table: Table
    notes: tuple[str, ...]

    def unrepeated(self) -> "LabelledTexts":
        """Without the rows that have an earlier one with the same texts and the same answer."""
        texts = zip(*(map(_hashable, column.to_pylist()) for column in self.texts.columns), strict=True)
        kept = first_of_equals(texts, self.answers).tolist()
        return LabelledTexts(
            self.texts.take(pa.array(kept, pa.int64())),
            [self.answers[place] for place in kept],
            [self.places[place] for place in kept],
            self.table,
            (*self.notes, *repeats(len(self.places) - len(kept), self.table.row_word)),
        )

    def encoded(self, labels: tuple[str, ...]) -> pa.Table:
        """The texts with a column `label`: class indices, a list of them where words are labelled, or numbers."""
        index = {label: number for number, label in enumerate(labels)}
        first = self.answers[0]
        if isinstance(first, float):
            column = pa.array(self.answers, pa.float64())
        elif isinstance(first, str):
            column = pa.array([index[label] for label in self.answers], pa.int64())
        else:
            classes = [[index[label] for label in tags] for tags in self.answers]
            column = pa.array(classes, pa.list_(pa.int64()))
        return self.texts.append_column("label", column)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def load_labelled_texts(options: RunOptions) -> TextData:
    """Read, check and split the texts a run asks for. Columns that weren't chosen are guessed.

    Raises:
        DataError: They can't be used; the file and the rows or columns are named.
    """
    data, kind = options.data, KINDS[options.task]
    table, columns = _training_table(options)
    found = _usable_rows(kind, table, columns, skip=data.skip_bad_rows)
    found = found.unrepeated() if data.drop_duplicates else found
    limit_fixes = (USE_ALL_SAMPLES,) if data.max_train_samples else ()
    labels: tuple[str, ...] = ()
    notes = (*table.notes, *found.notes)
    if options.task is Task.TEXT_REGRESSION:
        least, most = min(found.answers), max(found.answers)
        checks.refuse_constant(table, columns, least, most, limit_fixes)
        notes = (*notes, *checks.large_numbers(max(abs(least), abs(most)), columns))
    else:
        labels = in_order(
            found.answers if kind.sample == "sample" else {tag for row in found.answers for tag in row}
        )
        refuse_single(
            labels,
            _("Column “{label}” of {name}").format(label=columns.label, name=table.path.name),
            limit_fixes,
        )
    whole = found.encoded(labels)
    apart = held_out_of(data)
    fraction = 0.0 if apart else data.eval_fraction
    if options.task is Task.TEXT_CLASSIFICATION:
        train, held_out = stratified_split(whole["label"].to_numpy(), fraction, options.training.seed)
    else:
        train, held_out = random_split(whole.num_rows, fraction, options.training.seed)
    eval_set = None
    if apart:
        evaluation = _read_evaluation(options, apart, columns, labels)
        notes = (*notes, *evaluation.table.notes, *evaluation.notes)
        eval_set = evaluation.encoded(labels)
    elif held_out:
        eval_set = whole.take(held_out[: data.max_eval_samples])
    elif fraction:
        notes = (*notes, NOTHING_HELD_OUT)
    assert columns.label is not None, "checked above"
    return TextData(
        _as_dataset(whole.take(train)),
        None if eval_set is None else _as_dataset(eval_set),
        labels,
        columns.text,
        columns.label,
        notes,
    )


def training_texts(options: RunOptions) -> pa.Table:
    """The texts of the training data's usable rows, one or two columns; the words of a row are put together.

    Raises:
        DataError: There are none.
    """
    table, columns = _training_table(options)
    texts = _usable_rows(KINDS[options.task], table, columns, skip=options.data.skip_bad_rows).texts
    return pa.table({"text": pc.binary_join(texts[WORDS], " ")}) if WORDS in texts.column_names else texts


def _training_table(options: RunOptions) -> tuple[Table, Guess]:
    data, kind = options.data, KINDS[options.task]
    table = read_training(data)
    columns = kind.guess(table, data.text_columns, data.label_column)
    for _rest, check in kind.checks:
        check(table, columns)
    return table.first(data.max_train_samples), columns


def _usable_rows(
    kind: TextKind, table: Table, columns: Guess, *, skip: bool, known: Collection[str] = ()
) -> LabelledTexts:
    reader = RowReader(table, columns, skip=skip)
    blocks = kind.blocks(reader)
    texts, places, answers = list[pa.Table](), list[int](), list[Any]()
    for block in reader.with_known_labels(blocks, known) if known else blocks:
        places += block.places
        answers += block.answers
        if block.places:
            texts.append(_as_table(block.inputs, are_words=kind.sample == "word"))
    findings = reader.tally.findings()
    refuse_problems(table, findings, len(places))
    if not places:
        raise reader.no_usable_rows()
    return LabelledTexts(pa.concat_tables(texts).combine_chunks(), answers, places, table, noted(findings))


def _as_table(inputs: list[tuple[str, ...]], *, are_words: bool) -> pa.Table:
    if are_words:
        return pa.table({WORDS: pa.array(inputs, pa.list_(pa.string()))})
    columns = [pa.array(texts, pa.string()) for texts in zip(*inputs, strict=True)]
    return pa.table(dict(zip(("text", "text_pair"), columns, strict=False)))


def _read_evaluation(
    options: RunOptions, source: HeldOut, columns: Guess, labels: tuple[str, ...]
) -> LabelledTexts:
    """The usable rows of the evaluation data, by the columns and labels of the training data."""
    data, kind = options.data, KINDS[options.task]
    table = read_evaluation(source)
    kind.check_eval(table, columns, source.instead)
    table = table.first(data.max_eval_samples)
    try:
        return _usable_rows(kind, table, columns, skip=data.skip_bad_rows, known=labels)
    except DataError as error:
        error.fixes = (*error.fixes, source.instead)
        raise


def read_evaluation(source: HeldOut) -> Table:
    """The table to evaluate on.

    Raises:
        DataError: It is no file, or can't be read.
    """
    if scheme_of(source.source) not in (None, Scheme.HUB):
        raise DataError(
            _("{source} can't be evaluated on").format(source=source.source),
            _("A model that learns from texts of yours needs texts with the same labels."),
            (source.instead,),
        )
    return read_held_out(source)


def _as_dataset(rows: pa.Table) -> "Dataset":
    from datasets import Dataset

    return Dataset(rows.combine_chunks())


# --- From texts to tokens, cut off where the model's sight or the person's wish ends


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

    def tokenize(part: Any) -> Any:
        if not known:
            return _tokenize(part, tokenizer, length)
        return cached_tokens(tokens_key(part, known, length), lambda: _tokenize(part, tokenizer, length))

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
    title = _("{cut:,} of {train:,} texts reach {length:,} tokens").format(
        cut=cut, train=len(train), length=length
    )
    if cut and length < asked:
        why = _("Anything beyond is cut off: the model can't see more. {asked:,} were asked for.").format(
            asked=asked
        )
        reporter.warn("length-limit", title, why)
    elif cut:
        reporter.note("texts-cut", title, _("Anything beyond is cut off."))


def _tell_lost_words(texts: Any, encoded: Any, length: int, reporter: Reporter) -> None:
    """Say how many words are not learned from."""
    words = int(pc.sum(pc.list_value_length(_column(texts, WORDS))).as_py() or 0)
    labels = pc.list_flatten(_column(encoded, "labels")).to_numpy()
    lost = words - int(np.count_nonzero(labels != NO_LABEL))
    if lost:
        count = _("{lost:,} of {words:,} words {value}").format(
            lost=lost, words=words, value="is" if lost == 1 else "are"
        )
        reporter.note(
            "words-lost",
            _("{count} not learned from").format(count=count),
            _("They lie beyond {length} tokens, or the model has no token for them.").format(length=length),
        )


def _column(part: Any, name: str) -> Any:
    return part.with_format("arrow")[:][name]
