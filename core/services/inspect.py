"""Reports on data: findings of checks, the request, the report, and the columns that each task uses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from core.base import formats
from core.base.errors import Fix, Problem
from core.base.language import _, ngettext
from core.options import RunOptions, Tree
from core.options.catalogue import value_at
from core.options.choices import CHAT_COLUMNS, PREFERENCE_COLUMNS, Task

# --- Findings of checks


ROWS_NAMED = 20
"""Maximum number of row numbers in a finding."""
MOST_DETAILS = 20
"""Maximum number of details (names of roles or keys) of one kind of finding; further ones are counted together."""
OTHERS = "others"


SKIP_PROBLEMS = {"data.skip_bad_rows": True}


def leave_out(count: int) -> Fix:
    """The fix that leaves out what would stop a run."""
    label = ngettext("Leave it out", "Leave these {count:,} out", count)
    return Fix(label.format(count=count), SKIP_PROBLEMS)


class FindingLevel(StrEnum):
    """A problem stops a run, a warning doesn't."""

    PROBLEM = "problem"
    WARNING = "warning"


FILES_NAMED = 200


class FoundFile(msgspec.Struct, frozen=True):
    """The path of an image, and why it was found; `like` is the path of another one that it is like.

    `picture` and `like_picture` are small PNG files of those that Qt can't read.
    """

    path: str
    reason: str = ""
    like: str = ""
    picture: bytes = b""
    like_picture: bytes = b""


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kind of issue in a file.

    `code` identifies the kind. `count` rows are concerned; `rows` are the numbers of the first 20 in the file, and
    `row_word` says what is numbered: row, line or record. `files` are images, at most `FILES_NAMED`, each with what is
    wrong with it, or the other image it is like. `in_eval`: they are in the validation data.
    """

    code: str
    level: FindingLevel
    message: str
    count: int
    rows: tuple[int, ...] = ()
    row_word: str = "row"
    fixes: tuple[Fix, ...] = ()
    files: tuple["FoundFile", ...] = ()
    in_eval: bool = False

    @property
    def where(self) -> str:
        """The rows, such as "rows 4, 17, 20 and 8 more"; empty if it concerns the whole file."""
        if not self.rows:
            return ""
        shown, more = formats.places(self.row_word, self.rows, self.count), self.count - len(self.rows)
        return _("{rows} and {more:,} more").format(rows=shown, more=more) if more > 0 else shown


def left_out(finding: Finding) -> Finding:
    """A problem as a warning that says what becomes of its rows; warnings are unchanged."""
    if finding.level is FindingLevel.WARNING:
        return finding
    text = ngettext("It is left out.", "They are left out.", finding.count)
    message, fixes = f"{finding.message} {text}", tuple(fix for fix in finding.fixes if fix.changes)
    return msgspec.structs.replace(finding, level=FindingLevel.WARNING, message=message, fixes=fixes)


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding.

    `says` is its sentence with `{rows}` for what is counted ("3 examples", or another `noun`) and `{detail}` for the
    name of a role or key.
    """

    code: str
    level: FindingLevel
    says: str
    advice: str = ""
    noun: str = "example"

    def message(self, count: int, row_word: str = "row", detail: str = "") -> str:
        """The sentence for `count` rows."""
        noun = "image" if row_word == "image" else self.noun
        return self.says.format(rows=formats.counted(count, noun), detail=detail)

    def finding(self, count: int, row_word: str = "row") -> Finding:
        """A finding about the whole file."""
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
        return (Fix(self.advice),) if self.advice else ()


@dataclass
class _Counted:
    """Rows with one kind of finding and one detail; `example` describes the first row."""

    kind: FindingKind
    detail: str
    example: str
    fixes: tuple[Fix, ...]
    count: int = 0
    last: int = -1
    rows: list[int] = field(default_factory=list)


