"""Answer "what is in this data, and what becomes of it?" for every task, with the functions its run uses."""

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from core.base.errors import DataError, Fix, Problem
from core.engine.data import checks
from core.engine.data.checks import DROP_REPEATS, Prints64, few_rows, offered, similar, told_of
from core.engine.data.columns import (
    PREVIEW_ROWS,
    Guess,
    as_text,
    describe,
    first_rows,
    guess_columns,
    guess_score_columns,
    guess_tag_columns,
    holds_bytes,
    holds_numbers,
    is_list,
    share_of_paths,
)
from core.engine.data.conversations import Shape, ShapeKind, find_shape
from core.engine.data.delimited import NOT_CLOSED
from core.engine.data.labelled_texts import KINDS, Block, RowReader, TextKind, read_evaluation
from core.engine.data.running_text import is_plain_text
from core.engine.data.splits import (
    NOTHING_HELD_OUT,
    USE_ALL_SAMPLES,
    HeldOut,
    files_of,
    held_out_count,
    held_out_of,
    refuse_single,
    splits_of,
    texts_of,
)
from core.engine.data.splits import in_order as labels_in_order
from core.engine.data.tables import Table, open_parquet, read_files, read_training
from core.engine.data.text_files import ENDINGS, ending, first_bytes, is_parquet, size_of
from core.engine.data.text_files import Tell as TellBytes
from core.engine.inspect.preview import AtHand, Sample, measure, see_texts, see_words, tokenizer_at_hand
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.presets import find_task
from core.options.sources import Scheme, parse_synthetic, scheme_of
from core.services.inspect import (
    ROWS_NAMED,
    Column,
    ColumnKind,
    DataReport,
    Finding,
    FindingKind,
    FindingLevel,
    Lengths,
    Seen,
    Tally,
    in_order,
)

TO_EVALUATE = ("validation", "test")
"""Splits that are made to evaluate on; of a test set the answers are sometimes kept back."""
READING = 0.4
"""The share of a look that reading the file takes."""
MOST_SAMPLED = 20_000
SHOWN = 20
MOST_LABELS_SHOWN = 200


# --- How far a look at the data is: a share over its stages, told a few times a second


TELL_SECONDS = 0.1
WHOLE = 1000
"""What all stages come to."""

Tell = Callable[[int, int], None]


