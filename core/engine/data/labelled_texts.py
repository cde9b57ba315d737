"""Texts with a label, a number, or a label for each word: read, checked, split and tokenized.

One reader goes through the rows and counts their issues: a run stops on them, a preview shows them.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.base.errors import DataError, Fix
from core.base.formats import paragraph, titled
from core.base.language import _, ngettext
from core.engine.data import NO_LABEL, checks
from core.engine.data.checks import RowHashes, first_of_equals, noted, refuse_problems, repeats
from core.engine.data.columns import (
    Guess,
    as_number,
    guess_columns,
    guess_score_columns,
    guess_tag_columns,
    has_decimal_comma,
    is_blank,
    nested_places,
    read_lists,
    tag_names,
    text_reader,
)
from core.engine.data.conversations import EMPTY_ROW
from core.engine.data.findings import FindingKind
from core.engine.data.splits import (
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    HeldOut,
    held_out_of,
    in_order,
    random_split,
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
from core.engine.data.text_files import NoteCode
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.catalogue import row_multiple
from core.options.choices import Padding, Task
from core.options.sources import Scheme, scheme_of

if TYPE_CHECKING:
    from datasets import Dataset

BLOCK_ROWS = 2000
WORDS = "tokens"
"""The column of a data set with a list of words in each row."""
EXAMPLE_CHARACTERS = 80


@dataclass(frozen=True)
class TextData:
    """Texts ready for a tokenizer, as `datasets.Dataset`s; `eval` is None if nothing is held out.

    Columns are `text`, `text_pair` (for pairs) and `label`, a class index or a number; if words are labelled, `tokens`
    and `label`, a list of words and one of class indices. `labels` are the classes. `where` names the place of a
    sample of `eval`, such as "row 17 of reviews.csv". `in_both` are the samples of `eval` whose texts are
    trained on, too.
    """

    train: "Dataset"
    eval: "Dataset | None"
    labels: tuple[str, ...]
    text_columns: tuple[str, ...]
    label_column: str
    notes: tuple[str, ...] = ()
    where: Callable[[int], str] = lambda _index: ""
    in_both: int = 0


# --- The usable rows of a table, block by block


@dataclass(frozen=True)
class RowBlock:
    """Usable rows: the index of each in the table, its texts (or words), and its answer (or one per word)."""

    places: list[int]
    inputs: list[tuple[str, ...]]
    answers: list[Any]

    def at(self, kept: Sequence[int]) -> "RowBlock":
        return RowBlock(
            [self.places[row] for row in kept],
            [self.inputs[row] for row in kept],
            [self.answers[row] for row in kept],
        )


class RowReader:
    """Iterates once over a table; `tally` is complete after the last block.

    Args:
        skip: Report rows with a problem as left out, with a warning.
        progress: Called with the number of rows read so far.
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
        self.tally = checks.tally_of(table, skip=skip)
        self._progress = progress

    def texts(self) -> Iterator[RowBlock]:
        """Reads rows with one or two texts, and the label as text."""
        names = [*self.columns.text, *filter(None, (self.columns.label,))]
        readers = {name: text_reader(self.table.rows[name]) for name in names}
        mixed = {note.column for note in self.table.notes if note.code == NoteCode.MIXED_COLUMN}
        for start, batch in self._batches(names):
            values = [readers[name](batch[name]) for name in names]
            blanks = {name: is_blank(texts).to_numpy() for name, texts in zip(names, values, strict=True)}
            numbers = self.table.numbers[start : start + batch.num_rows]
            keep = checks.complete_rows(self.tally, numbers, blanks)
            for name, texts in zip(names, values, strict=True):
                if name in mixed and name != self.columns.label:
                    nested = list(nested_places(texts))
                    self._note(checks.NESTED, [start + place for place in nested], name)
                    keep[nested] = False
            rows = [texts.filter(pa.array(keep)).to_pylist() for texts in values]
            answers = [answer.strip() for answer in rows.pop()] if self.columns.label else [""] * keep.sum()
            yield RowBlock((start + np.flatnonzero(keep)).tolist(), list(zip(*rows, strict=True)), answers)

    def scores(self) -> Iterator[RowBlock]:
        """Reads rows with one or two texts, and a number."""
        other = checks.other_score(self.table, self.columns)
        for block in self.texts():
            numbers = [as_number(answer) for answer in block.answers]
            bad = np.isnan(numbers)
            for place in np.flatnonzero(bad):
                cell = block.answers[place]
                comma = checks.DECIMAL_POINT if has_decimal_comma([cell]) else ""
                example = f"“{cell[:EXAMPLE_CHARACTERS]}”.{comma}"
                self._note(
                    checks.NOT_A_NUMBER, [block.places[place]], self.columns.label or "", example, other
                )
            yield RowBlock(block.places, block.inputs, numbers).at(np.flatnonzero(~bad).tolist())

    def words(self) -> Iterator[RowBlock]:
        """Reads rows with a list of words, and a tag for each."""
        text, tag = self.columns.text[0], self.columns.label or ""
        names = tag_names(self.table, tag)
        for start, batch in self._batches([text, tag]):
            lists: list[list[list[str | None]]] = []
            broken = set[int]()
            for name in (text, tag):
                values, errors = read_lists(pa.chunked_array([batch[name]]))
                for error in errors:
                    example = f"{error.text[:EXAMPLE_CHARACTERS]}."
                    self._note(checks.BROKEN_LIST, [start + error.index], name, example)
                    broken.add(error.index)
                lists.append((values if name == text else _named(values, names)).to_pylist())
            rows = [
                (start + place, tuple(words), tuple(tags))
                for place, (words, tags) in enumerate(zip(*lists, strict=True))
                if place not in broken and self._check_tags(start + place, words, tags)
            ]
            yield RowBlock([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])

    def with_known_labels(self, blocks: Iterable[RowBlock], known: Collection[str]) -> Iterator[RowBlock]:
        """Leaves out rows with labels that aren't in the training data."""
        for block in blocks:
            kept = []
            for place, answer in enumerate(block.answers):
                names = () if isinstance(answer, float) else (answer,) if isinstance(answer, str) else answer
                unknown = [name for name in dict.fromkeys(names) if name not in known]
                for name in unknown:
                    self._note(checks.UNSEEN_LABEL, [block.places[place]], name)
                if not unknown:
                    kept.append(place)
            yield block.at(kept)

    def _check_tags(self, index: int, words: Sequence[str | None], tags: Sequence[str | None]) -> bool:
        """Returns whether a row has words and a tag for each; counts it otherwise."""
        text, tag = self.columns.text[0], self.columns.label or ""
        if len(words) != len(tags):
            counts = _("words: {words:,}, tags: {tags:,}.").format(words=len(words), tags=len(tags))
            self._note(checks.TAG_COUNT, [index], "", counts)
        elif not words:
            self._note(EMPTY_ROW, [index], "")
        elif None in words or None in tags:
            self._note(checks.MISSING_VALUE, [index], text if None in words else tag)
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
        return DataError(
            _("{name} has no usable examples").format(name=self.table.path.name),
            titled(str(self.table.path), paragraph(*(finding.message for finding in self.tally.findings()))),
            (Fix(_("Fill in the texts and labels, or choose other columns")),),
        )


