"""What is known about the chosen data, below its field: rows, labels, a look at the first rows."""

from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from core.reports import DataReport
from gui.pages.new_run_reading import DataReading
from gui.theme import SPACING, Theme
from gui.widgets.form_row import field_indent
from gui.widgets.label_bars import LabelBars
from gui.widgets.roles import Role, set_role

WIDEST_COLUMN = 420


class DataStatus(QWidget):
    """A line about the data, and bars of its labels."""

    def __init__(self, theme: Theme, reading: DataReading, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reading = reading
        layout = QVBoxLayout(self)
        layout.setContentsMargins(field_indent(self), 0, 0, 0)
        layout.setSpacing(SPACING)
        self._line = QLabel()
        self._line.setWordWrap(True)
        set_role(self._line, Role.HINT)
        self._preview = QPushButton(self.tr("Show rows"))
        set_role(self._preview, Role.LINK)
        self._preview.clicked.connect(self._show_preview)
        heading = QHBoxLayout()
        heading.addWidget(self._line, 1)
        heading.addWidget(self._preview)
        layout.addLayout(heading)
        self._bars = LabelBars(theme)
        layout.addWidget(self._bars)
        reading.changed.connect(self.show_state)
        self.show_state()

    def show_state(self) -> None:
        """Say what is known now."""
        report = self._reading.report
        self._preview.setVisible(bool(report and report.preview))
        self._bars.set_counts(report.labels if report else {})
        if self._reading.is_reading:
            self._line.setText(self.tr("Reading…"))
        elif report is not None and report.rows:
            self._line.setText(self._words(report))
        else:
            self._line.setText("")
        self.setVisible(bool(self._line.text()) or report is not None)

    def _words(self, report: DataReport) -> str:
        parts = [self.tr("{rows:,} samples").format(rows=report.rows)]
        if report.labels:
            parts.append(self.tr("{labels:,} labels").format(labels=len(report.labels)))
        return " · ".join([*parts, report.format])

    def _show_preview(self) -> None:
        report = self._reading.report
        if report is not None:
            PreviewDialog(report, self).open()


class PreviewDialog(QDialog):
    """The first rows of a table."""

    def __init__(self, report: DataReport, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(
            self.tr("The first {count} of {rows:,} rows").format(count=len(report.preview), rows=report.rows)
        )
        self.resize(860, 520)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * SPACING, 2 * SPACING, 2 * SPACING, 2 * SPACING)
        layout.addWidget(_table(report), 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)


def _table(report: DataReport) -> QTableWidget:
    table = QTableWidget(len(report.preview), len(report.columns))
    table.setHorizontalHeaderLabels([column.name for column in report.columns])
    table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
    table.setAccessibleName(report.source)
    for row, values in enumerate(report.preview):
        for column, value in enumerate(values):
            table.setItem(row, column, QTableWidgetItem(value))
    table.resizeColumnsToContents()
    for column in range(table.columnCount()):
        table.setColumnWidth(column, min(WIDEST_COLUMN, table.columnWidth(column)))
    return table