class Tally:
    """Counts findings row by row in constant memory.

    Args:
        row_word: What is numbered: row, line or record.
        skip: Whether rows with a problem are skipped, which makes the problem a warning.
    """

    def __init__(self, row_word: str = "row", *, skip: bool = False) -> None:
        self.row_word = row_word
        self._skip = skip
        self._counted: dict[tuple[str, str], _Counted] = {}

    def add(
        self, kind: FindingKind, row: int, *, detail: str = "", example: str = "", fixes: tuple[Fix, ...] = ()
    ) -> None:
        """Count a row once per kind and detail; rows come in order. The first one's `example` and `fixes` are used."""
        counted = self._counted.get((kind.code, detail))
        if counted is None:
            if sum(code == kind.code for code, _rest in self._counted) >= MOST_DETAILS:
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
        return any(finding.level is FindingLevel.PROBLEM for finding in self.findings())

    def findings(self) -> tuple[Finding, ...]:
        """All findings, problems first, otherwise in the order of their first rows."""
        return in_order([self._finding(counted) for counted in self._counted.values()])

    def _finding(self, counted: _Counted) -> Finding:
        kind = counted.kind
        message = kind.message(counted.count, self.row_word, counted.detail)
        if counted.example:
            place = formats.places(self.row_word, counted.rows[:1]).capitalize()
            message = f"{message} {place}: {counted.example}"
        finding = Finding(
            code=kind.code,
            level=kind.level,
            message=message,
            count=counted.count,
            rows=tuple(counted.rows),
            row_word=self.row_word,
            fixes=(*counted.fixes, *kind.fixes),
        )
        return left_out(finding) if self._skip else finding


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Problems before warnings, otherwise unchanged."""
    return tuple(sorted(findings, key=lambda finding: finding.level is FindingLevel.WARNING))


# --- The request and the report


_WITHOUT_EFFECT = (
    *("padding", "pad_to_multiple_of", "group_by_length", "workers", "prefetch", "pin_memory"),
    "label_names",  # they are only shown
)


class InspectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a report on data.

    `asked` is a run's options as plain values with absolute paths. Columns that are empty are detected; of the model
    only the tokenizer or image transform is used. With `any_task` the report is for the task that the data suits, if
    that can be detected.
    """

    asked: Tree
    any_task: bool = False

    @property
    def source(self) -> str:
        return str(value_at(self.asked, "data.train", ""))


def inspect_request(options: RunOptions, *, any_task: bool = False) -> InspectRequest:
    """The request for a report on the data of `options`, with only the options that matter."""
    tree = msgspec.to_builtins(options)
    model = {name: tree["model"][name] for name in ("source", "vocabulary")}
    data = {name: value for name, value in tree["data"].items() if name not in _WITHOUT_EFFECT}
    training = {name: tree["training"][name] for name in ("seed", "preference_loss")}
    return InspectRequest(
        asked={"task": tree["task"], "model": model, "data": data, "training": training}, any_task=any_task
    )


class ColumnKind(StrEnum):
    """The values of a column."""

    TEXT = "text"
    NUMBER = "number"
    OTHER = "other"


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column: the number of distinct and of empty values, and the first few as text."""

    name: str
    kind: ColumnKind
    distinct: int
    empty: int
    examples: tuple[str, ...]


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Histogram of the lengths of samples.

    `counts[i]` samples have lengths in `[edges[i], edges[i + 1])`, in `unit`: "tokens", or "characters" if there is no
    tokenizer yet. `limit` is the length at which they are truncated (None: they aren't), `cut` the number of those.
    """

    unit: str
    edges: tuple[int, ...]
    counts: tuple[int, ...]
    longest: int
    median: int
    limit: int | None = None
    cut: int = 0


class SeenPart(msgspec.Struct, frozen=True):
    """A part of a sample, and whether the loss is computed on it."""

    text: str
    trained: bool = False


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One sample as the model will see it.

    `row` is its number in the file. `parts` joined are its text with special tokens, truncated; `tokens` is their
    number, None without a tokenizer. `rejected` is the other answer of a pair; `liked` rates a single one. `images` are
    PNG files as the model sees them, augmented in its first epochs, `original` is one before the transform; `file` is
    the path of an image in a file of its own, `size` its width and height.
    """

    EPOCHS: ClassVar = 3

    row: int
    parts: tuple[SeenPart, ...] = ()
    rejected: tuple[SeenPart, ...] = ()
    tokens: int | None = None
    is_cut: bool = False
    liked: bool | None = None
    label: str = ""
    images: tuple[bytes, ...] = ()
    original: bytes = b""
    file: str = ""
    size: tuple[int, int] | None = None


QUICK_TRY = 1000
"""Samples of a run that only shows whether all goes well."""


class DataReport(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a data file or folder, and how a run will use it.

    `rows` counts samples, `used` those left after limits, empty ones and duplicates (None: unknown); `suits` is the
    most likely task. `columns` is empty for images. `reading` says how a file was read, such as `{"encoding":
    "UTF-8 with a mark", "delimiter": "tab"}`. `preview` are the first rows as text, `preview_rows` their numbers in
    the file (empty: from 1). `text_columns`, `label_column` and `columns_by_role` (conversations: role to column)
    were chosen or detected; `shape` is the form of conversations. `splits` are the names of available splits.

    `labels` counts samples by label, the `MOST_LABELS` most frequent first; `first_labels` is how many labels the first
    `QUICK_TRY` samples have. `seen` are the first samples as the model will see them. `train_rows` counts the rows of
    an epoch after skipping, splitting and packing (None: unknown), `eval_rows` those of the validation split.
    `vocabulary` is a good size for a model from scratch. `problems`, and `findings` of level problem, stop a run;
    `notes` don't.
    """

    MOST_LABELS: ClassVar = 200

    source: str
    format: str
    rows: int
    used: int | None = None
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
    first_labels: int | None = None
    lengths: Lengths | None = None
    seen: tuple[Seen, ...] = ()
    train_rows: int | None = None
    eval_rows: int | None = None
    vocabulary: int | None = None
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