def _named(tags: pa.ListArray, names: tuple[str, ...]) -> pa.ListArray:
    """Replaces numbers by the tag names of the data set, if it has any."""
    values = tags.flatten()
    if names:
        numbers = pc.cast(values, pa.int64())
        known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
        values = pc.take(pa.array(names, pa.string()), pc.if_else(known, numbers, None))
    else:
        values = pc.utf8_trim_whitespace(values)
    ends = np.cumsum(pc.list_value_length(tags).to_numpy())
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), values)


Check = Callable[[Table, Guess], None]


@dataclass(frozen=True)
class TextKind:
    """How the columns of a task are found and checked (by option), and how its rows are read."""

    guess: Callable[[Table, tuple[str, ...], str | None], Guess]
    checks: tuple[tuple[str, Check], ...]
    check_eval: Callable[[Table, Guess, HeldOut], None]
    blocks: Callable[[RowReader], Iterator[RowBlock]]
    has_words: bool = False


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
        has_words=True,
    ),
}


# --- Training and evaluation data of a run


@dataclass(frozen=True)
class _Rows:
    """Usable rows: a table of texts, their answers, and the index of each in the table they are from."""

    texts: pa.Table = field(repr=False)
    answers: list[Any] = field(repr=False)
    places: list[int] = field(repr=False)
    notes: tuple[str, ...]

    def without_repeats(self) -> "_Rows":
        """Leaves out rows with the same texts and answer as an earlier one."""
        columns = (
            [tuple(value) if isinstance(value, list) else value for value in column.to_pylist()]
            for column in self.texts.columns
        )
        kept = first_of_equals(zip(*columns, strict=True), self.answers).tolist()
        notes = repeats(len(self.answers) - len(kept))
        texts = self.texts.take(pa.array(kept, pa.int64()))
        answers, places = ([values[place] for place in kept] for values in (self.answers, self.places))
        return _Rows(texts, answers, places, (*self.notes, *notes))

    def encoded(self, labels: tuple[str, ...]) -> pa.Table:
        """Adds a column `label`: class indices, lists of them, or numbers."""
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


