"""A result as its page shows it: bar charts, a table of figures, the conclusion, and copies for elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import QEvent, QItemSelectionModel, QLineF, QModelIndex, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
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
    QToolTip,
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
from gui.base.tokens import SPACING, Tokens
from gui.charts.overlays import Legend, Reading
from gui.new_run.memory_card import bar_parts
from gui.widgets.cards import Card, Note
from gui.widgets.labels import mirrored, plain_tip, push_button, text_label
from gui.widgets.layout import FLUSH, Part, fill
from gui.widgets.tables import set_up_rows

# --- A bar per row with its figure at the end


GAP = 9
"""Height of a row beyond that of its text, in pixels."""

NAMES = 0.48
"""Share of the width that names get at most."""

THINNEST = 2.0
RADIUS = 3.0
WHISKER = 6.0
"""Height of the ends of a whisker."""


@dataclass(frozen=True)
class Piece:
    """A part of a bar: its length, in the bar's unit, and the field of `gui.base.theme.Tokens` of its colour."""

    length: float
    colour: str


@dataclass(frozen=True)
class Bar:
    """A row.

    `length` is in any unit that all rows share; without it, `words` are shown in its place. `figure` is shown at its
    end, with `MARK` if `is_marked`. `lowest` and `highest` are the ends of a whisker. The lengths of `pieces` add up
    to that of the bar. `tip` has the exact figures.
    """

    title: str
    length: float | None = None
    figure: str = ""
    colour: str = "run"
    lowest: float | None = None
    highest: float | None = None
    pieces: tuple[Piece, ...] = ()
    words: str = ""
    tip: str = ""
    is_marked: bool = False

    @property
    def text(self) -> str:
        """The figure with its mark, or what is shown in place of the bar."""
        if self.length is None:
            return self.words
        return f"{self.figure} {MARK}" if self.is_marked else self.figure

    @property
    def reach(self) -> float:
        """The end of the bar or its whisker."""
        return max(self.length or 0.0, self.highest or 0.0)


@dataclass(frozen=True)
class BarPlace:
    """Rectangles of a bar's name, the bar itself, the text after it and its whisker."""

    bar: Bar
    name: QRectF
    body: QRectF
    text: QRectF
    whisker: QRectF | None = None


@dataclass(frozen=True)
class Placed:
    """All rows and the line across, in left-to-right coordinates."""

    rows: tuple[BarPlace, ...]
    line: QRectF | None = None


def placed(bars: Sequence[Bar], width: float, metrics: QFontMetrics, line: float | None = None) -> Placed:
    """Lay out everything in `width` pixels, all bars at one scale, with a line across all rows at a value."""
    height, advance = metrics.height() + GAP, metrics.horizontalAdvance
    longest_name = max((advance(bar.title) for bar in bars), default=0) + 1.0
    names = min(NAMES * width, longest_name)
    left = names + SPACING
    space = max(
        1.0,
        width
        - left
        - max((advance(bar.text) for bar in bars if bar.length is not None), default=0)
        - SPACING,
    )
    most = max([*(bar.reach for bar in bars), line or 0.0])
    pixels = space / most if most else 0.0

    def x_of(value: float) -> float:
        return left + value * pixels

    rows = []
    for place, bar in enumerate(bars):
        top, middle = place * height, (place + 0.5) * height
        thick, name, whisker = height - GAP - 3.0, QRectF(0, place * height, names, height), None
        if bar.length is None:
            body, after = QRectF(left, top, 0, height), left
        else:
            body = QRectF(left, middle - thick / 2, max(THINNEST, x_of(bar.length) - left), thick)
            after = max(body.right(), x_of(bar.reach)) + SPACING - 2
            if bar.lowest is not None and bar.highest is not None and bar.lowest < bar.highest:
                wide = max(THINNEST, x_of(bar.highest) - x_of(bar.lowest))
                whisker = QRectF(x_of(bar.lowest), middle - WHISKER / 2, wide, WHISKER)
        rows.append(BarPlace(bar, name, body, QRectF(after, top, max(0.0, width - after), height), whisker))
    across = None if line is None else QRectF(x_of(line) - 0.5, 0, 1, len(bars) * height)
    return Placed(tuple(rows), across)


LETTERS, FEWEST_LETTERS = 52, 34
"""Preferred and least width."""

UNLIMITED = 1 << 20
"""The legend may wrap."""


