"""A benchmark on the page Compare: bars, a table of figures, the conclusion, and copies for elsewhere."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QGuiApplication, QResizeEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QCheckBox, QFrame, QHeaderView, QSizePolicy, QTableView, QVBoxLayout, QWidget

from core.base import formats
from core.base.language import _
from core.benchmark.figures import Figures, Result, Spread, read_result
from core.benchmark.plan import BenchmarkKind, Measured
from core.benchmark.table import (
    MARK,
    SOURCES,
    ResultTable,
    conclusion,
    csv,
    how_measured,
    markdown,
    table_of,
    times,
)
from gui.base.background import EngineWork
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.charts.axes import DirectAxis
from gui.widgets.cards import Card, Note
from gui.widgets.inputs import WheelGuard
from gui.widgets.labels import plain_tip, push_button, text_label
from gui.widgets.layout import PageScroll, fill, hbox, vbox
from gui.widgets.tables import set_up_rows

REFRESH_MS = 2000
"""How often the runs are read while some of them train."""

MOST_LETTERS = 48
"""Maximum width of a column."""


NAMES = 0.45
"""Share of a chart's width that names get at most."""


class Bars(Card):
    """A horizontal bar for each row, with its figure at the end, and a whisker for its spread.

    Args:
        note: What is better, such as "more is better".
    """

    def __init__(self, note: str, theme: Theme) -> None:
        super().__init__("")
        self._theme = theme
        self.bars: list[tuple[Figures, Spread]] = []
        self._write: Callable[[float], str] = str
        self._line: float | None = None
        self.plot = pg.PlotWidget(axisItems={"left": DirectAxis("left")})
        self.plot.setMenuEnabled(False)
        self.plot.setMouseEnabled(False, False)
        self.plot.hideButtons()
        self.plot.hideAxis("bottom")
        self.plot.invertY(True)
        self.plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        WheelGuard(self.plot.viewport())
        self.body.addWidget(self.plot)
        self.set_trailing(note)
        theme.changed.connect(self._draw)

    @property
    def texts(self) -> list[str]:
        """What stands at the ends of the bars."""
        marks = (f" {MARK}" if one.is_disturbed else "" for one, _spread in self.bars)
        return [
            f"{self._write(spread.median)}{mark}"
            for (_one, spread), mark in zip(self.bars, marks, strict=True)
        ]

    def show_bars(
        self,
        title: str,
        bars: Sequence[tuple[Figures, Spread]],
        write: Callable[[float], str],
        line: float | None = None,
    ) -> None:
        """Draw bars, written by `write`, with a line across all of them at a value."""
        self.set_title(title)
        self.bars, self._write, self._line = list(bars), write, line
        names = [one.row.full_title for one, _spread in bars]
        said = "; ".join(f"{name}: {text}" for name, text in zip(names, self.texts, strict=True))
        self.plot.setAccessibleName(f"{title}: {said}")
        self._draw()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _draw(self) -> None:
        tokens, places = self._theme.tokens, list(range(len(self.bars)))
        spreads = [spread for _one, spread in self.bars]
        values = [spread.median for spread in spreads]
        self.plot.clear()
        self.plot.setBackground(tokens.surface)
        axis = self.plot.getAxis("left")
        axis.setPen(pg.mkPen(None))
        axis.setTextPen(tokens.muted)
        axis.setTickFont(self.font())
        pen = pg.mkPen(None)
        self.plot.addItem(
            pg.BarGraphItem(x0=0, y=places, height=0.6, width=values, brush=tokens.run, pen=pen)
        )
        if any(spread.highest > spread.lowest for spread in spreads):
            whiskers = pg.ErrorBarItem(
                x=np.array(values),
                y=np.array(places, dtype=float),
                left=np.array([spread.median - spread.lowest for spread in spreads]),
                right=np.array([spread.highest - spread.median for spread in spreads]),
                beam=0.25,
                pen=tokens.text,
            )
            self.plot.addItem(whiskers)
        for place, (text, spread) in enumerate(zip(self.texts, spreads, strict=True)):
            label = pg.TextItem(text, color=tokens.text, anchor=(0, 0.5))
            label.setFont(self.font())
            label.setPos(spread.highest, place)
            self.plot.addItem(label)
        if self._line is not None:
            self.plot.addItem(pg.InfiniteLine(self._line, pen=pg.mkPen(tokens.line, width=1.5)))
        self.plot.setFixedHeight((len(self.bars) + 1) * (self.fontMetrics().height() + SPACING))
        self._fit()

    def _fit(self) -> None:
        """Leave enough space for the names before the bars, and for the figures behind the longest one."""
        metrics, width = self.fontMetrics(), self.plot.width()
        names = [one.row.title for one, _spread in self.bars]
        widest = max(map(metrics.horizontalAdvance, names), default=0)
        given = min(widest + 2, round(NAMES * width))  # the exact width elides
        shown = [metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, given) for name in names]
        axis = self.plot.getAxis("left")
        axis.setTicks([list(enumerate(shown))])
        axis.setWidth(given + 2 * SPACING)
        behind = max(map(metrics.horizontalAdvance, self.texts), default=0) + 2 * SPACING
        space = max(1, width - given - 2 * SPACING)
        longest = max([self._line or 0.0, *(spread.highest for _one, spread in self.bars)]) or 1.0
        reach = longest * space / max(1, space - behind)
        self.plot.setRange(QRectF(0, -0.6, reach, max(1, len(names)) + 0.2), padding=0)