def load_labelled_texts(options: RunOptions) -> TextData:
    """Reads, checks and splits the texts of a run; columns that aren't chosen are guessed.

    Raises:
        DataError: They can't be used; it names the file and the rows or columns.
    """
    data, kind = options.data, KINDS[options.task]
    table, columns = _training_table(options)
    rows = _usable_rows(kind, table, columns, skip=data.skip_bad_rows)
    rows = rows.without_repeats() if data.drop_duplicates else rows
    limit_fixes = (USE_ALL_SAMPLES,) if data.max_train_samples else ()
    labels: tuple[str, ...] = ()
    notes = (*table.messages, *rows.notes)
    if options.task is Task.TEXT_REGRESSION:
        least, most = min(rows.answers), max(rows.answers)
        checks.refuse_constant(table, columns, least, most, limit_fixes)
        notes = (*notes, *checks.large_numbers(max(abs(least), abs(most)), columns))
    else:
        counts = (
            Counter(tag for tags in rows.answers for tag in tags) if kind.has_words else Counter(rows.answers)
        )
        checks.refuse_labels_of(table, columns, counts, limit_fixes)
        labels = in_order(counts)
    whole = rows.encoded(labels)
    apart = held_out_of(options)
    fraction = 0.0 if apart else data.eval_fraction
    if options.task is Task.TEXT_CLASSIFICATION:
        train, held_out = stratified_split(whole["label"].to_numpy(), fraction, options.training.seed)
    else:
        train, held_out = random_split(whole.num_rows, fraction, options.training.seed)
    evaluation = None
    if apart:
        table = read_evaluation(apart)
        kind.check_eval(table, columns, apart)
        try:
            rows = _usable_rows(
                kind, table.first(data.max_eval_samples), columns, skip=data.skip_bad_rows, known=labels
            )
        except DataError as error:
            error.fixes = (*error.fixes, *apart.instead)
            raise
        notes = (*(notes if options.tells_of_training else ()), *table.messages, *rows.notes)
        evaluation = rows.encoded(labels)
    elif held_out:
        evaluation = whole.take(held_out[: data.max_eval_samples])
        rows = replace(rows, places=[rows.places[place] for place in held_out])
    elif fraction:
        notes = (*notes, NOTHING_HELD_OUT)
    assert columns.label is not None, "checked above"
    places, source = rows.places, replace(table, rows=table.rows.schema.empty_table())  # frees the rows
    return TextData(
        _as_dataset(whole.take(train)),
        None if evaluation is None else _as_dataset(evaluation),
        labels,
        columns.text,
        columns.label,
        notes,
        lambda index: source.where(places[index]),
        0 if evaluation is None else len(_hashes(evaluation).also_in(_hashes(whole.take(train)))),
    )


