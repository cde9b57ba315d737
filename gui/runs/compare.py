"""Several runs held against each other: their curves on the same axes, and a table of only what differs."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QCoreApplication,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QThread,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QTableView,
    QTabWidget,
    QWidget,
)

from core.base import formats
from core.base.formats import METRIC_NAMES
from core.base.language import _
from core.options.catalogue import value_text
from core.options.sources import short_name
from core.runs.compare import Absent, Comparison, OptionDifference, compare
from core.runs.event_log import RunFollower
from core.runs.folder import RunFolder
from core.runs.summary import RunSummary
from gui.base.background import wait_briefly
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import PAGE_MARGINS, SPACING
from gui.base.trash import distinct_titles
from gui.charts.chart import RepaintQueue, Stage
from gui.charts.compare import (
    CompareChart,
    CompareLoss,
    CompareMemory,
    CompareMetric,
    CompareStepTime,
    CompareView,
    Curve,
    shortened,
)
from gui.charts.grid import ChartBar
from gui.charts.history import BatchBuilder, RunHistory, RunUpdate
from gui.run.follower import LARGEST_NEWS, PIECE_BYTES
from gui.run.words import state_title
from gui.runs.table import dot
from gui.widgets.inputs import ChoiceList, Segment
from gui.widgets.labels import ElidedLabel, tip_of
from gui.widgets.layout import FlowLayout, hbox, vbox
from gui.widgets.tables import set_up_rows

Index = QModelIndex | QPersistentModelIndex

SOURCES = ("model.source", "data.train", "data.eval")
"""Options that name a path or where something comes from: its end says enough where the ends differ."""


@dataclass(frozen=True)
class CompareRow:
    """A line: its title, a text for each run, and what its tip says. Without texts it is a heading."""

    title: str
    texts: tuple[str, ...] = ()
    tip: str = ""


class CompareModel(QAbstractTableModel):
    """A column for titles and one a run, whose name has the colour of its curves."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.names: tuple[str, ...] = ()
        self.rows: tuple[CompareRow, ...] = ()

    def show(self, found: Comparison, names: Sequence[str]) -> None:
        """Show a comparison."""
        rows = tuple(rows_of(found))
        if (rows, tuple(names)) != (self.rows, self.names):
            self.beginResetModel()
            self.rows, self.names = rows, tuple(names)
            self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else 1 + len(self.names)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal or not 0 < section <= len(self.names):
            return None
        name = self.names[section - 1]
        if role == Qt.ItemDataRole.DecorationRole:
            return dot(QColor(getattr(self._theme.tokens, colour_of(section - 1))))
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip_of(name)
        return name if role == Qt.ItemDataRole.DisplayRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row, place = self.rows[index.row()], index.column() - 1
        text = row.title if place < 0 else row.texts[place] if row.texts else ""
        if role == Qt.ItemDataRole.DisplayRole:
            return text
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip_of((row.tip or text) if place < 0 else text)
        if role == Qt.ItemDataRole.FontRole and not row.texts:
            font = QFont()
            font.setWeight(QFont.Weight.DemiBold)
            return font
        return None


def rows_of(found: Comparison) -> list[CompareRow]:
    """All lines of a comparison, below their headings."""
    rows = [CompareRow(_("Results")), *_results(found)]
    options = [_option_row(one) for one in found.options]
    unread = any(summary.problem for summary in found.runs)
    if options:
        rows += [CompareRow(_("Options that differ")), *options]
    else:
        rows.append(CompareRow(_("Options") if unread else _("All options are the same")))
    if unread:
        texts = tuple(_("can't be read") if one.problem else "" for one in found.runs)
        rows.append(CompareRow(_("Run file"), texts))
    if found.ran:
        rows.append(CompareRow(_("What ran otherwise")))
        rows += [CompareRow(one.title, one.values) for one in found.ran]
    return rows


