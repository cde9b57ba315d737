"""What one pass over the rows of a table gathers: counts of labels, what repeats, and some rows to be shown."""

import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from core.base.errors import DataError, Problem
from core.engine.data import checks as kinds
from core.engine.data.checks import Prints64
from core.engine.data.columns import (
    as_text,
    describe,
    guess_columns,
    guess_tag_columns,
    holds_bytes,
    is_list,
    share_of_paths,
)
from core.engine.data.conversation_shapes import Shape, ShapeKind, find_shape
from core.engine.data.delimited import NOT_CLOSED
from core.engine.data.row_checks import Block
from core.engine.data.running_text import is_plain_text
from core.engine.data.scores import guess_score_columns, holds_numbers
from core.engine.data.splits import files_of, held_out_of, texts_of
from core.engine.data.tables import Table, open_parquet, read_files
from core.engine.data.text_files import DROP_REPEATS, ENDINGS, ending, first_bytes, is_parquet, size_of
from core.engine.data.text_files import Tell as text_files_Tell
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.presets import find_task
from core.options.sources import Scheme, scheme_of
from core.services.inspect import ROWS_NAMED, Column, ColumnKind, Finding, FindingKind

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


# --- Some rows evenly chosen out of many, by which is told how long they are


MOST_SAMPLED = 20_000
SHOWN = 20


@dataclass(frozen=True)
class Sample:
    """A usable row: its number in the file, what the model reads of it, and the answer."""

    row: int
    inputs: tuple[str, ...]
    answer: Any = None


@dataclass
class Sampled:
    """Usable rows that were chosen: the first ones, and some of all.

    Args:
        rows: How many rows there are.
    """

    rows: int
    first: list[Sample] = field(default_factory=list)
    evenly: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = min(self.rows, MOST_SAMPLED)
        self._chosen: Any = np.arange(count) * self.rows // max(1, count)

    @property
    def is_all(self) -> bool:
        """Whether every row was chosen."""
        return self.rows <= MOST_SAMPLED

    def wants(self, places: Sequence[int]) -> list[int]:
        """Which of these rows, by position, were chosen; `places` are their indices in the table, in order."""
        if not len(places):
            return []
        return np.flatnonzero(np.isin(places, self._chosen, assume_unique=True)).tolist()


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


def find_suiting_task(data: DataOptions, progress: text_files_Tell | None = None) -> Suited:
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


PREVIEW_ROWS = 200
PREVIEW_CHARACTERS = 300


def about_table(table: Table) -> dict[str, Any]:
    """The fields of a report that a table has, whatever it is for."""
    return {
        "format": table.format,
        "rows": table.rows.num_rows,
        "reading": dict(table.reading),
        "columns": describe(table),
        "preview": preview(table),
        "preview_rows": tuple(int(number) for number in table.numbers[:PREVIEW_ROWS]),
    }


def preview(table: Table) -> tuple[tuple[str, ...], ...]:
    """The first rows as text, long values cut."""
    first = table.first(PREVIEW_ROWS).rows
    columns = [as_text(column).to_pylist() for column in first.columns]
    return tuple(
        tuple((value or "")[:PREVIEW_CHARACTERS] for value in row) for row in zip(*columns, strict=True)
    )


def note_findings(notes: Iterable[str]) -> Iterator[Finding]:
    """A warning for each note that tells of another encoding than UTF-8, of damaged letters or of lines left out."""
    for note in notes:
        if kind := _warned(note):
            yield Finding(code=kind.code, level=kind.level, message=note, count=1)


def other_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """The notes that no finding tells."""
    return tuple(note for note in notes if not _warned(note))


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


def _warned(note: str) -> FindingKind | None:
    if "UTF-" in note:  # of all notes on files only these name one
        return kinds.OTHER_ENCODING
    return kinds.LINES_LEFT_OUT if " left out of " in note or NOT_CLOSED in note else None


# --- What one pass over the rows of a table gathers: counts of labels, what repeats


STRADDLING = "Some may be trained on and evaluated on, too: the result would look better than it is."


@dataclass
class Foreign:
    """Rows with a label that isn't trained on: which labels, how many samples, and the index of the first row."""

    names: dict[str, None] = field(default_factory=dict)
    count: int = 0
    rows: list[int] = field(default_factory=list)
    first: int = 0