def _hashes(samples: pa.Table) -> RowHashes:
    hashes = RowHashes()
    names = [name for name in samples.column_names if name != "label"]
    for batch in samples.select(names).to_batches(BLOCK_ROWS):
        hashes.add(map(str, zip(*(column.to_pylist() for column in batch.columns), strict=True)), ())
    return hashes


def training_texts(options: RunOptions) -> pa.Table:
    """Returns the texts of the usable training rows, in one or two columns; words are joined.

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
    for _option, check in kind.checks:
        check(table, columns)
    return table.first(data.max_train_samples), columns


def _usable_rows(
    kind: TextKind, table: Table, columns: Guess, *, skip: bool, known: Collection[str] = ()
) -> _Rows:
    reader = RowReader(table, columns, skip=skip)
    blocks = kind.blocks(reader)
    texts, answers, places = list[pa.Table](), list[Any](), list[int]()
    for block in reader.with_known_labels(blocks, known) if known else blocks:
        answers += block.answers
        places += block.places
        if block.places and kind.has_words:
            texts.append(pa.table({WORDS: pa.array(block.inputs, pa.list_(pa.string()))}))
        elif block.places:
            arrays = [pa.array(column, pa.string()) for column in zip(*block.inputs, strict=True)]
            texts.append(pa.table(dict(zip(("text", "text_pair"), arrays, strict=False))))
    findings = reader.tally.findings()
    refuse_problems(table.path, findings, len(answers))
    if not answers:
        raise reader.no_usable_rows()
    return _Rows(pa.concat_tables(texts).combine_chunks(), answers, places, noted(findings))


def read_evaluation(source: HeldOut) -> Table:
    """Reads the evaluation data.

    Raises:
        DataError: It is no file, or can't be read.
    """
    if scheme_of(source.source) not in (None, Scheme.HUB):
        raise DataError(
            _("{source} can't be used for validation").format(source=source.source),
            _("A model that is trained on texts needs texts with the same labels."),
            source.instead,
        )
    return read_held_out(source)


def _as_dataset(rows: pa.Table) -> "Dataset":
    from datasets import Dataset

    return Dataset(rows.combine_chunks())


# --- Tokens


def encode_texts(
    options: RunOptions, data: TextData, tokenizer: Any, longest: int, reporter: Reporter
) -> tuple["Dataset", "Dataset | None"]:
    """Tokenizes training and evaluation data, and reports what is cut off.

    Args:
        tokenizer: The model's; a fast one for words.
        longest: The most tokens of the model.

    Returns:
        Data sets of `input_ids`, `attention_mask` and `labels`: a class index or a number per text, or a class index
        per token.
    """
    length = length_limit(options, longest)
    known = tokenizer_print(tokenizer)  # before it is used: tokenizing leaves the last length in it

    def tokenize(part: Any) -> Any:
        def make() -> Any:
            return part.map(
                lambda rows: encode_rows(rows, tokenizer, length),
                batched=True,
                remove_columns=part.column_names,
                keep_in_memory=True,
            )

        return cached_tokens(tokens_key(part, known, length), make) if known else make()

    train = tokenize(data.train)
    evaluation = None if data.eval is None else tokenize(data.eval)
    is_test = not options.tells_of_training
    texts, told = (data.eval, evaluation) if is_test else (data.train, train)
    _report_cut_texts(told, length, options.data.max_length, reporter)
    if WORDS in data.train.column_names:
        _report_lost_words(texts, told, length, reporter, is_test=is_test)
    return train, evaluation


def texts_of(part: Any) -> list[str]:
    """Returns all texts of a data set, column by column; words are joined."""
    names = [name for name in ("text", "text_pair", WORDS) if name in part.column_names]
    columns = (_column(part, name).to_pylist() for name in names)
    return [" ".join(text) if isinstance(text, list) else text for texts in columns for text in texts]


def texts_in(row: Mapping[str, Any]) -> list[str]:
    """Returns the text of a row, or its pair; words are joined."""
    texts = (row[name] for name in ("text", "text_pair", WORDS) if name in row)
    return [" ".join(text) if isinstance(text, list) else text for text in texts]


def row_padding(options: RunOptions, longest: int) -> dict[str, Any]:
    """Returns the arguments of `PadTexts` on the length of rows."""
    most = length_limit(options, longest)
    length = most if options.data.padding is Padding.FIXED else None
    return {"length": length, "multiple": row_multiple(options), "most": most}


def length_limit(options: RunOptions, longest: int) -> int:
    """Returns the length set in the options, or the model's limit if that is less."""
    return min(options.data.max_length, longest)


