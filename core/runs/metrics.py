"""Metrics of a run as tables, written as CSV or Parquet.

Files are read in parts, so that memory doesn't grow with the run. Of a step that several attempts trained, only the
last attempt counts. Unknown values are missing (empty in CSV); a loss that isn't finite is `NaN`, `inf` or `-inf`, as
in pandas and R.
"""

import contextlib
import csv
import heapq
import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TextIO, get_args, get_type_hints

import msgspec

from core.base.errors import RunFolderError
from core.base.files import open_plain, writing, written_whole
from core.base.language import _
from core.runs.event_log import LARGEST_LINE, EventReader
from core.runs.events import (
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    Evaluated,
    Event,
    MemorySampled,
    RunStarted,
    StepFinished,
    decode,
)
from core.runs.folder import RunFolder
from core.runs.status import WorkClock

ROWS_AT_ONCE = 1 << 16  # of a Parquet file

Cell = float | int | bool | str | None
Row = tuple[Cell, ...]
Sample = MemorySampled | DeviceSampled | BatterySampled | DiskSampled

# --- The tables


class What(StrEnum):
    """Which table."""

    STEPS = "steps"
    EVALUATIONS = "evaluations"
    MACHINE = "machine"


class MetricsColumn(NamedTuple):
    """A column: its name, and the type of its cells (`int`, `float`, `bool` or `str`)."""

    name: str
    kind: type


WHEN = (
    MetricsColumn("attempt", int),
    MetricsColumn("time", float),
    MetricsColumn("seconds_since_start", float),
)
"""In every table. `time` is unix seconds; those since the start are seconds worked (`WorkClock`), as in the charts."""

STEP_COLUMNS = (
    MetricsColumn("step", int),
    MetricsColumn("epoch", float),
    *WHEN,
    MetricsColumn("loss", float),
    MetricsColumn("learning_rate", float),
    MetricsColumn("grad_norm", float),
    MetricsColumn("samples", int),
    MetricsColumn("tokens", int),
    MetricsColumn("seconds", float),
    MetricsColumn("compile_seconds", float),
    MetricsColumn("data_seconds", float),
    MetricsColumn("forward_seconds", float),
    MetricsColumn("backward_seconds", float),
    MetricsColumn("optimizer_seconds", float),
)
_STEP_FIGURES = attrgetter("loss_value", *(column.name for column in STEP_COLUMNS[6:]))

SAMPLES: dict[type, str] = {
    MemorySampled: "memory",
    DeviceSampled: "device",
    BatterySampled: "battery",
    DiskSampled: "disk",
}
"""The name of each kind of sample, which is also the prefix of its columns."""


class MetricsTable:
    """One table of a run; its rows are read lazily.

    `columns` describes a row. `skipped` is the number of lines that couldn't be read, once all rows have been iterated.
    """

    def __init__(self, run: RunFolder, what: What) -> None:
        self._run = run
        self._what = what
        self._starts: list[RunStarted] = []
        self._metrics: dict[str, None] = {}
        with contextlib.suppress(OSError), open_plain(run.events_file) as lines:
            while line := lines.readline(LARGEST_LINE):
                if b'"run_started"' in line or b'"evaluated"' in line:
                    self._survey(line)
        self._readers: list[EventReader] = []
        metrics = (MetricsColumn(name, float) for name in self._metrics)
        self.columns: tuple[MetricsColumn, ...] = {
            What.STEPS: STEP_COLUMNS,
            What.EVALUATIONS: (*STEP_COLUMNS[:5], MetricsColumn("seconds", float), *metrics),
            What.MACHINE: MACHINE_COLUMNS,
        }[what]

    def _survey(self, line: bytes) -> None:
        with contextlib.suppress(msgspec.MsgspecError):
            event = decode(line)
            if isinstance(event, RunStarted):
                self._starts.append(event)
            elif isinstance(event, Evaluated):
                self._metrics.update(dict.fromkeys(event.metrics))

    @property
    def skipped(self) -> int:
        return sum(reader.skipped for reader in self._readers)

    def rows(self) -> Iterator[Row]:
        """Yields the rows in the order of time.

        Raises:
            RunFolderError: The run can't be read.
        """
        self._readers = []
        files = map(self._events, (self._run.machine_file, self._run.events_file))
        clock = WorkClock()
        for event in heapq.merge(*files, key=attrgetter("time")):
            if clock.begins_with(event):
                clock.begin(event)
            clock.go_on((event,))
            when = event.attempt, event.time, clock.at(event)
            if (cells := self._cells(event, when)) is not None:
                yield cells

    def _cells(self, event: Event, when: Row) -> Row | None:
        """Returns the cells of an event; None if it has no row in this table."""
        match self._what, event:
            case What.MACHINE, MemorySampled() | DeviceSampled() | BatterySampled() | DiskSampled():
                cells = _sample_cells(event)
                return *when, *(cells.get(one.name) for one in MACHINE_COLUMNS[len(WHEN) :])
            case What.STEPS, StepFinished() if not self._is_repeated(event):
                return event.step, event.epoch, *when, *_STEP_FIGURES(event)
            case What.EVALUATIONS, Evaluated() if not self._is_repeated(event):
                figures = (event.metrics.get(name) for name in self._metrics)
                return event.step, event.epoch, *when, event.seconds, *figures
        return None

    def _is_repeated(self, event: StepFinished | Evaluated) -> bool:
        return any(later.undoes(event.step) for later in self._starts if later.attempt > event.attempt)

    def _events(self, path: Path) -> Iterator[Event]:
        reader = EventReader(path)
        self._readers.append(reader)
        while not reader.is_at_end:
            yield from reader.read()
        if reader.trouble:
            raise RunFolderError(_("The run can't be read"), reader.trouble)


