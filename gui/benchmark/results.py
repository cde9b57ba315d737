"""A result as its page shows it: bar charts, a table of figures, the conclusion, and copies for elsewhere."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QKeyEvent,
    QResizeEvent,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractScrollArea,
    QCheckBox,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QSizePolicy,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.language import _
from core.benchmark.plan import Kind
from core.benchmark.result import Result, Row
from core.benchmark.table import (
    ARTICLE,
    MARK,
    SOURCES,
    Cell,
    Heading,
    Line,
    ResultTable,
    Tone,
    conclusion,
    csv,
    guide_row,
    how_measured,
    markdown,
    reason_of,
    table_of,
    times,
)
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.charts.bars import Bar, BarChart, Piece
from gui.charts.overlays import Reading
from gui.new_run.memory_card import bar_parts
from gui.widgets.cards import Note
from gui.widgets.labels import plain_tip, push_button, text_label
from gui.widgets.layout import FLUSH, Part, fill
from gui.widgets.tables import set_up_rows

MOST_LETTERS = 48
"""Maximum width of a column."""


class ResultTableView(QTableView):
    """Shows a `ResultTable` in full height; where only figures change, selection and scroll position stay.

    A line of words has them in its second column.
    """

    opened = Signal(str)  # the key of a line, by a double click, Enter, or a click on its link
    delete_pressed = Signal()
    selection_changed = Signal()

    def __init__(self, name: str, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._items = QStandardItemModel(self)
        self.table = ResultTable((), ())
        self.setModel(self._items)
        self.setAccessibleName(name)
        set_up_rows(self, padding=SPACING + 6, on_card=True)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizeAdjustPolicy(QAbstractScrollArea.SizeAdjustPolicy.AdjustToContents)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setMaximumSectionSize(MOST_LETTERS * self.fontMetrics().averageCharWidth())
        self.doubleClicked.connect(self._open)
        self.clicked.connect(self._open_link)
        self.selectionModel().selectionChanged.connect(lambda *_: self.selection_changed.emit())
        theme.changed.connect(self._fill)

    def show_table(self, table: ResultTable) -> None:
        """Show another table; selected lines stay selected."""
        selected, self.table = self.selected, table
        self._fill()
        self.clearSpans()
        columns = len(table.headings)
        for row, line in enumerate(table.lines):
            if line.words is not None and columns > 2:
                self.setSpan(row, 1, 1, columns - 1)
        if self.selected != selected:
            self.select(*selected)
        self._stretch_last_column()

    @property
    def selected(self) -> tuple[str, ...]:
        """The keys of the selected lines, from top to bottom."""
        rows = sorted({index.row() for index in self.selectionModel().selectedRows()})
        return tuple(self.table.keys[row] for row in rows)

    def select(self, *keys: str) -> None:
        """Select these lines and no others."""
        self.clearSelection()
        select = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
        for row, key in enumerate(self.table.keys):
            if key in keys:
                self.selectionModel().select(self._items.index(row, 0), select)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._stretch_last_column()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens, Delete deletes (on a Mac Cmd+Backspace, too)."""
        key, is_command = event.key(), event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self._open(self.currentIndex())
        elif key == Qt.Key.Key_Delete or (key == Qt.Key.Key_Backspace and is_command):
            self.delete_pressed.emit()
        else:
            super().keyPressEvent(event)

    def _fill(self) -> None:
        self._items.setRowCount(len(self.table.lines))
        self._items.setColumnCount(len(self.table.headings))
        for column, heading in enumerate(self.table.headings):
            title = QStandardItem(heading.title)
            title.setToolTip(plain_tip(heading.tip))
            title.setTextAlignment(_alignment(is_figure=heading.is_figure))
            self._items.setHorizontalHeaderItem(column, title)
            for row, line in enumerate(self.table.lines):
                cell = line.cell(column)
                item = QStandardItem(cell.text)
                item.setToolTip(plain_tip(cell.tip or line.tip))
                item.setForeground(QColor(getattr(self._theme.tokens, cell.tone.value)))
                item.setTextAlignment(_alignment(is_figure=heading.is_figure and line.words is None))
                if column and line.words is not None:
                    item.setSizeHint(QSize(1, 1))  # it spans all columns, and widens none
                self._items.setItem(row, column, item)

    def _stretch_last_column(self) -> None:
        """Let the last column fill the width if all columns fit; a scroll bar below needs height."""
        header = self.horizontalHeader()
        header.setStretchLastSection(False)
        header.setStretchLastSection(header.length() < self.viewport().width())
        self.updateGeometry()

    def _open(self, index: QModelIndex) -> None:
        self.opened.emit(self.table.keys[index.row()])

    def _open_link(self, index: QModelIndex) -> None:
        line = self.table.lines[index.row()]
        if index.column() == 1 and line.words is None and line.cell(1).tone is Tone.ACTIVE:
            self._open(index)