class BenchmarkTable(QTableView):
    """The table of a result in full height; a row without figures says why."""

    opened = Signal(object)  # the `core.runs.folder.RunFolder` of a row, by a double click or Enter

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.items = QStandardItemModel(self)
        self.table = ResultTable((), ())
        self.setModel(self.items)
        self.setAccessibleName(_("Figures"))
        set_up_rows(self, padding=SPACING + 6, on_card=True)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizeAdjustPolicy(QTableView.SizeAdjustPolicy.AdjustToContents)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setMaximumSectionSize(MOST_LETTERS * self.fontMetrics().averageCharWidth())
        self.activated.connect(self._open)
        theme.changed.connect(self._fill)

    @property
    def selected(self) -> Figures | None:
        """The figures of the current row; None if there is none."""
        place = self.currentIndex().row()
        return self.table.lines[place].figures if 0 <= place < len(self.table.lines) else None

    def show_table(self, table: ResultTable) -> None:
        """Show a table; the current row stays."""
        if table != self.table:
            self.table = table
            self._fill()

    def _fill(self) -> None:
        columns = self.table.columns
        self.clearSpans()
        self.items.setRowCount(len(self.table.lines))
        self.items.setColumnCount(len(columns))
        for place, column in enumerate(columns):
            heading = QStandardItem(column.title)
            heading.setToolTip(plain_tip(column.tip))
            heading.setTextAlignment(_alignment(is_figure=column.is_figure))
            self.items.setHorizontalHeaderItem(place, heading)
        for row, line in enumerate(self.table.lines):
            texts = (line.cells[0], line.words, *[""] * len(columns)) if line.words else line.cells
            for place, (column, text) in enumerate(zip(columns, texts, strict=False)):
                item = QStandardItem(text)
                item.setToolTip(plain_tip(line.tip))
                item.setTextAlignment(_alignment(is_figure=column.is_figure and not line.words))
                if line.words:
                    item.setForeground(QColor(self._theme.tokens.muted))
                    if place:
                        item.setSizeHint(QSize(1, 1))  # it spans all columns, and widens none
                self.items.setItem(row, place, item)
            if line.words and len(columns) > 2:
                self.setSpan(row, 1, 1, len(columns) - 1)

    def _open(self) -> None:
        if self.selected is not None and self.selected.run is not None:
            self.opened.emit(self.selected.run)


def _alignment(*, is_figure: bool) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignTrailing if is_figure else Qt.AlignmentFlag.AlignLeading
    return side | Qt.AlignmentFlag.AlignVCenter


