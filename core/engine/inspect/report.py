"""Answer "what is in this data, and what becomes of it?" for every task, with the functions its run uses.

Also what the tasks' reports share: progress, how a table is described, lengths, the tokenizer of the chosen model.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from core.base.errors import DataError, Fix, ModelError, Problem
from core.base.language import _
from core.engine.data import checks
from core.engine.data.columns import (
    PREVIEW_ROWS,
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
from core.engine.data.running_text import is_plain_text
from core.engine.data.splits import HeldOut, files_of, held_out_of, splits_of, texts_of
from core.engine.data.tables import Table, open_parquet, read_files
from core.engine.data.text_files import ENDINGS, ending, first_bytes, is_parquet, size_of
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.presets import find_task
from core.options.sources import Scheme, parse_synthetic, scheme_of
from core.services.inspect import Column, ColumnKind, DataReport, Finding, FindingLevel, Lengths, in_order

EVALUATION_SPLITS = ("validation", "test")
READING = 0.4
"""The share of the time that reading the file takes."""
MOST_SAMPLED = 20_000
SHOWN = 20
MOST_LABELS_SHOWN = 200
PROGRESS_SECONDS = 0.1
WHOLE = 1000
"""What the progress of all stages comes to."""

Tell = Callable[[int, int], None]


class Stages:
    """Puts the progress of stages, one after the other, together.

    Args:
        tell: Called a few times a second with what is done, of `WHOLE`.
        clock: Tells the time, in seconds.
    """

    def __init__(self, tell: Tell | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._last, self._end = -PROGRESS_SECONDS, 0.0

    def next(self, share: float) -> Tell:
        """The next stage, which takes about this share of the whole: takes what is done of it, and of how much."""
        start, self._end = self._end, min(1.0, self._end + share)

        def tell(done: int, total: int) -> None:
            now = self._clock()
            if self._tell and now - self._last >= PROGRESS_SECONDS:
                self._last = now
                part = min(1.0, done / total) if total else 1.0
                self._tell(round(WHOLE * (start + part * share)), WHOLE)

        return tell


def inspect(options: RunOptions, tell: Tell | None = None, *, any_task: bool = False) -> DataReport:
    """Report on the training data of `options`, and on what it is evaluated on.

    Args:
        options: What is asked; of the model only what shows what it will see is needed.
        tell: Called with how far it is: what is done, and of how much.
        any_task: Answer for the task that the data suits, rather than for the one of `options`.

    Raises:
        DataError: The source can't be read at all. What is wrong with its columns or rows is in the answer.
    """
    stages = Stages(tell)
    suited: tuple[Task | None, Table | None] = None, None  # holds the table, which isn't read a second time
    try:
        suited = find_suiting_task(options.data, stages.next(READING))
    except DataError:
        if any_task:
            raise
    suiting = suited[0]
    task = suiting if any_task and suiting else options.task
    try:
        report = _report(msgspec.structs.replace(options, task=task), stages)
    except DataError as error:
        if suiting is None or suiting is task:
            raise
        change = Fix(_("Change to “{label}”").format(label=suiting.label), {"task": suiting.value})
        raise DataError(error.title, error.detail, (change, *error.fixes)) from error
    splits = report.splits
    if not splits:
        try:
            splits = splits_of(options.data.train)
        except DataError:
            splits = ()
        splits = splits if len(splits) > 1 else ()
    findings = (*report.findings, *_unused_split(splits, options.data))
    return msgspec.structs.replace(report, suits=suiting, splits=splits, findings=findings)


def _report(options: RunOptions, stages: Stages) -> DataReport:
    """The report for one task; only its libraries are loaded."""
    task, random = options.task, parse_synthetic(options.data.train)
    if task.reads_images:
        from core.engine.inspect.images import inspect_images

        return inspect_images(options, stages.next(1.0))
    if random:
        return DataReport(source=options.data.train, format="synthetic", rows=random[0], train_rows=random[0])
    if task.reads_conversations:
        from core.engine.inspect.conversations import inspect_conversations

        return inspect_conversations(options, stages)
    from core.engine.inspect.texts import inspect_running_text, inspect_texts

    return (inspect_running_text if task is Task.CAUSAL_LM else inspect_texts)(options, stages)


def _unused_split(splits: tuple[str, ...], data: DataOptions) -> Iterator[Finding]:
    """A warning of a split to evaluate on that isn't chosen."""
    unused = [name for name in EVALUATION_SPLITS if name in splits and name != data.train_split]
    if not unused or data.eval or data.eval_split:
        return
    instead = (
        _("A share of the training data is held out instead.")
        if data.eval_fraction
        else _("Nothing is evaluated.")
    )
    yield Finding(
        code="unused-split",
        level=FindingLevel.WARNING,
        message=_("The split “{unused}” isn't used. {instead}").format(unused=unused[0], instead=instead),
        count=1,
        fixes=(Fix(_("Evaluate on “{unused}”").format(unused=unused[0]), {"data.eval_split": unused[0]}),),
    )