def _alignment(*, is_figure: bool) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignTrailing if is_figure else Qt.AlignmentFlag.AlignLeading
    return side | Qt.AlignmentFlag.AlignVCenter


def fill_page(content: QWidget, *parts: Part) -> None:
    """Lay out the parts of a tab below each other."""
    fill(QVBoxLayout(content), *parts, None, margins=(0, SPACING, 0, 2 * SPACING), spacing=SPACING + 4)


def on_card(table: ResultTableView) -> QFrame:
    card = QFrame()
    set_role(card, Role.CARD)
    fill(QVBoxLayout(card), table, margins=(SPACING // 2, SPACING // 2, SPACING // 2, SPACING // 2))
    return card


# --- A result


class ResultView(QWidget):
    """Charts, table, conclusion, and buttons that copy them."""

    use_requested = Signal(object)  # the `core.benchmark.plan.Variant` to use in New run
    copied = Signal(str)  # a sentence that says so

    def __init__(self, theme: Theme, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.result: Result | None = None
        self._underway = ""
        is_methods = kind is Kind.METHODS
        speed = _("Examples per second") if is_methods else _("Speed-up")
        self.speed = BarChart(speed, _("more is better"), theme)
        self.memory = BarChart(_("Peak memory"), _("less is better"), theme)
        self.table = ResultTableView(_("Methods") if is_methods else _("Devices"), theme)
        self.table.opened.connect(self._use)
        self.published = QCheckBox(_("Show figures published by others"))
        self.published.setToolTip(SOURCES[kind])
        self.published.toggled.connect(self._show)
        self.note, self.conclusion = text_label(role=Role.HINT, selectable=True), text_label(selectable=True)
        self.facts = Note(_("Show"))
        self.copy_markdown = push_button(_("Copy as Markdown"), partial(self._copy, "Markdown"))
        self.copy_csv = push_button(_("Copy as CSV"), partial(self._copy, "CSV"))
        self.buttons = fill(QHBoxLayout(), self.copy_markdown, self.copy_csv, None, spacing=SPACING)
        charts = fill(QHBoxLayout(), (self.speed, 1), (self.memory, 1), spacing=SPACING + 4)
        fill(
            QVBoxLayout(self),
            charts,
            on_card(self.table),
            self.published,
            self.note,
            self.conclusion,
            self.facts,
            self.buttons,
            None,
            margins=FLUSH,
            spacing=SPACING + 4,
        )
        self.memory.setVisible(is_methods)

    def show_result(self, result: Result, underway: str = "") -> None:
        """Show what there is so far; `underway` is the name of the variant that is being measured."""
        self.result, self._underway = result, underway
        self._show()

    def _show(self) -> None:
        result, has_others = self.result, self.published.isChecked()
        if result is None:
            return
        table = table_of(result, published=has_others, underway=self._underway)
        self.table.show_table(_with_links(table) if self.kind is Kind.METHODS else table)
        self._show_charts(result)
        variants = result.plan.variants
        self.published.setVisible(any(one.group in ARTICLE or guide_row(one) is not None for one in variants))
        note = _(
            "{mark} Measured beside other work, or with a reduced clock: on a quiet machine it is faster."
        )
        is_disturbed = any(row.is_disturbed for row in result.measured)
        notes = [note.format(mark=MARK)] if is_disturbed else []
        notes += [SOURCES[self.kind]] if has_others else []
        self.note.setText("\n".join(notes))
        self.note.setVisible(bool(notes))
        self.conclusion.setText(conclusion(result))
        self.conclusion.setVisible(bool(result.measured))
        self.facts.say((_("What was measured, and how."), *how_measured(result)))
        for button in (self.copy_markdown, self.copy_csv):
            button.setEnabled(bool(result.measured))

    def _show_charts(self, result: Result) -> None:
        if self.kind is Kind.METHODS:
            self.speed.show_bars([self._speed_bar(row, result) for row in result.rows])
            meanings = {
                part.colour: Reading(part.name, part.colour)
                for row in result.rows
                if row.fullest
                for part in bar_parts(row.fullest.parts)
                if part.bytes > 0
            }
            bars = [self._memory_bar(row, result) for row in result.rows]
            self.memory.show_bars(bars, meanings=list(meanings.values()))
            return
        rows = [row for row in result.rows if result.baseline(row) is not row]
        sides = list(dict.fromkeys(row.variant.side for row in result.rows))
        if len(sides) == 2:
            title = _("Speed-up of {side} over {first}")
            self.speed.set_title(title.format(side=sides[1], first=sides[0]))
        meaning = Reading(_("The line is at 1 ×: as fast as {side}.").format(side=sides[0] if sides else ""))
        bars = [self._speed_up_bar(row, result) for row in rows]
        self.speed.show_bars(bars, line=1.0, meanings=[meaning])

    def _speed_bar(self, row: Row, result: Result) -> Bar:
        speed = row.samples_per_second
        if speed is None:
            return self._empty_bar(row, result)
        return Bar(
            row.variant.title,
            speed.median,
            formats.three_figures(speed.median),
            colour="others" if result.baseline(row) is row else "run",
            lowest=speed.lowest,
            highest=speed.highest,
            tip=self._tip(row),
            is_marked=row.is_disturbed,
        )

    def _memory_bar(self, row: Row, result: Result) -> Bar:
        fullest = row.fullest
        if fullest is None or not fullest.peak:
            return self._empty_bar(row, result)
        parts = [part for part in bar_parts(fullest.parts) if part.bytes > 0]
        return Bar(
            row.variant.title,
            float(fullest.peak),
            formats.memory(fullest.peak),
            pieces=tuple(Piece(float(part.bytes), part.colour) for part in parts),
            tip=self._tip(row),
        )

    def _speed_up_bar(self, row: Row, result: Result) -> Bar:
        first = result.baseline(row)
        speed = row.speed_against(first)
        if speed is None:
            missing = next(one for one in (first, row) if not one.is_measured)
            words = reason_of(missing, result)
            return Bar(row.variant.title, words=f"{missing.variant.side}: {words}" if words else "")
        is_marked = first.is_disturbed or row.is_disturbed
        return Bar(row.variant.title, speed, times(speed), tip=self._tip(row), is_marked=is_marked)

    def _empty_bar(self, row: Row, result: Result) -> Bar:
        is_underway = row.variant.name == self._underway
        return Bar(row.variant.title, words=_("being measured…") if is_underway else reason_of(row, result))

    def _tip(self, row: Row) -> str:
        return next(line.tip for line in self.table.table.lines if line.key == row.variant.name)

    def _use(self, name: str) -> None:
        row = next(row for row in self.result.rows if row.variant.name == name) if self.result else None
        if row is not None and row.is_measured and self.kind is Kind.METHODS:
            self.use_requested.emit(row.variant)

    def _copy(self, form: str) -> None:
        if self.result is not None:
            is_csv, has_others = form == "CSV", self.published.isChecked()
            text = csv(self.result) if is_csv else markdown(self.result, published=has_others)
            QGuiApplication.clipboard().setText(text)
            self.copied.emit(_("Table copied as {form}").format(form=form))


def _with_links(table: ResultTable) -> ResultTable:
    """The table with a link in each measured line that uses its options in New run."""
    link = Cell(_("Use this"), Tone.ACTIVE, _("Use these options in New run"))
    lines: Sequence[Line] = [
        line if line.words is not None else replace(line, cells=(line.cells[0], link, *line.cells[1:]))
        for line in table.lines
    ]
    return ResultTable((table.headings[0], Heading("", is_figure=False), *table.headings[1:]), tuple(lines))