class Bars(QWidget):
    """The rows of a bar chart; a tool tip shows the exact figures of the row under the pointer."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.bars: tuple[Bar, ...] = ()
        self._line: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_bars(self, bars: Sequence[Bar], line: float | None = None) -> None:
        self.bars, self._line = tuple(bars), line
        self.setAccessibleDescription("; ".join(f"{bar.title}: {bar.text}" for bar in bars))
        self.updateGeometry()
        self.update()

    def placed(self) -> Placed:
        return placed(self.bars, self.width(), self.fontMetrics(), self._line)

    def sizeHint(self) -> QSize:
        return QSize(LETTERS * self.fontMetrics().averageCharWidth(), len(self.bars) * self._row_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(FEWEST_LETTERS * self.fontMetrics().averageCharWidth(), self.sizeHint().height())

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            bar = self.bar_at(event.pos().y())
            QToolTip.showText(event.globalPos(), plain_tip(_tip(bar) if bar else ""), self)
            return True
        return super().event(event)

    def bar_at(self, y: float) -> Bar | None:
        """The row at a height in pixels."""
        row = int(y // self._row_height())
        return self.bars[row] if y >= 0 and row < len(self.bars) else None

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter, tokens, layout = QPainter(self), self._theme.tokens, self.placed()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        for row in layout.rows:
            bar = row.bar
            if layout.line is not None and bar.length is not None:
                part = QRectF(layout.line.left(), row.name.top(), layout.line.width(), row.name.height())
                painter.fillRect(mirrored(self, part), QColor(tokens.line))
            painter.setPen(QColor(tokens.muted))
            self._write(painter, row.name, bar.title, Qt.TextElideMode.ElideMiddle, is_at_end=True)
            if bar.length is not None:
                self._paint_body(painter, row, tokens)
                painter.setPen(QColor(tokens.text))
            self._write(painter, row.text, bar.text, Qt.TextElideMode.ElideRight, is_at_end=False)

    def _paint_body(self, painter: QPainter, row: BarPlace, tokens: Tokens) -> None:
        bar, body = row.bar, row.body
        shape = QPainterPath()
        shape.addRoundedRect(mirrored(self, body), RADIUS, RADIUS)
        painter.save()
        painter.setClipPath(shape)
        left, whole = body.left(), sum(piece.length for piece in bar.pieces)
        painter.fillRect(mirrored(self, body), QColor(getattr(tokens, bar.colour)))
        for piece in bar.pieces:
            wide = body.width() * piece.length / whole
            part = QRectF(left, body.top(), wide, body.height())
            painter.fillRect(mirrored(self, part), QColor(getattr(tokens, piece.colour)))
            left += wide
        painter.restore()
        if row.whisker is not None:
            place = mirrored(self, row.whisker)
            painter.setPen(QPen(QColor(tokens.text), 1))
            painter.drawLine(QLineF(place.left(), place.center().y(), place.right(), place.center().y()))
            for x in (place.left(), place.right()):
                painter.drawLine(QLineF(x, place.top(), x, place.bottom()))

    def _write(
        self, painter: QPainter, rect: QRectF, words: str, elide: Qt.TextElideMode, *, is_at_end: bool
    ) -> None:
        is_rtl = self.layoutDirection() is Qt.LayoutDirection.RightToLeft
        side = Qt.AlignmentFlag.AlignRight if is_at_end != is_rtl else Qt.AlignmentFlag.AlignLeft
        align = side | Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignAbsolute
        shown = painter.fontMetrics().elidedText(words, elide, int(rect.width()))
        painter.drawText(mirrored(self, rect), align, shown)

    def _row_height(self) -> int:
        return self.fontMetrics().height() + GAP


def _tip(bar: Bar) -> str:
    return "\n".join(filter(None, (bar.title, bar.tip or bar.words or bar.figure)))


class BarChart(Card):
    """Bars with a title, a note such as "more is better", and a legend."""

    def __init__(self, title: str, note: str, theme: Theme) -> None:
        super().__init__(title)
        self._theme = theme
        self._meanings: Sequence[Reading] = ()
        self.bars = Bars(theme)
        self.bars.setAccessibleName(title)
        self.legend = Legend()
        self.legend.setWordWrap(True)
        self.legend.hide()
        self.body.addLayout(fill(QVBoxLayout(), self.bars, self.legend, None, spacing=SPACING + 2))
        self.set_trailing(note)
        theme.changed.connect(self._show_legend)

    def set_title(self, title: str) -> None:
        super().set_title(title)
        self.bars.setAccessibleName(title)

    def show_bars(
        self, bars: Sequence[Bar], *, meanings: Sequence[Reading] = (), line: float | None = None
    ) -> None:
        """Show bars; `meanings` explain their colours."""
        self.bars.show_bars(bars, line)
        self._meanings = meanings
        self._show_legend()

    def _show_legend(self) -> None:
        self.legend.setVisible(bool(self._meanings))
        self.legend.show_readings(self._meanings, UNLIMITED, self._theme.tokens)


# --- A result


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
