"""The tabs of a run page: charts, predictions, what is mixed up, metrics, what ran, log, options."""

from itertools import groupby
from operator import attrgetter
from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QFontDatabase, QStandardItem, QStandardItemModel, QTextCursor
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QLabel,
    QPlainTextEdit,
    QTableView,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.language import _
from core.runs.events import ConfusionCounted, Evaluated, WhatRan
from core.runs.status import RunStatus
from core.runs.words import statements
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import GUTTER, SPACING
from gui.charts.history import RunHistory
from gui.run.predictions import ConfusionGrid, RunPredictions
from gui.widgets.form_row import sentence
from gui.widgets.layout import PageScroll, fill
from gui.widgets.tables import Group, KeyValue, Row

ALIGNED = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class MetricsModel(QStandardItemModel):
    """One row an evaluation, newest first: step, epoch, time, then every metric that any of them measured."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._evaluations: list[Evaluated] = []
        self._metrics: list[str] = []

    def show(self, evaluations: list[Evaluated]) -> None:
        """Make these the rows."""
        metrics = list(dict.fromkeys(name for found in evaluations for name in found.metrics))
        known = len(self._evaluations)
        if metrics != self._metrics or evaluations[:known] != self._evaluations:
            known = 0
            self.clear()
            self.setHorizontalHeaderLabels(
                [_("Step"), _("Epoch"), _("Took"), *map(formats.metric_title, metrics)]
            )
        self._evaluations, self._metrics = list(evaluations), metrics
        for found in evaluations[known:]:
            values = (formats.metric_format(name)(found.metrics.get(name)) for name in metrics)
            fixed = formats.count(found.step), formats.epochs(found.epoch), formats.step_time(found.seconds)
            items = [QStandardItem(text) for text in (*fixed, *values)]
            for item in items:
                item.setTextAlignment(ALIGNED)
            self.insertRow(0, items)


def what_ran_groups(status: RunStatus) -> list[Group]:
    """All that is known of what ran; groups of which nothing is known are left out."""
    told = statements(status.what_ran, formats.memory, status.versions, status)
    groups = [
        Group(title, tuple(Row(line.title, line.value, sentence(line.reason)) for line in lines))
        for title, lines in groupby(told, attrgetter("group"))
    ]
    if status.what_ran is None:
        later = Row(_("What ran"), _("Known after the first step"))
        groups.insert(0, Group("", (later,)))
    return groups


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
    """The charts of a run, and behind them everything that is read rather than glanced at."""

    def __init__(
        self,
        theme: Theme,
        folder: Path,
        charts: QWidget,
        history: RunHistory,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        set_role(self, Role.TABS)
        self._history = history
        self.log = TextView(_("Log"))
        self.log.setMaximumBlockCount(LOG_LINES)
        self.log.setPlaceholderText(_("Nothing printed"))
        self.metrics = MetricsModel(self)
        self.what_ran = KeyValue()
        self._what_ran_told: tuple[WhatRan | None, dict[str, str], float | None] | None = None
        self._confusion_told: ConfusionCounted | None = None
        self.options = TextView(_("Options"))
        self.addTab(charts, _("Charts"))
        self.predictions = RunPredictions(folder, history.predictions)
        self._predictions_page = _framed(self.predictions)
        self.addTab(self._predictions_page, _("Predictions"))
        self.confusion = ConfusionGrid(theme)
        self._confusion_page = _framed(self._with_words(self.confusion))
        self.addTab(self._confusion_page, _("Confusion matrix"))
        self.addTab(_framed(self._metrics_table()), _("Metrics"))
        self.addTab(_framed(self._scrolled(self.what_ran, _("What ran"))), _("What ran"))
        self._log_page = _framed(self.log)
        self.addTab(self._log_page, _("Log"))
        self.addTab(_framed(self.options), _("Options"))
        self._show_confusion()

    def add_log(self, text: str) -> None:
        """Append printed text; the view follows the end unless somebody scrolled away from it."""
        self.log.appendPlainText(text.removesuffix("\n"))

    def show_end_of_log(self) -> None:
        """Bring the last printed lines into view."""
        self.setCurrentWidget(self._log_page)
        self.log.moveCursor(QTextCursor.MoveOperation.End)
        self.log.moveCursor(QTextCursor.MoveOperation.StartOfLine)

    def refresh(self, status: RunStatus, *, is_over: bool) -> None:
        self.metrics.show(self._history.evaluations)
        self.predictions.refresh(is_over=is_over)
        self._show_confusion()
        self._show_what_ran(status)

    def _show_what_ran(self, status: RunStatus) -> None:
        told = (status.what_ran, status.versions, status.forecast_error)
        if told != self._what_ran_told:
            self._what_ran_told = told
            self.what_ran.set_groups(what_ran_groups(status))

    def _show_confusion(self) -> None:
        found = self._history.predictions.confusion
        self.setTabVisible(self.indexOf(self._confusion_page), found is not None)
        if found is None or found is self._confusion_told:
            return
        self._confusion_told = found
        words = _("After step {step}. Rows are the right labels, columns what the model said.")
        more = _("{count} more labels are mixed up less.") if found.left_out else ""
        text = f"{words} {more}".format(step=formats.count(found.step), count=found.left_out)
        self._confusion_text.setText(text.strip())
        self.confusion.show_confusion(found)

    def _with_words(self, grid: QWidget) -> QWidget:
        """The grid below a line that says how to read it."""
        page = QWidget()
        self._confusion_text = QLabel()
        set_role(self._confusion_text, Role.HINT)
        fill(
            QVBoxLayout(page),
            self._confusion_text,
            (grid, 1),
            margins=(2 * SPACING, SPACING, 2 * SPACING, SPACING),
            spacing=SPACING,
        )
        return page

    def _metrics_table(self) -> QTableView:
        table = QTableView()
        table.setModel(self.metrics)
        table.setAccessibleName(_("Metrics"))
        table.setFrameShape(QFrame.Shape.NoFrame)
        set_role(table, Role.INSET)
        table.setShowGrid(False)
        table.setTabKeyNavigation(False)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.verticalHeader().hide()
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + SPACING + 2)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.horizontalHeader().setDefaultAlignment(ALIGNED)
        table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        table.horizontalHeader().setHighlightSections(False)
        return table

    def _scrolled(self, content: QWidget, name: str) -> QWidget:
        page = QWidget()
        fill(QVBoxLayout(page), content, None, margins=(2 * SPACING, SPACING, 2 * SPACING, SPACING))
        area = PageScroll(page)
        area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        area.setAccessibleName(name)
        return area


def _framed(content: QWidget) -> QFrame:
    """What is read stands on a card, below the tabs as the charts do."""
    frame = QFrame()
    set_role(frame, Role.CARD)
    column = QVBoxLayout(frame)
    column.setContentsMargins(2, SPACING, 2, SPACING)
    column.addWidget(content)
    outer = QFrame()
    around = QVBoxLayout(outer)
    around.setContentsMargins(0, SPACING + SPACING // 2, GUTTER, 0)
    around.addWidget(frame)
    return outer
