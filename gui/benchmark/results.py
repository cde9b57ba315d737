"""A result as its page shows it: bar charts, a table of figures, the conclusion, and copies for elsewhere."""

from collections.abc import Sequence
from dataclasses import replace
from gettext import gettext as _
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QSizePolicy,
    QStyle,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.benchmark.plan import Kind
from core.benchmark.published import ARTICLE, SOURCES, guide_row
from core.benchmark.result import Result, Row
from core.benchmark.table import (
    MARK,
    Cell,
    Heading,
    Line,
    ResultTable,
    Tone,
    conclusion,
    csv,
    how_measured,
    markdown,
    reason_of,
    table_of,
    times,
)
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.charts.bars import Bar, BarChart, Better, Piece
from gui.charts.bars import Line as LineAcross
from gui.charts.overlays import Reading
from gui.new_run.memory_card import bar_parts
from gui.widgets.labels import Disclosure, plain_tip
from gui.widgets.layout import Arrangement, SideBySide
from gui.widgets.tables import set_up_rows

Index = QModelIndex | QPersistentModelIndex

# --- A table of texts


class ResultModel(QAbstractTableModel):
    """Shows a `ResultTable`; where only figures change, selection and scroll position stay."""

    def __init__(self, theme: Theme, view: QTableView) -> None:
        super().__init__(view)
        self._theme, self._view = theme, view
        self.table = ResultTable((), ())
        theme.changed.connect(self._update)

    def show(self, table: ResultTable) -> None:
        """Show another table."""
        before, keys = self.table, [line.key for line in table.lines]
        if table.headings != before.headings or keys != [line.key for line in before.lines]:
            self.beginResetModel()
            self.table = table
            self.endResetModel()
        else:
            self.table = table
            self._update()

    def rowCount(self, parent: Index | None = None) -> int:
        """One row per line."""
        return 0 if parent is not None and parent.isValid() else len(self.table.lines)

    def columnCount(self, parent: Index | None = None) -> int:
        """One column per heading."""
        return 0 if parent is not None and parent.isValid() else len(self.table.headings)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Title, tip and alignment of a column."""
        if orientation is not Qt.Orientation.Horizontal or section >= len(self.table.headings):
            return None
        heading = self.table.headings[section]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return heading.title
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(heading.tip) or None
            case Qt.ItemDataRole.TextAlignmentRole:  # unlike cells, headings aren't mirrored by Qt
                return int(QStyle.visualAlignment(self._view.layoutDirection(), _alignment(heading)).value)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, tip, alignment and colour of a cell."""
        line, column = self.table.lines[index.row()], index.column()
        cell = line.cell(column)
        match role:
            case Qt.ItemDataRole.DisplayRole:
                is_rtl = self._view.layoutDirection() is Qt.LayoutDirection.RightToLeft
                return f"\u2068{cell.text}\u2069" if is_rtl and cell.text else cell.text
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(cell.tip or line.tip) or None
            case Qt.ItemDataRole.TextAlignmentRole:
                heading = Heading("", is_figure=False) if line.words else self.table.headings[column]
                return int(_alignment(heading).value)
            case Qt.ItemDataRole.ForegroundRole:
                return QColor(getattr(self._theme.tokens, cell.tone.value))
        return None

    def _update(self) -> None:
        if self.table.lines and self.table.headings:
            last = self.index(len(self.table.lines) - 1, len(self.table.headings) - 1)
            self.dataChanged.emit(self.index(0, 0), last)


def _alignment(heading: Heading) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignTrailing if heading.is_figure else Qt.AlignmentFlag.AlignLeading
    return side | Qt.AlignmentFlag.AlignVCenter


PADDING = 20
"""Pixels that the style sheet and Qt keep free on both sides of a text, and a little."""

FEWEST_LETTERS, MOST_LETTERS = 14, 48
"""Width of the first column at least, and of any at most."""