def _results(found: Comparison) -> list[CompareRow]:
    def row(title: str, write: Callable[[RunSummary], str]) -> CompareRow:
        return CompareRow(title, tuple(map(write, found.runs)))

    states = tuple(state_title(summary.state) for summary in found.runs)
    return [
        CompareRow(_("State"), states),
        _best_row(found),
        row(_("Steps"), lambda one: formats.count(one.steps)),
        row(_("Time"), lambda one: formats.duration(one.seconds)),
        row(_("Memory at most"), lambda one: formats.memory(one.peak_bytes)),
        row(_("Rows a second"), lambda one: _pace(one.samples_per_second)),
    ]


def _best_row(found: Comparison) -> CompareRow:
    """The best result of each; the metric stands before it where the runs aren't judged by the same one."""
    metrics = {one.metric for one in found.runs if one.metric is not None}

    def best(results: RunSummary) -> str:
        if results.metric is None:
            return formats.MISSING
        value = formats.metric_format(results.metric)(results.best)
        return value if len(metrics) == 1 else f"{formats.metric_title(results.metric)} {value}"

    title = _("Best result")
    if len(metrics) == 1:
        title = _("Best: {}").format(formats.metric_title(*metrics))
    return CompareRow(title, tuple(map(best, found.runs)))


def _pace(samples_per_second: float | None) -> str:
    return formats.MISSING if samples_per_second is None else formats.three_figures(samples_per_second)


def _option_row(found: OptionDifference) -> CompareRow:
    option = found.option
    values = found.values
    if option.path in SOURCES:
        short = tuple(short_name(value) if isinstance(value, str) else value for value in values)
        if len(set(short)) == len(set(values)):
            values = short
    texts = tuple(
        formats.MISSING if isinstance(value, Absent) else value_text(option, value) for value in values
    )
    return CompareRow(option.title, texts, f"{option.path}\n{option.help}")


POLL_SECONDS = 0.5
"""How often runs that still train are looked at."""

COMPARE_SECONDS = 5.0
"""How often what they came to is told anew meanwhile."""

TELL_SECONDS = 0.2
"""A long past is told in pieces at least so often."""


