"""What is in a data file or folder: the request for a report, the report, what checks find, what columns are for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from core.base.errors import Fix, Problem
from core.base.language import _
from core.options import RunOptions, Tree
from core.options.catalogue import value_at
from core.options.choices import CHAT_COLUMNS, PREFERENCE_COLUMNS, Task

# --- What a check of data has found: one finding a kind


ROWS_NAMED = 20
"""So many row numbers of a finding are kept."""
DETAILS_TOLD_APART = 20
"""So many names (of roles, of keys) are told apart in one kind of finding; further ones are counted together."""
OTHERS = "others"


class FindingLevel(StrEnum):
    """Whether a run can start: a problem stops it, a warning lets it pass."""

    PROBLEM = "problem"
    WARNING = "warning"


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing found in a file.

    `code` names the kind for programs, `message` is a sentence with the count. `rows` are the numbers, in the file, of
    the first rows concerned (at most 20), `row_word` says what is numbered: row, line or record. `count` counts rows.
    `in_eval`: they are rows of the evaluation data.
    """

    code: str
    level: FindingLevel
    message: str
    count: int
    rows: tuple[int, ...] = ()
    row_word: str = "row"
    fixes: tuple[Fix, ...] = ()
    in_eval: bool = False

    @property
    def where(self) -> str:
        """The rows in words, such as "rows 4, 17, 20 and 8 more"; empty where it concerns no single row."""
        if not self.rows:
            return ""
        shown = ", ".join(f"{row:,}" for row in self.rows)
        more = self.count - len(self.rows)
        word = self.row_word if self.count == 1 else f"{self.row_word}s"
        return (
            _("{word} {shown} and {more:,} more").format(word=word, shown=shown, more=more)
            if more > 0
            else f"{word} {shown}"
        )


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding, declared once.

    `says` is its sentence with `{rows}` for the counted rows ("3 rows"), `{have}`, `{are}` and `{do}` for the fitting
    form of the verb, and `{detail}` for what tells findings of this kind apart, such as the name of a role.
    """

    code: str
    level: FindingLevel
    says: str
    advice: str = ""

    def message(self, count: int, row_word: str = "row", detail: str = "") -> str:
        """The sentence for so many rows."""
        one = count == 1
        return self.says.format(
            rows=f"{count:,} {row_word}" if one else f"{count:,} {row_word}s",
            have="has" if one else "have",
            are="is" if one else "are",
            do="does" if one else "do",
            detail=detail,
        )

    def finding(self, count: int, row_word: str = "row") -> Finding:
        """A finding about the whole file, which concerns no single row."""
        return Finding(
            code=self.code,
            level=self.level,
            message=self.message(count, row_word),
            count=count,
            row_word=row_word,
            fixes=self.fixes,
        )

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """What to do in any case, as advice."""
        return (Fix(self.advice),) if self.advice else ()


@dataclass
class _Counted:
    """Rows with one kind of finding and one detail of it; `example` tells about the first row more exactly."""

    kind: FindingKind
    detail: str
    example: str
    fixes: tuple[Fix, ...]
    count: int = 0
    last: int = -1
    rows: list[int] = field(default_factory=list)


class Tally:
    """Counts what is found while rows go by; what it keeps doesn't grow with their number.

    Args:
        row_word: What the numbers count: row, line or record.
        skip: Whether rows with a problem are left out, so that it is no more than a warning.
    """

    def __init__(self, row_word: str = "row", *, skip: bool = False) -> None:
        self.row_word = row_word
        self._skip = skip
        self._counted: dict[tuple[str, str], _Counted] = {}

    def add(
        self, kind: FindingKind, row: int, *, detail: str = "", example: str = "", fixes: tuple[Fix, ...] = ()
    ) -> None:
        """Count a row, once a kind and detail; rows come in order. The first one's `example` and `fixes` are kept."""
        counted = self._counted.get((kind.code, detail))
        if counted is None:
            if sum(code == kind.code for code, _rest in self._counted) >= DETAILS_TOLD_APART:
                detail, fixes = OTHERS, ()
            new = _Counted(kind, detail, example, fixes)
            counted = self._counted.setdefault((kind.code, detail), new)
        if counted.last == row:
            return
        counted.last = row
        counted.count += 1
        if len(counted.rows) < ROWS_NAMED:
            counted.rows.append(row)

    @property
    def has_problems(self) -> bool:
        """Whether something found so far stops a run."""
        return any(finding.level is FindingLevel.PROBLEM for finding in self.findings())

    def findings(self) -> tuple[Finding, ...]:
        """All that was found, problems first, each level in the order of the first rows."""
        return in_order([self._finding(counted) for counted in self._counted.values()])

    def _finding(self, counted: _Counted) -> Finding:
        kind, level = counted.kind, counted.kind.level
        message = kind.message(counted.count, self.row_word, counted.detail)
        if counted.example:
            message = f"{message} {self.row_word.capitalize()} {counted.rows[0]:,}: {counted.example}"
        if self._skip and level is FindingLevel.PROBLEM:
            level = FindingLevel.WARNING
            message = _("{message} {value} left out.").format(
                message=message, value="It is" if counted.count == 1 else "They are"
            )
        return Finding(
            code=kind.code,
            level=level,
            message=message,
            count=counted.count,
            rows=tuple(counted.rows),
            row_word=self.row_word,
            fixes=(*counted.fixes, *kind.fixes),
        )


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Problems before warnings, otherwise as they come."""
    return tuple(sorted(findings, key=lambda finding: finding.level is FindingLevel.WARNING))


# --- The request and the report


_LOADING = ("padding", "group_by_length", "workers", "prefetch", "pin_memory")


class InspectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request for a report on data.

    `asked` is a run's options as plain values, paths absolute. Columns left empty are guessed; of the model, only what
    shows what it will see is used: its tokenizer, or its transform of images. With `any_task` the report is for the
    task that the data suits, where that can be told, in place of the chosen one.
    """

    asked: Tree
    any_task: bool = False

    @property
    def source(self) -> str:
        """Where the data is."""
        return str(value_at(self.asked, "data.train", ""))


