"""Metrics of a run as one table, written as CSV or Parquet.

Reads in pieces, so that memory doesn't grow with the run. Steps repeated by a later attempt appear once, as that
attempt reported them. Unknown values are missing (empty in CSV); a loss that isn't finite is `NaN`, `inf` or `-inf`, as
pandas and R write and read them.
"""

import csv
import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from pathlib import Path
from types import NoneType
from typing import Any, TextIO, get_args, get_type_hints

import msgspec

from core.base.errors import RunFolderError
from core.base.files import open_plain, writing, written_whole
from core.runs.event_log import LARGEST_LINE, EventReader
from core.runs.events import (
    AnyEvent,
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    Evaluated,
    MemorySampled,
    RunStarted,
    StepFinished,
    decode,
)
from core.runs.folder import RunFolder

# --- The table, and CSV


FIRST_BYTES = 4096
"""So much is read at once to find the first event."""

Cell = float | int | bool | str | None
Row = tuple[Cell, ...]
Sample = MemorySampled | DeviceSampled | BatterySampled | DiskSampled


class What(StrEnum):
    """Which table."""

    STEPS = "steps"
    EVALUATIONS = "evaluations"
    MACHINE = "machine"


@dataclass(frozen=True)
class Column:
    """A column: its name, and the type of its cells (`int`, `float`, `bool` or `str`)."""

    name: str
    kind: type


WHEN = (Column("attempt", int), Column("time", float), Column("seconds_since_start", float))
"""In every table. `time` is unix seconds; the start is the first event in either file of the run, as in the charts."""

STEP_COLUMNS = (
    Column("step", int),
    Column("epoch", float),
    *WHEN,
    Column("loss", float),
    Column("learning_rate", float),
    Column("grad_norm", float),
    Column("samples", int),
    Column("tokens", int),
    Column("seconds", float),
    Column("compile_seconds", float),
    Column("data_seconds", float),
    Column("forward_seconds", float),
    Column("backward_seconds", float),
    Column("optimizer_seconds", float),
)
_STEP_FIGURES = attrgetter("loss_value", *(column.name for column in STEP_COLUMNS[6:]))

SAMPLES: dict[type, str] = {
    MemorySampled: "memory",
    DeviceSampled: "device",
    BatterySampled: "battery",
    DiskSampled: "disk",
}
"""What the rows of the machine's table are called, and their columns begin with."""


@dataclass
class _Survey:
    """What has to be known of a run before its rows can be told: its attempts and its metrics."""

    from_steps: dict[int, int] = field(default_factory=dict)
    metrics: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> "_Survey":
        """Look through a file of events for the few that tell."""
        found = cls()
        try:
            with open_plain(path) as lines:
                while line := lines.readline(LARGEST_LINE):
                    if b'"run_started"' in line or b'"evaluated"' in line:
                        found._take(line)
        except OSError:  # there is none, or whoever reads the rows says why not
            pass
        return found

    def _take(self, line: bytes) -> None:
        try:
            event = decode(line)
        except msgspec.MsgspecError:
            return
        if isinstance(event, RunStarted):
            self.from_steps[event.attempt] = event.from_step
        elif isinstance(event, Evaluated):
            self.metrics.update(dict.fromkeys(event.metrics))

    def counts(self, attempt: int, step: int) -> bool:
        """Whether no later attempt began at or before the step in question."""
        return all(step <= begun for later, begun in self.from_steps.items() if later > attempt)


def _origin(run: RunFolder) -> float | None:
    """Unix seconds of the first event in either of a run's files; None where neither has any."""
    readers = (EventReader(path) for path in (run.events_file, run.machine_file))
    return min((first.time for reader in readers if (first := _first(reader)) is not None), default=None)


def _first(reader: EventReader) -> AnyEvent | None:
    while not reader.is_at_end:
        events = reader.read(FIRST_BYTES)
        if events:
            return events[0]
    return None