# --- Uses of columns for each task, and the options that name them


TEXT_COLUMNS = "data.text_columns"
LABEL_COLUMN = "data.label_column"
IMAGE_COLUMN = "data.image_column"
COLUMNS = "data.columns"
PATHS = (TEXT_COLUMNS, LABEL_COLUMN, IMAGE_COLUMN, COLUMNS)
"""The options that name columns."""

TEXT = "text"
SECOND = "second text"
LABEL = "label"
IMAGE = "image"

Columns = dict[str, str]
"""Columns by the key of their use."""


@dataclass(frozen=True)
class ColumnUse:
    """A use of a column."""

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
        ColumnUse(TEXT, "Words", _("A list of words, or a text that is split at spaces.")),
        ColumnUse(LABEL, _("Labels of words"), _("The answer to learn: a label for each word.")),
    ),
    Task.CAUSAL_LM: (
        ColumnUse(TEXT, "Text", _("The texts to learn from, instead of conversations.")),
        *(ColumnUse(role.value, role.label, role.help) for role in CHAT_COLUMNS if role.value != TEXT),
    ),
    Task.IMAGE_CLASSIFICATION: (ColumnUse(IMAGE, "Image", _("An image, or the path to one.")), _LABEL),
    Task.CHAT: tuple(ColumnUse(role.value, role.label, role.help) for role in CHAT_COLUMNS),
    Task.PREFERENCE: tuple(ColumnUse(role.value, role.label, role.help) for role in PREFERENCE_COLUMNS),
}


def uses_for(task: Task) -> tuple[ColumnUse, ...]:
    """The uses of columns for a task, the most important first."""
    return _USES[task]


def chosen_columns(task: Task, value_at: Callable[[str], Any]) -> Columns:
    """The columns that options name; `value_at` returns an option's value by path."""
    if task.reads_conversations or (task is Task.CAUSAL_LM and not value_at(TEXT_COLUMNS)):
        return dict(value_at(COLUMNS) or {})
    return _known(task, value_at(TEXT_COLUMNS) or (), value_at(LABEL_COLUMN), value_at(IMAGE_COLUMN))


def guessed_columns(task: Task, report: DataReport) -> Columns:
    if task.reads_conversations or (task is Task.CAUSAL_LM and not report.text_columns):
        return dict(report.columns_by_role)
    return _known(task, report.text_columns, report.label_column, report.columns_by_role.get(IMAGE))


def _known(task: Task, texts: Sequence[str], label: str | None, image: str | None) -> Columns:
    columns = dict(zip((TEXT, SECOND), texts, strict=False)) | {LABEL: label, IMAGE: image}
    keys = {use.key for use in uses_for(task)}
    return {key: str(name) for key, name in columns.items() if name and key in keys}


def with_use(columns: Mapping[str, str], column: str, key: str) -> Columns:
    """The columns after `column` was given the use `key` (empty: none).

    The column that had this use gets the previous use of `column`. A second text without a first becomes the first.
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
    """Values by path of the options that name these columns."""
    if task.reads_conversations:
        return {COLUMNS: dict(columns)}
    if task is Task.CAUSAL_LM:
        texts = [columns[TEXT]] if TEXT in columns else []
        return {TEXT_COLUMNS: texts, COLUMNS: {} if texts else dict(columns)}
    if task.reads_images:
        return {IMAGE_COLUMN: columns.get(IMAGE), LABEL_COLUMN: columns.get(LABEL)}
    values: dict[str, Any] = {TEXT_COLUMNS: [columns[key] for key in (TEXT, SECOND) if key in columns]}
    if LABEL in {use.key for use in uses_for(task)}:
        values[LABEL_COLUMN] = columns.get(LABEL)
    return values