def inspect_request(options: RunOptions, *, any_task: bool = False) -> InspectRequest:
    """The request for a report on the data of `options`; what changes nothing about the answer is left out."""
    tree = msgspec.to_builtins(options)
    model = {name: tree["model"][name] for name in ("source", "vocabulary")}
    data = {name: value for name, value in tree["data"].items() if name not in _LOADING}
    training = {"seed": options.training.seed}
    return InspectRequest(
        asked={"task": tree["task"], "model": model, "data": data, "training": training}, any_task=any_task
    )


class ColumnKind(StrEnum):
    """What a column of a table holds."""

    TEXT = "text"
    NUMBER = "number"
    OTHER = "other"


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column: its values' kind, how many differ, how many are empty, and the first few as text."""

    name: str
    kind: ColumnKind
    distinct: int
    empty: int
    examples: tuple[str, ...]


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """How long the samples are, as a histogram.

    `counts[i]` samples have from `edges[i]` up to, not including, `edges[i + 1]` of `unit` ("tokens", or "characters"
    where no tokenizer is known yet); there is one edge more than counts. `limit` is where they are cut off, in the same
    unit; None: nowhere. `cut` counts the samples that are.
    """

    unit: str
    edges: tuple[int, ...]
    counts: tuple[int, ...]
    longest: int
    median: int
    limit: int | None = None
    cut: int = 0


class SeenPart(msgspec.Struct, frozen=True):
    """A stretch of what the model sees, and whether it learns to say it."""

    text: str
    trained: bool = False


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One sample as the model will really see it.

    `row` is its number in the file. `parts` put together are its text, special tokens included and cut off where it
    will be; `tokens` counts them; None where no tokenizer is known yet. `rejected` holds the other answer of a pair.
    `label` is the answer of a classifier. `image` and `original` are PNG files, after and before the transform.
    """

    row: int
    parts: tuple[SeenPart, ...] = ()
    rejected: tuple[SeenPart, ...] = ()
    tokens: int | None = None
    is_cut: bool = False
    label: str = ""
    image: bytes = b""
    original: bytes = b""


class DataReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a data file or folder, and what becomes of it.

    `rows` counts samples; `suits` is the task it is most likely for. `columns` is empty for images. `reading` says
    how a file was read, as words by words, such as `{"encoding": "UTF-8 with a mark", "delimiter": "tab"}`. `preview`
    are the first rows as text, `preview_rows` the place each of them has in the file (as findings name it; empty:
    counted from 1). `text_columns`, `label_column` and `columns_by_role` (conversations: role to column) are what was
    chosen or guessed; `shape` says what form conversations have. `splits` are the names of the splits there are to
    choose from.

    `labels` counts samples a label, most frequent first, at most 200 of them. `lengths` tell how long samples are and
    where they are cut. `seen` are the first samples as the model will see them. `train_rows` counts the rows an epoch
    has, after dropping, holding out and packing; None where that isn't known. `eval_rows` counts those evaluated on.

    `problems` stop a run, each at its option. `findings` tell of rows: those of level problem stop a run, too.
    `notes` don't.
    """

    source: str
    format: str
    rows: int
    suits: Task | None = None
    reading: dict[str, str] = {}
    columns: tuple[Column, ...] = ()
    preview: tuple[tuple[str, ...], ...] = ()
    preview_rows: tuple[int, ...] = ()
    text_columns: tuple[str, ...] = ()
    label_column: str | None = None
    columns_by_role: dict[str, str] = {}
    shape: str = ""
    splits: tuple[str, ...] = ()
    labels: dict[str, int] = {}
    lengths: Lengths | None = None
    seen: tuple[Seen, ...] = ()
    train_rows: int | None = None
    eval_rows: int | None = None
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


