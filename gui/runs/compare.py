"""Comparing runs: their curves on the same axes, and a table of their results and what differs."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, QThread, Signal
from PySide6.QtGui import QColor, QFont, QHideEvent, QShowEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QGridLayout,
    QPushButton,
    QTableView,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.formats import LESS_IS_BETTER, METRIC_NAMES, enumerated
from core.base.language import _, ngettext
from core.benchmark.plan import Measured, shared_benchmark
from core.options.catalogue import value_text
from core.options.choices import model_title
from core.options.sources import short_name
from core.runs.compare import FEWEST, MOST, Absent, OptionDifference, RunComparison, compare, partners
from core.runs.event_log import RunFollower
from core.runs.folder import RunFolder
from core.runs.library import TITLE_JOIN, run_title
from core.runs.summary import RunSummary
from gui.base.background import EngineWork, wait_briefly
from gui.base.theme import Role, Theme, set_flag, set_role
from gui.base.titles import distinct_titles
from gui.base.tokens import PAGE_MARGINS, SPACING
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
from gui.charts.history import Batch, BatchBuilder, RunHistory
from gui.run.export_dialog import ExportSheet
from gui.run.follower import LARGEST_UPDATE, PIECE_BYTES
from gui.runs.benchmark import BenchmarkView
from gui.runs.columns import state_of
from gui.runs.table import dot
from gui.widgets.inputs import ChoiceList, Segment, WheelGuard
from gui.widgets.labels import ElidedLabel, link_button, role_label, text_label, tip_of
from gui.widgets.layout import FlowLayout, clear, fill, hbox, vbox
from gui.widgets.tables import set_up_rows

SOURCES = ("model.source", "data.train", "data.eval")
"""Options that name a path or an origin, of which only the end is shown if the ends differ."""


@dataclass(frozen=True)
class CompareRow:
    """A row: its title, a text per run, its tool tip, and the best of its texts. Without texts it is a heading."""

    title: str
    texts: tuple[str, ...] = ()
    tip: str = ""
    best: str = ""


def rows_of(comparison: RunComparison) -> list[CompareRow]:
    runs = comparison.runs
    metrics = {run.metric for run in runs if run.metric is not None}

    def row(title: str, write: Callable[[RunSummary], str]) -> CompareRow:
        return CompareRow(title, tuple(map(write, runs)))

    def measured(name: str) -> CompareRow:
        write = formats.metric_format(name)
        found = ((run.metric, run.eval_loss if name == "eval_loss" else run.result) for run in runs)
        values = [value if name in (metric, "eval_loss") else None for metric, value in found]
        texts, known = tuple(map(write, values)), [value for value in values if value is not None]
        best = min(known, default=None) if name in LESS_IS_BETTER else max(known, default=None)
        is_marked = comparison.is_fair and len(set(texts) - {formats.MISSING}) > 1
        title = _("Validation loss") if name == "eval_loss" else formats.metric_title(name)
        return CompareRow(title, texts, best=write(best) if is_marked else "")

    rows = [
        CompareRow(_("Results")),
        row(_("State"), state_of),
        *(measured(name) for name in (*sorted(metrics - {"eval_loss"}), "eval_loss")),
        row(_("Steps"), lambda run: formats.count(run.steps)),
        row(_("Time"), lambda run: formats.duration(run.seconds)),
        row(_("Peak memory"), lambda run: formats.memory(run.peak_bytes)),
        row(_("Throughput"), lambda run: formats.rate(run.samples_per_second)),
    ]
    has_unreadable = any(run.problem for run in runs)
    if comparison.options:
        rows.append(CompareRow(_("Options that differ")))
        rows += [_option_row(difference, runs) for difference in comparison.options]
    else:
        rows.append(CompareRow(_("Options") if has_unreadable else _("All options are the same")))
    if has_unreadable:
        rows.append(row(_("Run file"), lambda run: _("can't be read") if run.problem else ""))
    if comparison.ran:
        differences = (CompareRow(difference.title, difference.values) for difference in comparison.ran)
        rows += [CompareRow(_("What ran differently")), *differences]
    return rows


def _option_row(difference: OptionDifference, runs: Sequence[RunSummary]) -> CompareRow:
    option, values = difference.option, difference.values
    if option.path in SOURCES:
        is_model = option.path == "model.source"
        names = [run.model if is_model else one for run, one in zip(runs, values, strict=True)]
        short = tuple(model_title(short_name(one)) if isinstance(one, str) else one for one in names)
        if len(set(short)) == len(set(values)):
            values = short
    texts = tuple(
        formats.MISSING if isinstance(value, Absent) else value_text(option, value) for value in values
    )
    return CompareRow(option.title, texts, f"{option.path}\n{option.help}")


POLL_SECONDS = 0.5
"""How often runs that still train are read."""

COMPARE_SECONDS = 5.0
"""How often their results are compared meanwhile."""

REPORT_SECONDS = 0.2
"""How often parts of a long past are reported."""


class CompareReader(QThread):
    """Follows runs until all of them are over.

    Its signals begin with the reader: those of one that was stopped may still be queued.
    """

    compared = Signal(object, object)  # a `core.runs.compare.RunComparison`, repeatedly while any run trains
    batches_read = Signal(object, int, object)  # the index of a run, and its `gui.charts.history.Batch`es
    caught_up = Signal(object)  # everything so far has been reported

    def __init__(self, runs: Sequence[RunFolder], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.runs = tuple(runs)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Stop within milliseconds."""
        self._stopping.set()
        wait_briefly(self)

    def run(self) -> None:
        self._compare()
        followers = [RunFollower(run) for run in self.runs]
        builders = [BatchBuilder() for _run in self.runs]
        reported = [time.monotonic()] * len(self.runs)
        has_caught_up = False
        while not self._stopping.is_set():
            for index, (follower, builder) in enumerate(zip(followers, builders, strict=True)):
                if follower.is_over:
                    continue
                builder.add(follower.poll(PIECE_BYTES))
                is_due = time.monotonic() > reported[index] + REPORT_SECONDS or len(builder) >= LARGEST_UPDATE
                if (follower.is_caught_up or is_due) and (batches := builder.build()):
                    reported[index] = time.monotonic()
                    self.batches_read.emit(self, index, batches)
            if not all(follower.is_caught_up for follower in followers):
                continue
            if not has_caught_up:
                has_caught_up = True
                self.caught_up.emit(self)
            if all(follower.is_over for follower in followers):
                self._compare()
                return
            self._stopping.wait(POLL_SECONDS)
            if time.monotonic() > self._next_comparison:
                self._compare()

    def _compare(self) -> None:
        self.compared.emit(self, compare(self.runs))
        self._next_comparison = time.monotonic() + COMPARE_SECONDS


