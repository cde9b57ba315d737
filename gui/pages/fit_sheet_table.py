"""The table of short runs that were tried: what was changed, what it took, how long a step was, whether it fits."""

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from core.memory.fitting import Try
from core.memory.forecast import Verdict
from gui.numbers import MISSING, memory, step_time
from gui.theme import SPACING
from gui.widgets.row_table import set_up_rows

CELL_PADDING = 3 * SPACING
"""Room within a cell that Qt does not count when it measures wrapped texts, on both sides together."""

WORDS = 0
"""The column whose texts wrap."""


class TriesTable(QTableWidget):
    """A row a try; one row can be chosen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 4, parent)
        self.tries: list[Try] = []
        self.setHorizontalHeaderLabels(
            [self.tr("Changed"), self.tr("Memory at most"), self.tr("A step"), self.tr("Result")]
        )
        self.setAccessibleName(self.tr("What was tried"))
        set_up_rows(self)
        self.setWordWrap(True)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(WORDS, QHeaderView.ResizeMode.Stretch)
        header.sectionResized.connect(self._fit_rows)

    def add(self, done: Try) -> None:
        """Show one more."""
        self.tries.append(done)
        row = self.rowCount()
        self.insertRow(row)
        measured = done.measurement
        cells = (
            done.title,
            memory(measured.peak) if measured else MISSING,
            step_time(measured.step_seconds) if measured else MISSING,
            self._result(done),
        )
        for column, words in enumerate(cells):
            item = QTableWidgetItem(words)
            item.setToolTip(done.problem or (measured.out_of_memory if measured else "") or words)
            self.setItem(row, column, item)
        self._fit_rows()
        self.scrollToBottom()

    def choose(self, done: Try) -> None:
        """Select the row of a try."""
        self.selectRow(self.tries.index(done))

    @property
    def chosen(self) -> Try | None:
        """The try whose row is selected."""
        rows = self.selectionModel().selectedRows()
        return self.tries[rows[0].row()] if rows else None

    def _result(self, done: Try) -> str:
        match done.verdict:
            case Verdict.FITS:
                return self.tr("✓ fits")
            case Verdict.TIGHT:
                return self.tr("! fits tightly")
            case Verdict.TOO_LARGE:
                return self.tr("✕ doesn't fit")
            case Verdict.UNKNOWN:
                return self.tr("✕ failed")

    def _fit_rows(self) -> None:
        """Give each row the height of its words."""
        room = QRect(0, 0, self.columnWidth(WORDS) - CELL_PADDING, 0)
        for row, done in enumerate(self.tries):
            height = self.fontMetrics().boundingRect(room, Qt.TextFlag.TextWordWrap, done.title).height()
            self.setRowHeight(row, height + SPACING + 2)