# --- Which task data is for, judged by what its columns hold; a person may well want another


MOST_LABELS = 20
"""So many different answers, or numbers, are labels rather than something to say or to estimate."""
IMAGES_SHARE = 0.5
CELLS_READ = 50
IDX = b"\x00\x00\x08"
"""What files of the kind MNIST comes in begin with: two zeros, and the type of bytes."""


def find_suiting_task(data: DataOptions, progress: Tell | None = None) -> tuple[Task | None, Table | None]:
    """The task that training data is most likely for, None where nothing tells; and its table, where it is one.

    Raises:
        DataError: It can't be read.
    """
    source = data.train
    if scheme_of(source) not in (None, Scheme.HUB):
        return find_task(source), None
    path = Path(source)
    if scheme_of(source) is None and path.is_dir():
        inside = (find_task(str(file)) for file in islice(path.iterdir(), CELLS_READ) if file.is_file())
        if Task.IMAGE_CLASSIFICATION in (find_task(source), *inside):
            return Task.IMAGE_CLASSIFICATION, None
        if texts_of(source, data.train_split) == (path,):
            return Task.CAUSAL_LM if is_plain_text(path) else None, None
    files = files_of(source, data.train_split)
    if _holds_images(files[0]):
        return Task.IMAGE_CLASSIFICATION, None
    if ending(files[0]) not in ENDINGS and is_plain_text(files[0]):
        return Task.CAUSAL_LM, None
    table = read_files(files, progress)
    return suiting_task(table), table


def _holds_images(path: Path) -> bool:
    """Whether a file is an image, or images are in it: IDX, or Parquet with bytes."""
    size_of(path)
    start = first_bytes(path)
    if start.startswith(IDX) or find_task(str(path)) is Task.IMAGE_CLASSIFICATION:
        return True
    return is_parquet(path, start) and any(map(holds_bytes, open_parquet(path).schema_arrow.types))


def suiting_task(table: Table) -> Task | None:
    """The task that a table is most likely for."""
    columns = {column.name: column for column in describe(table)}
    if _shape(table, preference=True):
        return Task.PREFERENCE
    if _has_words(table):
        return Task.TOKEN_CLASSIFICATION
    shape = _shape(table, preference=False)
    if shape is not None and _is_conversation(shape, columns):
        return Task.CHAT
    if any(share_of_paths(table, name) > IMAGES_SHARE for name in columns):
        return Task.IMAGE_CLASSIFICATION
    scored, guess = guess_score_columns(table), guess_columns(table)
    if not guess.text:
        return None
    number, label = columns.get(scored.label or ""), columns.get(guess.label or "")
    if number and not (number.kind is ColumnKind.NUMBER or holds_numbers(table, number.name)):
        number = None
    if number and scored.label == guess.label:  # estimated where there are decimals, or many numbers
        is_label = number.distinct <= MOST_LABELS and not any("." in example for example in number.examples)
    else:
        is_label = label is not None
    if is_label:
        return Task.TEXT_CLASSIFICATION
    return Task.TEXT_REGRESSION if number else Task.CAUSAL_LM


def _shape(table: Table, *, preference: bool) -> Shape | None:
    try:
        return find_shape(table, preference=preference)
    except DataError:
        return None


def _is_conversation(shape: Shape, columns: dict[str, Column]) -> bool:
    """Whether there is something to say, and not a text or a few labels."""
    if shape.kind is not ShapeKind.PROMPT:
        return shape.kind is not ShapeKind.TEXT
    answers = columns[list(shape.columns.values())[1]]
    return answers.kind is ColumnKind.TEXT and answers.distinct > MOST_LABELS


def _has_words(table: Table) -> bool:
    """Whether there are lists of words and of as many tags."""
    found = guess_tag_columns(table)
    if not found.text or found.label is None:
        return False
    for name in (found.text[0], found.label):
        cells = as_text(table.first(CELLS_READ).rows[name]).to_pylist()
        is_written = all(text.strip().startswith("[") for text in cells if text)
        if not is_list(table.rows.schema.field(name).type) and not is_written:
            return False
    return True


# --- What reports share


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


def as_problem(path: str, error: DataError) -> Problem:
    """An error as a problem of the option at `path`."""
    return Problem(path, f"{error.title}. {error.detail}", error.fixes)


