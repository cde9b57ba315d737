"""Answers of short engine jobs: what this machine can compute on, and what is in a data file.

The engine writes them as JSON on its standard output; forms, `hone devices` and `hone inspect` show them.
"""

from enum import StrEnum

import msgspec

from core.choices import Task
from core.errors import Fix, Problem


class InspectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The question "what is in this data?". `source` as in `data.train`, absolute; columns empty: guess them.

    `evaluation` as in `data.eval`, absolute: what would stop a run there is told too.
    """

    task: Task
    source: str
    text_columns: tuple[str, ...] = ()
    label_column: str | None = None
    evaluation: str | None = None


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """A `core.errors.UserError` on its way out of the engine."""

    title: str
    detail: str = ""
    fixes: tuple[Fix, ...] = ()


class JobFailure(msgspec.Struct, frozen=True, kw_only=True):
    """What a job answers, with exit status 1, when the person can mend what stopped it."""

    error: FailureReport


class Instead(msgspec.Struct, frozen=True):
    """What "automatic" comes to where another option, at `path`, has the value `beside`."""

    path: str
    beside: str
    value: str
    reason: str


class Settled(msgspec.Struct, frozen=True):
    """What "automatic" comes to for one option on one device, and why; `instead`, where other options matter."""

    value: str
    reason: str
    instead: tuple[Instead, ...] = ()


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One device a run could be asked for.

    `name` is what goes into `device.name`. `reason` says why it isn't available and what to do, empty where it is.
    `refusals` holds, by option and value (`{"training.optimizer": {"adamw-8bit": "..."}}`), why that choice can't be
    taken on this device, `cautions` what to know before taking it; what stands in neither works. The value `*` stands
    for every value but the option's default. `automatic` says what "auto" comes to. Bytes are bytes.
    """

    name: str
    title: str
    available: bool
    reason: str = ""
    memory_bytes: int | None = None
    refusals: dict[str, dict[str, str]] = {}
    cautions: dict[str, dict[str, str]] = {}
    automatic: dict[str, Settled] = {}


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """All devices, the available and the others, and what `device.name = "auto"` would take.

    `choices` lists the values of the options that only this PyTorch can list (`device.compile_backend`); `notes` are
    plain sentences about this machine that matter for training (an x86 Python on an Apple chip, ...).
    """

    devices: tuple[DeviceReport, ...]
    automatic: str
    choices: dict[str, tuple[str, ...]] = {}
    versions: dict[str, str] = {}
    notes: tuple[str, ...] = ()


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


class DataReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a data file or folder.

    `rows` counts samples; `columns` is empty for images. `text_columns` and `label_column` are guesses. `labels`
    counts samples a label, most frequent first, at most 200 of them. `eval_rows` counts the samples of evaluation data
    that was asked about and can be used. `problems` stop a run, `notes` don't.
    """

    source: str
    format: str
    rows: int
    columns: tuple[Column, ...] = ()
    preview: tuple[tuple[str, ...], ...] = ()
    text_columns: tuple[str, ...] = ()
    label_column: str | None = None
    labels: dict[str, int] = {}
    eval_rows: int | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