LOWEST = 170
"""Least height of a chart in pixels."""

FEWEST_LETTERS = 6
"""Least width of the list of metrics."""


class CompareCharts(QFrame):
    """Loss, one metric of the evaluations, step time and memory, two by two."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.names = CompareNames(theme)
        self._curves: list[Curve] = []
        self._offered: list[Segment] = []
        self._is_chosen = False
        queue = RepaintQueue(self)
        self.view = CompareView(self)
        stage = Stage(theme, queue, self.view)
        self.loss = CompareLoss(stage)
        self.evaluation = CompareMetric(stage)
        self.step_time = CompareStepTime(stage)
        # Memory is always over time, so it has a cursor of its own.
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
        return self.loss, self.evaluation, self.step_time, self.memory

    def show_curves(self, curves: Sequence[Curve]) -> None:
        self._curves = list(curves)
        for chart in self.charts:
            chart.show_curves(curves)

    def refresh(self) -> None:
        for chart in self.charts:
            chart.refresh()

    def judge_by(self, metrics: Sequence[str | None]) -> None:
        """Draw the metric by which most of the runs are judged, unless one was chosen."""
        known = [name for name in metrics if name is not None]
        if known and not self._is_chosen:
            self.evaluation.show_metric(max(known, key=known.count))
        self.offer_metrics()

    def offer_metrics(self) -> None:
        """List all metrics of the runs."""
        measured = {name for curve in self._curves for name in curve.history.metrics}
        ordered = [name for name in METRIC_NAMES if name in measured or name == "eval_loss"]
        others = sorted(measured - set(ordered))
        choices = [Segment(name, formats.metric_title(name)) for name in (*ordered, *others)]
        if choices != self._offered:  # an open list stays as it is; once, filling it again crashed in Qt
            self._offered = choices
            self.metrics.set_choices(choices)
        self.metrics.choose(self.evaluation.metric_name)

    def end_work(self) -> None:
        self._is_chosen = False
        for chart in self.charts:
            chart.end_work()

    def _on_metric(self) -> None:
        self._is_chosen = True
        self.evaluation.show_metric(str(self.metrics.currentData()))

    def _lay_out(self) -> None:
        label = role_label(Role.MUTED, _("Evaluation"))
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
        layout = vbox(self.names, top, (grid, 1))
        layout.setContentsMargins(0, SPACING, 0, 0)
        self.setLayout(layout)


class CompareNames(QWidget):
    """A button per run that shows or hides its curves."""

    changed = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.buttons: list[QPushButton] = []
        self._colours: tuple[str, ...] = ()
        self._row = FlowLayout(SPACING, SPACING, self)
        theme.changed.connect(self._paint)

    @property
    def shown(self) -> list[bool]:
        return [button.isChecked() for button in self.buttons]

    def show_names(self, names: Sequence[str], colours: Sequence[str]) -> None:
        """Name the runs; hidden ones stay hidden if their number is unchanged."""
        self._colours = tuple(colours)
        if len(names) != len(self.buttons):
            clear(self._row)
            self.buttons = []
            for _name in names:
                button = QPushButton(self)
                button.setCheckable(True)
                button.setChecked(True)
                button.toggled.connect(self._paint)
                button.toggled.connect(self.changed)
                self._row.addWidget(button)
                button.show()
                self.buttons.append(button)
        self._paint()
        for button, name in zip(self.buttons, names, strict=True):
            button.setText(shortened(name).replace("&", "&&"))
            button.setToolTip(tip_of(_("{run}\nPress to hide or show its lines").format(run=name)))
            button.setAccessibleName(name)
        self._row.invalidate()

    def _paint(self) -> None:
        for button, name in zip(self.buttons, self._colours, strict=False):
            colour = QColor(getattr(self._theme.tokens, name))
            button.setIcon(dot(colour, is_filled=button.isChecked()))
            set_flag(button, "dimmed", not button.isChecked())


COLOURS = tuple(f"curve{index + 1}" for index in range(MOST))
"""The fields of `gui.base.tokens.Tokens` that are the colours of compared runs."""

NARROWEST_LETTERS = 18
"""Least width of a run's column; if there is less space, the table scrolls."""

