"""The data of a chart as a table, and the thread that writes it: a long run has a million rows."""

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PySide6.QtCore import QObject, QThread, Signal

from core.errors import UserError
from gui.models.run_history import RunHistory
from gui.plots.lines import Line
from gui.plots.reduction import Floats

Table = dict[str, Floats]
"""Columns by name, all of one length; NaN is an empty cell."""

ROWS_AT_ONCE = 20_000


def table_of(lines: Iterable[Line], place: str, low: float, high: float) -> Table:
    """What lines show from `low` to `high`, at full resolution: nothing is left out.

    Args:
        lines: Those with a `column` are taken.
        place: What the places of their series are called: `step`, or `seconds`.
        low: From, as the series count.
        high: To.

    Returns:
        A row for each place at which any of them has a point.
    """
    parts: dict[str, tuple[Floats, Floats]] = {}
    for line in lines:
        if line.column:
            x = line.series.x
            shown = slice(int(np.searchsorted(x, low, "left")), int(np.searchsorted(x, high, "right")))
            parts[line.column] = x[shown].copy(), line.series.y[shown].copy()
    places = np.unique(np.concatenate([x for x, _ in parts.values()])) if parts else np.empty(0)
    table: Table = {place: places}
    for column, (x, y) in parts.items():
        values = np.full(len(places), np.nan)
        values[np.searchsorted(places, x)] = y
        table[column] = values
    return table


def with_time(table: Table, history: RunHistory) -> Table:
    """The same table of training steps with what else is known of each step: its epoch, and when it ended."""
    steps = table["step"]
    told: Table = {"step": steps}
    for name, series in (("epoch", history.step_epoch), ("seconds", history.step_clock)):
        if len(series):
            told[name] = series.along(steps)
    return {**told, **table}


class TableWriter(QThread):
    """Writes one table as CSV.

    Signals:
        written: The path, when it is done.
        failed: A `core.errors.UserError`.
    """

    written = Signal(object)
    failed = Signal(object)

    def __init__(self, table: Table, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._table = table
        self._path = path

    def run(self) -> None:
        """Write the rows."""
        try:
            write_csv(self._table, self._path)
        except OSError as error:
            self.failed.emit(
                UserError("The data could not be saved", f"{self._path}: {error.strerror or error}.")
            )
        else:
            self.written.emit(self._path)


def write_csv(table: Table, path: Path) -> None:
    """Write a table.

    Raises:
        OSError: It can't be written.
    """
    columns = list(table.values())
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        for first in range(0, len(columns[0]), ROWS_AT_ONCE):
            block = [column[first : first + ROWS_AT_ONCE].tolist() for column in columns]
            writer.writerows([[_cell(value) for value in row] for row in zip(*block, strict=True)])


def _cell(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN is what isn't equal to itself
        return ""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.9g}"
