"""What reports on texts, conversations and images have in common."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from core.base.errors import DataError, Fix, ModelError, Problem
from core.base.formats import counted, paragraph
from core.base.language import _
from core.engine.data import checks
from core.engine.data.checks import LARGE_VOCABULARY, SMALL_VOCABULARY
from core.engine.data.columns import PREVIEW_ROWS, describe, first_rows
from core.engine.data.findings import in_order
from core.engine.data.splits import HeldOut
from core.engine.data.tables import Table
from core.engine.data.text_files import NoteCode, ReadingNote
from core.jobs.inspect import DataFinding, DataReport, FindingLevel, Lengths
from core.options import RunOptions
from core.options.data import DataOptions
from core.options.sources import Scheme, scheme_of
from core.runs.models import trained_length

MOST_SAMPLED = 20_000


SHOWN = 20


PROGRESS_SECONDS = 0.1


WHOLE = 1000
"""The total that progress is reported of."""


Progress = Callable[[int, int], None]


class Stages:
    """Combines the progress of stages, one after the other.

    Args:
        progress: Called a few times a second with what is done, of `WHOLE`.
    """

    def __init__(self, progress: Progress | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress, self._clock = progress, clock
        self._last, self._end = -PROGRESS_SECONDS, 0.0

    def next(self, share: float) -> Progress:
        """Returns the progress callback of the next stage, which takes about this share of the time."""
        start, self._end = self._end, min(1.0, self._end + share)

        def report(done: int, total: int) -> None:
            now = self._clock()
            if self._progress and now - self._last >= PROGRESS_SECONDS:
                self._last = now
                part = min(1.0, done / total) if total else 1.0
                self._progress(round(WHOLE * (start + part * share)), WHOLE)

        return report


def table_fields(table: Table) -> dict[str, Any]:
    """Returns the fields of a report about a table, whatever the task."""
    return {
        "format": table.format,
        "rows": table.rows.num_rows,
        "reading": dict(table.reading),
        "columns": describe(table),
        "preview": first_rows(table),
        "preview_rows": tuple(int(number) for number in table.numbers[:PREVIEW_ROWS]),
    }


def as_problem(path: str, error: DataError) -> Problem:
    """Returns an error as a problem of the option at `path`."""
    return Problem(path, paragraph(error.title, error.detail), error.fixes)


class Draft:
    """A report in the making: a run would stop on the first problem, here all are collected.

    Notes of another encoding than UTF-8, of damaged letters or of lines left out become warnings.
    """

    def __init__(self, notes: Iterable[ReadingNote] = ()) -> None:
        self.problems: list[Problem] = []
        self.findings: list[DataFinding] = []
        self.notes: list[str] = []
        self.vocabulary: int | None = None
        self.add_notes(notes)

    def add_notes(self, notes: Iterable[ReadingNote]) -> None:
        known = {*self.notes, *(finding.message for finding in self.findings)}
        for note in notes:
            if note.message in known:
                continue
            if note.code in (NoteCode.OTHER_ENCODING, NoteCode.LINES_LEFT_OUT):
                level = FindingLevel.WARNING
                self.findings.append(DataFinding(code=note.code, level=level, message=note.message, count=1))
            else:
                self.notes.append(note.message)

    def add_model(self, model: "ModelTokenizer | None") -> None:
        """Adds what is known about the tokenizer of a model, if it is at hand."""
        if model is not None:
            self.vocabulary = model.vocabulary
            self.findings += model.findings
            self.notes += model.notes

    def check(self, path: str, check: Callable[[], object]) -> None:
        """Runs a check; the error it raises is a problem of the option at `path`."""
        try:
            check()
        except DataError as error:
            self.problems.append(as_problem(path, error))

    @property
    def is_sound(self) -> bool:
        """Whether nothing stops a run."""
        return not self.problems and all(finding.level is FindingLevel.WARNING for finding in self.findings)

    def report(self, **fields: Any) -> DataReport:
        return DataReport(
            **fields,
            problems=tuple(self.problems),
            findings=in_order(self.findings),
            notes=tuple(dict.fromkeys(self.notes)),
            vocabulary=self.vocabulary,
        )


def of_evaluation(findings: Iterable[DataFinding], held_out: HeldOut) -> list[DataFinding]:
    """Returns the findings with a note that they are about the evaluation data."""
    return [
        msgspec.structs.replace(
            finding,
            message=_("Validation data: {message}").format(message=finding.message),
            fixes=(*finding.fixes, *held_out.instead)
            if finding.level is FindingLevel.PROBLEM
            else finding.fixes,
            in_eval=True,
        )
        for finding in findings
    ]


def of_repeats(finding: DataFinding, data: DataOptions) -> DataFinding:
    """Returns the finding of repeated rows, with what they do to the score and how to leave them out."""
    message = finding.message
    if data.eval_fraction > 0 and not (data.eval or data.eval_split):
        message = _(
            "{message} Copies in both training and validation data make the score look better than it is."
        ).format(message=message)
    return msgspec.structs.replace(finding, message=message, fixes=(*finding.fixes, checks.DROP_REPEATS))


def evenly_chosen(rows: int) -> Any:
    """Returns the indices of `MOST_SAMPLED` rows at most, evenly spread over all."""
    count = min(rows, MOST_SAMPLED)
    return np.arange(count) * rows // max(1, count)


BARS = 24


TOKENS, CHARACTERS = "tokens", "characters"


def histogram(lengths: Sequence[int], unit: str, limit: int | None = None) -> Lengths | None:
    """Counts the lengths of samples into bars of a round width; None if there are none.

    Samples longer than `limit` are cut off there; None: none is.
    """
    if not len(lengths):
        return None
    values = np.asarray(lengths)
    longest = int(values.max())
    widths = (step * 10**power for power in range(20) for step in (1, 2, 5))
    width = next(width for width in widths if width * BARS > longest)
    edges = np.arange(0, longest + width + 1, width)
    if limit is not None and limit < longest:
        edges = np.union1d(edges, [limit + 1])  # the bars beyond hold just what is cut off
    counts = np.histogram(values, edges)[0]
    return Lengths(
        unit=unit,
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        longest=longest,
        median=int(np.median(values)),
        limit=limit,
        cut=int((values > limit).sum()) if limit is not None else 0,
    )


@dataclass(frozen=True)
class ModelTokenizer:
    """A tokenizer, the most tokens of an example (`length`: as chosen, or as the model sees), and the most usable ones.

    `usable` is how many the model has learned to read. `vocabulary` is a good size of the vocabulary of a model from
    scratch, and `findings` what is wrong with the chosen one.
    """

    tokenizer: Any
    length: int
    usable: int
    notes: tuple[str, ...] = ()
    vocabulary: int | None = None
    findings: tuple[DataFinding, ...] = ()


def model_tokenizer(
    options: RunOptions, texts: Callable[[], Sequence[str]] | None = None
) -> ModelTokenizer | None:
    """Loads the model's tokenizer; for a model from scratch, trains one on `texts`, similar to the run's.

    Returns:
        None if no model is chosen, it isn't on this computer, or it can't be read, as the check of the model reports.
    """
    source = options.model.source
    scheme = scheme_of(source)
    if (
        not source
        or scheme not in (None, Scheme.RUN, Scheme.SCRATCH)
        or (scheme is Scheme.SCRATCH and not texts)
    ):
        return None
    from core.engine.models import text

    notes: tuple[str, ...] = ()
    vocabulary, findings = None, tuple[DataFinding, ...]()
    try:
        if scheme is Scheme.SCRATCH and texts:
            from core.engine.models.text import QUICK_CHARACTERS, fitting_vocabulary, sample, train_tokenizer

            found = texts()
            least, vocabulary = fitting_vocabulary(found)
            findings = tuple(_judge_vocabulary(options.model.vocabulary, least, vocabulary))
            tokenizer = train_tokenizer(options, sample(found, QUICK_CHARACTERS))
            notes = (_("Token counts are estimates: the run will train its own tokenizer."),)
        else:
            tokenizer = text.tokenizer_at_hand(source)
        if tokenizer is None:
            return None
        longest = text.longest_text(text.load_config(options), tokenizer)
    except (ModelError, DataError):  # the report has what is wrong with the data
        return None
    length = min(options.data.max_length, longest)
    usable = sys.maxsize if scheme is Scheme.SCRATCH else trained_length(source, longest)
    return ModelTokenizer(tokenizer, length, usable, notes, vocabulary, findings)


FAR_TOO_LARGE = 4


def _judge_vocabulary(chosen: int, least: int, usual: int) -> Iterator[DataFinding]:
    kind = (
        SMALL_VOCABULARY if chosen < least else LARGE_VOCABULARY if chosen > FAR_TOO_LARGE * usual else None
    )
    if kind is not None:
        fix = Fix(_("Use a vocabulary of {count:,}").format(count=usual), {"model.vocabulary": usual})
        message = kind.message(0, detail=counted(chosen, "token"))
        yield DataFinding(code=kind.code, level=kind.level, message=message, count=1, fixes=(fix,))
