"""The tabs at the foot of a run page: log, metrics, what ran, options."""

from PySide6.QtGui import QFontDatabase, QTextCursor
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QPlainTextEdit,
    QScrollArea,
    QTableView,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from core.events import WhatRan
from gui import numbers
from gui.models.metrics_model import MetricsModel
from gui.models.run_history import RunHistory
from gui.names import device_title
from gui.theme import SPACING
from gui.widgets.key_value import KeyValue
from gui.widgets.roles import Role, set_role

LOG_LINES = 5000
"""Lines of the log that are kept on screen; all of it stands in `log.txt`."""


class TextView(QPlainTextEdit):
    """Text in equal-width letters, to be read and copied."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        set_role(self, Role.MONOSPACE)


class RunDetails(QTabWidget):
    """Everything about a run that is read rather than glanced at."""

    def __init__(self, history: RunHistory, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._history = history
        self.log = TextView(self.tr("Log"))
        self.log.setMaximumBlockCount(LOG_LINES)
        self.log.setPlaceholderText(self.tr("Nothing printed"))
        self.metrics = MetricsModel(self)
        self.what_ran = KeyValue()
        self.options = TextView(self.tr("Options"))
        self.addTab(self.log, self.tr("Log"))
        self.addTab(self._metrics_table(), self.tr("Metrics"))
        self.addTab(self._scrolled(self.what_ran), self.tr("What ran"))
        self.addTab(self.options, self.tr("Options"))

    def add_log(self, text: str) -> None:
        """Append printed text; the view follows the end unless somebody scrolled away from it."""
        self.log.appendPlainText(text.removesuffix("\n"))

    def show_end_of_log(self) -> None:
        """Bring the last printed lines into view."""
        self.setCurrentWidget(self.log)
        self.log.moveCursor(QTextCursor.MoveOperation.End)
        self.log.moveCursor(QTextCursor.MoveOperation.StartOfLine)

    def refresh(self, ran: WhatRan | None) -> None:
        """Show what has been measured and found out since."""
        self.metrics.show(self._history.evaluations)
        self.what_ran.set_rows(self._what_ran_rows(ran))

    def _what_ran_rows(self, ran: WhatRan | None) -> list[tuple[str, str]]:
        rows = [] if ran is None else self._computation_rows(ran) + self._size_rows(ran)
        if not rows:
            rows = [(self.tr("What ran"), self.tr("Known after the first step"))]
        versions = ", ".join(f"{name} {version}" for name, version in self._history.versions.items())
        return [*rows, (self.tr("Versions"), versions)] if versions else rows

    def _computation_rows(self, ran: WhatRan) -> list[tuple[str, str]]:
        device, name = device_title(ran.device), ran.device_name
        rows = [
            (self.tr("Device"), device if name in ("", ran.device) else f"{device} ({name})"),
            (self.tr("Weights"), ran.parameter_dtype),
            (self.tr("Computed in"), ran.autocast_dtype or ran.parameter_dtype),
            (self.tr("Optimizer"), ran.optimizer),
        ]
        if ran.attention:
            rows.append((self.tr("Attention"), ran.attention))
        return rows + [(name.replace("_", " ").capitalize(), why) for name, why in ran.reasons.items()]

    def _size_rows(self, ran: WhatRan) -> list[tuple[str, str]]:
        trained = numbers.compact_count(ran.trainable_parameters)
        of_all = self.tr("{} of {}").format(trained, numbers.compact_count(ran.total_parameters))
        return [
            (self.tr("Parameters trained"), of_all),
            (self.tr("Optimizer state"), numbers.memory(ran.optimizer_state_bytes)),
            (self.tr("Effective batch"), self.tr("{} samples").format(numbers.count(ran.effective_batch))),
        ]

    def _metrics_table(self) -> QTableView:
        table = QTableView()
        table.setModel(self.metrics)
        table.setAccessibleName(self.tr("Metrics"))
        table.setFrameShape(QFrame.Shape.NoFrame)
        set_role(table, Role.INSET)
        table.setShowGrid(False)
        table.setTabKeyNavigation(False)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.verticalHeader().hide()
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + SPACING + 2)
        table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        table.horizontalHeader().setHighlightSections(False)
        return table

    def _scrolled(self, content: QWidget) -> QScrollArea:
        page = QWidget()
        set_role(page, Role.PAGE)
        column = QVBoxLayout(page)
        column.setContentsMargins(2 * SPACING, SPACING, 2 * SPACING, SPACING)
        column.addWidget(content)
        column.addStretch()
        area = QScrollArea()
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setWidget(page)
        return area
