"""What can be done with a chart: copy it, save it as a picture or as a table, change its scale."""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from gettext import gettext as _
from pathlib import Path
from typing import Protocol

import numpy as np
from PySide6.QtCore import QBuffer, QIODevice, QPoint, QStandardPaths, Qt
from PySide6.QtGui import QAction, QGuiApplication, QPixmap
from PySide6.QtWidgets import QFileDialog, QMenu, QMessageBox, QToolButton, QWidget

from core.base.errors import UserError
from core.base.files import write_atomically, writing, written_whole
from core.runs.metrics import csv_cell
from gui.base.background import FileWork
from gui.base.theme import Role, set_role
from gui.base.trash import show_as_written
from gui.charts.series import Floats, Line

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


SCALE = 2
"""Copied pictures have so many pixels for each on screen, at least: they end up in documents."""


class Pictured(Protocol):
    """A chart, as its menu sees it."""

    can_be_log: bool

    @property
    def title(self) -> str:
        """What it shows."""

    def set_log(self, is_log: bool) -> None:
        """Change that."""

    def picture(self, scale: float) -> QPixmap:
        """The chart as an image, without its button."""

    def data(self) -> ChartData:
        """The data that is shown."""

    def window(self) -> QWidget:
        """Where dialogs belong."""


class MenuButton(QToolButton):
    """Three dots at the end of a chart's heading; the chart's own menu opens at the mouse, too."""

    def __init__(self, chart: Pictured) -> None:
        super().__init__()
        self._chart = chart
        self._files = FileWork(self)
        self._files.failed.connect(self._complain)
        set_role(self, Role.MORE)
        self.setText("⋯")
        self.setAccessibleName(_("{}: copy, save, scale").format(chart.title))
        self.setToolTip(_("Copy, save, scale"))
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        policy = self.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # or the legend would move while a picture is taken
        self.setSizePolicy(policy)
        self._menu = QMenu(self)
        self._add(_("Copy image"), self.copy_image)
        self._add(_("Save image…"), self._ask_image)
        self._add(_("Save data as CSV…"), self._ask_table)
        self._menu.addSeparator()
        if chart.can_be_log:
            self.add_switch(_("Logarithmic scale"), chart.set_log)
        self.setMenu(self._menu)

    def add_switch(self, words: str, switch: Callable[[bool], None]) -> None:
        """Offer something that is on or off."""
        action = QAction(words, self, checkable=True)
        action.toggled.connect(switch)
        self._menu.addAction(action)

    def pop_up(self, place: QPoint) -> None:
        """Open the menu there."""
        self._menu.popup(place)

    def copy_image(self) -> None:
        """Put the chart as it is on the clipboard."""
        QGuiApplication.clipboard().setPixmap(self._chart.picture(SCALE))

    def save_image(self, path: Path) -> None:
        """Write the chart as it is into a PNG file."""
        picture = QBuffer()
        picture.open(QIODevice.OpenModeFlag.WriteOnly)
        self._chart.picture(SCALE).save(picture, "PNG")
        try:
            with writing(path):
                write_atomically(path, bytes(picture.data().data()))
        except UserError as error:
            self._complain(error)

    def save_table(self, path: Path) -> None:
        """Write what the chart shows, every point of it, into a CSV file."""
        data = self._chart.data()

        def write() -> None:
            with writing(path), written_whole(path) as temporary:
                write_csv(data.table(), temporary)

        self._files.put(write)

    def end_work(self) -> None:
        self._files.end_work()

    def _add(self, words: str, do: Callable[[], None]) -> None:
        self._menu.addAction(words).triggered.connect(do)

    def _ask_image(self) -> None:
        self._ask(_("Save image"), ".png", _("PNG images (*.png)"), self.save_image)

    def _ask_table(self) -> None:
        self._ask(_("Save data"), ".csv", _("CSV tables (*.csv)"), self.save_table)

    def _ask(self, title: str, ending: str, kinds: str, save: Callable[[Path], None]) -> None:
        folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        name = self._chart.title.lower().replace(" ", "-") + ending
        chosen, _ = QFileDialog.getSaveFileName(self._chart.window(), title, str(Path(folder) / name), kinds)
        if chosen:
            save(Path(chosen))

    def _complain(self, error: UserError) -> None:
        box = QMessageBox(QMessageBox.Icon.Warning, error.title, error.title, parent=self._chart.window())
        box.setInformativeText(error.detail)
        show_as_written(box)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()
