"""Report on texts with an answer each (a label, a number, a label for each word), and on texts to continue."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from operator import methodcaller
from typing import Any

import msgspec
import numpy as np

from core.base.errors import DataError
from core.base.formats import enumerated, paragraph
from core.base.language import _, ngettext
from core.engine.data import NO_LABEL, TOKENS, checks, decoded_whole
from core.engine.data.checks import RowHashes, check_labels, few_rows, longer, offered
from core.engine.data.columns import Guess
from core.engine.data.findings import ROWS_NAMED, FindingKind
from core.engine.data.labelled_texts import KINDS, RowBlock, RowReader, encode_rows, read_evaluation, spaced
from core.engine.data.running_text import (
    all_pieces,
    load_running_text,
    make_blocks,
    pieces,
    read_running,
    reader_of,
    shape_of,
    too_short,
)
from core.engine.data.splits import (
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    HeldOut,
    held_out_counts,
    held_out_of,
    in_order,
    texts_of,
)
from core.engine.data.tables import Table, read_training
from core.engine.data.text_files import ReadingNote
from core.engine.inspect import draft as shared
from core.jobs.inspect import QUICK_TRY, DataFinding, DataReport, Lengths, Seen, SeenPart
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions

BATCH = 500
"""Samples tokenized at once."""
LONGEST_SHOWN = 4000
"""Characters shown of a sample without a tokenizer, which would cut it off."""
LABELS_SHOWN = 12


# --- One pass over the rows of a table


@dataclass(frozen=True)
class Sample:
    """A usable row: its number in the file, what the model reads of it, and the answer."""

    row: int
    inputs: tuple[str, ...]
    answer: Any = None


@dataclass
class UsableRows:
    """The usable rows of a table: 16 bytes of each, the first ones and some of all as samples.

    `labels` counts labels (of words, if words are labelled); `least` and `most` are the range of numbers to learn.
    `places` are the indices in the table. `early` are the labels of the first rows, of a quick try.
    """

    table: Table
    labels: Counter[str] = field(default_factory=Counter)
    hashes: RowHashes = field(default_factory=RowHashes)
    first: list[Sample] = field(default_factory=list)
    sampled: list[Sample] = field(default_factory=list)
    early: set[str] = field(default_factory=set)
    characters: int = 0
    least: float = float("inf")
    most: float = float("-inf")
    places: "array[int]" = field(default_factory=lambda: array("I"))

    def finding(self, kind: FindingKind, places: Any) -> DataFinding:
        """Returns a finding about the rows at these places among the usable ones."""
        rows = tuple(int(self.table.numbers[self.places[place]]) for place in places[:ROWS_NAMED])
        return msgspec.structs.replace(kind.finding(len(places), self.table.row_word), rows=rows)

    def note(self) -> Iterator[str]:
        """Yields which rows lengths were measured of, if not of all."""
        if self.table.rows.num_rows > shared.MOST_SAMPLED:
            yield _("Lengths are those of {sampled:,} examples, evenly chosen out of {usable:,}.").format(
                sampled=len(self.sampled), usable=len(self.places)
            )


def gather(table: Table, blocks: Iterable[RowBlock]) -> UsableRows:
    """Goes through all blocks of usable rows."""
    rows, chosen = UsableRows(table), shared.evenly_chosen(table.rows.num_rows)
    for block in blocks:
        rows.places.extend(block.places)
        rows.characters += sum(len(text) for texts in block.inputs for text in texts)
        rows.hashes.add(block.inputs, block.answers)
        for place, answer in zip(block.places, block.answers, strict=True):
            if isinstance(answer, float):
                rows.least, rows.most = min(rows.least, answer), max(rows.most, answer)
                continue
            labels = (answer,) if isinstance(answer, str) else answer
            rows.labels.update(labels)
            if place < QUICK_TRY:
                rows.early.update(labels)
        sampled = np.flatnonzero(np.isin(block.places, chosen, assume_unique=True)).tolist()
        first = range(min(shared.SHOWN - len(rows.first), len(block.places)))
        for samples, indices in ((rows.sampled, sampled), (rows.first, first)):
            samples += [
                Sample(int(table.numbers[block.places[index]]), block.inputs[index], block.answers[index])
                for index in indices
            ]
    return rows


def _gather_training(
    table: Table,
    make_reader: Callable[..., RowReader],
    blocks: Callable[[RowReader], Iterator[RowBlock]],
    data: DataOptions,
    progress: shared.Progress,
) -> tuple[RowReader, UsableRows, list[DataFinding]]:
    """Returns the usable rows, without repeated ones if these are dropped; and warnings about repeated rows."""
    total = table.rows.num_rows
    reader = make_reader(progress=lambda done: progress(done, total))
    rows, findings = gather(table, blocks(reader)), []
    repeated = rows.hashes.repeated()
    if len(repeated.same) and not data.drop_duplicates:
        findings.append(shared.of_repeats(rows.finding(checks.DUPLICATES, repeated.same), data))
    if len(repeated.other):
        findings.append(rows.finding(checks.CONTRADICTIONS, repeated.other))
    if data.drop_duplicates and len(repeated.same):
        dropped = np.asarray(rows.places)[repeated.same]
        again = blocks(make_reader())
        kept = (block.at(np.flatnonzero(~np.isin(block.places, dropped)).tolist()) for block in again)
        rows = gather(table, kept)
    return reader, rows, findings


def _row_findings(
    draft: shared.Draft, reader: RowReader, rows: UsableRows, option: str
) -> Sequence[DataFinding]:
    """Returns the findings about single rows; that no row is left is a problem of `option` if none of them says so."""
    findings = reader.tally.findings()
    if rows.places:
        return offered(findings)
    if not reader.tally.has_problems:
        draft.problems.append(shared.as_problem(option, reader.no_usable_rows()))
    return findings


# --- Texts with an answer each


def inspect_texts(options: RunOptions, stages: shared.Stages) -> DataReport:
    """Reports on the data of a task that gives texts an answer.

    Raises:
        DataError: The table can't be read at all.
    """
    kind, data = KINDS[options.task], options.data
    table = read_training(data, stages.next(0.0))
    columns = kind.guess(table, data.text_columns, data.label_column)
    draft = shared.Draft(table.notes)
    report = partial(
        draft.report,
        source=data.train,
        **shared.table_fields(table),
        text_columns=columns.text,
        label_column=columns.label,
    )
    for path, check in kind.checks:
        draft.check(path, partial(check, table, columns))
    if draft.problems:
        return report()
    used = table.first(data.max_train_samples)
    make_reader = partial(RowReader, used, columns, skip=data.skip_bad_rows)
    reader, rows, repeats = _gather_training(used, make_reader, kind.blocks, data, stages.next(0.4))
    draft.findings += _row_findings(draft, reader, rows, "data.train")
    if rows.places:
        draft.findings += repeats
        _check_answers(draft, options, columns, rows)
        draft.findings += few_rows(len(rows.places), used.row_word)
    train_rows, eval_rows, held_out = None, None, held_out_of(options)
    notes: tuple[str, ...] = ()
    if draft.is_sound:
        is_stratified = options.task is Task.TEXT_CLASSIFICATION
        sizes = (
            [rows.labels[label] for label in in_order(rows.labels)] if is_stratified else [len(rows.places)]
        )
        eval_rows = 0 if held_out else sum(held_out_counts(sizes, data.eval_fraction))
        train_rows = len(rows.places) - eval_rows
        if data.eval_fraction and not eval_rows and not held_out:
            notes = (NOTHING_HELD_OUT,)
        eval_rows = eval_rows if data.max_eval_samples is None else min(eval_rows, data.max_eval_samples)
    if held_out:
        count = _inspect_evaluation(draft, options, held_out, columns, rows)
        eval_rows = None if train_rows is None else count
    model = shared.model_tokenizer(
        options,
        lambda: [
            text
            for sample in rows.sampled
            for text in ([" ".join(sample.inputs)] if kind.has_words else sample.inputs)
        ],
    )
    lengths = _measure(rows, model, draft, stages.next(0.2), words=kind.has_words)
    draft.add_model(model)
    draft.notes += [*rows.note(), *notes]
    return report(
        used=len(rows.places),
        labels=dict(rows.labels.most_common(DataReport.MOST_LABELS)),
        first_labels=len(rows.early),
        lengths=lengths,
        seen=tuple(_seen(rows.first, model, words=kind.has_words)),
        train_rows=train_rows,
        eval_rows=eval_rows,
    )


def _check_answers(draft: shared.Draft, options: RunOptions, columns: Guess, rows: UsableRows) -> None:
    """Checks that there is something to learn in the answers."""
    table = rows.table
    fixes = (USE_ALL_SAMPLES,) if options.data.max_train_samples else ()
    if options.task is Task.TEXT_REGRESSION:
        check = partial(checks.refuse_constant, table, columns, rows.least, rows.most, fixes)
        draft.notes += checks.large_numbers(max(abs(rows.least), abs(rows.most)), columns)
    else:
        check = partial(checks.refuse_labels_of, table, columns, rows.labels, fixes)
    draft.check("data.label_column", check)
    draft.findings += check_labels(rows.labels, "word" if KINDS[options.task].has_words else "example")


def _inspect_evaluation(
    draft: shared.Draft, options: RunOptions, held_out: HeldOut, columns: Guess, train: UsableRows
) -> int | None:
    """Returns the number of rows to evaluate on, which are compared with those trained on; None if a run would stop."""
    kind = KINDS[options.task]
    try:
        table = read_evaluation(held_out)
        kind.check_eval(table, columns, held_out)
    except DataError as error:
        draft.problems.append(shared.as_problem(held_out.option, error))
        return None
    table = table.first(options.data.max_eval_samples)
    reader = RowReader(table, columns, skip=options.data.skip_bad_rows)
    blocks = kind.blocks(reader)
    rows = gather(table, reader.with_known_labels(blocks, train.labels) if train.labels else blocks)
    own = shared.Draft(table.notes)
    own.findings += shared.of_evaluation(_row_findings(own, reader, rows, held_out.option), held_out)
    in_both = rows.hashes.also_in(train.hashes)
    if len(in_both):
        own.findings.append(msgspec.structs.replace(rows.finding(checks.IN_BOTH, in_both), in_eval=True))
    draft.problems += own.problems
    draft.findings += own.findings
    draft.notes += own.notes
    return len(rows.places) if own.is_sound else None


# --- How long texts are, and how the model sees them


def _measure(
    rows: UsableRows,
    model: shared.ModelTokenizer | None,
    draft: shared.Draft,
    progress: shared.Progress,
    *,
    words: bool,
) -> Lengths | None:
    """Returns the lengths of samples, in tokens if there is a tokenizer; those that are cut off become a finding."""
    samples = rows.sampled
    if model is None:
        return shared.histogram([sum(map(len, sample.inputs)) for sample in samples], shared.CHARACTERS)
    lengths = token_lengths(samples, model.tokenizer, progress, words=words)
    cut = [sample.row for sample, length in zip(samples, lengths, strict=True) if length > model.length]
    if cut:
        kind, word = checks.TEXTS_CUT, rows.table.row_word
        detail = _("{length:,} tokens").format(length=model.length)
        if rows.table.rows.num_rows > len(samples):
            detail = _("{length:,} tokens, among {samples:,} examples whose tokens were counted").format(
                length=model.length, samples=len(samples)
            )
        message = kind.message(len(cut), word, detail)
        fixes = longer(lengths, model.length, model.usable)
        finding = msgspec.structs.replace(kind.finding(len(cut), word), fixes=fixes)
        draft.findings.append(msgspec.structs.replace(finding, message=message, rows=tuple(cut[:ROWS_NAMED])))
    return shared.histogram(lengths, shared.TOKENS, model.length)


def token_lengths(
    samples: Sequence[Sample],
    tokenizer: Any,
    progress: shared.Progress = lambda _done, _total: None,
    *,
    words: bool = False,
) -> list[int]:
    """Returns tokens of each sample before it is cut off."""
    lengths: list[int] = []
    for start in range(0, len(samples), BATCH):
        batch = samples[start : start + BATCH]
        if words:
            inputs: list[Any] = [[spaced(list(sample.inputs), tokenizer) for sample in batch]]
        else:
            inputs = [list(texts) for texts in zip(*(sample.inputs for sample in batch), strict=True)]
        encoded = tokenizer(
            *inputs,
            is_split_into_words=words,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # it would warn that they are longer than the model can see
        )
        lengths += map(len, encoded["input_ids"])
        progress(start + len(batch), len(samples))
    return lengths


def _seen(samples: Sequence[Sample], model: shared.ModelTokenizer | None, *, words: bool) -> Iterator[Seen]:
    """Yields samples with their answers; among words, the tokens with a label are trained."""
    for sample in samples:
        label = f"{sample.answer:g}" if isinstance(sample.answer, float) else str(sample.answer)
        label = _word_labels(sample) if words else label
        if model is None or (words and not model.tokenizer.is_fast):
            text = (" " if words else " | ").join(sample.inputs)
            yield Seen(row=sample.row, parts=(SeenPart(text[:LONGEST_SHOWN]),), label=label)
            continue
        row: dict[str, Any] = {"label": [list(range(len(sample.inputs))) if words else 0]}
        if words:
            row["tokens"] = [list(sample.inputs)]
        else:
            row |= {name: [text] for name, text in zip(("text", "text_pair"), sample.inputs, strict=False)}
        encoded = encode_rows(row, model.tokenizer, model.length)
        if not encoded["input_ids"]:
            continue
        ids = encoded["input_ids"][0]
        parts = [SeenPart(decoded_whole(model.tokenizer, ids))]
        if words:
            tokens = zip(ids, encoded["labels"][0], strict=True)
            parts = [
                SeenPart(
                    decoded_whole(model.tokenizer, [token for token, _label in stretch]) + " ", is_trained
                )
                for is_trained, stretch in groupby(tokens, key=lambda token: token[1] != NO_LABEL)
            ]
        is_cut = token_lengths([sample], model.tokenizer, words=words)[0] > len(ids)
        yield Seen(row=sample.row, parts=tuple(parts), tokens=len(ids), is_cut=is_cut, label=label)


def _word_labels(sample: Sample) -> str:
    from core.engine.tasks.metrics import OUTSIDE

    pairs = zip(sample.inputs, sample.answer, strict=True)
    labels = [f"{word} {label}" for word, label in pairs if label != OUTSIDE]
    shown = enumerated(labels[:LABELS_SHOWN])
    return (f"{shown}, …" if len(labels) > LABELS_SHOWN else shown) or OUTSIDE


# --- Texts to continue: files of running text, or a column of texts in a table


COUNTED_CHARACTERS = 8 << 20
"""Texts up to this length are cut into blocks as by a run, to count these."""
ESTIMATED_CHARACTERS = 1 << 20
"""How much of longer texts is tokenized to estimate the number of blocks, in well under a second."""
FEW_CHARACTERS = 1000
"""A text shorter than this teaches next to nothing."""
SHOWN_CHARACTERS = 1000
"""Characters shown of a block without a tokenizer, which would set its length."""
PER_TOKEN = 12
"""Characters; tokens are hardly ever longer."""


@dataclass(frozen=True)
class _Texts:
    """The length of all texts, the first ones, and parts of them, evenly chosen; for a table also its rows."""

    characters: int
    first: list[str]
    parts: list[str]
    rows: UsableRows | None = None


def inspect_running_text(options: RunOptions, stages: shared.Stages) -> DataReport:
    """Reports on texts to continue.

    Raises:
        DataError: They can't be read at all.
    """
    data = options.data
    source = read_running(texts_of(data.train, data.train_split), data.text_columns, stages.next(0.0))
    progress = stages.next(0.3)
    if isinstance(source, Table):
        draft, fields = shared.Draft(source.notes), shared.table_fields(source)
        make_reader = partial(reader_of, source, data)
        try:
            columns = make_reader().columns.text
            reader, rows, repeats = _gather_training(
                source, make_reader, methodcaller("texts"), data, progress
            )
        except DataError as error:
            draft.problems.append(shared.as_problem(error.option or "data.text_columns", error))
            return draft.report(source=data.train, **fields)
        fields["text_columns"] = columns
        if not columns and (shape := shape_of(source, data)):
            fields["columns_by_role"] = {role.value: name for role, name in shape.columns.items()}
            draft.notes.append(_("Each conversation is one text, in the chat template ChatML."))
        findings = reader.tally.findings()
        draft.findings += [*(offered(findings) if rows.places else findings), *repeats]
        draft.findings += few_rows(len(rows.places), source.row_word)
        draft.notes += rows.note()
        first, parts = ([sample.inputs[0] for sample in samples] for samples in (rows.first, rows.sampled))
        texts = _Texts(rows.characters, first, parts, rows)
    else:
        texts = _Texts(
            sum(map(len, source.texts)), list(source.texts[: shared.SHOWN]), _stretches(source.texts)
        )
        count = len(source.texts)
        length = ngettext(
            "{count:,} text of {characters:,} characters",
            "{count:,} texts of {characters:,} characters",
            count,
        ).format(count=count, characters=texts.characters)
        draft = shared.Draft([ReadingNote(paragraph(length)), *source.notes])
        fields = {"format": "text", "rows": count, "reading": dict(source.reading)}
        if texts.characters < FEW_CHARACTERS:
            kind = checks.LITTLE_TEXT
            finding = msgspec.structs.replace(kind.finding(1), message=kind.message(1, detail=length))
            draft.findings.append(finding)
    fields |= _count_blocks(options, draft, texts, stages.next(0.3))
    return draft.report(source=data.train, **fields)


def _stretches(texts: Sequence[str], count: int = 64) -> list[str]:
    """Returns parts of texts, evenly spread over all of them."""
    size = ESTIMATED_CHARACTERS // count
    places = [(text, start) for text in texts for start in range(0, len(text), size)]
    return [text[start : start + size] for text, start in places[:: max(1, len(places) // count)]]


def _count_blocks(
    options: RunOptions, draft: shared.Draft, texts: _Texts, progress: shared.Progress
) -> dict[str, Any]:
    """Returns the report's lengths, first blocks, and numbers of blocks, which are estimated for long texts."""
    data, fields, text = options.data, dict[str, Any](), None
    held_out, is_long = held_out_of(options), texts.characters > COUNTED_CHARACTERS
    if not is_long:
        try:
            text = load_running_text(options)
            draft.add_notes(text.notes)
        except DataError as error:
            draft.problems.append(shared.as_problem(held_out.option if held_out else "data.train", error))
    model = shared.model_tokenizer(options, lambda: all_pieces(text.train) if text else texts.parts)
    if texts.rows and model:
        fields["lengths"] = shared.histogram(
            token_lengths(texts.rows.sampled, model.tokenizer, progress), shared.TOKENS
        )
    elif texts.rows:
        fields["lengths"] = shared.histogram(
            [len(sample.inputs[0]) for sample in texts.rows.sampled], shared.CHARACTERS
        )
    if model is None:
        shown = islice(
            (piece for one in texts.first for piece in pieces(one, SHOWN_CHARACTERS)), shared.SHOWN
        )
        fields["seen"] = tuple(
            Seen(row=row, parts=(SeenPart(piece, trained=True),)) for row, piece in enumerate(shown, 1)
        )
        return fields
    blocks = make_blocks(text.train, model.tokenizer, model.length) if text else None
    if text and blocks:
        draft.add_model(model)
        other = make_blocks(text.eval, model.tokenizer, model.length) if text.eval else None
        if text.eval and not other:
            draft.notes.append(NOTHING_HELD_OUT)
        fields |= _row_counts(data, len(blocks.rows), len(other.rows) if other else 0)
    elif text:
        draft.problems.append(shared.as_problem("data.train", too_short(data.train)))
    elif is_long:
        count = _estimated_blocks(texts, model)
        of_eval = 0.0 if held_out else count * data.eval_fraction
        fields |= _row_counts(data, max(1, int(count - of_eval)), None if held_out else int(of_eval))
        about = _(
            "About {count:,} blocks to train on, estimated from a part of the text: the run counts them."
        )
        draft.notes.append(about.format(count=fields["train_rows"]))
        draft.add_model(model)
    if blocks is None:
        size = shared.SHOWN * model.length * PER_TOKEN // max(1, len(texts.first))
        blocks = make_blocks([text[:size] for text in texts.first], model.tokenizer, model.length)
    first = [row[TOKENS].tolist() for row in islice(blocks.rows, shared.SHOWN)] if blocks else []
    fields["seen"] = tuple(
        Seen(row=row, parts=(SeenPart(decoded_whole(model.tokenizer, ids), trained=True),), tokens=len(ids))
        for row, ids in enumerate(first, 1)
    )
    return fields


def _row_counts(data: DataOptions, train: int, held_out: int | None) -> dict[str, int | None]:
    """Returns the counts within the limits of the options."""
    limits = {"train_rows": (train, data.max_train_samples), "eval_rows": (held_out, data.max_eval_samples)}
    return {
        name: count if limit is None or count is None else min(count, limit)
        for name, (count, limit) in limits.items()
    }


def _estimated_blocks(texts: _Texts, model: shared.ModelTokenizer) -> float:
    """Estimates how many blocks a long text makes, from some of it."""
    parts = texts.parts[:: max(1, sum(map(len, texts.parts)) // ESTIMATED_CHARACTERS)]
    tokens = sum(token_lengths([Sample(0, (text,)) for text in parts], model.tokenizer))
    return texts.characters * tokens / max(1, sum(map(len, parts))) / model.length
