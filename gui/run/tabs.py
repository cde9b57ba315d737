"""The tabs of a run page: charts, predictions, confusion matrix, metrics, what ran, log, options."""

import math
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from PySide6.QtCore import QObject, QSize, Qt
from PySide6.QtGui import QFontDatabase, QStandardItem, QStandardItemModel, QTextCursor
from PySide6.QtWidgets import (
    QFrame,
    QHeaderView,
    QPlainTextEdit,
    QTableView,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.language import _
from core.options import RunOptions
from core.runs.events import Evaluated, WhatRan
from core.runs.folder import RunFolder
from core.runs.status import RunStatus
from core.runs.words import statements
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import GUTTER, SPACING
from gui.charts.history import RunHistory
from gui.run.confusion import ConfusionPage
from gui.run.predictions import RunPredictions
from gui.widgets.form import sentence
from gui.widgets.inputs import WheelGuard
from gui.widgets.labels import meanings_in, role_label
from gui.widgets.layout import FLUSH, PageScroll, fill
from gui.widgets.tables import Group, KeyValue, TableRow, set_up_rows

ALIGNED = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class MetricsModel(QStandardItemModel):
    """A row per evaluation, newest first: step, epoch, duration, then all metrics."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._evaluations: list[Evaluated] = []
        self._metrics: list[str] = []

    def show(self, evaluations: list[Evaluated]) -> None:
        metrics = list(dict.fromkeys(name for evaluated in evaluations for name in evaluated.metrics))
        known = len(self._evaluations)
        if metrics != self._metrics or evaluations[:known] != self._evaluations:
            known = 0
            self.clear()
            names = [_("Step"), _("Epoch"), _("Took"), *map(formats.metric_title, metrics)]
            self.setHorizontalHeaderLabels(names)
            for place, name in enumerate(names):
                self.setHeaderData(
                    place, Qt.Orientation.Horizontal, meanings_in(name), Qt.ItemDataRole.ToolTipRole
                )
        self._evaluations, self._metrics = list(evaluations), metrics
        for evaluated in evaluations[known:]:
            texts = (
                formats.count(evaluated.step),
                formats.epochs(evaluated.epoch),
                formats.step_time(evaluated.seconds),
                *(formats.metric_format(name)(evaluated.metrics.get(name)) for name in metrics),
            )
            items = [QStandardItem(text) for text in texts]
            for item in items:
                item.setTextAlignment(ALIGNED)
            self.insertRow(0, items)


def first_evaluation(status: RunStatus, options: RunOptions | None) -> str:
    """When a run is evaluated for the first time."""
    plan = status.plan
    if plan is None or options is None or status.is_test:
        return _("The metrics of each evaluation appear here.")
    if not plan.eval_samples:
        return _("This run has no validation data, so it is not evaluated.")
    every = options.training.eval_steps or plan.total_steps / max(1.0, plan.epochs)
    step = min(plan.total_steps, math.ceil(every * plan.total_steps if every < 1 else every))
    text, pace = _("The first evaluation comes after step {step:,} of {total:,}."), status.step_seconds
    if pace is not None and status.step < step:
        text = _("The first evaluation comes after step {step:,} of {total:,}, in about {duration}.")
    left = formats.about((step - status.step) * (pace or 0.0))
    return text.format(step=step, total=plan.total_steps, duration=left)


def what_ran_groups(status: RunStatus) -> list[Group]:
    """All statements about what ran, with their reasons."""
    lines = statements(status.what_ran, status.versions, status)
    groups = [
        Group(title, tuple(TableRow(line.title, line.value, sentence(line.reason)) for line in of_group))
        for title, of_group in groupby(lines, attrgetter("group"))
    ]
    if status.what_ran is None and not status.is_test:
        later = TableRow(_("What ran"), _("Known after the first step"))
        groups.insert(0, Group("", (later,)))
    return groups


LOG_LINES = 5000
"""Lines of the log on screen; the whole log is in `log.txt`."""


class TextView(QPlainTextEdit):
    """Read-only text in a monospaced font."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        set_role(self, Role.MONOSPACE)


class RunDetails(QTabWidget):
    """The charts of a run, and tabs with everything else."""

    def __init__(self, theme: Theme, folder: Path, charts: QWidget, history: RunHistory) -> None:
        super().__init__()
        set_role(self, Role.TABS)
        WheelGuard(self.tabBar())
        self._folder, self._history = folder, history
        self.log = TextView(_("Log"))
        self.log.setMaximumBlockCount(LOG_LINES)
        self.log.setPlaceholderText(_("Nothing printed"))
        self.metrics = MetricsModel(self)
        self.what_ran = KeyValue()
        self._shown_facts: tuple[WhatRan | None, dict[str, str], float | None] | None = None
        self.options = TextView(_("Options"))
        self.addTab(charts, _("Charts"))
        self.predictions = RunPredictions(theme, folder, history.predictions)
        self.predictions_page = _framed(self.predictions)
        self.addTab(self.predictions_page, _("Predictions"))
        self.confusion = ConfusionPage(theme, history.predictions)
        self.confusion.opened.connect(self._open_cell)
        self._confusion_page = _framed(self.confusion)
        self.addTab(self._confusion_page, _("Confusion matrix"))
        self.metrics_table, self._no_metrics = self._table(), role_label(Role.MUTED)
        self._no_metrics.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._no_metrics.setWordWrap(True)
        page = QWidget()
        fill(QVBoxLayout(page), (self.metrics_table, 1), (self._no_metrics, 1), margins=FLUSH)
        self.addTab(_framed(page), _("Metrics"))
        self.addTab(_framed(self._scrolled(self.what_ran, _("What ran"))), _("What ran"))
        self._log_page = _framed(self.log)
        self.addTab(self._log_page, _("Log"))
        self.addTab(_framed(self.options), _("Options"))

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()  # or the page would scroll before the tabs have become low

    def add_log(self, text: str) -> None:
        self.log.appendPlainText(text.removesuffix("\n"))

    def show_end_of_log(self) -> None:
        self.setCurrentWidget(self._log_page)
        self.log.moveCursor(QTextCursor.MoveOperation.End)
        self.log.moveCursor(QTextCursor.MoveOperation.StartOfLine)

    def refresh(self, status: RunStatus, options: RunOptions | None = None, *, is_over: bool) -> None:
        self.metrics.show(self._history.evaluations)
        self._no_metrics.setText(
            _("This run was not evaluated.") if is_over else first_evaluation(status, options)
        )
        self._no_metrics.setHidden(bool(self._history.evaluations))
        self.metrics_table.setVisible(bool(self._history.evaluations))
        if options is not None and options.task.writes_text:
            self.setTabText(self.indexOf(self.predictions_page), _("What it writes"))
        self.predictions.refresh(is_over=is_over)
        if self.confusion.refresh(self._no_metrics.text(), RunFolder(self._folder).validation):
            self.predictions.show_validation(self.confusion.validation)
        self.show_task(options)
        self._show_what_ran(status)

    def show_task(self, options: RunOptions | None) -> None:
        """Show the tabs that the task has."""
        is_known = self._history.predictions.confusion is not None or (
            options is not None and options.task.has_labels
        )
        self.setTabVisible(self.indexOf(self._confusion_page), is_known)
        self.setTabVisible(0, options is None or not options.only_evaluates)

    def _show_what_ran(self, status: RunStatus) -> None:
        facts = (status.what_ran, status.versions, status.forecast_error)
        if facts != self._shown_facts:
            self._shown_facts = facts
            self.what_ran.set_groups(what_ran_groups(status))

    def _open_cell(self, true: str, predicted: str) -> None:
        self.predictions.show_cell(true, predicted)
        self.setCurrentWidget(self.predictions_page)
        self.predictions.view_shown.setFocus()

    def _table(self) -> QTableView:
        table = QTableView()
        table.setModel(self.metrics)
        table.setAccessibleName(_("Metrics"))
        set_up_rows(table, padding=SPACING + 2, on_card=True)
        table.horizontalHeader().setDefaultAlignment(ALIGNED)
        table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        return table

    def _scrolled(self, content: QWidget, name: str) -> QWidget:
        page = QWidget()
        fill(QVBoxLayout(page), content, None, margins=(2 * SPACING, SPACING, 2 * SPACING, SPACING))
        area = PageScroll(page)
        area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        set_role(area, Role.INSET)
        area.setAccessibleName(name)
        return area


def _framed(content: QWidget) -> QFrame:
    frame, outer = QFrame(), QFrame()
    set_role(frame, Role.CARD)
    fill(QVBoxLayout(frame), content, margins=(2, SPACING, 2, SPACING))
    fill(QVBoxLayout(outer), frame, margins=(0, SPACING + SPACING // 2, GUTTER, 0))
    return outer
