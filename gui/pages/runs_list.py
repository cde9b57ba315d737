"""The table of runs, or the words that stand in its place, and below it how good forecasts of memory have been."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QStackedLayout, QVBoxLayout, QWidget

from gui.models.runs_columns import Column
from gui.models.runs_filter import RunsFilter
from gui.models.runs_model import RunsModel
from gui.pages.runs_table import RunsTable
from gui.theme import SPACING
from gui.widgets.roles import Role, set_role


class RunsList(QWidget):
    """Shows the table while there is a row in it. `trouble` is why the runs can't be listed; empty: they can."""

    def __init__(self, model: RunsModel, rows: RunsFilter, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.trouble = ""
        self.table = RunsTable(model)
        self.table.setModel(rows)
        self.table.setSortingEnabled(True)
        self.table.sortByColumn(Column.STARTED, Qt.SortOrder.DescendingOrder)
        self.table.setAccessibleName(self.tr("Runs"))
        self.words = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        self.words.setWordWrap(True)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.forecasts = QLabel()
        self.forecasts.setWordWrap(True)
        self.forecasts.hide()
        for label in (self.words, self.forecasts):
            set_role(label, Role.MUTED)
        self._stack = QStackedLayout()
        self._stack.addWidget(self.table)
        self._stack.addWidget(self.words)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING)
        column.addLayout(self._stack, 1)
        column.addWidget(self.forecasts)

    def show_state(self, shown: int, total: int, searched: str) -> None:
        """Show the table; or say what to do where there is no run, or none that was looked for."""
        if self.trouble:
            self.words.setText(self.trouble)
        elif not total:
            self.words.setText(
                self.tr(
                    "No runs yet.\nPress New run, choose a model and data, and start it: it will stand here."
                )
            )
        elif not shown:
            self.words.setText(self.tr("No run holds “{}”.").format(searched))
        self._stack.setCurrentIndex(0 if shown else 1)