# --- What a column of a table can be for each task, and which options say so


TEXT_COLUMNS = "data.text_columns"
LABEL_COLUMN = "data.label_column"
IMAGE_COLUMN = "data.image_column"
COLUMNS = "data.columns"
PATHS = (TEXT_COLUMNS, LABEL_COLUMN, IMAGE_COLUMN, COLUMNS)
"""The options that say which column is what."""

TEXT = "text"
SECOND = "second text"
LABEL = "label"
IMAGE = "image"

Columns = dict[str, str]
"""Columns by the keys of their roles."""


@dataclass(frozen=True)
class ColumnUse:
    """Something a column can be: its key, its title and a sentence about it."""

    key: str
    title: str
    help: str


_FIRST = ColumnUse(TEXT, "Text", _("What the model reads."))
_SECOND = ColumnUse(SECOND, _("Second text"), _("Read together with the text, for pairs."))
_LABEL = ColumnUse(LABEL, "Label", _("The answer to learn: one of a few names."))
_USES: dict[Task, tuple[ColumnUse, ...]] = {
    Task.TEXT_CLASSIFICATION: (_FIRST, _SECOND, _LABEL),
    Task.TEXT_REGRESSION: (_FIRST, _SECOND, ColumnUse(LABEL, "Number", _("The answer to learn: a number."))),
    Task.TOKEN_CLASSIFICATION: (
        ColumnUse(TEXT, "Words", _("A list of words, or a text that is split at its blanks.")),
        ColumnUse(LABEL, _("Labels of words"), _("The answer to learn: a label for each word.")),
    ),
    Task.CAUSAL_LM: (ColumnUse(TEXT, "Text", _("What the model learns to continue.")),),
    Task.IMAGE_CLASSIFICATION: (ColumnUse(IMAGE, "Image", _("An image, or the path to one.")), _LABEL),
    Task.CHAT: tuple(ColumnUse(role.value, role.label, role.help) for role in CHAT_COLUMNS),
    Task.PREFERENCE: tuple(ColumnUse(role.value, role.label, role.help) for role in PREFERENCE_COLUMNS),
}


def uses_for(task: Task) -> tuple[ColumnUse, ...]:
    """What columns can be for a task, the most needed first."""
    return _USES[task]


def chosen_columns(task: Task, value_at: Callable[[str], Any]) -> Columns:
    """The columns that the options name; `value_at` gives an option's value by its path."""
    if task.reads_conversations:
        return dict(value_at(COLUMNS) or {})
    return _known(task, value_at(TEXT_COLUMNS) or (), value_at(LABEL_COLUMN), value_at(IMAGE_COLUMN))


def guessed_columns(task: Task, report: DataReport) -> Columns:
    """The columns that a report took for what is needed."""
    if task.reads_conversations:
        return dict(report.columns_by_role)
    return _known(task, report.text_columns, report.label_column, report.columns_by_role.get(IMAGE))


def _known(task: Task, texts: Sequence[str], label: str | None, image: str | None) -> Columns:
    """Those of the columns that a task has use for."""
    found = dict(zip((TEXT, SECOND), texts, strict=False)) | {LABEL: label, IMAGE: image}
    known = {use.key for use in uses_for(task)}
    return {key: str(name) for key, name in found.items() if name and key in known}


def with_use(columns: Mapping[str, str], column: str, key: str) -> Columns:
    """The columns once one of them is something else; empty key: nothing.

    Who was that before takes what the column has been, so that two columns change places at once. A second text without
    a first one becomes the first.
    """
    before = next((old for old, name in columns.items() if name == column), "")
    other = columns.get(key, "")
    changed = {old: name for old, name in columns.items() if name != column and old != key}
    if key:
        changed[key] = column
    if before and other and other != column:
        changed[before] = other
    if SECOND in changed and TEXT not in changed:
        changed[TEXT] = changed.pop(SECOND)
    return changed


def options_of_columns(task: Task, columns: Mapping[str, str]) -> dict[str, Any]:
    """The options that name these columns, by path."""
    if task.reads_conversations:
        return {COLUMNS: dict(columns)}
    if task.reads_images:
        return {IMAGE_COLUMN: columns.get(IMAGE), LABEL_COLUMN: columns.get(LABEL)}
    made: dict[str, Any] = {TEXT_COLUMNS: [columns[key] for key in (TEXT, SECOND) if key in columns]}
    if LABEL in {use.key for use in uses_for(task)}:
        made[LABEL_COLUMN] = columns.get(LABEL)
    return made
