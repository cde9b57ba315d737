"""What is known of the chosen data, below its field: how it was read, its rows and columns, what was found in it."""

from collections.abc import Set

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core.choices import Task
from core.column_roles import Columns
from core.data_report import DataReport
from gui.pages.data_findings import FindingsPane
from gui.pages.data_line import DataLine
from gui.pages.data_rows import row_numbers
from gui.pages.data_views import DataSheet, DataViews
from gui.pages.new_run_reading import DataReading
from gui.theme import SPACING, Theme
from gui.widgets.fitting_scroll import PageScroll
from gui.widgets.form_row import FormRow

LINES_HIGH, LINES_FOUND = 20, 6
VIEWS_STRETCH = 100


class DataOverview(QWidget):
    """A line, the views of the data, and below them, to be scrolled, what is wrong with it, notes and findings.

    It is always as high, whatever is known of the data: what stands below must not move as that comes in.

    Signals:
        use_chosen: The name of a column, and the key of what it shall be (`core.column_roles`).
        fix_chosen: The `core.errors.Fix` whose button was pressed.

    Args:
        theme: The colours.
        reading: What is known of the data.
        parent: Qt's parent.
    """

    use_chosen = Signal(str, str)
    fix_chosen = Signal(object)

    def __init__(self, theme: Theme, reading: DataReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading = reading
        self._shown: DataReport | None = None
        self._task: Task | None = None
        self._sheet: DataSheet | None = None
        self.line = DataLine(reading)
        self.views = DataViews(theme)
        self.findings = FindingsPane()
        found = QWidget()
        self._found = QVBoxLayout(found)
        self._found.setContentsMargins(0, 0, 0, 0)
        self._found.addWidget(self.line.notes_label)
        self._found.addWidget(self.findings)
        scroll = PageScroll(found, most_lines=LINES_FOUND)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, SPACING // 2)
        self._layout.setSpacing(SPACING)
        self._layout.addWidget(self.line)
        self._layout.addWidget(self.views, VIEWS_STRETCH)
        self._layout.addWidget(scroll)
        self._layout.addStretch(1)
        self.setFixedHeight(LINES_HIGH * self.fontMetrics().height())
        self.line.enlarge_pressed.connect(self.enlarge)
        self.views.use_chosen.connect(self.use_chosen)
        self.findings.fix_chosen.connect(self.fix_chosen)
        self.findings.row_chosen.connect(self.views.show_row)
        self.views.hide()

    def show_state(self, task: Task, columns: Columns, guessed: Set[str]) -> None:
        """Say what is known now.

        Args:
            task: What the data is for.
            columns: The columns used, by the keys of their roles.
            guessed: The keys of those that were guessed.
        """
        report = self._reading.report
        self.line.show_state()
        if report is not self._shown or task is not self._task:
            self._shown, self._task = report, task
            self.views.show_report(report, task)
            if report is not None:
                self.findings.show_findings(report.findings, frozenset(row_numbers(report)))
            else:
                self.findings.show_findings(())
        self.views.show_uses(task, columns, guessed)

    def take_problems(self, row: FormRow) -> None:
        """Show what is wrong with the data here, and not below its row: much of it is found only by reading it."""
        self._found.insertLayout(0, row.give_problems())

    @property
    def has_table(self) -> bool:
        """Whether columns can be chosen in the table."""
        return self._shown is not None and bool(self._shown.columns and self._shown.preview)

    @property
    def leaves_out_columns(self) -> bool:
        """Whether some columns can't be chosen in the table."""
        return self.has_table and self.views.rows.leaves_out

    def set_limit(self, limit: int | None) -> None:
        """Texts are cut off after so many tokens."""
        self.views.lengths.set_limit(limit)

    def enlarge(self) -> None:
        """Show the views in a window of their own."""
        report = self._reading.report
        if report is None or self._sheet is not None:
            return
        self._sheet = DataSheet(self.views, report.source.rpartition("/")[2], self)
        self._sheet.finished.connect(self._take_back)
        self._sheet.open()

    @property
    def sheet(self) -> DataSheet | None:
        """The window of its own, while it is open."""
        return self._sheet

    def _take_back(self) -> None:
        self._layout.insertWidget(1, self.views, VIEWS_STRETCH)
        self.views.setVisible(self.views.count() > 0)
        if self._sheet is not None:
            self._sheet.deleteLater()
            self._sheet = None
