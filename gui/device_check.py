"""The device check: asks the engine whether the device computes what the CPU does, and shows the answer as a table."""

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLabel,
    QProgressBar,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from core.device_check_report import Agreement, Comparison, DeviceCheckReport, DeviceCheckRequest
from core.errors import UserError
from core.events import Level
from core.option_words import plain_number
from gui.engine_question import Ask, EngineQuestion
from gui.numbers import MISSING
from gui.theme import SPACING
from gui.widgets.message_strip import MessageStrip

SIZE_WAITING = (560, 150)
SIZE_ANSWERED = (860, 600)
CELL_PADDING = 3 * SPACING
"""Room within a cell that Qt does not count when it measures wrapped texts, on both sides together."""
LAST_COLUMN = 3


class DeviceCheckDialog(QDialog):
    """Begins at once; closing it ends the check.

    Args:
        ask: Starts an engine job.
        device: The device as in `device.name`.
        parent: Qt's parent.
    """

    def __init__(self, ask: Ask, device: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Device check"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*SIZE_WAITING)
        self._question = EngineQuestion(ask, "check-device", DeviceCheckReport, self)
        self._question.answered.connect(self._show_report)
        self._question.failed.connect(self._show_failure)
        self._words = QLabel(
            self.tr(
                "The same small models are computed twice, and loss, gradients and one optimizer step are compared. "
                "This takes half a minute at most."
            )
        )
        self._words.setWordWrap(True)
        self._progress = QProgressBar()
        self._progress.setRange(0, 0)
        self._progress.setAccessibleName(self.tr("Checking the device"))
        self._strip = MessageStrip()
        self._strip.hide()
        self.table = self._empty_table()
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self._buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*[2 * SPACING] * 4)
        layout.setSpacing(SPACING + 4)
        for widget in (self._words, self._progress, self._strip):
            layout.addWidget(widget)
        layout.addWidget(self.table, 1)
        layout.addStretch(0)
        layout.addWidget(self._buttons)
        self._question.put(DeviceCheckRequest(device=device))

    def done(self, result: int) -> None:
        """End the check, if it is still under way, and close."""
        self._question.close()
        super().done(result)

    @property
    def is_checking(self) -> bool:
        """Whether the answer is still to come."""
        return self._question.is_waiting

    def _show_report(self, report: DeviceCheckReport) -> None:
        self._finish()
        level = Level.INFO if report.agrees else Level.WARNING
        text = self.tr("{device} beside {reference} · {software} · {seconds:.0f} s")
        detail = text.format(
            device=report.title, reference=report.reference, software=report.software, seconds=report.seconds
        )
        self._strip.show_message(level, report.conclusion, detail)
        self.table.setRowCount(len(report.comparisons))
        for row, comparison in enumerate(report.comparisons):
            for column, words in enumerate(self._cells(comparison)):
                item = QTableWidgetItem(words)
                item.setToolTip(comparison.worst_tensor or words)
                font = item.font()
                font.setBold(comparison.differs and column != LAST_COLUMN)
                item.setFont(font)
                self.table.setItem(row, column, item)
        self.table.show()
        self.resize(*SIZE_ANSWERED)
        self._fit_rows()

    def _fit_rows(self) -> None:
        """Give each row the height of its sentence."""
        metrics = self.table.fontMetrics()
        room = QRect(0, 0, self.table.columnWidth(LAST_COLUMN) - CELL_PADDING, 0)
        for row in range(self.table.rowCount()):
            item = self.table.item(row, LAST_COLUMN)
            words = item.text() if item is not None else ""
            height = metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, words).height()
            self.table.setRowHeight(row, height + SPACING + 2)

    def _show_failure(self, error: UserError) -> None:
        self._finish()
        self._strip.show_error(error)

    def _finish(self) -> None:
        self._progress.hide()
        self._words.hide()
        self._buttons.setStandardButtons(QDialogButtonBox.StandardButton.Close)

    def _cells(self, comparison: Comparison) -> tuple[str, str, str, str]:
        results = {
            Agreement.AGREES: self.tr("✓ agrees"),
            Agreement.DIFFERS: self.tr("✕ differs"),
            Agreement.NOT_RUN: self.tr("– not run"),
        }
        worst = comparison.worst_error
        error = MISSING if worst is None else plain_number(float(f"{worst:.2g}"))
        return results[comparison.agreement], comparison.name, error, comparison.words

    def _empty_table(self) -> QTableWidget:
        table = QTableWidget(0, LAST_COLUMN + 1)
        table.setHorizontalHeaderLabels(
            [
                self.tr("Result"),
                self.tr("Compared"),
                self.tr("Worst relative error"),
                self.tr("What it means"),
            ]
        )
        table.setAccessibleName(self.tr("Comparisons"))
        table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        table.setTabKeyNavigation(False)
        table.setShowGrid(False)
        table.verticalHeader().hide()
        header = table.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignVCenter)
        for column in range(LAST_COLUMN):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(LAST_COLUMN, QHeaderView.ResizeMode.Stretch)
        header.sectionResized.connect(self._fit_rows)
        table.hide()
        return table