class Stages:
    """Puts the progress of stages, one after the other, together.

    Args:
        tell: Hears what is done, of `WHOLE`.
        clock: Tells the time, in seconds.
    """

    def __init__(self, tell: Tell | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._told = -TELL_SECONDS
        self._start = self._end = 0.0

    @contextmanager
    def stage(self, share: float) -> Iterator[Tell]:
        """One stage, which takes about so much of the whole: hears what is done of it, and of how much."""
        self._start, self._end = self._end, min(1.0, self._end + share)
        yield self._hear
        self._hear(1, 1)

    def _hear(self, done: int, total: int) -> None:
        now = self._clock()
        if self._tell is None or now - self._told < TELL_SECONDS:
            return
        self._told = now
        part = min(1.0, done / total) if total else 1.0
        self._tell(round(WHOLE * (self._start + part * (self._end - self._start))), WHOLE)


# --- The answer for every task


def inspect(options: RunOptions, tell: Tell | None = None, *, any_task: bool = False) -> DataReport:
    """Look into the training data of `options`, and into what it is evaluated on.

    Args:
        options: What is asked; of the model only what shows what it will see is needed.
        tell: Hears how far it is: what is done, and of how much.
        any_task: Answer for the task that the data suits, rather than for the one of `options`.

    Raises:
        DataError: The source can't be read at all. What is wrong with its columns or rows is in the answer.
    """
    stages = Stages(tell)
    suited = Suited(None)  # it is held until the end: its table isn't read a second time
    try:
        with stages.stage(READING) as tell_stage:
            suited = find_suiting_task(options.data, tell_stage)
    except DataError:
        if any_task:
            raise
    task = suited.task if any_task and suited.task else options.task
    try:
        report = _look(msgspec.structs.replace(options, task=task), stages)
    except DataError as error:
        if suited.task is None or suited.task is task:
            raise
        change = Fix(f"Change to “{suited.task.label}”", {"task": suited.task.value})
        raise DataError(error.title, error.detail, (change, *error.fixes)) from error
    splits = report.splits or _splits(options)
    findings = (*report.findings, *_unused(splits, options.data))
    return msgspec.structs.replace(report, suits=suited.task, splits=splits, findings=findings)


def _look(options: RunOptions, stages: Stages) -> DataReport:
    """Look into data for a task; only its libraries are loaded."""
    task, made_up = options.task, parse_synthetic(options.data.train)
    if task.reads_images:
        from core.engine.inspect.images import inspect_images

        with stages.stage(1.0) as tell:
            return inspect_images(options, tell)
    if made_up:
        return DataReport(
            source=options.data.train, format="synthetic", rows=made_up[0], train_rows=made_up[0]
        )
    if task.reads_conversations:
        from core.engine.inspect.conversations import inspect_conversations

        return inspect_conversations(options, stages)
    if task is Task.CAUSAL_LM:
        from core.engine.inspect.running_text import inspect_running_text

        return inspect_running_text(options, stages)
    return inspect_texts(options, stages)


def _unused(splits: tuple[str, ...], data: DataOptions) -> Iterator[Finding]:
    """A warning of a split to evaluate on that isn't asked for."""
    unused = [name for name in TO_EVALUATE if name in splits and name != data.train_split]
    if unused and not data.eval and not data.eval_split:
        kept = (
            "A share of the training data is held out instead."
            if data.eval_fraction
            else "Nothing is evaluated."
        )
        yield Finding(
            code="unused-split",
            level=FindingLevel.WARNING,
            message=f"The split “{unused[0]}” isn't used. {kept}",
            count=1,
            fixes=(Fix(f"Evaluate on “{unused[0]}”", {"data.eval_split": unused[0]}),),
        )


def _splits(options: RunOptions) -> tuple[str, ...]:
    try:
        found = splits_of(options.data.train)
    except DataError:
        return ()
    return found if len(found) > 1 else ()


# --- Which task data is for, judged by what its columns hold; a person may well want another


FEW_ANSWERS = 20
"""So many different answers are labels rather than something to say."""
FEW_NUMBERS = 20
"""So many different numbers are labels rather than something to estimate."""
IMAGES_SHARE = 0.5
LOOKED_AT = 50
IDX = b"\x00\x00\x08"
"""What files of the kind MNIST comes in begin with: two zeros, and the type of bytes."""


@dataclass(frozen=True)
class Suited:
    """The task that data is most likely for, None where nothing tells; and the table, where it was read for that."""

    task: Task | None
    table: Table | None = None


def find_suiting_task(data: DataOptions, progress: TellBytes | None = None) -> Suited:
    """The task that training data is most likely for.

    Raises:
        DataError: It can't be read.
    """
    source = data.train
    if scheme_of(source) not in (None, Scheme.HUB):
        return Suited(find_task(source))
    path = Path(source)
    if scheme_of(source) is None and path.is_dir():
        inside = (find_task(str(file)) for file in islice(path.iterdir(), LOOKED_AT) if file.is_file())
        if Task.IMAGE_CLASSIFICATION in (find_task(source), *inside):
            return Suited(Task.IMAGE_CLASSIFICATION)
        if texts_of(source, data.train_split) == (path,):
            return Suited(Task.CAUSAL_LM if is_plain_text(path) else None)
    files = files_of(source, data.train_split)
    if _holds_images(files[0]):
        return Suited(Task.IMAGE_CLASSIFICATION)
    if ending(files[0]) not in ENDINGS and is_plain_text(files[0]):
        return Suited(Task.CAUSAL_LM)
    table = read_files(files, progress)
    return Suited(suiting_table(table), table)


def _holds_images(path: Path) -> bool:
    """Whether a file is an image, or images are in it: IDX, or Parquet with bytes."""
    size_of(path)
    start = first_bytes(path)
    if start.startswith(IDX) or find_task(str(path)) is Task.IMAGE_CLASSIFICATION:
        return True
    return is_parquet(path, start) and any(
        holds_bytes(kind) for kind in open_parquet(path).schema_arrow.types
    )


def suiting_table(table: Table) -> Task | None:
    """The task that a table is most likely for."""
    columns = describe(table)
    if _shape(table, preference=True):
        return Task.PREFERENCE
    if _has_words(table):
        return Task.TOKEN_CLASSIFICATION
    shape = _shape(table, preference=False)
    if shape is not None and _is_said(shape, columns):
        return Task.CHAT
    if any(share_of_paths(table, column.name) > IMAGES_SHARE for column in columns):
        return Task.IMAGE_CLASSIFICATION
    return _of_texts(table, columns)


def _shape(table: Table, *, preference: bool) -> Shape | None:
    try:
        return find_shape(table, preference=preference)
    except DataError:
        return None


def _is_said(shape: Shape, columns: tuple[Column, ...]) -> bool:
    """Whether the answers are something to say, and not a few labels."""
    if shape.kind is ShapeKind.TEXT:
        return False
    if shape.kind is not ShapeKind.PROMPT:
        return True
    answers = next(column for column in columns if column.name == list(shape.columns.values())[1])
    return answers.kind is ColumnKind.TEXT and answers.distinct > FEW_ANSWERS


def _has_words(table: Table) -> bool:
    """Whether there are lists of words and of as many tags."""
    found = guess_tag_columns(table)
    if not found.text or found.label is None:
        return False
    for name in (found.text[0], found.label):
        is_written = all(text.strip().startswith("[") for text in _some(table, name))
        if not is_list(table.rows.schema.field(name).type) and not is_written:
            return False
    return True


def _some(table: Table, name: str) -> list[str]:
    texts = as_text(table.first(LOOKED_AT).rows[name]).to_pylist()
    return list(islice((text for text in texts if text), LOOKED_AT))


def _of_texts(table: Table, columns: tuple[Column, ...]) -> Task | None:
    kinds = {column.name: column for column in columns}
    scored, guess = guess_score_columns(table), guess_columns(table)
    if not guess.text:
        return None
    number, label = kinds.get(scored.label or ""), kinds.get(guess.label or "")
    has_number = number is not None and (
        number.kind is ColumnKind.NUMBER or holds_numbers(table, number.name)
    )
    if number is not None and has_number and scored.label == guess.label and _is_estimated(number):
        return Task.TEXT_REGRESSION
    if label is not None:
        return Task.TEXT_CLASSIFICATION
    return Task.TEXT_REGRESSION if has_number else Task.CAUSAL_LM


def _is_estimated(column: Column) -> bool:
    """Whether numbers are something to estimate: they have decimals, or there are many of them."""
    return column.distinct > FEW_NUMBERS or any("." in example for example in column.examples)


# --- What a look at any table tells: its columns, its first rows, how it was read


def about_table(table: Table) -> dict[str, Any]:
    """The fields of a report that a table has, whatever it is for."""
    return {
        "format": table.format,
        "rows": table.rows.num_rows,
        "reading": dict(table.reading),
        "columns": describe(table),
        "preview": first_rows(table),
        "preview_rows": tuple(int(number) for number in table.numbers[:PREVIEW_ROWS]),
    }


def note_findings(notes: Iterable[str]) -> Iterator[Finding]:
    """A warning for each note that tells of another encoding than UTF-8, of damaged letters or of lines left out."""
    for note in notes:
        if kind := _warned(note):
            yield Finding(code=kind.code, level=kind.level, message=note, count=1)


def other_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """The notes that no finding tells."""
    return tuple(note for note in notes if not _warned(note))


def _warned(note: str) -> FindingKind | None:
    if "UTF-" in note:  # of all notes on files only these name one
        return checks.OTHER_ENCODING
    return checks.LINES_LEFT_OUT if " left out of " in note or NOT_CLOSED in note else None


def problem_of(path: str, check: Callable[[], object]) -> list[Problem]:
    """What a check of a run would stop on, as a problem of the option at `path`."""
    try:
        check()
    except DataError as error:
        return [as_problem(path, error)]
    return []


def as_problem(path: str, error: DataError) -> Problem:
    """An error as a problem of the option at `path`."""
    return Problem(path, f"{error.title}. {error.detail}", error.fixes)


def of_evaluation(findings: Iterable[Finding], apart: HeldOut) -> list[Finding]:
    """Findings about rows of the evaluation data, which say so."""
    return [
        msgspec.structs.replace(
            finding,
            message=f"Evaluation data: {finding.message}",
            fixes=(*finding.fixes, apart.instead) if finding.level is FindingLevel.PROBLEM else finding.fixes,
            in_eval=True,
        )
        for finding in findings
    ]


def of_rows(kind: FindingKind, rows: Sequence[int], count: int, row_word: str) -> Finding:
    """A finding about rows, given by the numbers of the first of them."""
    return msgspec.structs.replace(kind.finding(count, row_word), rows=tuple(rows[:ROWS_NAMED]))


def of_repeats(finding: Finding, data: DataOptions) -> Finding:
    """What is said of repeats: that they are left out, or what comes of them and how to leave them out."""
    if data.drop_duplicates:
        left_out = "It is left out." if finding.count == 1 else "They are left out."
        return msgspec.structs.replace(finding, message=f"{finding.message} {left_out}", fixes=())
    is_share = data.eval_fraction > 0 and held_out_of(data) is None
    message = f"{finding.message} {STRADDLING}" if is_share else finding.message
    return msgspec.structs.replace(finding, message=message, fixes=(*finding.fixes, DROP_REPEATS))


STRADDLING = "Some may be trained on and evaluated on, too: the result would look better than it is."


# --- What one pass over the rows of a table gathers: counts of labels, what repeats, some rows to show


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

    def __post_init__(self) -> None:
        self._chosen = evenly_chosen(self.table.rows.num_rows)

    @property
    def usable(self) -> int:
        """How many rows there are."""
        return len(self.places)

    @property
    def is_all(self) -> bool:
        """Whether every row is among the samples."""
        return self.table.rows.num_rows <= MOST_SAMPLED

    @property
    def sampled_note(self) -> tuple[str, ...]:
        """Says of how many rows lengths are, where not of all."""
        if self.is_all:
            return ()
        return (f"Lengths are those of {len(self.evenly):,} rows, evenly chosen out of {self.usable:,}.",)

    def numbers(self, places: Iterable[int]) -> list[int]:
        """The rows' numbers in the file of the first usable rows at these places."""
        return [int(self.table.numbers[self.places[place]]) for place in islice(places, ROWS_NAMED)]

    def take(self, block: Block) -> None:
        """Take further rows in."""
        self.places.extend(block.places)
        self.characters += sum(len(text) for texts in block.inputs for text in texts)
        self.prints.add(block.inputs, block.answers)
        for answer in block.answers:
            if isinstance(answer, float):
                self.least, self.most = min(self.least, answer), max(self.most, answer)
            else:
                self.labels.update((answer,) if isinstance(answer, str) else answer)
        wanted = np.flatnonzero(np.isin(block.places, self._chosen, assume_unique=True)).tolist()
        self.evenly += [self._sample(block, index) for index in wanted]
        room = min(SHOWN - len(self.first), len(block.places))
        self.first += [self._sample(block, index) for index in range(room)]

    def _sample(self, block: Block, index: int) -> Sample:
        return Sample(int(self.table.numbers[block.places[index]]), block.inputs[index], block.answers[index])


def evenly_chosen(rows: int) -> Any:
    """The indices of some of so many rows."""
    count = min(rows, MOST_SAMPLED)
    return np.arange(count) * rows // max(1, count)


def gather(table: Table, blocks: Iterable[Block]) -> Gathered:
    """Go through all blocks of usable rows."""
    found = Gathered(table)
    for block in blocks:
        found.take(block)
    return found


def without_repeats(found: Gathered, blocks: Callable[[], Iterable[Block]]) -> Gathered:
    """The same without the rows that repeat an earlier one; `blocks` goes through all of them once more."""
    repeated = found.prints.repeated().same
    if not len(repeated):
        return found
    places = np.asarray(found.places)[repeated]
    return gather(
        found.table, (block.at(np.flatnonzero(~np.isin(block.places, places)).tolist()) for block in blocks())
    )


def repeats(found: Gathered, data: DataOptions) -> Iterator[Finding]:
    """Warnings of rows that have the text of an earlier one."""
    repeated, word = found.prints.repeated(), found.table.row_word
    if len(repeated.same):
        same = of_rows(checks.DUPLICATES, found.numbers(repeated.same), len(repeated.same), word)
        yield of_repeats(same, data)
    if len(repeated.other):
        yield of_rows(checks.CONTRADICTIONS, found.numbers(repeated.other), len(repeated.other), word)


# --- Texts with an answer each: a label, a number, or a label for each word


@dataclass(frozen=True)
class _Looked:
    """What was found in one table, and what would stop a run there."""

    gathered: Gathered | None = None
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing stops a run."""
        return not self.problems and all(found.level is FindingLevel.WARNING for found in self.findings)

    @property
    def rows(self) -> int:
        """How many rows can be used."""
        return self.gathered.usable if self.gathered else 0


def inspect_texts(options: RunOptions, stages: Stages) -> DataReport:
    """Look into the data of a task that gives texts an answer.

    Raises:
        DataError: The table can't be read at all.
    """
    kind, data = KINDS[options.task], options.data
    with stages.stage(0.0) as tell:
        table = read_training(data, tell)
    columns = kind.guess(table, data.text_columns, data.label_column)
    with stages.stage(0.4) as tell:
        looked = _look_at_texts(options, kind, table.first(data.max_train_samples), columns, tell)
    apart, held_out = held_out_of(data), _Looked()
    lengths: Lengths | None = None
    seen: tuple[Seen, ...] = ()
    notes, tally = looked.notes, Tally(table.row_word)
    if looked.gathered:
        if apart:
            held_out = _look_at_held_out(options, kind, apart, columns, looked.gathered)
        with stages.stage(0.2) as tell:
            lengths, seen, more = _see(options, kind, looked.gathered, tally, tell)
        notes = (*notes, *held_out.notes, *more)
    train_rows, eval_rows, more = _counts(options, looked, held_out, apart=apart is not None)
    labels = looked.gathered.labels.most_common(MOST_LABELS_SHOWN) if looked.gathered else ()
    return DataReport(
        source=data.train,
        **about_table(table),
        text_columns=columns.text,
        label_column=columns.label,
        labels=dict(labels),
        lengths=lengths,
        seen=seen,
        train_rows=train_rows,
        eval_rows=eval_rows,
        problems=(*looked.problems, *held_out.problems),
        findings=in_order([*looked.findings, *held_out.findings, *tally.findings()]),
        notes=tuple(dict.fromkeys((*notes, *more))),
    )


def _look_at_texts(options: RunOptions, kind: TextKind, table: Table, columns: Guess, tell: Tell) -> _Looked:
    """Look at the rows that would be trained on."""
    data = options.data
    notes, found = other_notes(table.notes), list(note_findings(table.notes))
    problems = [
        problem
        for path, check in kind.checks
        for problem in problem_of(path, lambda check=check: check(table, columns))  # type: ignore[misc]
    ]
    if problems:
        return _Looked(problems=tuple(problems), findings=tuple(found), notes=notes)
    reader = RowReader(
        table, columns, skip=data.skip_bad_rows, progress=lambda rows: tell(rows, table.rows.num_rows)
    )
    gathered = gather(table, kind.blocks(reader))
    problems, of_reader = _of_reader(reader, gathered, "data.train")
    found += of_reader
    if gathered.usable:
        found += repeats(gathered, data)
        if data.drop_duplicates:
            again = RowReader(table, columns, skip=data.skip_bad_rows)
            gathered = without_repeats(gathered, lambda: kind.blocks(again))
        fixes = (USE_ALL_SAMPLES,) if data.max_train_samples else ()
        if options.task is Task.TEXT_REGRESSION:
            least, most = gathered.least, gathered.most
            check = lambda: checks.refuse_constant(table, columns, least, most, fixes)  # noqa: E731
            notes = (*notes, *checks.large_numbers(max(abs(least), abs(most)), columns))
        else:
            where = f"Column “{columns.label}” of {table.path.name}"
            check = lambda: refuse_single(labels_in_order(gathered.labels), where, fixes)  # noqa: E731
        problems = problem_of("data.label_column", check)
        found += similar(gathered.labels)
        found += told_of(gathered.labels, "word" if kind.sample == "word" else table.row_word)
        found += few_rows(gathered.usable, table.row_word)
    return _Looked(gathered, tuple(problems), tuple(found), notes)


def _of_reader(reader: RowReader, gathered: Gathered, path: str) -> tuple[list[Problem], Sequence[Finding]]:
    """What was found row by row; and the problem that no row is left, where no finding tells."""
    findings = reader.tally.findings()
    if gathered.usable:
        return [], offered(findings)
    if reader.tally.has_problems:
        return [], findings
    return [as_problem(path, reader.no_usable_rows())], findings


def _look_at_held_out(
    options: RunOptions, kind: TextKind, apart: HeldOut, columns: Guess, train: Gathered
) -> _Looked:
    """Look at the rows to evaluate on, and compare them with those trained on."""
    try:
        table = read_evaluation(apart)
        kind.check_eval(table, columns, apart.instead)
    except DataError as error:
        return _Looked(problems=(as_problem(apart.option, error),))
    table = table.first(options.data.max_eval_samples)
    reader = RowReader(table, columns, skip=options.data.skip_bad_rows)
    blocks = kind.blocks(reader)
    gathered = gather(table, reader.with_known_labels(blocks, train.labels) if train.labels else blocks)
    problems, found_rows = _of_reader(reader, gathered, apart.option)
    found = of_evaluation(found_rows, apart)
    also = gathered.prints.also_in(train.prints)
    if len(also):
        both = of_rows(checks.IN_BOTH, gathered.numbers(also), len(also), table.row_word)
        found.append(msgspec.structs.replace(both, in_eval=True))
    return _Looked(gathered, tuple(problems), (*found, *note_findings(table.notes)), other_notes(table.notes))


def _see(
    options: RunOptions, kind: TextKind, found: Gathered, tally: Tally, tell: Tell
) -> tuple[Lengths | None, tuple[Seen, ...], tuple[str, ...]]:
    """How long the rows are, the first ones as the model sees them, and what is to be said of that."""
    words = kind.sample == "word"
    samples = found.evenly
    at_hand: AtHand | None = tokenizer_at_hand(
        options,
        lambda: [
            text for sample in samples for text in ([" ".join(sample.inputs)] if words else sample.inputs)
        ],
    )
    lengths = measure(samples, at_hand, tally, tell, words=words, of_all=found.is_all)
    see = see_words if words else see_texts
    return (
        lengths,
        tuple(see(found.first, at_hand)),
        (*(at_hand.notes if at_hand else ()), *found.sampled_note),
    )


def _counts(
    options: RunOptions, looked: _Looked, held_out: _Looked, *, apart: bool
) -> tuple[int | None, int | None, tuple[str, ...]]:
    """The rows an epoch has, those evaluated on, and what is to be said of that; as a run counts them."""
    data = options.data
    if not looked.gathered or not looked.is_sound:
        return None, None, ()
    if apart:
        return looked.rows, held_out.rows if held_out.is_sound else None, ()
    sizes = [looked.rows]
    if options.task is Task.TEXT_CLASSIFICATION:
        labels = looked.gathered.labels
        sizes = [labels[label] for label in labels_in_order(labels)]
    count = held_out_count(sizes, data.eval_fraction)
    notes = (NOTHING_HELD_OUT,) if data.eval_fraction and not count else ()
    evaluated = count if data.max_eval_samples is None else min(count, data.max_eval_samples)
    return looked.rows - count, evaluated, notes