class Draft:
    """What is found while a report is made: a run would stop on the first problem, here all are kept.

    Notes of another encoding than UTF-8, of damaged letters or of lines left out become warnings.
    """

    def __init__(self, notes: Iterable[str] = ()) -> None:
        self.problems: list[Problem] = []
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.add_notes(notes)

    def add_notes(self, notes: Iterable[str]) -> None:
        """Add notes of reading a file."""
        for note in notes:
            if "UTF-" in note:  # of all notes on files only these name one
                kind = checks.OTHER_ENCODING
            elif " left out of " in note or NOT_CLOSED in note:
                kind = checks.LINES_LEFT_OUT
            else:
                self.notes.append(note)
                continue
            self.findings.append(Finding(code=kind.code, level=kind.level, message=note, count=1))

    def check(self, path: str, check: Callable[[], object]) -> bool:
        """Whether a check of a run passes; otherwise what it stops on is a problem of the option at `path`."""
        try:
            check()
        except DataError as error:
            self.problems.append(as_problem(path, error))
            return False
        return True

    @property
    def is_sound(self) -> bool:
        """Whether nothing stops a run."""
        return not self.problems and all(found.level is FindingLevel.WARNING for found in self.findings)

    def report(self, **fields: Any) -> DataReport:
        """The report."""
        return DataReport(
            **fields,
            problems=tuple(self.problems),
            findings=in_order(self.findings),
            notes=tuple(dict.fromkeys(self.notes)),
        )


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


def of_repeats(finding: Finding, data: DataOptions) -> Finding:
    """The finding of repeated rows, with what becomes of them and how to leave them out."""
    if data.drop_duplicates:
        left_out = _("It is left out.") if finding.count == 1 else _("They are left out.")
        return msgspec.structs.replace(finding, message=f"{finding.message} {left_out}", fixes=())
    message = finding.message
    if data.eval_fraction > 0 and held_out_of(data) is None:
        message += _(
            " Some may be trained on and evaluated on, too: the result would look better than it is."
        )
    return msgspec.structs.replace(finding, message=message, fixes=(*finding.fixes, checks.DROP_REPEATS))


def evenly_chosen(rows: int) -> Any:
    """The indices of some of so many rows."""
    count = min(rows, MOST_SAMPLED)
    return np.arange(count) * rows // max(1, count)


BARS = 24
TOKENS, CHARACTERS = "tokens", "characters"


def histogram(lengths: Sequence[int], unit: str, limit: int | None = None) -> Lengths | None:
    """Count lengths into bars of a round width; None where there are none.

    Args:
        lengths: Of the samples.
        unit: What is counted.
        limit: Samples longer than this are cut off there; None: none is.
    """
    if not len(lengths):
        return None
    found = np.asarray(lengths)
    longest = int(found.max())
    widths = (step * 10**power for power in range(20) for step in (1, 2, 5))
    width = next(width for width in widths if width * BARS > longest)
    edges = np.arange(0, longest + width + 1, width)
    if limit is not None and limit < longest:
        edges = np.union1d(edges, [limit + 1])  # so that the bars beyond hold just what is cut off
    counts, _rest = np.histogram(found, edges)
    return Lengths(
        unit=unit,
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        longest=longest,
        median=int(np.median(found)),
        limit=limit,
        cut=int((found > limit).sum()) if limit is not None else 0,
    )


# --- The tokenizer of the chosen model, where it is on this computer


@dataclass(frozen=True)
class AtHand:
    """A tokenizer, and the most tokens a row gets: as many as the model sees, or as were asked for."""

    tokenizer: Any
    length: int
    notes: tuple[str, ...] = ()

    def decode(self, ids: Sequence[int]) -> str:
        """What tokens say, special ones included."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def tokenizer_at_hand(options: RunOptions, texts: Callable[[], Sequence[str]] | None = None) -> AtHand | None:
    """The model's tokenizer; of a model from scratch one that is trained on some texts, about as the run will train it.

    Args:
        options: What is asked.
        texts: Gives what a model from scratch is trained on, in pieces; None: then there is no tokenizer.

    Returns:
        None where no model is chosen, it isn't here, or it can't be read, which the check of the model reports.
    """
    source = options.model.source
    scheme = scheme_of(source)
    if not source or scheme not in (None, Scheme.RUN, Scheme.SCRATCH):
        return None
    if scheme is Scheme.SCRATCH and texts is None:
        return None
    from core.engine.models import text

    notes: tuple[str, ...] = ()
    try:
        if scheme is Scheme.SCRATCH and texts:
            from core.engine.models.scratch import quick_tokenizer

            tokenizer = quick_tokenizer(options, texts())
            notes = ("The run trains a tokenizer of its own; tokens are counted by a similar one, so about.",)
        else:
            tokenizer = text.tokenizer_at_hand(source)
        if tokenizer is None:
            return None
        longest = text.longest_text(text.load_config(options), tokenizer)
    except ModelError:
        return None
    return AtHand(tokenizer, min(options.data.max_length, longest), notes)