WIDEST_TITLE_LETTERS = 30


class CompareTable(QFrame):
    """A column per run, with its colour, and headings that span all columns."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.model = QStandardItemModel(self)
        self._shown: tuple[list[CompareRow], tuple[str, ...], tuple[str, ...]] = ([], (), ())
        self.view = QTableView()
        self.view.viewport().installEventFilter(self)
        self.view.horizontalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.view.setModel(self.model)
        self.view.setAccessibleName(_("What differs"))
        set_up_rows(self.view, padding=SPACING + 4, on_card=True)
        self.view.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        card = QFrame()
        set_role(card, Role.CARD)
        fill(QVBoxLayout(card), self.view, margins=(2, SPACING, 2, SPACING))
        fill(QVBoxLayout(self), card, margins=(0, SPACING, 0, 0))
        theme.changed.connect(self._paint_header)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() is QEvent.Type.Resize:
            self._fit()
        return super().eventFilter(watched, event)

    def show_comparison(
        self, comparison: RunComparison, names: Sequence[str], colours: Sequence[str]
    ) -> None:
        shown = rows_of(comparison), tuple(names), tuple(colours)
        if shown == self._shown:
            return
        self._shown = shown
        rows, names, _colours = shown
        self.model.clear()
        self.view.clearSpans()
        self.model.setHorizontalHeaderLabels(["", *names])
        for row in rows:
            items = [QStandardItem(text) for text in (row.title, *row.texts)]
            bold = QFont(self.view.font())
            bold.setWeight(QFont.Weight.DemiBold)
            for item, tip in zip(items, (row.tip or row.title, *row.texts), strict=True):
                item.setToolTip(tip_of(tip))
                if row.best and item.text() == row.best:
                    item.setText(_("{value} · best").format(value=row.best))
                    item.setFont(bold)
            self.model.appendRow(items)
            if not row.texts:
                items[0].setFont(bold)
                self.view.setSpan(self.model.rowCount() - 1, 0, 1, self.model.columnCount())
        self._paint_header()
        self._fit()

    def _paint_header(self) -> None:
        for index, (name, colour) in enumerate(zip(*self._shown[1:], strict=True)):
            icon = dot(QColor(getattr(self._theme.tokens, colour)))
            for role, value in (
                (Qt.ItemDataRole.DecorationRole, icon),
                (Qt.ItemDataRole.ToolTipRole, tip_of(name)),
            ):
                self.model.setHeaderData(index + 1, Qt.Orientation.Horizontal, value, role)

    def _fit(self) -> None:
        rows, names, _colours = self._shown
        if not names:
            return
        metrics = self.view.fontMetrics()
        longest = max((metrics.horizontalAdvance(row.title) for row in rows if row.texts), default=0)
        first = min(longest + 3 * SPACING, WIDEST_TITLE_LETTERS * metrics.averageCharWidth())
        share = (self.view.viewport().width() - first) // len(names)
        least = NARROWEST_LETTERS * metrics.averageCharWidth() + 2 * SPACING
        self.view.setColumnWidth(0, first)
        for column in range(1, len(names) + 1):
            self.view.setColumnWidth(
                column, max(share, min(least, self.view.sizeHintForColumn(column) + SPACING))
            )


class ComparePage(QWidget):
    """Compares two to twelve runs, which are read in the background, also while they train.

    With two of them, the second can be changed for another. Of a benchmark all runs are compared, by their figures.
    """

    left = Signal()
    run_opened = Signal(object)  # a `RunFolder`
    use_requested = Signal(object)  # the `core.benchmark.plan.BenchmarkRow` whose options New run is to use

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.reader: CompareReader | None = None
        self._best: RunSummary | None = None
        self._colours: dict[Path, str] = {}
        self.runs: tuple[RunFolder, ...] = ()
        self.histories: list[RunHistory] = []
        self.titles: tuple[str, ...] = ()
        self.has_caught_up = False
        self.title, self.difference = role_label(Role.PAGE_TITLE), ElidedLabel(role=Role.MUTED)
        self.conclusion, self.other = text_label(role=Role.STRONG, selectable=True), ChoiceList()
        self._finding: EngineWork[Measured | None] = EngineWork(self, done=self._on_found)
        self._choosing: EngineWork[list[tuple[Path, str]]] = EngineWork(self, done=self._on_partners)
        self.open = link_button(_("Open"), self._open_best)
        self.export = link_button(_("Export…"), self._export_best)
        self.back = link_button(_("‹ Runs"), self.left.emit, _("Back to the list of all runs"))
        self.charts = CompareCharts(theme)
        self.table = CompareTable(theme)
        self.benchmark = BenchmarkView(theme)
        self.benchmark.run_opened.connect(self.run_opened)
        self.benchmark.use_requested.connect(self.use_requested)
        self.tabs = QTabWidget()
        set_role(self.tabs, Role.TABS)
        WheelGuard(self.tabs.tabBar())
        self._lay_out()
        self.charts.names.changed.connect(self._show_curves)
        self.other.activated.connect(self._on_other)

    def show_runs(self, runs: Sequence[RunFolder]) -> None:
        """Compare these runs; a single one with the one that suits it best, or with all of its benchmark."""
        self.end_work()
        self.has_caught_up = False
        self.runs = chosen = tuple(runs)
        self.histories, self.titles = [RunHistory() for _run in runs], ()
        self.charts.names.hide()
        self.charts.show_curves([])
        self.difference.setText("")
        for part in (self.conclusion, self.open, self.export, self.chooser):
            part.hide()
        self._finding.start(lambda _call: shared_benchmark(chosen))

    def _on_found(self, measured: Measured | None) -> None:
        """Show the benchmark that the runs are rows of, or compare them."""
        self.tabs.setVisible(measured is None)
        self.benchmark.setVisible(measured is not None)
        if measured is not None:
            self.title.setText(measured.benchmark.name)
            self.difference.setText(measured.benchmark.title)
            self.benchmark.show_benchmark(measured)
            return
        runs = self.runs
        title = ngettext("Compare {count} run", "Compare {count} runs", len(runs))
        self.title.setText(title.format(count=formats.count(len(runs))))
        kept = {self._colours[run.path]: run for run in reversed(runs) if run.path in self._colours}
        free = (colour for colour in COLOURS if colour not in kept)
        self._colours |= {run.path: next(free) for run in runs if run not in kept.values()}
        if len(runs) <= FEWEST:
            self.chooser.show()
            self._choosing.start(lambda _call: _partners(runs))
        if len(runs) < FEWEST:
            return
        self.reader = CompareReader(runs, self)
        self.reader.compared.connect(self._on_comparison)
        self.reader.batches_read.connect(self._on_batches)
        self.reader.caught_up.connect(self._on_caught_up)
        self.reader.start()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        is_read = self.reader is not None or self._finding.is_running
        if self.runs and not (event.spontaneous() or is_read):
            self.show_runs(self.runs)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous():
            self.end_work()

    def end_work(self) -> None:
        self._finding.cancel()
        self._choosing.cancel()
        self.benchmark.end_work()
        self.charts.end_work()
        if self.reader is not None:
            self.reader.stop()
            self.reader.deleteLater()
            self.reader = None
        for sheet in self.findChildren(ExportSheet):
            sheet.done(0)

    def _on_partners(self, titles: list[tuple[Path, str]]) -> None:
        own, *others = titles
        if len(self.runs) == FEWEST:
            named = zip(others, distinct_titles(others), strict=True)
            self.other.set_choices([Segment(str(path), title) for (path, _own), title in named])
            self.other.choose(str(self.runs[1].path))
        elif others:
            self.show_runs([*self.runs, RunFolder(others[0][0])])
        else:
            self._name_runs([own])
            self.chooser.hide()
            self.difference.setText(_("There is no other run of this task to compare with yet."))

    def _on_other(self) -> None:
        self.show_runs([self.runs[0], RunFolder(Path(self.other.currentData()))])

    def _on_batches(self, reader: CompareReader, index: int, batches: list[Batch]) -> None:
        if reader is not self.reader:
            return
        for batch in batches:
            self.histories[index].add(batch)
        self.charts.refresh()

    def _on_caught_up(self, reader: CompareReader) -> None:
        if reader is self.reader:
            self.has_caught_up = True
            self.charts.offer_metrics()

    def _on_comparison(self, reader: CompareReader, comparison: RunComparison) -> None:
        if reader is not self.reader:
            return
        self._name_runs([(summary.run.path, summary.title) for summary in comparison.runs])
        colours = [self._colours[summary.run.path] for summary in comparison.runs]
        self.table.show_comparison(comparison, self.titles, colours)
        self.charts.judge_by([summary.metric for summary in comparison.runs])
        self.conclusion.setText(comparison.conclusion)
        self.conclusion.setVisible(bool(comparison.conclusion))
        self._show_tabs(only_tests=all(summary.is_test for summary in comparison.runs))
        self._best = comparison.best
        self.open.setVisible(self._best is not None)
        self.export.setVisible(self._best is not None and self._best.state.is_over)
        self.difference.setText(difference_text(comparison))

    def _show_tabs(self, *, only_tests: bool) -> None:
        """Hide the curves if only tests are compared, which have none."""
        had_curves = self.tabs.isTabVisible(0)
        self.tabs.setTabVisible(0, not only_tests)
        if not (had_curves or only_tests):
            self.tabs.setCurrentIndex(0)

    def _name_runs(self, runs: Sequence[tuple[Path, str]]) -> None:
        shared = f"{runs[0][1].rpartition(TITLE_JOIN)[0]}{TITLE_JOIN}"
        if all(title.startswith(shared) for _path, title in runs):  # of a sweep
            runs = [(path, title.removeprefix(shared)) for path, title in runs]
        if self.titles != (unique := tuple(distinct_titles(runs))):
            self.titles = unique
            self.charts.names.show_names(unique, [self._colours[path] for path, _title in runs])
            self.charts.names.show()
            self._show_curves()

    def _open_best(self) -> None:
        if self._best is not None:
            self.run_opened.emit(self._best.run)

    def _export_best(self) -> None:
        if self._best is not None:
            ExportSheet(self._best.run, self._best.title, self).open()

    def _show_curves(self) -> None:
        colours = [self._colours[run.path] for run in self.runs]
        runs = zip(self.titles, colours, self.histories, self.charts.names.shown, strict=True)
        self.charts.show_curves(
            [Curve(title, colour, history) for title, colour, history, is_shown in runs if is_shown]
        )

    def _lay_out(self) -> None:
        self.benchmark.hide()
        self.tabs.addTab(self.charts, _("Curves"))
        self.tabs.addTab(self.table, _("What differs"))
        label = role_label(Role.MUTED, _("Compare with"))
        label.setBuddy(self.other)
        self.other.setAccessibleName(label.text())
        self.other.setSizeAdjustPolicy(ChoiceList.SizeAdjustPolicy.AdjustToContents)
        self.other.setMinimumWidth(4 * FEWEST_LETTERS * self.fontMetrics().averageCharWidth())
        self.chooser = QFrame()
        self.chooser.setLayout(hbox(label, self.other))
        top = hbox(self.title, None, self.chooser, self.back)
        layout = vbox(
            top,
            hbox((self.conclusion, 1), self.open, self.export),
            self.difference,
            (self.tabs, 1),
            (self.benchmark, 1),
        )
        layout.setContentsMargins(*PAGE_MARGINS)
        self.setLayout(layout)


def _partners(runs: tuple[RunFolder, ...]) -> list[tuple[Path, str]]:
    """The first run and those to compare it with, the second included: their folders and titles."""
    return [(run.path, run_title(run)) for run in dict.fromkeys((*runs[:1], *partners(runs[0]), *runs[1:]))]


def difference_text(comparison: RunComparison) -> str:
    """The options in which the runs differ, on one line."""
    options = enumerated(difference.option.title for difference in comparison.options)
    if not options and any(run.problem for run in comparison.runs):
        return _("Some run files can't be read, so their differences aren't known.")
    return _("They differ in: {options}").format(options=options) if options else _("No option differs.")