class MetricsTable:
    """One table of a run, read as its rows are asked for.

    `columns` says what a row holds. `skipped` counts the lines that could not be read, once all rows are.
    """

    def __init__(self, run: RunFolder, what: What) -> None:
        self._run = run
        self._survey = _Survey.of(run.events_file)
        self._origin = _origin(run)
        self._readers: list[EventReader] = []
        self.columns: tuple[Column, ...]
        self._tell: Callable[[], Iterator[Row]]
        match what:
            case What.STEPS:
                self.columns, self._tell = STEP_COLUMNS, self._steps
            case What.EVALUATIONS:
                self.columns, self._tell = self._evaluation_columns(), self._evaluations
            case What.MACHINE:
                self.columns, self._tell = MACHINE_COLUMNS, self._machine

    @property
    def skipped(self) -> int:
        """Lines that could not be read so far."""
        return sum(reader.skipped for reader in self._readers)

    def rows(self) -> Iterator[Row]:
        """The rows, in the order in which they happened."""
        self._readers = []
        return self._tell()

    def _when(self, event: AnyEvent) -> Row:
        """The cells of `WHEN`."""
        return event.attempt, event.time, None if self._origin is None else event.time - self._origin

    def _events(self, path: Path) -> Iterator[AnyEvent]:
        reader = EventReader(path)
        self._readers.append(reader)
        while not reader.is_at_end:
            yield from reader.read()
        if reader.trouble:
            raise RunFolderError("The run can't be read", reader.trouble)

    def _steps(self) -> Iterator[Row]:
        for event in self._events(self._run.events_file):
            if isinstance(event, StepFinished) and self._survey.counts(event.attempt, event.step):
                yield (event.step, event.epoch, *self._when(event), *_STEP_FIGURES(event))

    def _evaluation_columns(self) -> tuple[Column, ...]:
        metrics = (Column(name, float) for name in self._survey.metrics)
        return (Column("step", int), Column("epoch", float), *WHEN, Column("seconds", float), *metrics)

    def _evaluations(self) -> Iterator[Row]:
        for event in self._events(self._run.events_file):
            if isinstance(event, Evaluated) and self._survey.counts(event.attempt, event.step):
                metrics = (event.metrics.get(name) for name in self._survey.metrics)
                yield (event.step, event.epoch, *self._when(event), event.seconds, *metrics)

    def _machine(self) -> Iterator[Row]:
        streams = map(self._events, (self._run.machine_file, self._run.events_file))
        for event in heapq.merge(*streams, key=attrgetter("time")):
            if isinstance(event, Sample):
                cells = _sample_cells(event)
                figures = (cells.get(column.name) for column in MACHINE_COLUMNS[len(WHEN) :])
                yield (*self._when(event), *figures)


def _machine_columns() -> tuple[Column, ...]:
    found = {name: Column(name, str) for name in ("sample", "source", "name")}
    for kind in SAMPLES:
        hints = get_type_hints(kind)
        for one in msgspec.structs.fields(kind):
            name = _column_name(kind, one.name)
            if one.name not in ("time", "attempt"):
                found.setdefault(name, Column(name, _plain_kind(hints[one.name])))
    return (*WHEN, *found.values())


def _column_name(kind: type, figure: str) -> str:
    return figure if figure in ("source", "name") else f"{SAMPLES[kind]}_{figure}"


def _plain_kind(hint: object) -> type:
    """The type of the cells for a field of this type: words for everything that is no number."""
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 and kinds[0] in (int, float, bool) else str


MACHINE_COLUMNS = _machine_columns()


def _sample_cells(event: Sample) -> dict[str, Cell]:
    cells: dict[str, Cell] = {"sample": SAMPLES[type(event)]}
    for name, value in msgspec.structs.asdict(event).items():
        cells[_column_name(type(event), name)] = ", ".join(value) if isinstance(value, tuple) else value
    return cells


def write_csv(table: MetricsTable, stream: TextIO) -> int:
    """Write a table as CSV with a line of names; returns how many rows it has."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([csv_cell(column.name) for column in table.columns])
    count = 0
    for row in table.rows():
        writer.writerow(map(csv_cell, row))
        count += 1
    return count


def csv_cell(cell: Cell) -> Cell:
    """A cell as spreadsheets read it: a text that a stranger wrote is no formula (OWASP, CSV Injection)."""
    if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{cell}"
    return "NaN" if isinstance(cell, float) and math.isnan(cell) else cell


def save_csv(table: MetricsTable, path: Path) -> int:
    """Save a table as CSV, whole or not at all, over whatever is at `path`; returns how many rows it has.

    Raises:
        RunFolderError: The run can't be read.
        TargetError: The table can't be written there.
        UserError: It can't be written: the disk is full.
    """
    with (
        writing(path),
        written_whole(path) as temporary,
        temporary.open("x", encoding="utf-8", newline="") as stream,
    ):
        return write_csv(table, stream)


# --- Parquet


ROWS_AT_ONCE = 1 << 16


def save_parquet(table: MetricsTable, path: Path) -> int:
    """Save a table, whole or not at all, over whatever is at `path`; returns how many rows it has.

    Raises:
        RunFolderError: The run can't be read.
        TargetError: The table can't be written there.
        UserError: It can't be written: the disk is full.
    """
    import pyarrow as pa  # here, as no other command needs it
    from pyarrow import parquet

    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    schema = pa.schema([pa.field(column.name, types[column.kind]) for column in table.columns])
    count = 0
    with (
        writing(path),
        written_whole(path) as temporary,
        parquet.ParquetWriter(temporary, schema) as file,
    ):
        for batch in _batches(table, schema):
            file.write_batch(batch)
            count += batch.num_rows
    return count


def _batches(table: MetricsTable, schema: Any) -> Iterator[Any]:
    import pyarrow as pa

    rows = table.rows()
    while part := list(islice(rows, ROWS_AT_ONCE)):
        columns = zip(*part, strict=True)
        arrays = [pa.array(cells, one.type) for cells, one in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