class CompareReader(QThread):
    """Follows runs until all of them are over.

    Signals:
        compared: A `core.runs.compare.Comparison`; first of all, then now and then while any of them trains.
        news_arrived: The place of a run among them, and its `gui.charts.history.RunUpdate`.
        caught_up: All that there is so far has been told.

    Args:
        runs: The runs.
        parent: Qt's parent.
    """

    compared = Signal(object)
    news_arrived = Signal(int, object)
    caught_up = Signal()

    def __init__(self, runs: Sequence[RunFolder], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = tuple(runs)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Follow no longer; this takes the milliseconds of a piece."""
        self._stopping.set()
        wait_briefly(self)

    def run(self) -> None:
        self._compare()
        streams = [_Stream(run) for run in self._runs]
        has_caught_up = False
        while not self._stopping.is_set():
            for place, stream in enumerate(streams):
                news = stream.poll()
                if news is not None:
                    self.news_arrived.emit(place, news)
            if not all(stream.follower.is_caught_up for stream in streams):
                continue
            if not has_caught_up:
                has_caught_up = True
                self.caught_up.emit()
            if all(stream.follower.is_over for stream in streams):
                self._compare()
                return
            self._stopping.wait(POLL_SECONDS)
            if time.monotonic() > self._compare_next:
                self._compare()

    def _compare(self) -> None:
        self.compared.emit(compare(self._runs, formats.memory))
        self._compare_next = time.monotonic() + COMPARE_SECONDS


class _Stream:
    """One run, read a piece at a time and folded into news."""

    def __init__(self, run: RunFolder) -> None:
        self.follower = RunFollower(run)
        self._maker = BatchBuilder()
        self._tell_next = time.monotonic()

    def poll(self) -> RunUpdate | None:
        """Read a piece; what is to be told by now."""
        if self.follower.is_over:
            return None
        self._maker.add(self.follower.poll(PIECE_BYTES))
        is_due = time.monotonic() > self._tell_next or self.follower.is_caught_up
        if not (is_due or len(self._maker) >= LARGEST_NEWS):
            return None
        self._tell_next = time.monotonic() + TELL_SECONDS
        batches = self._maker.build()
        return RunUpdate(self.follower.status.copy(), batches) if batches else None


LOWEST = 170
"""Pixels that a chart has at least."""

FEWEST_LETTERS = 6
"""So much of a metric's name can be read at least; a narrow window shows no more, so that what is beside it fits."""


class CompareCharts(QFrame):
    """Loss, one metric of the evaluations, step time and memory, two by two."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._curves: list[Curve] = []
        self._is_chosen = False
        queue = RepaintQueue(self)
        self.view = CompareView(self)
        stage = Stage(theme, queue, self.view)
        self.loss = CompareLoss(stage)
        self.evaluation = CompareMetric(stage)
        self.step_time = CompareStepTime(stage)
        # Memory lies over time whatever the others lie over, so that it has a cursor of its own.
        self.memory = CompareMemory(Stage(theme, queue, CompareView(self)))
        self.bar = ChartBar(self.view)
        self.bar.offer_following(False)
        self.metrics = ChoiceList()
        self.metrics.setAccessibleName(_("Metric of the evaluations"))
        self.metrics.setMinimumContentsLength(FEWEST_LETTERS)
        self.metrics.activated.connect(self._on_metric)
        self._lay_out()

    @property
    def charts(self) -> tuple[CompareChart, ...]:
        """All of them, in reading order."""
        return self.loss, self.evaluation, self.step_time, self.memory

    def show_curves(self, curves: Sequence[Curve]) -> None:
        """Draw these runs."""
        self._curves = list(curves)
        for chart in self.charts:
            chart.show_curves(curves)

    def refresh(self) -> None:
        for chart in self.charts:
            chart.refresh()

    def judge_by(self, metrics: Sequence[str | None]) -> None:
        """Draw the metric by which most of the runs are judged, unless somebody has chosen one."""
        known = [name for name in metrics if name is not None]
        if known and not self._is_chosen:
            self.evaluation.show_metric(max(known, key=known.count))
        self.offer_metrics()

    def offer_metrics(self) -> None:
        """List every metric that any of the runs was evaluated by."""
        found = {name for curve in self._curves for name in curve.history.metrics}
        ordered = [name for name in METRIC_NAMES if name in found or name == "eval_loss"]
        others = sorted(found - set(ordered))
        self.metrics.set_choices([Segment(name, formats.metric_title(name)) for name in (*ordered, *others)])
        self.metrics.choose(self.evaluation.metric_name)

    def end_work(self) -> None:
        self._is_chosen = False
        for chart in self.charts:
            chart.end_work()

    def _on_metric(self) -> None:
        self._is_chosen = True
        self.evaluation.show_metric(str(self.metrics.currentData()))

    def _lay_out(self) -> None:
        label = QLabel(_("Evaluation"))
        set_role(label, Role.MUTED)
        label.setBuddy(self.metrics)
        top = hbox((self.bar, 1), label, self.metrics)
        grid = QGridLayout()
        grid.setSpacing(SPACING + SPACING // 2)
        for place, chart in enumerate(self.charts):
            grid.addWidget(chart, place // 2, place % 2)
        for line in range(2):
            grid.setColumnStretch(line, 1)
            grid.setRowStretch(line, 1)
            grid.setRowMinimumHeight(line, LOWEST)
        layout = vbox(top, (grid, 1))
        layout.setContentsMargins(0, SPACING, 0, 0)
        self.setLayout(layout)


class CompareNames(QWidget):
    """A button a run, in as many lines as they need.

    Signals:
        changed: Another set of runs is to be shown.
    """

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._buttons: list[QPushButton] = []
        self._row = FlowLayout(SPACING, SPACING, self)
        theme.changed.connect(self._paint)

    @property
    def colours(self) -> list[str]:
        """The field of `gui.base.theme.Tokens` for each run."""
        return [colour_of(place) for place in range(len(self._buttons))]

    @property
    def shown(self) -> list[bool]:
        """Whether each run is to be drawn."""
        return [button.isChecked() for button in self._buttons]

    @property
    def buttons(self) -> list[QPushButton]:
        """The buttons, one a run."""
        return self._buttons

    def show_names(self, names: Sequence[str]) -> None:
        """Name the runs. Those hidden stay so where there are as many as before."""
        if len(names) != len(self._buttons):
            self._make(len(names))
        for button, name in zip(self._buttons, names, strict=True):
            button.setText(shortened(name).replace("&", "&&"))
            button.setToolTip(tip_of(_("{}\nPress to hide its curves, or show them again").format(name)))
            button.setAccessibleName(name)
        self._row.invalidate()

    def _make(self, count: int) -> None:
        while self._buttons:
            button = self._buttons.pop()
            self._row.removeWidget(button)
            button.hide()
            button.deleteLater()
        for _number in range(count):
            button = QPushButton(self)
            button.setCheckable(True)
            button.setChecked(True)
            button.toggled.connect(self._tell)
            self._row.addWidget(button)
            button.show()
            self._buttons.append(button)
        self._paint()

    def _tell(self) -> None:
        self._paint()
        self.changed.emit()

    def _paint(self) -> None:
        for place, button in enumerate(self._buttons):
            colour = QColor(getattr(self._theme.tokens, colour_of(place)))
            button.setIcon(dot(colour, is_filled=button.isChecked()))


def colour_of(place: int) -> str:
    """The field of `gui.base.theme.Tokens` that is the colour of a run, by its place among those that are compared."""
    return f"curve{place + 1}"


NARROWEST_LETTERS = 10
"""A run's column has room for so many letters, or the table scrolls sideways."""

WIDEST_TITLE_LETTERS = 30


class CompareTable(QFrame):
    """Headings reach across; columns share the room there is."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = CompareModel(theme)
        self.view = QTableView()
        self.view.viewport().installEventFilter(self)
        self.view.horizontalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.view.setModel(self.model)
        self.view.setAccessibleName(_("What differs"))
        set_up_rows(self.view, padding=SPACING + 4)
        self.view.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        set_role(self.view, Role.INSET)
        self.view.setFrameShape(QFrame.Shape.NoFrame)
        card = QFrame()
        set_role(card, Role.CARD)
        inside = vbox(self.view)
        inside.setContentsMargins(2, SPACING, 2, SPACING)
        card.setLayout(inside)
        layout = vbox(card)
        layout.setContentsMargins(0, SPACING, 0, 0)
        self.setLayout(layout)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() is QEvent.Type.Resize:
            self._fit()
        return super().eventFilter(watched, event)

    def show_comparison(self, found: Comparison, names: Sequence[str]) -> None:
        """Show it; the names stand above the columns."""
        self.model.show(found, names)
        self.view.clearSpans()
        for row, line in enumerate(self.model.rows):
            if not line.texts:
                self.view.setSpan(row, 0, 1, self.model.columnCount())
        self._fit()

    def _fit(self) -> None:
        runs = len(self.model.names)
        if not runs:
            return
        letter = self.view.fontMetrics().averageCharWidth()
        titles = [
            self.view.fontMetrics().horizontalAdvance(row.title) for row in self.model.rows if row.texts
        ]
        first = min(max(titles, default=0) + 3 * SPACING, WIDEST_TITLE_LETTERS * letter)
        self.view.setColumnWidth(0, first)
        share = (self.view.viewport().width() - first) // runs
        width = max(share, NARROWEST_LETTERS * letter + 2 * SPACING)
        for column in range(1, runs + 1):
            self.view.setColumnWidth(column, width)


MOST_TOLD = 6
"""So many options that differ are named in the head; the table has all."""


class ComparePage(QWidget):
    """Shows two to eight runs; reads them in the background, and goes on while any of them trains.

    Signals:
        left: The person wants back to the list.
    """

    left = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reader: CompareReader | None = None
        self._runs: tuple[RunFolder, ...] = ()
        self._histories: list[RunHistory] = []
        self._titles: tuple[str, ...] = ()
        self.has_caught_up = False
        self.title = QLabel()
        set_role(self.title, Role.PAGE_TITLE)
        self.difference = ElidedLabel()
        set_role(self.difference, Role.MUTED)
        self.back = QPushButton(_("‹ Runs"))
        set_role(self.back, Role.LINK)
        self.back.setToolTip(_("Back to the list of all runs"))
        self.names = CompareNames(theme)
        self.charts = CompareCharts(theme)
        self.table = CompareTable(theme)
        self.tabs = QTabWidget()
        set_role(self.tabs, Role.TABS)
        self._lay_out()
        self.back.clicked.connect(self.left)
        self.names.changed.connect(self._show_curves)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.end_work)

    def show_runs(self, runs: Sequence[RunFolder]) -> None:
        """Read these runs and show them; returns at once."""
        self.end_work()
        self.has_caught_up = False
        self._runs = tuple(runs)
        self._histories = [RunHistory() for _run in runs]
        self.title.setText(_("Compare {} runs").format(formats.count(len(runs))))
        self.difference.setText("")
        self._name_runs([(run.path, run.name) for run in runs])
        self._reader = CompareReader(runs, self)
        self._reader.compared.connect(self._on_comparison)
        self._reader.news_arrived.connect(self._on_news)
        self._reader.caught_up.connect(self._on_all)
        self._reader.start()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._reader is None and self._runs:
            self.show_runs(self._runs)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():
            self.end_work()

    def end_work(self) -> None:
        self.charts.end_work()
        if self._reader is not None:
            self._reader.stop()
            for signal in (self._reader.compared, self._reader.news_arrived, self._reader.caught_up):
                signal.disconnect()  # what it has sent and nobody has taken yet is about other runs
            self._reader.deleteLater()
            self._reader = None

    def _on_news(self, place: int, news: RunUpdate) -> None:
        for batch in news.batches:
            self._histories[place].add(batch)
        self.charts.refresh()

    def _on_all(self) -> None:
        self.has_caught_up = True
        self.charts.offer_metrics()

    def _on_comparison(self, found: Comparison) -> None:
        self._name_runs([(summary.run.path, summary.title) for summary in found.runs])
        self.table.show_comparison(found, self._titles)
        self.charts.judge_by([summary.metric for summary in found.runs])
        self.difference.setText(difference_text(found))

    def _name_runs(self, runs: Sequence[tuple[Path, str]]) -> None:
        if self._titles != (unique := tuple(distinct_titles(runs))):
            self._titles = unique
            self.names.show_names(unique)
            self._show_curves()

    def _show_curves(self) -> None:
        """Draw the runs that nobody has hidden."""
        curves = [
            Curve(title, colour, history)
            for title, colour, history, is_shown in zip(
                self._titles, self.names.colours, self._histories, self.names.shown, strict=True
            )
            if is_shown
        ]
        self.charts.show_curves(curves)

    def _lay_out(self) -> None:
        self.tabs.addTab(self.charts, _("Curves"))
        self.tabs.addTab(self.table, _("What differs"))
        layout = vbox(hbox(self.title, None, self.back), self.difference, self.names, (self.tabs, 1))
        layout.setContentsMargins(*PAGE_MARGINS)
        self.setLayout(layout)


def difference_text(found: Comparison) -> str:
    """In which options the runs differ, in a line."""
    titles = [one.option.title for one in found.options]
    if not titles:
        if any(summary.problem for summary in found.runs):
            return _("Not all run files can be read, so what differs isn't known.")
        return _("They were asked the same: no option differs.")
    shown = ", ".join(titles[:MOST_TOLD])
    if len(titles) > MOST_TOLD:
        shown = _("{} and {} more").format(shown, formats.count(len(titles) - MOST_TOLD))
    return _("They differ in: {}").format(shown)