@dataclass
class Gathered:
    """The usable rows of a table: 16 bytes are kept of each.

    `labels` counts them; of words, each word counts. `least` and `most` are the ends of the numbers to learn.
    """

    table: Table
    sampled: Sampled
    labels: Counter[str] = field(default_factory=Counter)
    prints: Prints64 = field(default_factory=Prints64)
    foreign: Foreign = field(default_factory=Foreign)
    usable: int = 0
    characters: int = 0
    least: float = float("inf")
    most: float = float("-inf")
    _places: "array[int]" = field(default_factory=lambda: array("I"))

    def numbers(self, places: Iterable[int]) -> list[int]:
        """The rows' numbers in the file of usable rows by their place among them."""
        return [int(self.table.numbers[self._places[place]]) for place in places]

    def in_table(self, places: Any) -> Any:
        """The indices in the table of usable rows by their place among them."""
        return np.asarray(self._places)[places]

    def take(self, block: Block, known: Collection[str] | None) -> None:
        """Take further rows in; labels that aren't among the `known` are noted."""
        self.usable += len(block.places)
        self._places.extend(block.places)
        self.characters += sum(len(text) for texts in block.inputs for text in texts)
        self.prints.add(block.inputs, block.answers)
        for place, answer in zip(block.places, block.answers, strict=True):
            if isinstance(answer, float):
                self.least, self.most = min(self.least, answer), max(self.most, answer)
                continue
            names = (answer,) if isinstance(answer, str) else answer
            self.labels.update(names)
            if known is not None:
                self._note_foreign(place, [name for name in names if name not in known])
        self._sample(block)

    def _note_foreign(self, place: int, names: list[str]) -> None:
        if not names:
            return
        found = self.foreign
        if not found.count:
            found.first = place
        found.count += len(names)
        found.names.update(dict.fromkeys(names))
        if len(found.rows) < ROWS_NAMED:
            found.rows.append(int(self.table.numbers[place]))

    def _sample(self, block: Block) -> None:
        def at(index: int) -> Sample:
            number = int(self.table.numbers[block.places[index]])
            return Sample(number, block.inputs[index], block.answers[index])

        room = SHOWN - len(self.sampled.first)
        self.sampled.first += [at(index) for index in range(min(room, len(block.places)))]
        self.sampled.evenly += [at(index) for index in self.sampled.wants(block.places)]


def gather(table: Table, blocks: Iterable[Block], known: Collection[str] | None = None) -> Gathered:
    """Go through all blocks.

    Args:
        table: Whose rows they are.
        blocks: The usable rows.
        known: The labels that are trained on, where these rows are evaluated on.
    """
    found = Gathered(table, Sampled(table.rows.num_rows))
    for block in blocks:
        found.take(block, known)
    return found


def without_repeats(found: Gathered, blocks: Callable[[], Iterable[Block]]) -> Gathered:
    """The same without the rows that repeat an earlier one; `blocks` goes through all of them once more."""
    repeated = found.prints.repeated().same
    if not len(repeated):
        return found
    places = found.in_table(repeated)
    return gather(found.table, (_without(block, places) for block in blocks()))


def _without(block: Block, places: Any) -> Block:
    kept = np.flatnonzero(~np.isin(block.places, places)).tolist()
    if len(kept) == len(block.places):
        return block
    return Block(
        [block.places[place] for place in kept],
        [block.inputs[place] for place in kept],
        [block.answers[place] for place in kept],
    )


def repeats(found: Gathered, data: DataOptions) -> Iterator[Finding]:
    """Warnings of rows that have the text of an earlier one."""
    repeated = found.prints.repeated()
    if len(repeated.same):
        yield of_repeats(rows_finding(kinds.DUPLICATES, found, repeated.same), data)
    if len(repeated.other):
        yield rows_finding(kinds.CONTRADICTIONS, found, repeated.other)


def of_repeats(finding: Finding, data: DataOptions) -> Finding:
    """What is said of repeats: that they are left out, or what comes of them and how to leave them out."""
    if data.drop_duplicates:
        is_one = finding.count == 1
        return msgspec.structs.replace(
            finding, message=f"{finding.message} {'It is' if is_one else 'They are'} left out.", fixes=()
        )
    is_share = data.eval_fraction > 0 and held_out_of(data) is None
    message = f"{finding.message} {STRADDLING}" if is_share else finding.message
    return msgspec.structs.replace(finding, message=message, fixes=(*finding.fixes, DROP_REPEATS))


def in_both(train: Gathered, held_out: Gathered) -> Iterator[Finding]:
    """A warning of rows that are trained on and evaluated on; their numbers are those of the evaluation data."""
    places = held_out.prints.also_in(train.prints)
    if len(places):
        yield msgspec.structs.replace(rows_finding(kinds.IN_BOTH, held_out, places), in_eval=True)


def rows_finding(kind: FindingKind, found: Gathered, places: Collection[int]) -> Finding:
    """A finding about rows, given by their places among the usable ones."""
    first = [place for place, _ in zip(places, range(ROWS_NAMED), strict=False)]
    word = found.table.row_word
    return Finding(
        code=kind.code,
        level=kind.level,
        message=kind.message(len(places), word),
        count=len(places),
        rows=tuple(found.numbers(first)),
        row_word=word,
        fixes=kind.fixes,
    )
