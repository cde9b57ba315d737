"""The answers to many images, or to a file of texts, as a table that is saved as CSV."""

import csv
import shutil
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, QPoint, Qt
from PySide6.QtWidgets import QFileDialog, QHeaderView, QMenu, QTableView, QVBoxLayout, QWidget

from core.base.errors import UserError, why
from core.base.language import _, ngettext
from core.jobs.chat import Answered
from gui.base.files import add_file_actions, reveal
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.try_it.input import TryQuestion
from gui.widgets.labels import isolated, push_button, text_label
from gui.widgets.layout import FLUSH, fill, hbox
from gui.widgets.tables import set_up_rows

MOST_ROWS = 2000
"""Rows that are shown; the CSV file has all."""
CELL_LETTERS = 300
MOST_COUNTED = 12
"""Different answers that are counted above the table."""

Index = QModelIndex | QPersistentModelIndex
Failed = Callable[[UserError], None]


class AnswersModel(QAbstractTableModel):
    """The first rows of a CSV file; of images the file and its folder are shown, and the path is a tool tip."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns: tuple[str, ...] = ()
        self._rows: tuple[tuple[str, ...], ...] = ()
        self._has_files = False

    def show(self, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], *, has_files: bool) -> None:
        self.beginResetModel()
        self.columns, self._rows, self._has_files = columns, rows, has_files
        self.endResetModel()

    def path(self, row: int) -> Path | None:
        """The image of a row; None for a row of a file of texts."""
        return Path(self._rows[row][0]) if self._has_files and 0 <= row < len(self._rows) else None

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> str | None:
        is_title = orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole
        return self.columns[section] if is_title else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> str | None:
        text = self._rows[index.row()][index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return text[:CELL_LETTERS] or None
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        shown = str(Path(*Path(text).parts[-2:])) if self._has_files and index.column() == 0 else text
        return " ".join(shown.split())[:CELL_LETTERS]


class FileAnswers(QWidget):
    """What was asked, how far it is, how often each answer was given, and the table.

    Args:
        failed: Shows why a file can't be opened or saved.
    """

    def __init__(self, failed: Failed) -> None:
        super().__init__()
        self._failed = failed
        self._table = Path()
        self._name, self._has_images = "", False
        self.asked = text_label(role=Role.STRONG)
        self.counts = text_label(selectable=True)
        self.below = text_label(role=Role.HINT, selectable=True)
        self.model = AnswersModel(self)
        self.table = QTableView()
        self.table.setModel(self.model)
        set_up_rows(self.table)
        self.table.setAccessibleName(_("Answers"))
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.table.customContextMenuRequested.connect(self._open_menu)
        self.table.activated.connect(self._open_row)
        self.save = push_button(_("Save as CSV…"), self._save)
        buttons = hbox(None, self.save)
        parts = (self.asked, self.counts, (self.table, 1), self.below, buttons)
        fill(QVBoxLayout(self), *parts, margins=FLUSH, spacing=SPACING).addStretch(0)
        self.clear()

    def clear(self) -> None:
        for widget in (self.asked, self.counts, self.table, self.save, self.below):
            widget.hide()

    take_back = clear

    def begin(self, question: TryQuestion, _name: str) -> None:
        self.clear()
        self._name, self._has_images = question.shown, question.has_images
        self.asked.setText(question.shown)
        self.asked.show()

    def finish(self, answered: Answered) -> None:
        with self._table.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            columns = tuple(next(rows))
            place = columns.index(answered.added[0])
            order = [*range(place, len(columns)), *range(place)]  # a long text would hide its answer
            if self._has_images:
                order.sort()
            first = [[*row] for row in islice(rows, MOST_ROWS)]
            counts = Counter(row[place] for row in first if row[place])
            counts.update(row[place] for row in rows if row[place])
        shown = tuple(tuple(row[column] for column in order) for row in first)
        self.model.show(tuple(columns[column] for column in order), shown, has_files=self._has_images)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)
        self.table.resizeColumnsToContents()
        self.counts.setText(
            "   ".join(f"{isolated(label)}: {count:,}" for label, count in counts.most_common())
        )
        self.counts.setVisible(0 < len(counts) <= MOST_COUNTED)
        more = answered.rows - len(first)
        rest = ngettext(
            "{count:,} more row is in the CSV file.", "{count:,} more rows are in the CSV file.", more
        )
        self.show_notes(rest.format(count=more) if more > 0 else "", *answered.notes, answered.figures)
        self.table.show()
        self.save.show()

    def show_notes(self, *lines: str, role: Role = Role.HINT) -> None:
        """Show lines below the table; empty ones are left out."""
        set_role(self.below, role)
        self.below.setText("\n".join(filter(None, lines)))
        self.below.setVisible(bool(self.below.text()))

    def new_table(self, path: Path) -> str:
        """Take the file that the next answers are written to; returns its path as text."""
        self._table = path
        return str(path)

    def _save(self) -> None:
        title, filters = _("Save the answers"), _("CSV ({kinds})").format(kinds="*.csv")
        proposed = _("{name} answered").format(name=Path(self._name).stem)
        place, _filter = QFileDialog.getSaveFileName(self.window(), title, f"{proposed}.csv", filters)
        if not place:
            return
        path = Path(place) if Path(place).suffix.lower() == ".csv" else Path(f"{place}.csv")
        try:
            shutil.copyfile(self._table, path)
        except OSError as error:
            self._failed(UserError(_("The answers can't be saved"), f"{path}: {why(error)}"))
        else:
            self.show_notes(_("Saved as {path}").format(path=path))

    def _open_row(self, index: QModelIndex) -> None:
        path = self.model.path(index.row())
        error = reveal(path) if path is not None else None
        if error is not None:
            self._failed(error)

    def _open_menu(self, position: QPoint) -> None:
        path = self.model.path(self.table.indexAt(position).row())
        if path is not None:
            menu = QMenu(self)
            add_file_actions(menu, path, self._failed)
            menu.aboutToHide.connect(menu.deleteLater)
            menu.popup(self.table.viewport().mapToGlobal(position))