def _machine_columns() -> tuple[MetricsColumn, ...]:
    found = {name: MetricsColumn(name, str) for name in ("sample", "source", "name")}
    for kind in SAMPLES:
        hints = get_type_hints(kind)
        for one in msgspec.structs.fields(kind):
            name = _column_name(kind, one.name)
            if one.name not in ("time", "attempt"):
                found.setdefault(name, MetricsColumn(name, _plain_kind(hints[one.name])))
    return (*WHEN, *found.values())


def _column_name(kind: type, figure: str) -> str:
    return figure if figure in ("source", "name") else f"{SAMPLES[kind]}_{figure}"


def _plain_kind(hint: object) -> type:
    """Returns the type of cells for a field with this type hint: `str` for everything that isn't a number or bool."""
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 and kinds[0] in (int, float, bool) else str


MACHINE_COLUMNS = _machine_columns()


def _sample_cells(event: Sample) -> dict[str, Cell]:
    cells: dict[str, Cell] = {"sample": SAMPLES[type(event)]}
    for name, value in msgspec.structs.asdict(event).items():
        cells[_column_name(type(event), name)] = ", ".join(value) if isinstance(value, tuple) else value
    return cells


# --- CSV and Parquet


def write_csv(table: MetricsTable, stream: TextIO) -> int:
    """Writes a table as CSV with a header; returns the number of rows."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([csv_cell(column.name) for column in table.columns])
    count = 0
    for count, row in enumerate(table.rows(), start=1):  # noqa: B007 - counts
        writer.writerow(map(csv_cell, row))
    return count


def write_columns(columns: Mapping[str, Any], path: Path) -> None:
    """Writes numpy arrays of equal length as a CSV file; NaN becomes an empty cell.

    Raises:
        OSError: It can't be written.
    """
    import pyarrow as pa  # here, as no other command needs it
    from pyarrow import csv as arrow_csv

    arrays = [pa.array(values, from_pandas=True) for values in columns.values()]
    arrow_csv.write_csv(pa.table(arrays, names=[str(csv_cell(name)) for name in columns]), path)


def csv_cell(cell: Cell) -> Cell:
    """Returns a cell for CSV; text that a spreadsheet would run as a formula is quoted (OWASP, CSV Injection)."""
    if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{cell}"
    return "NaN" if isinstance(cell, float) and math.isnan(cell) else cell


def save_csv(table: MetricsTable, path: Path) -> int:
    """Saves a table as CSV atomically, replacing what is at `path`; returns the number of rows.

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


def save_parquet(table: MetricsTable, path: Path) -> int:
    """Saves a table as Parquet; see `save_csv`."""
    import pyarrow as pa  # here, as no other command needs it
    from pyarrow import parquet

    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    schema = pa.schema([pa.field(column.name, types[column.kind]) for column in table.columns])
    rows, count = table.rows(), 0
    with (
        writing(path),
        written_whole(path) as temporary,
        parquet.ParquetWriter(temporary, schema) as file,
    ):
        while part := list(islice(rows, ROWS_AT_ONCE)):
            columns = zip(*part, strict=True)
            arrays = [pa.array(cells, one.type) for cells, one in zip(columns, schema, strict=True)]
            file.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            count += len(part)
    return count