class ResultTableView(QTableView):
    """As high as its lines; columns that may leave are hidden where the width doesn't suffice.

    Signals:
        opened: The key of a line: double-clicked, Enter pressed on it, or its last cell clicked where that is a link.
        delete_pressed: The key Delete.
        selection_changed: Other lines are selected.
    """

    opened = Signal(str)
    delete_pressed = Signal()
    selection_changed = Signal()

    def __init__(self, name: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows = ResultModel(theme, self)
        self.setModel(self.rows)
        self.setAccessibleName(name)
        set_up_rows(self, padding=SPACING + 6)
        set_role(self, Role.INSET)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.doubleClicked.connect(self._open)
        self.clicked.connect(self._click)
        self.selectionModel().selectionChanged.connect(lambda *_: self.selection_changed.emit())

    def show_table(self, table: ResultTable) -> None:
        """Show another table; selected lines stay selected."""
        selected = self.selected
        self.rows.show(table)
        self.clearSpans()
        columns = len(table.headings)
        for row, line in enumerate(table.lines):
            if line.words is not None and columns > 2:
                self.setSpan(row, 1, 1, columns - 1)
        if self.selected != selected:
            self.select(*selected)
        self.updateGeometry()
        self.fit_columns()

    @property
    def selected(self) -> tuple[str, ...]:
        """The keys of the selected lines, from top to bottom."""
        rows = sorted({index.row() for index in self.selectionModel().selectedRows()})
        return tuple(self.rows.table.lines[row].key for row in rows)

    def select(self, *keys: str) -> None:
        """Select these lines and no others."""
        self.clearSelection()
        select = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
        for row, line in enumerate(self.rows.table.lines):
            if line.key in keys:
                self.selectionModel().select(self.rows.index(row, 0), select)

    def sizeHint(self) -> QSize:
        """As high as its lines."""
        height = self.horizontalHeader().sizeHint().height() + self.verticalHeader().length()
        return QSize(60 * self.fontMetrics().averageCharWidth(), height + 2)

    def minimumSizeHint(self) -> QSize:
        """As wide as the columns that never leave."""
        headings = self.rows.table.headings
        width = sum(self._least(column) for column, one in enumerate(headings) if not one.leaves)
        return QSize(width, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the columns into the new width."""
        super().resizeEvent(event)
        self.fit_columns()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens, Delete deletes (on a Mac Cmd+Backspace, too)."""
        key, is_command = event.key(), event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self._open(self.currentIndex())
        elif key == Qt.Key.Key_Delete or (key == Qt.Key.Key_Backspace and is_command):
            self.delete_pressed.emit()
        else:
            super().keyPressEvent(event)

    def fit_columns(self) -> None:
        """Give each column the width of its texts and an equal share of what is left."""
        headings, room = self.rows.table.headings, self.viewport().width()
        if not headings:
            return
        widths = {column: self._wide(column) for column in range(len(headings))}
        for rank in sorted({one.leaves for one in headings if one.leaves}, reverse=True):
            if sum(widths.values()) > room:
                widths = {
                    column: width for column, width in widths.items() if headings[column].leaves != rank
                }
        if sum(widths.values()) > room:
            widths[0] = max(self._least(0), widths[0] - sum(widths.values()) + room)
        each, rest = divmod(max(0, room - sum(widths.values())), len(widths))
        for column in range(len(headings)):
            self.setColumnHidden(column, column not in widths)
            if column in widths:
                self.setColumnWidth(column, widths[column] + each + (0 if column else rest))

    def _least(self, column: int) -> int:
        wide = self._wide(column)
        return wide if column else min(wide, FEWEST_LETTERS * self.fontMetrics().averageCharWidth() + PADDING)

    def _wide(self, column: int) -> int:
        table, metrics = self.rows.table, self.fontMetrics()
        texts = [line.cell(column).text for line in table.lines if not (line.words and column)]
        longest = max(map(metrics.horizontalAdvance, (table.headings[column].title, *texts)))
        return min(MOST_LETTERS * metrics.averageCharWidth(), longest) + PADDING

    def _open(self, index: QModelIndex) -> None:
        self.opened.emit(self.rows.table.lines[index.row()].key)

    def _click(self, index: QModelIndex) -> None:
        is_last = index.column() == len(self.rows.table.headings) - 1
        if is_last and self.rows.table.lines[index.row()].cell(index.column()).tone is Tone.ACTIVE:
            self._open(index)


def on_card(table: ResultTableView) -> QFrame:
    """A card around a table."""
    card = QFrame()
    set_role(card, Role.CARD)
    inside = QVBoxLayout(card)
    inside.setContentsMargins(SPACING // 2, SPACING // 2, SPACING // 2, SPACING // 2)
    inside.addWidget(table)
    return card


# --- A result


WIDE_LETTERS, CLOSE_LETTERS = 62, 38
"""Letters per chart from which on each has its own names, and from which on they stand side by side at all."""


class ResultView(QWidget):
    """Charts, table, conclusion, and buttons that copy them.

    Signals:
        use_requested: The `core.benchmark.plan.Variant` whose options are to be used in New run.
        copied: "Markdown" or "CSV" is on the clipboard.

    Args:
        theme: The colours.
        kind: Which results it shows.
        parent: Qt's parent.
    """

    use_requested = Signal(object)
    copied = Signal(str)

    def __init__(self, theme: Theme, kind: Kind, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kind = kind
        self.result: Result | None = None
        self._underway = ""
        is_methods = kind is Kind.METHODS
        self.speed = BarChart(_("Samples per second") if is_methods else _("Speed-up"), Better.MORE, theme)
        self.memory = BarChart(_("Peak memory"), Better.LESS, theme)
        self.memory.setVisible(is_methods)
        self.table = ResultTableView(_("Methods") if is_methods else _("Devices"), theme)
        self.table.opened.connect(self._use)
        self.published = QCheckBox(_("Show figures published by others"))
        self.published.setToolTip(SOURCES[kind])
        self.published.toggled.connect(self._show)
        self.note, self.conclusion = QLabel(), QLabel()
        for label in (self.note, self.conclusion):
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        set_role(self.note, Role.HINT)
        self.facts = Disclosure(_("Show"))
        self.copy_markdown, self.copy_csv = QPushButton(_("Copy as Markdown")), QPushButton(_("Copy as CSV"))
        self.copy_markdown.clicked.connect(self._copy_markdown)
        self.copy_csv.clicked.connect(self._copy_csv)
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(SPACING)
        self.buttons.addWidget(self.copy_markdown)
        self.buttons.addWidget(self.copy_csv)
        self.buttons.addStretch(1)
        charts: QWidget = self.speed
        if is_methods:
            charts = SideBySide((self.speed, self.memory), wide=WIDE_LETTERS, close=CLOSE_LETTERS)
            charts.arranged.connect(self._arrange)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING + 4)
        for part in (charts, on_card(self.table), self.published, self.note, self.conclusion, self.facts):
            column.addWidget(part)
        column.addLayout(self.buttons)
        column.addStretch(1)

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
        self.facts.show_words(_("What was measured, and how."), how_measured(result))
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
        self.speed.show_bars(bars, line=LineAcross(1.0), meanings=[meaning])

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
        return next(line.tip for line in self.table.rows.table.lines if line.key == row.variant.name)

    def _use(self, name: str) -> None:
        row = next(row for row in self.result.rows if row.variant.name == name) if self.result else None
        if row is not None and row.is_measured and self.kind is Kind.METHODS:
            self.use_requested.emit(row.variant)

    def _arrange(self, arrangement: Arrangement) -> None:
        """Close to each other, both charts share the names of the first."""
        self.memory.bars.show_names(arrangement is not Arrangement.CLOSE)

    def _copy_markdown(self) -> None:
        if self.result is not None:
            QGuiApplication.clipboard().setText(markdown(self.result, published=self.published.isChecked()))
            self.copied.emit("Markdown")

    def _copy_csv(self) -> None:
        if self.result is not None:
            QGuiApplication.clipboard().setText(csv(self.result))
            self.copied.emit("CSV")


def _with_links(table: ResultTable) -> ResultTable:
    """The table with a link in each measured line that uses its options in New run."""
    link = Cell(_("Use this"), Tone.ACTIVE, _("Use these options in New run"))
    lines: Sequence[Line] = [
        line if line.words is not None else replace(line, cells=(*line.cells, link)) for line in table.lines
    ]
    return ResultTable((*table.headings, Heading("", is_figure=False)), tuple(lines))