class BenchmarkView(PageScroll):
    """The figures of a benchmark, which are read in a thread until all its runs are over."""

    run_opened = Signal(object)  # a `core.runs.folder.RunFolder`
    use_requested = Signal(object)  # the `core.benchmark.plan.BenchmarkRow` whose options New run is to use

    def __init__(self, theme: Theme) -> None:
        content = self._content = QWidget()
        super().__init__(content)
        self._measured: Measured | None = None
        self.result: Result | None = None
        self._reading: EngineWork[Result] = EngineWork(self, done=self._on_result)
        self.again = QTimer(self, interval=REFRESH_MS, singleShot=True)
        self.again.timeout.connect(self._read)
        self.speed, self.memory = Bars(_("more is better"), theme), Bars(_("less is better"), theme)
        self.table = BenchmarkTable(theme)
        self.published = QCheckBox(_("Show figures published by others"))
        self.note, self.conclusion = text_label(role=Role.HINT, selectable=True), text_label(selectable=True)
        self.facts = Note(_("Show"))
        tip = _("Use the options of the selected row in New run")
        self.use = push_button(_("Use this"), self._use, tip)
        self.copy_markdown = push_button(_("Copy as Markdown"), partial(self._copy, markdown))
        self.copy_csv = push_button(_("Copy as CSV"), partial(self._copy, csv))
        card = QFrame()
        set_role(card, Role.CARD)
        fill(QVBoxLayout(card), self.table, margins=(SPACING // 2,) * 4)
        charts = hbox((self.speed, 1), (self.memory, 1), spacing=SPACING + 4)
        buttons = hbox(self.use, self.copy_markdown, self.copy_csv, self.published, None)
        layout = vbox(
            self.conclusion, charts, card, self.note, buttons, self.facts, None, spacing=SPACING + 4
        )
        layout.setContentsMargins(0, SPACING, 0, 2 * SPACING)
        content.setLayout(layout)
        self.published.toggled.connect(self._show)
        self.table.opened.connect(self.run_opened)
        self.table.selectionModel().currentRowChanged.connect(lambda *_indexes: self._show_use())

    def show_benchmark(self, measured: Measured) -> None:
        """Read and show a benchmark, again and again until all its runs are over."""
        self._measured, self.result = measured, None
        self._content.hide()  # it still shows the one before
        self.published.setChecked(False)
        self._read()

    def end_work(self) -> None:
        """Stop reading."""
        self.again.stop()
        self._reading.cancel()

    def _read(self) -> None:
        if (measured := self._measured) is not None:
            self._reading.start(lambda _call: read_result(measured))

    def _on_result(self, result: Result) -> None:
        self.result = result
        self._show()
        self._content.show()
        if not result.is_over:
            self.again.start()

    def _show(self) -> None:
        if (result := self.result) is None:
            return
        kind, shows_published = result.benchmark.kind, self.published.isChecked()
        self.table.show_table(table_of(result, with_published=shows_published))
        self._show_charts(result)
        self.published.setVisible(result.benchmark.has_published)
        self.published.setToolTip(SOURCES[kind])
        note = _(
            "{mark} Heat or a power cap reduced the clock, or other programs took much of the CPU while steps took "
            "twice as long as usual, or from the start of a run on the CPU. Less isn't noticed."
        )
        notes = [note.format(mark=MARK)] if any(one.is_disturbed for one in result.measured) else []
        notes += [SOURCES[kind]] if shows_published else []
        self.note.setText("\n".join(notes))
        self.note.setVisible(bool(notes))
        self.conclusion.setText(conclusion(result))
        self.facts.say((_("What was measured, and how."), *how_measured(result)))
        for button in (self.copy_markdown, self.copy_csv):
            button.setEnabled(bool(result.measured))
        self._show_use()

    def _show_charts(self, result: Result) -> None:
        is_methods = result.benchmark.kind is BenchmarkKind.METHODS
        self.memory.setVisible(is_methods and bool(result.measured))
        self.speed.setVisible(bool(result.measured))
        if is_methods:
            speeds = [(one, speed) for one in result.rows if (speed := one.samples_per_second)]
            peaks = [(one, _exactly(one.peak)) for one in result.measured if one.peak]
            self.speed.show_bars(_("Examples per second"), speeds, formats.three_figures)
            self.memory.show_bars(_("Peak memory"), peaks, formats.memory)
            return
        others = [one for one in result.rows if result.baseline(one) is not one]
        title = _("Speed-up of {side} over {first}").format(
            side=others[0].row.side if others else "", first=result.benchmark.rows[0].side
        )
        factors = [(one, one.speed_against(result.baseline(one))) for one in others]
        bars = [(one, _exactly(factor)) for one, factor in factors if factor is not None]
        self.speed.show_bars(title, bars, times, line=1.0)

    def _show_use(self) -> None:
        chosen = self.table.selected
        is_method = self.result is not None and self.result.benchmark.kind is BenchmarkKind.METHODS
        self.use.setVisible(is_method)
        self.use.setEnabled(chosen is not None and chosen.is_measured)

    def _use(self) -> None:
        if self.table.selected is not None:
            self.use_requested.emit(self.table.selected.row)

    def _copy(self, write: Callable[[Result], str]) -> None:
        if self.result is not None:
            QGuiApplication.clipboard().setText(write(self.result))


def _exactly(value: float) -> Spread:
    """A figure without a spread."""
    return Spread(value, value, value)
