"""The data of a chart as a table, and the thread that makes and writes it: a long run has a million rows."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PySide6.QtCore import QObject, QThread, Signal

from core.errors import UserError
from core.files import written_whole
from core.metrics_table import csv_cell
from core.targets import writing
from gui.plots.lines import Line
from gui.plots.reduction import Floats

Columns = dict[str, tuple[Floats, Floats]]
"""Points by the name of their column: places, ascending, and values. Shapes (n,), n of each column its own."""

ROWS_AT_ONCE = 20_000


def columns_of(lines: Iterable[Line], low: float, high: float) -> Columns:
    """Copy what lines have from `low` to `high`, at full resolution; those without a `column` are left out."""
    found: Columns = {}
    for line in lines:
        if line.column:
            x = line.series.x
            shown = slice(int(np.searchsorted(x, low, "left")), int(np.searchsorted(x, high, "right")))
            found[line.column] = x[shown], line.series.y[shown]
    return found


@dataclass(frozen=True)
class ChartData:
    """What a chart shows, to be made into a table.

    Args:
        place: What places are called: `step`, or `seconds`.
        columns: What is drawn.
        beside: What else is known of the places at which something is drawn, such as when a step ended.
    """

    place: str
    columns: Columns
    beside: Columns

    def table(self) -> dict[str, Floats]:
        """A row for each place at which any column has a point; NaN where a column has none there."""
        every = [x for x, _ in self.columns.values()]
        places = np.unique(np.concatenate(every)) if every else np.empty(0)
        table = {self.place: places}
        for name, (x, y) in (self.beside | self.columns).items():
            table[name] = _at(places, x, y)
        return table


def _at(places: Floats, x: Floats, y: Floats) -> Floats:
    """Values at places, ascending; NaN where there is none. Shape as that of `places`."""
    found: Floats = np.full(len(places), np.nan)
    if len(x):
        nearest = np.minimum(np.searchsorted(x, places), len(x) - 1)
        is_there = x[nearest] == places
        found[is_there] = y[nearest[is_there]]
    return found


class TableWriter(QThread):
    """Writes the data of one chart as CSV, whole or not at all.

    Signals:
        failed: A `core.errors.UserError`.
    """

    failed = Signal(object)

    def __init__(self, data: ChartData, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._data = data
        self._path = path

    def run(self) -> None:
        """Write the rows."""
        try:
            with writing(self._path), written_whole(self._path) as temporary:
                write_csv(self._data.table(), temporary)
        except UserError as error:
            self.failed.emit(error)


def write_csv(table: dict[str, Floats], path: Path) -> None:
    """Write a table; a cell without a value is empty.

    Raises:
        OSError: It can't be written.
    """
    columns = list(table.values())
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(csv_cell, table))
        for first in range(0, len(columns[0]), ROWS_AT_ONCE):
            block = [column[first : first + ROWS_AT_ONCE].tolist() for column in columns]
            writer.writerows([[_cell(value) for value in row] for row in zip(*block, strict=True)])


def _cell(value: float) -> str:
    if np.isnan(value):
        return ""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.9g}"