def encode_rows(rows: dict[str, list[Any]], tokenizer: Any, length: int) -> dict[str, Any]:
    """Tokenizes texts or words, without padding.

    Args:
        rows: The columns `text`, `text_pair` (for pairs) and `label`, or `tokens` and `label`.
        length: Tokens at which texts are cut off.

    Returns:
        `labels`, and the columns the tokenizer makes, such as `input_ids`.
    """
    if WORDS in rows:
        return encode_words(rows[WORDS], rows["label"], tokenizer, length)
    columns = [rows[name] for name in ("text", "text_pair") if name in rows]
    encoded = tokenizer(*columns, truncation=True, max_length=length)
    return {**encoded, "labels": rows["label"]}


def encode_words(
    texts: list[list[str]], tags: list[list[int]], tokenizer: Any, length: int
) -> dict[str, list[Any]]:
    """Tokenizes words, with a label at the first token of each word.

    Texts without a labelled token are left out.

    Args:
        tags: The class index of each word.
        tokenizer: A fast one, with `word_ids`.
        length: Tokens at which texts are cut off.
    """
    words = [spaced(words, tokenizer) for words in texts]
    encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=length)
    labels = []
    for row, classes in enumerate(tags):
        ids = encoded.word_ids(row)
        pairs = zip([None, *ids], ids, strict=False)
        labels.append([NO_LABEL if word in (None, last) else classes[word] for last, word in pairs])
    kept = [row for row, found in enumerate(labels) if any(label != NO_LABEL for label in found)]
    columns = {**encoded, "labels": labels}
    return {name: [values[row] for row in kept] for name, values in columns.items()}


def spaced(words: list[str], tokenizer: Any) -> list[str]:
    """Adds the spaces between words for byte-level tokenizers, which count them as part of the next word."""
    steps = json.loads(tokenizer.backend_tokenizer.to_str()).get("pre_tokenizer") or {}
    if all(step.get("type") != "ByteLevel" for step in steps.get("pretokenizers", [steps])):
        return words
    return [*words[:1], *(f" {word}" if word else "" for word in words[1:])]


def _report_cut_texts(train: Any, length: int, max_length: int, reporter: Reporter) -> None:
    cut = sum(tokens >= length for tokens in lengths_of(train) or ())
    title = _("{cut:,} of {count:,} texts reach {length:,} tokens").format(
        cut=cut, count=len(train), length=length
    )
    if cut and length < max_length:
        why = _("Longer ones are truncated: the model is limited to less than the {asked:,} of the options.")
        reporter.warn("length-limit", title, why.format(asked=max_length))
    elif cut:
        reporter.note("texts-cut", title, _("Longer ones are truncated."))


def _report_lost_words(texts: Any, encoded: Any, length: int, reporter: Reporter, *, is_test: bool) -> None:
    words = int(pc.sum(pc.list_value_length(_column(texts, WORDS))).as_py() or 0)
    labels = pc.list_flatten(_column(encoded, "labels")).to_numpy()
    lost = words - int(np.count_nonzero(labels != NO_LABEL))
    if lost:
        title = ngettext(
            "{lost:,} of {words:,} words is not trained on",
            "{lost:,} of {words:,} words are not trained on",
            lost,
        )
        if is_test:
            title = ngettext(
                "{lost:,} of {words:,} words is not tested",
                "{lost:,} of {words:,} words are not tested",
                lost,
            )
        why = _("They are beyond {length} tokens, or the model has no token for them.")
        reporter.note("words-lost", title.format(lost=lost, words=words), why.format(length=length))


def _column(part: Any, name: str) -> Any:
    return part.with_format("arrow")[:][name]
