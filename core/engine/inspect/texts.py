"""Texts with an answer each (a label, a number, a label for each word), and texts to continue."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import Any

import msgspec
import numpy as np

from core.base.errors import DataError
from core.base.language import _
from core.engine.data import NO_LABEL, TOKENS, checks
from core.engine.data.checks import Prints64, few_rows, offered, similar, told_of
from core.engine.data.columns import Guess
from core.engine.data.labelled_texts import KINDS, Block, RowReader, read_evaluation
from core.engine.data.running_text import (
    NOTHING_HELD_OUT as TEXT_TOO_SHORT,
)
from core.engine.data.running_text import (
    all_pieces,
    load_running_text,
    make_blocks,
    pieces,
    read_running,
    text_column,
    too_short,
)
from core.engine.data.splits import (
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    HeldOut,
    held_out_count,
    held_out_of,
    in_order,
    refuse_single,
    texts_of,
)
from core.engine.data.tables import Table, read_training
from core.engine.inspect import report as shared
from core.engine.inspect.report import (
    CHARACTERS,
    MOST_LABELS_SHOWN,
    SHOWN,
    AtHand,
    Draft,
    Stages,
    Tell,
    about_table,
    as_problem,
    evenly_chosen,
    histogram,
    of_evaluation,
    of_repeats,
    tokenizer_at_hand,
)
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.services.inspect import ROWS_NAMED, DataReport, Finding, FindingKind, Lengths, Seen, SeenPart

UNIT = shared.TOKENS
TOGETHER = 500
LONGEST_SHOWN = 4000
"""Characters of a sample where no tokenizer cuts it off."""
LABELS_SHOWN = 12


# --- One pass over the rows of a table: counts of labels, what repeats, some rows to show


@dataclass(frozen=True)
class Sample:
    """A usable row: its number in the file, what the model reads of it, and the answer."""

    row: int
    inputs: tuple[str, ...]
    answer: Any = None


@dataclass
class Gathered:
    """The usable rows of a table, of each of which 16 bytes are kept; the first ones and some of all as samples.

    `labels` counts them; of words, each word counts. `least` and `most` are the ends of the numbers to learn.
    """

    table: Table
    labels: Counter[str] = field(default_factory=Counter)
    prints: Prints64 = field(default_factory=Prints64)
    first: list[Sample] = field(default_factory=list)
    evenly: list[Sample] = field(default_factory=list)
    characters: int = 0
    least: float = float("inf")
    most: float = float("-inf")
    places: "array[int]" = field(default_factory=lambda: array("I"))

    @property
    def usable(self) -> int:
        """How many rows there are."""
        return len(self.places)

    def finding(self, kind: FindingKind, places: Any) -> Finding:
        """A finding about the usable rows at these places."""
        rows = tuple(int(self.table.numbers[self.places[place]]) for place in places[:ROWS_NAMED])
        return msgspec.structs.replace(kind.finding(len(places), self.table.row_word), rows=rows)

    def repeats(self, data: DataOptions) -> Iterator[Finding]:
        """Warnings of rows that have the text of an earlier one."""
        repeated = self.prints.repeated()
        if len(repeated.same):
            yield of_repeats(self.finding(checks.DUPLICATES, repeated.same), data)
        if len(repeated.other):
            yield self.finding(checks.CONTRADICTIONS, repeated.other)


def gather(table: Table, blocks: Iterable[Block]) -> Gathered:
    """Go through all blocks of usable rows."""
    found, chosen = Gathered(table), evenly_chosen(table.rows.num_rows)

    def sample(block: Block, index: int) -> Sample:
        return Sample(int(table.numbers[block.places[index]]), block.inputs[index], block.answers[index])

    for block in blocks:
        found.places.extend(block.places)
        found.characters += sum(len(text) for texts in block.inputs for text in texts)
        found.prints.add(block.inputs, block.answers)
        for answer in block.answers:
            if isinstance(answer, float):
                found.least, found.most = min(found.least, answer), max(found.most, answer)
            else:
                found.labels.update((answer,) if isinstance(answer, str) else answer)
        wanted = np.flatnonzero(np.isin(block.places, chosen, assume_unique=True)).tolist()
        found.evenly += [sample(block, index) for index in wanted]
        room = min(SHOWN - len(found.first), len(block.places))
        found.first += [sample(block, index) for index in range(room)]
    return found


def _gather_rows(
    table: Table,
    columns: Guess,
    blocks: Callable[[RowReader], Iterator[Block]],
    data: DataOptions,
    tell: Tell,
) -> tuple[RowReader, Gathered, list[Finding]]:
    """The usable rows, without repeated ones where these are dropped; and the warnings of repeated rows."""
    reader = RowReader(
        table, columns, skip=data.skip_bad_rows, progress=lambda rows: tell(rows, table.rows.num_rows)
    )
    found = gather(table, blocks(reader))
    repeats = list(found.repeats(data))
    same = found.prints.repeated().same
    if data.drop_duplicates and len(same):
        dropped = np.asarray(found.places)[same]
        again = blocks(RowReader(table, columns, skip=data.skip_bad_rows))
        kept = (block.at(np.flatnonzero(~np.isin(block.places, dropped)).tolist()) for block in again)
        found = gather(table, kept)
    return reader, found, repeats


def _add_reader(draft: Draft, reader: RowReader, found: Gathered, path: str) -> Sequence[Finding]:
    """The findings of single rows; that no row is left is a problem where none of them tells."""
    findings = reader.tally.findings()
    if found.usable:
        return offered(findings)
    if not reader.tally.has_problems:
        draft.problems.append(as_problem(path, reader.no_usable_rows()))
    return findings


# --- Texts with an answer each


def inspect_texts(options: RunOptions, stages: Stages) -> DataReport:
    """Report on the data of a task that gives texts an answer.

    Raises:
        DataError: The table can't be read at all.
    """
    kind, data, task = KINDS[options.task], options.data, options.task
    table = read_training(data, stages.next(0.0))
    columns = kind.guess(table, data.text_columns, data.label_column)
    draft = Draft(table.notes)
    report = partial(
        draft.report,
        source=data.train,
        **about_table(table),
        text_columns=columns.text,
        label_column=columns.label,
    )
    for path, check in kind.checks:
        draft.check(path, partial(check, table, columns))
    if draft.problems:
        return report()
    used = table.first(data.max_train_samples)
    reader, found, repeats = _gather_rows(used, columns, kind.blocks, data, stages.next(0.4))
    draft.findings += _add_reader(draft, reader, found, "data.train")
    if found.usable:
        draft.findings += repeats
        _check_answers(draft, options, columns, found)
        draft.findings += few_rows(found.usable, used.row_word)
    train_rows: int | None = None
    eval_rows: int | None = None
    notes: tuple[str, ...] = ()
    if draft.is_sound:
        sizes = [found.usable]
        if task is Task.TEXT_CLASSIFICATION:
            sizes = [found.labels[label] for label in in_order(found.labels)]
        held_out = 0 if held_out_of(data) else held_out_count(sizes, data.eval_fraction)
        train_rows = found.usable - held_out
        eval_rows = held_out if data.max_eval_samples is None else min(held_out, data.max_eval_samples)
        notes = (NOTHING_HELD_OUT,) if data.eval_fraction and not held_out else ()
    if apart := held_out_of(data):
        notes = ()
        rows = _inspect_evaluation(draft, options, apart, columns, found)
        eval_rows = None if train_rows is None else rows
    words = kind.has_words
    at_hand = tokenizer_at_hand(
        options,
        lambda: [
            text
            for sample in found.evenly
            for text in ([" ".join(sample.inputs)] if words else sample.inputs)
        ],
    )
    lengths = _measured(found, at_hand, draft, stages.next(0.2), words=words)
    draft.notes += [*(at_hand.notes if at_hand else ()), *_sampled(found), *notes]
    return report(
        labels=dict(found.labels.most_common(MOST_LABELS_SHOWN)),
        lengths=lengths,
        seen=tuple(_seen(found.first, at_hand, words=words)),
        train_rows=train_rows,
        eval_rows=eval_rows,
    )


def _check_answers(draft: Draft, options: RunOptions, columns: Guess, found: Gathered) -> None:
    """Whether there is something to learn in the answers."""
    table, kind = found.table, KINDS[options.task]
    fixes = (USE_ALL_SAMPLES,) if options.data.max_train_samples else ()
    if options.task is Task.TEXT_REGRESSION:
        check = partial(checks.refuse_constant, table, columns, found.least, found.most, fixes)
        draft.notes += checks.large_numbers(max(abs(found.least), abs(found.most)), columns)
    else:
        where = _("Column “{label}” of {name}").format(label=columns.label, name=table.path.name)
        check = partial(refuse_single, in_order(found.labels), where, fixes)
    draft.check("data.label_column", check)
    draft.findings += similar(found.labels)
    draft.findings += told_of(found.labels, "word" if kind.has_words else table.row_word)


def _inspect_evaluation(
    draft: Draft, options: RunOptions, apart: HeldOut, columns: Guess, train: Gathered
) -> int | None:
    """The number of rows to evaluate on, None where a run would stop; they are compared with those trained on."""
    kind = KINDS[options.task]
    try:
        table = read_evaluation(apart)
        kind.check_eval(table, columns, apart.instead)
    except DataError as error:
        draft.problems.append(as_problem(apart.option, error))
        return None
    table = table.first(options.data.max_eval_samples)
    reader = RowReader(table, columns, skip=options.data.skip_bad_rows)
    blocks = kind.blocks(reader)
    found = gather(table, reader.with_known_labels(blocks, train.labels) if train.labels else blocks)
    own = Draft(table.notes)
    own.findings += of_evaluation(_add_reader(own, reader, found, apart.option), apart)
    also = found.prints.also_in(train.prints)
    if len(also):
        own.findings.append(msgspec.structs.replace(found.finding(checks.IN_BOTH, also), in_eval=True))
    draft.problems += own.problems
    draft.findings += own.findings
    draft.notes += own.notes
    return found.usable if own.is_sound else None


# --- How long texts are, and how the model sees them


def _measured(
    found: Gathered, at_hand: AtHand | None, draft: Draft, tell: Tell, *, words: bool
) -> Lengths | None:
    """How long samples are, in tokens where a tokenizer is at hand; those that are cut off are a finding."""
    samples = found.evenly
    if at_hand is None:
        return histogram([sum(map(len, sample.inputs)) for sample in samples], CHARACTERS)
    lengths = token_lengths(samples, at_hand.tokenizer, tell, words=words)
    cut = [sample.row for sample, length in zip(samples, lengths, strict=True) if length > at_hand.length]
    if cut:
        kind, count, word = checks.TEXTS_CUT, len(cut), found.table.row_word
        detail = f"{at_hand.length:,} tokens"
        if found.table.rows.num_rows > len(samples):
            detail = _("{detail}, out of {samples:,} looked at").format(detail=detail, samples=len(samples))
        finding = kind.finding(count, word)
        message = kind.message(count, word, detail)
        draft.findings.append(msgspec.structs.replace(finding, message=message, rows=tuple(cut[:ROWS_NAMED])))
    return histogram(lengths, UNIT, at_hand.length)


def _sampled(found: Gathered) -> Iterator[str]:
    """Says of how many rows lengths are, where not of all."""
    if found.table.rows.num_rows > shared.MOST_SAMPLED:
        yield _("Lengths are those of {evenly:,} rows, evenly chosen out of {usable:,}.").format(
            evenly=len(found.evenly), usable=found.usable
        )


def token_lengths(samples: Sequence[Sample], tokenizer: Any, tell: Tell, *, words: bool = False) -> list[int]:
    """Tokens of each sample, whole; `tell` hears how many samples are done."""
    from core.engine.data.labelled_texts import spaced

    lengths: list[int] = []
    for start in range(0, len(samples), TOGETHER):
        some = samples[start : start + TOGETHER]
        if words:
            inputs: list[Any] = [[spaced(list(sample.inputs), tokenizer) for sample in some]]
        else:
            inputs = [list(texts) for texts in zip(*(sample.inputs for sample in some), strict=True)]
        found = tokenizer(
            *inputs,
            is_split_into_words=words,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # it would warn that they are longer than the model can see
        )
        lengths += map(len, found["input_ids"])
        tell(start + len(some), len(samples))
    return lengths


def _seen(samples: Sequence[Sample], at_hand: AtHand | None, *, words: bool) -> Iterator[Seen]:
    """Texts with the answer that is to be given; of words the tokens that carry a label are those that are learned."""
    for sample in samples:
        label = f"{sample.answer:g}" if isinstance(sample.answer, float) else str(sample.answer)
        label = _labels(sample) if words else label
        if at_hand is None or (words and not at_hand.tokenizer.is_fast):
            text = (" " if words else " | ").join(sample.inputs)
            yield Seen(row=sample.row, parts=(SeenPart(text[:LONGEST_SHOWN]),), label=label)
            continue
        from core.engine.data.labelled_texts import encode_rows

        texts: dict[str, Any] = dict(zip(("text", "text_pair"), sample.inputs, strict=False))
        row = {name: [value] for name, value in ({"tokens": list(sample.inputs)} if words else texts).items()}
        row["label"] = [list(range(len(sample.inputs))) if words else 0]
        encoded = encode_rows(row, at_hand.tokenizer, at_hand.length)
        if not encoded["input_ids"]:
            continue
        ids = encoded["input_ids"][0]
        parts: tuple[SeenPart, ...] = (SeenPart(at_hand.decode(ids)),)
        if words:
            tokens = zip(ids, encoded["labels"][0], strict=True)
            parts = tuple(
                SeenPart(at_hand.decode([token for token, _rest in stretch]) + " ", is_learned)
                for is_learned, stretch in groupby(tokens, key=lambda token: token[1] != NO_LABEL)
            )
        whole = token_lengths([sample], at_hand.tokenizer, lambda _done, _all: None, words=words)[0]
        yield Seen(row=sample.row, parts=parts, tokens=len(ids), is_cut=whole > len(ids), label=label)


def _labels(sample: Sample) -> str:
    from core.engine.tasks.metrics import OUTSIDE

    pairs = zip(sample.inputs, sample.answer, strict=True)
    named = [f"{word} {label}" for word, label in pairs if label != OUTSIDE]
    more = _(" and {named} more").format(named=len(named) - LABELS_SHOWN) if len(named) > LABELS_SHOWN else ""
    return f"{', '.join(islice(named, LABELS_SHOWN))}{more}" if named else OUTSIDE


# --- Texts to continue: files of running text, or a column of texts in a table


COUNTED_CHARACTERS = 8 << 20
"""Texts up to this length are cut into blocks as a run cuts them, so that their number is known."""
ESTIMATED_CHARACTERS = 1 << 20
"""Of longer ones so much is tokenized to estimate it; a tokenizer is through with that in well under a second."""
FEW_CHARACTERS = 1000
"""Of a text shorter than this next to nothing can be learned."""
SHOWN_CHARACTERS = 1000
"""Of a block, where no tokenizer says how long it is."""
PER_TOKEN = 12
"""Characters that a token hardly ever has more of."""


@dataclass(frozen=True)
class _Texts:
    """What is read: how long it is, its first texts, and some of it, evenly chosen; of a table its rows, too."""

    characters: int
    first: list[str]
    some: list[str]
    rows: Gathered | None = None


def inspect_running_text(options: RunOptions, stages: Stages) -> DataReport:
    """Report on texts to continue.

    Raises:
        DataError: They can't be read at all.
    """
    data = options.data
    source = read_running(texts_of(data.train, data.train_split), data.text_columns, stages.next(0.0))
    tell = stages.next(0.3)
    if isinstance(source, Table):
        draft, fields = Draft(source.notes), about_table(source)
        try:
            name = text_column(source, data.text_columns)
        except DataError as error:
            draft.problems.append(as_problem("data.text_columns", error))
            return draft.report(source=data.train, **fields)
        fields["text_columns"] = (name,)
        reader, found, repeats = _gather_rows(source, Guess((name,), None), RowReader.texts, data, tell)
        findings = reader.tally.findings()
        draft.findings += [*(offered(findings) if found.usable else findings), *repeats]
        draft.findings += few_rows(found.usable, source.row_word)
        draft.notes += _sampled(found)
        first, some = ([row.inputs[0] for row in rows] for rows in (found.first, found.evenly))
        texts = _Texts(found.characters, first, some, found)
    else:
        contents = source.texts
        texts = _Texts(sum(map(len, contents)), list(contents[:SHOWN]), _stretches(contents))
        count = "1 text" if len(contents) == 1 else f"{len(contents):,} texts"
        draft = Draft(
            [
                _("{count} of {characters:,} characters.").format(count=count, characters=texts.characters),
                *source.notes,
            ]
        )
        fields = {"format": "text", "rows": len(contents), "reading": dict(source.reading)}
        if texts.characters < FEW_CHARACTERS:
            length = "1 character" if texts.characters == 1 else f"{texts.characters:,} characters"
            message = checks.LITTLE_TEXT.message(
                1, detail=_("The text is {length} long").format(length=length)
            )
            draft.findings.append(msgspec.structs.replace(checks.LITTLE_TEXT.finding(1), message=message))
    fields |= _counted(options, draft, texts, stages.next(0.3))
    return draft.report(source=data.train, **fields)


def _stretches(texts: Sequence[str], count: int = 64) -> list[str]:
    """Parts of texts, evenly spread over all of them."""
    size = ESTIMATED_CHARACTERS // count
    places = [(text, start) for text in texts for start in range(0, len(text), size)]
    return [text[start : start + size] for text, start in places[:: max(1, len(places) // count)]]


def _counted(options: RunOptions, draft: Draft, texts: _Texts, tell: Tell) -> dict[str, Any]:
    """Lengths, the first blocks, and the rows a run would count; of long texts about."""
    data, found, text = options.data, dict[str, Any](), None
    apart, is_long = held_out_of(data), texts.characters > COUNTED_CHARACTERS
    if not is_long:
        try:
            text = load_running_text(options)
            draft.add_notes(text.notes)
        except DataError as error:
            draft.problems.append(as_problem(apart.option if apart else "data.train", error))
    at_hand = tokenizer_at_hand(options, lambda: all_pieces(text.train) if text else texts.some)
    if texts.rows and at_hand:
        found["lengths"] = histogram(token_lengths(texts.rows.evenly, at_hand.tokenizer, tell), UNIT)
    elif texts.rows:
        found["lengths"] = histogram([len(row.inputs[0]) for row in texts.rows.evenly], CHARACTERS)
    if at_hand is None:
        shown = islice((piece for one in texts.first for piece in pieces(one, SHOWN_CHARACTERS)), SHOWN)
        parts = [(SeenPart(piece, trained=True),) for piece in shown]
        return {**found, "seen": tuple(Seen(row=row, parts=part) for row, part in enumerate(parts, 1))}
    train = make_blocks(text.train, at_hand.tokenizer, at_hand.length) if text else None
    if text and train:
        draft.notes += at_hand.notes
        held_out = make_blocks(text.eval, at_hand.tokenizer, at_hand.length) if text.eval else None
        if text.eval and not held_out:
            draft.notes.append(TEXT_TOO_SHORT)
        counts = len(train.rows), len(held_out.rows) if held_out else 0
        found |= _row_counts(data, *counts)
    elif text:
        draft.problems.append(as_problem("data.train", too_short(data.train)))
    elif is_long:
        rows = _estimated_rows(texts, at_hand)
        held = 0.0 if apart else rows * data.eval_fraction
        found |= _row_counts(data, max(1, int(rows - held)), None if apart else int(held))
        about = _(
            "About {found:,} rows to train on, judged by a part of the text: the run counts them."
        ).format(found=found["train_rows"])
        draft.notes += [about, *at_hand.notes]
    if train is None:
        size = SHOWN * at_hand.length * PER_TOKEN // max(1, len(texts.first))
        train = make_blocks([text[:size] for text in texts.first], at_hand.tokenizer, at_hand.length)
    ids = [row[TOKENS].tolist() for row in islice(train.rows, SHOWN)] if train else []
    found["seen"] = tuple(
        Seen(row=row, parts=(SeenPart(at_hand.decode(some), trained=True),), tokens=len(some))
        for row, some in enumerate(ids, 1)
    )
    return found


def _row_counts(data: DataOptions, train: int, held_out: int | None) -> dict[str, int | None]:
    """As many as are asked for at most."""
    limits = {"train_rows": (train, data.max_train_samples), "eval_rows": (held_out, data.max_eval_samples)}
    return {
        name: count if limit is None or count is None else min(count, limit)
        for name, (count, limit) in limits.items()
    }


def _estimated_rows(texts: _Texts, at_hand: AtHand) -> float:
    """About how many rows of tokens a long text makes, by some of it."""
    part = texts.some[:: max(1, sum(map(len, texts.some)) // ESTIMATED_CHARACTERS)]
    samples = [Sample(row, (text,)) for row, text in enumerate(part)]
    tokens = sum(token_lengths(samples, at_hand.tokenizer, lambda _done, _all: None))
    return texts.characters * tokens / max(1, sum(map(len, part))) / at_hand.length
