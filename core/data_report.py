"""What is in a data file or folder, and what becomes of it: the question, and the engine's answer.

The engine writes the answer as JSON on its standard output; the form's data card and `hone inspect` show it.
"""

from enum import StrEnum

import msgspec

from core.choices import Task
from core.errors import Problem
from core.findings import Finding
from core.options import RunOptions, Tree
from core.tree import value_at


class InspectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The question "what is in this data, and what becomes of it?", best made by `inspect_request`.

    `asked` is a run's options as plain values, paths absolute. Columns left empty are guessed; of the model, only what
    shows what it will see is looked at: its tokenizer, or its transform of images; none chosen, that isn't told.
    With `any_task` the answer is for the task that the data suits, where that can be told, in place of the one asked.
    """

    asked: Tree
    any_task: bool = False

    @property
    def source(self) -> str:
        """Where the data is."""
        return str(value_at(self.asked, "data.train", ""))


_LOADING = ("padding", "group_by_length", "workers", "prefetch", "pin_memory")


def inspect_request(options: RunOptions, *, any_task: bool = False) -> InspectRequest:
    """The question about the data of `options`; what changes nothing about the answer is left out."""
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
