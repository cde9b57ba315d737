"""Request and report of the job `inspect`: what data holds, and what was found in it."""

from enum import StrEnum
from typing import ClassVar

import msgspec

from core.base import formats
from core.base.errors import Fix, Problem
from core.base.language import _
from core.options import RunOptions, Tree
from core.options.catalogue import value_at
from core.options.choices import Task

# --- Findings of checks


class FindingLevel(StrEnum):
    """A problem stops a run, a warning doesn't."""

    PROBLEM = "problem"
    WARNING = "warning"


class FoundFile(msgspec.Struct, frozen=True):
    """The path of an image, and why it was found; `like` is the path of another one that it is like.

    `picture` and `like_picture` are small PNG files of those that Qt can't read.
    """

    path: str
    reason: str = ""
    like: str = ""
    picture: bytes = b""
    like_picture: bytes = b""


class DataFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    """Returns the request for a report on the data of `options`, with only the options that matter."""
    tree = msgspec.to_builtins(options)
    model = {name: tree["model"][name] for name in ("source", "vocabulary")}
    data = {name: value for name, value in tree["data"].items() if name not in _WITHOUT_EFFECT}
    training = {name: tree["training"][name] for name in ("seed", "preference_loss")}
    return InspectRequest(
        asked={"task": tree["task"], "model": model, "data": data, "training": training}, any_task=any_task
    )


class DataColumnKind(StrEnum):
    """The values of a column."""

    TEXT = "text"
    NUMBER = "number"
    OTHER = "other"


class DataColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column: the number of distinct and of empty values, and the first few as text."""

    name: str
    kind: DataColumnKind
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
    most likely task. `columns` is empty for images. `reading` says how a file was read, in words by what they are
    about, such as `{"encoding": "UTF-8", "delimiter": "delimiter tab"}`. `preview` are the first rows as text,
    `preview_rows` their numbers in the file (empty: from 1). `text_columns`, `label_column` and `columns_by_role`
    (conversations: role to column) were chosen or detected; `shape` is the form of conversations. `splits` are the
    names of available splits.

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
    columns: tuple[DataColumn, ...] = ()
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
    findings: tuple[DataFinding, ...] = ()
    notes: tuple[str, ...] = ()
