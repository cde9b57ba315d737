"""What the views of both kinds of benchmarks have in common: charts, a table, what is to be known of the figures."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from gettext import gettext as _
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QHeaderView,
    QLabel,
    QPushButton,
    QSizePolicy,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from core.base import format as figures
from core.base import format as numbers
from core.benchmark.plan import Kind, Plan
from core.benchmark.result import BUSY, GPU_HELD, Kept, Result, Row, Spread
from core.benchmark.runner import Underway
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.benchmark.setup import Benchmarking, Ending
from gui.charts.bars import MARK
from gui.new_run.memory_card import bar_parts
from gui.widgets.labels import plain_tip
from gui.widgets.tables import set_up_rows

# --- A table of figures that is filled in as they come: lines of cells


Index = QModelIndex | QPersistentModelIndex

SMALL = 0.92
"""What small figures are of the others' size."""


class Tone(Enum):
    """How a cell's text stands out."""

    PLAIN = "text"
    QUIET = "muted"
    SMALL = "small"
    GOOD = "ok"
    WARNING = "warn"
    ACTIVE = "accent"


@dataclass(frozen=True)
class Heading:
    """A column: its title, what its tip says, whether it holds figures, and whether it leaves where room is short.

    Of those that leave, the ones with the highest number go first, together; 0 stays.
    """

    title: str
    tip: str = ""
    is_figure: bool = True
    leaves: int = 0


WORDS = Heading("", is_figure=False)


@dataclass(frozen=True)
class Cell:
    """A text, how it stands out, and what its tip says (empty: the line's)."""

    text: str = ""
    tone: Tone = Tone.PLAIN
    tip: str = ""


@dataclass(frozen=True)
class Line:
    """A line: `key` tells it from the others. `across` stands in place of all cells but the first."""

    key: str
    cells: tuple[Cell, ...]
    across: Cell | None = None
    tip: str = ""

    def cell(self, column: int) -> Cell:
        """What stands in a column."""
        if self.across is not None and column:
            return self.across if column == 1 else Cell()
        return self.cells[column] if column < len(self.cells) else Cell()


class FiguresModel(QAbstractTableModel):
    """Shows lines; those that change are told of one by one, so that what is chosen and scrolled stays.

    `is_from_right` says that text is read from there: cells are turned by their view, headings aren't.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.headings: tuple[Heading, ...] = ()
        self.lines: tuple[Line, ...] = ()
        self.is_from_right = False
        theme.changed.connect(self._repaint)

    def show(self, headings: Sequence[Heading], lines: Sequence[Line]) -> None:
        """Show these lines below these headings."""
        titles, wanted = tuple(headings), tuple(lines)
        keys = [line.key for line in wanted]
        if titles != self.headings or keys != [line.key for line in self.lines]:
            self.beginResetModel()
            self.headings, self.lines = titles, wanted
            self.endResetModel()
            return
        before, self.lines = self.lines, wanted
        for row, (old, new) in enumerate(zip(before, wanted, strict=True)):
            if old != new:
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(titles) - 1))

    def rowCount(self, parent: Index | None = None) -> int:
        """One row a line."""
        return 0 if parent is not None and parent.isValid() else len(self.lines)

    def columnCount(self, parent: Index | None = None) -> int:
        """One column a heading."""
        return 0 if parent is not None and parent.isValid() else len(self.headings)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Title, tip and side of a column."""
        if orientation is not Qt.Orientation.Horizontal or section >= len(self.headings):
            return None
        heading = self.headings[section]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return heading.title
            case Qt.ItemDataRole.ToolTipRole:
                return heading.tip or None
            case Qt.ItemDataRole.TextAlignmentRole:
                return _turned(side(heading)) if self.is_from_right else side(heading)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, side, colour, size or tip of a cell."""
        if not index.isValid():
            return None
        line, column = self.lines[index.row()], index.column()
        cell = line.cell(column)
        given: dict[int, Callable[[], Any]] = {
            Qt.ItemDataRole.DisplayRole: lambda: isolated(cell.text) if self.is_from_right else cell.text,
            Qt.ItemDataRole.ToolTipRole: lambda: plain_tip(cell.tip or line.tip) or None,
            Qt.ItemDataRole.TextAlignmentRole: lambda: self._side(line, column),
            Qt.ItemDataRole.ForegroundRole: lambda: self._colour(cell.tone),
            Qt.ItemDataRole.FontRole: lambda: _small() if cell.tone is Tone.SMALL else None,
        }
        return given[role]() if role in given else None

    def longest(self, column: int) -> str:
        """The longest text that stands in a column, its title included."""
        texts = [self.headings[column].title]
        texts += [line.cell(column).text for line in self.lines if line.across is None or not column]
        return max(texts, key=len)

    def _side(self, line: Line, column: int) -> int:
        return side(WORDS if line.across is not None else self.headings[column])

    def _colour(self, tone: Tone) -> QColor:
        name = Tone.QUIET.value if tone is Tone.SMALL else tone.value
        return QColor(getattr(self._theme.tokens, name))

    def _repaint(self) -> None:
        if self.lines and self.headings:
            last = self.index(len(self.lines) - 1, len(self.headings) - 1)
            self.dataChanged.emit(self.index(0, 0), last)


def side(heading: Heading) -> int:
    """Figures stand at the end of their column, words at its beginning."""
    end = Qt.AlignmentFlag.AlignTrailing if heading.is_figure else Qt.AlignmentFlag.AlignLeading
    return int((end | Qt.AlignmentFlag.AlignVCenter).value)


def isolated(text: str) -> str:
    """A text that is read in its own direction, whatever is around it: `2 min 47 s` would read `min 47 s 2`."""
    return f"\u2068{text}\u2069" if text else text


def _turned(where: int) -> int:
    right = Qt.AlignmentFlag.AlignRight.value
    across = right | Qt.AlignmentFlag.AlignLeft.value
    return where & ~across | (across ^ (where & across))


def _small() -> QFont:
    font = QFont()
    if font.pointSizeF() > 0:
        font.setPointSizeF(font.pointSizeF() * SMALL)
    else:
        font.setPixelSize(round(font.pixelSize() * SMALL))
    return font


# --- What the page Benchmark says in words


def doing_words(measuring: Benchmarking) -> str:
    """What is under way, with the pass where there are several."""
    if measuring.is_stopping:
        return _("Ending the pass that runs; what is done is kept…")
    plan, underway = measuring.plan, measuring.underway
    if plan is None:
        return _("Choosing what this machine can measure…")
    if underway is None:
        return _("Getting ready…")
    words = _("Measuring: {}").format(rung_title(underway))
    if plan.passes < 2:
        return words
    which = _("pass {} of {}").format(underway.number_of_pass, plan.passes)
    return f"{words} · {which}"


def rung_title(underway: Underway) -> str:
    """A rung and, where it has one, the side it stands on."""
    rung = underway.rung
    return f"{rung.title} · {rung.side}" if rung.side and rung.side not in rung.title else rung.title


def left_words(underway: Underway) -> str:
    """How long it still takes; before that can be told, how much is done."""
    if underway.seconds_left is not None:
        return _("about {} left").format(numbers.about(underway.seconds_left))
    return _("{} of {} done").format(numbers.count(underway.done), numbers.count(underway.total))


def head_words(plan: Plan, underway: Underway | None) -> str:
    """A plan and how far it is: `BERT-base, 512 sequences of 512 tokens · 9 of 12 rows, about 6 min left`."""
    if underway is None:
        return plan.title
    form = _("{} · {} of {} passes") if plan.passes > 1 else _("{} · {} of {} rows")
    far = form.format(plan.title, numbers.count(underway.done), numbers.count(underway.total))
    if underway.seconds_left is None:
        return far
    return _("{}, about {} left").format(far, numbers.about(underway.seconds_left))


def result_words(result: Result) -> str:
    """What was measured, when, and where: `BERT-base, 512 sequences of 512 tokens · 21 Nov, 14:05 · Apple M3 Max`."""
    return " · ".join(
        part for part in (result.plan.title, numbers.moment(result.begun), result.machine.title) if part
    )


def plan_words(plan: Plan) -> str:
    """What a plan measures: `BERT-base, 512 sequences of 512 tokens: 12 rows, 3 passes of 20 timed steps`."""
    able = sum(not rung.refusal for rung in plan.rungs)
    words = (
        _("{}: {} rows, {} of {}")
        if plan.kind is Kind.METHODS
        else _("{}: {} measurements, {} of {} at most")
    )
    passes = _("{} passes").format(plan.passes)
    if plan.passes == 1:
        passes = _("one pass")
    steps = _("{} timed steps").format(numbers.count(plan.steps))
    if plan.steps == 1:
        steps = _("one timed step")
    said = words.format(plan.title, numbers.count(able), passes, steps)
    if able == len(plan.rungs):
        return f"{said}."
    left = len(plan.rungs) - able
    others = (
        _("{}; one more is left out and says why.")
        if left == 1
        else _("{}; {} more are left out, each says why.")
    )
    return others.format(said, numbers.count(left))


def expected_words(plan: Plan, earlier: Sequence[Kept]) -> str:
    """How long it will take, by what it took before; what can be said where it was never measured."""
    for one in earlier:
        found = one.result
        if found is None or found.kind is not plan.kind or not found.is_whole or found.ended is None:
            continue
        if found.plan.title == plan.title and found.plan.passes == plan.passes:
            words = _("The last one, of {}, took {}.")
            return words.format(numbers.moment(found.begun), numbers.duration(found.ended - found.begun))
    return _("It takes minutes to an hour; how long here is told once two passes are measured.")


def ending_words(ending: Ending, result: Result | None) -> tuple[str, str] | None:
    """Title and detail of how it ended; None where there is nothing to say."""
    if ending is not Ending.CANCELLED:
        return None
    has_any = result is not None and any(row.is_measured for row in result.rows)
    kept = _("What was measured until then is shown, and kept under Earlier results.")
    none = _("Nothing had been measured yet, so nothing is kept.")
    return _("The benchmark was cancelled"), kept if has_any else none


# --- The figures of a benchmark in words, as its tables, bars and tips have them


class Standing(Enum):
    """Where a rung stands."""

    MEASURED = "measured"
    UNDERWAY = "underway"
    WAITING = "waiting"
    WITHOUT = "without"
    """It has no figures and gets none: refused, failed, or cancelled before its turn."""


def rows_of(result: Result) -> tuple[Row, ...]:
    """A row for every rung of the plan, also for those whose turn has not come."""
    found = {row.rung.name: row for row in result.rows}
    return tuple(found.get(rung.name, Row(rung=rung)) for rung in result.plan.rungs)


def standing(row: Row, result: Result, underway: str | None) -> Standing:
    """Where a rung stands; `underway` is the name of the one that is being measured."""
    if row.is_measured:
        return Standing.MEASURED
    if row.rung.name == underway:
        return Standing.UNDERWAY
    if row.reason or result.ended is not None:
        return Standing.WITHOUT
    return Standing.WAITING


def without_words(row: Row, result: Result, underway: str | None) -> str:
    """What stands in place of figures; the reason of one that gets none."""
    match standing(row, result, underway):
        case Standing.UNDERWAY:
            return _("being measured…")
        case Standing.WAITING:
            return _("waits for its turn")
        case Standing.WITHOUT:
            if row.rung.refusal:
                return _("not measured: {}").format(_bare(row.rung.refusal))
            if row.reason:
                return _("failed: {}").format(_bare(row.reason))
            return _("not measured")
        case Standing.MEASURED:
            return ""


def times(factor: float | None) -> str:
    """How many times as much: `1.90 ×`."""
    if factor is None:
        return numbers.MISSING
    decimals = 2 if factor < 9.995 else 1 if factor < 99.95 else 0
    return f"{factor:,.{decimals}f} ×"


def figure(value: float | None) -> str:
    """A figure in about three digits."""
    return numbers.MISSING if value is None else numbers.three_figures(value)


def range_words(spread: Spread | None) -> str:
    """From the lowest to the highest: `5.8 – 6.1`; empty where both read the same."""
    if spread is None:
        return ""
    low, high = numbers.three_figures(spread.lowest), numbers.three_figures(spread.highest)
    return f"{low} – {high}" if low != high else ""


def row_tip(row: Row) -> str:
    """All that is known of a measured row, a line each."""
    lines = [row.rung.note, _steps_words(row), _memory_words(row), *_more(row), disturbed_words(row)]
    return "\n".join(line for line in lines if line)


def disturbed_words(row: Row) -> str:
    """Beside what a row was measured; empty: nothing that counts."""
    if not row.is_disturbed:
        return ""
    around = [one.surroundings for one in row.passes if one.sample is not None]
    loads = [one.other_load for one in around if one.other_load is not None and one.other_load > BUSY]
    causes = list(dict.fromkeys(cause for one in around for cause in one.throttled))
    if loads:
        words = _("other programs took {} of the processor")
        causes.insert(0, words.format(numbers.whole_percent(max(loads))))
    return _("{} Measured while {}").format(MARK, "; ".join(causes))


def mark_words(rows: Iterable[Row]) -> str:
    """What the sign at some figures means; empty where none has it."""
    if not any(row.is_disturbed for row in rows):
        return ""
    return _(
        "{} Measured beside other work, or while heat or a power cap held the clock down: on a quiet machine it is "
        "faster.",
    ).format(MARK)


def machine_words(result: Result) -> str:
    """Where and when, in one line: the machine, the date, the system, versions."""
    machine = result.machine
    versions = [f"{name} {version}" for name, version in machine.versions.items()]
    parts = [machine.title, figures.full_moment(result.begun), machine.system, ", ".join(versions)]
    return " · ".join(part for part in parts if part)


def kept_title(found: Kept) -> str:
    """What a kept file is called: what was measured, or its name where it can't be read."""
    return found.path.name if found.result is None else found.result.plan.title


def _steps_words(row: Row) -> str:
    step = row.step_seconds
    if step is None:
        return ""
    steps = sum(len(sample.seconds) for sample in row.samples)
    words = _("A step: {}, half of them between {} and {}; {} steps in {} passes").format(
        numbers.step_time(step.median),
        numbers.step_time(step.lowest),
        numbers.step_time(step.highest),
        numbers.count(steps),
        numbers.count(len(row.samples)),
    )
    return words


def _memory_words(row: Row) -> str:
    fullest = row.fullest
    if fullest is None or not fullest.peak:
        return ""
    parts = ", ".join(part.words for part in bar_parts(fullest.parts) if part.bytes)
    words = _("Memory at most: {}").format(numbers.memory(fullest.peak))
    return f"{words} ({parts})" if parts else words


def _more(row: Row) -> list[str]:
    found = []
    if row.gpu_others and row.gpu_others > GPU_HELD:
        found.append(_("Others held {} of the GPU").format(numbers.memory(row.gpu_others)))
    if row.compile_seconds:
        words = _("Compiling took {}, which is in no other figure")
        found.append(words.format(numbers.step_time(row.compile_seconds)))
    if row.samples_per_joule is not None:
        source = next(
            (one.surroundings.power_source for one in row.passes if one.surroundings.power_source), ""
        )
        words = _("{} samples a joule").format(figure(row.samples_per_joule))
        found.append(f"{words} ({source})" if source else words)
    return found


def _bare(reason: str) -> str:
    return reason.strip().removesuffix(".")


# --- A table of figures as high as its lines, whose columns fit the width


PADDING = 20
"""What the style sheet and Qt keep free on both sides of a cell's text, in pixels, and a little."""

FEWEST_LETTERS = 14
"""Of the first column, which takes what the others leave."""

MOST_LETTERS = 48
"""So wide a column becomes by itself; texts beyond are cut, and their tips have all of it."""


class FiguresTable(QTableView):
    """Shows lines of figures; what is chosen stays so while they change. It never scrolls: what is around it does.

    Signals:
        pressed_link: The key of the line whose link was pressed.
        opened: The key of a line that was double-clicked, or on which Enter was pressed.
        bin_wanted: Delete was pressed: what is chosen is to go.
        choice_changed: Other lines are chosen.

    Args:
        name: What the table is, for a screen reader.
        theme: The colours.
        parent: Qt's parent.
    """

    pressed_link = Signal(str)
    opened = Signal(str)
    bin_wanted = Signal()
    choice_changed = Signal()

    def __init__(self, name: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows = FiguresModel(theme, self)
        self.setModel(self.rows)
        self.setAccessibleName(name)
        set_up_rows(self, padding=SPACING + 6)
        set_role(self, Role.INSET)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self._links: dict[str, QPushButton] = {}
        self.doubleClicked.connect(self._open)
        self.selectionModel().selectionChanged.connect(lambda *_: self.choice_changed.emit())

    def show_lines(
        self,
        headings: Sequence[Heading],
        lines: Sequence[Line],
        links: dict[str, tuple[str, str]] | None = None,
    ) -> None:
        """Show these lines.

        Args:
            headings: The columns; the last is that of the links, where there are any.
            lines: The lines.
            links: What the link of a line says, and what its tip does, by the line's key.
        """
        chosen = self.chosen
        before = len(self.rows.lines)
        is_kept = [line.key for line in self.rows.lines] == [line.key for line in lines]
        if not is_kept or tuple(headings) != self.rows.headings:
            self._links = {}  # Qt takes them away with the lines
        self.rows.show(headings, lines)
        self._span()
        self._show_links(links or {})
        if self.chosen != chosen:
            self.choose(*chosen)
        if before != len(lines):
            self.updateGeometry()
        self.fit_columns()

    @property
    def chosen(self) -> tuple[str, ...]:
        """The keys of the lines that are chosen, from top to bottom."""
        rows = {index.row() for index in self.selectionModel().selectedRows()} if self.rows.lines else set()
        return tuple(self.rows.lines[row].key for row in sorted(rows))

    def choose(self, *keys: str) -> None:
        """Choose lines by their keys, and no others; those that aren't there are passed over."""
        self.clearSelection()
        select = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
        for row, line in enumerate(self.rows.lines):
            if line.key in keys:
                self.selectionModel().select(self.rows.index(row, 0), select)

    def links(self) -> dict[str, QPushButton]:
        """The links by the keys of their lines."""
        return dict(self._links)

    def sizeHint(self) -> QSize:
        """As high as its lines."""
        height = self.horizontalHeader().sizeHint().height() + self.verticalHeader().length()
        return QSize(60 * self.fontMetrics().averageCharWidth(), height + 2)

    def minimumSizeHint(self) -> QSize:
        """As wide as what never leaves."""
        width = sum(self._wanted(column) for column in range(len(self.rows.headings)) if self._stays(column))
        return QSize(width, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the columns into the width there is."""
        super().resizeEvent(event)
        self.fit_columns()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens, Delete moves to the bin; on a Mac it is Cmd with the key that deletes backwards, too."""
        key, with_command = event.key(), event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self._open(self.currentIndex())
        elif key == Qt.Key.Key_Delete or (key == Qt.Key.Key_Backspace and with_command):
            self.bin_wanted.emit()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        """Turn the headings with the language."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.LayoutDirectionChange:
            self.rows.is_from_right = self.layoutDirection() is Qt.LayoutDirection.RightToLeft
            self.horizontalHeader().update()

    def fit_columns(self) -> None:
        """Give each column what its texts take, and a share of what is left; those leave for which there is no room."""
        columns = range(len(self.rows.headings))
        wanted = {column: self._wanted(column) for column in columns}
        first = self._wide(0) if wanted else 0
        leaving = sorted((column for column in columns if not self._stays(column)), key=self._rank)
        while leaving and sum(wanted.values()) - wanted[0] + first > self.viewport().width():
            rank = self._rank(leaving[-1])
            while leaving and self._rank(leaving[-1]) == rank:
                wanted.pop(leaving.pop())
        for column in columns:
            self.setColumnHidden(column, column not in wanted)
        if wanted:
            self._share_out(wanted, first)
        for column, width in wanted.items():
            self.setColumnWidth(column, width)

    def _share_out(self, wanted: dict[int, int], first: int) -> None:
        """Give the first column its texts' width where that is there, and all of them the rest in equal parts."""
        left = max(0, self.viewport().width() - sum(wanted.values()))
        more = min(left, max(0, first - wanted[0]))
        each, rest = divmod(left - more, len(wanted))
        for column in wanted:
            wanted[column] += each
        wanted[0] += more + rest

    def _open(self, index: QModelIndex) -> None:
        self.opened.emit(self.rows.lines[index.row()].key)

    def _stays(self, column: int) -> bool:
        return self.rows.headings[column].leaves == 0

    def _rank(self, column: int) -> int:
        return self.rows.headings[column].leaves

    def _wanted(self, column: int) -> int:
        if column:
            link = max((link.sizeHint().width() for link in self._links.values()), default=0)
            is_last = column == len(self.rows.headings) - 1
            return max(self._wide(column), link + SPACING if is_last else 0)
        return min(self._wide(0), FEWEST_LETTERS * self.fontMetrics().averageCharWidth() + PADDING)

    def _wide(self, column: int) -> int:
        widest = MOST_LETTERS * self.fontMetrics().averageCharWidth()
        return min(widest, self.fontMetrics().horizontalAdvance(self.rows.longest(column))) + PADDING

    def _span(self) -> None:
        columns = len(self.rows.headings)
        for row, line in enumerate(self.rows.lines):
            wide = columns - 1 if line.across is not None else 1
            if columns > 2 and self.columnSpan(row, 1) != wide:
                self.setSpan(row, 1, 1, wide)

    def _show_links(self, links: dict[str, tuple[str, str]]) -> None:
        last, before = len(self.rows.headings) - 1, set(self._links)
        for row, line in enumerate(self.rows.lines):
            if line.key in links and line.key not in self._links:
                self._links[line.key] = link = self._link(line, *links[line.key])
                self.setIndexWidget(self.rows.index(row, last), link)
            elif line.key not in links and line.key in self._links:
                # the view has to let go of it first: it places what it knows of, also where that is gone
                self.setIndexWidget(self.rows.index(row, last), None)  # type: ignore[arg-type]
                self._links.pop(line.key)
        if before != set(self._links):
            self._order_links()

    def _order_links(self) -> None:
        """Tab goes from line to line, in whatever order the links came."""
        ordered = [self._links[line.key] for line in self.rows.lines if line.key in self._links]
        for one, following in zip([self, *ordered], ordered, strict=False):
            self.setTabOrder(one, following)

    def _link(self, line: Line, words: str, tip: str) -> QPushButton:
        # with a parent: one that Python owned would be gone with the last name for it, before the view let go of it
        link = QPushButton(words, self.viewport())
        set_role(link, Role.LINK)
        link.setToolTip(tip)
        link.setAccessibleName(f"{words}: {line.cell(0).text}")
        link.clicked.connect(_telling(self.pressed_link.emit, line.key))
        return link


def on_card(table: FiguresTable) -> QFrame:
    """A card around a table."""
    card = QFrame()
    set_role(card, Role.CARD)
    inside = QVBoxLayout(card)
    inside.setContentsMargins(SPACING // 2, SPACING // 2, SPACING // 2, SPACING // 2)
    inside.addWidget(table)
    return card


def _telling(tell: Callable[[str], None], key: str) -> Callable[[], None]:
    return lambda: tell(key)


# --- What the views of both kinds of benchmarks have in common: charts, a table


class BenchView(QWidget):
    """As high as it needs to be; what is around scrolls.

    Signals:
        published_toggled: Whether the person wants figures published by others beside.

    Args:
        theme: The colours.
        name: What the table is called for a screen reader.
        published: Whose figures can be shown beside, in sentences.
        parent: Qt's parent.
        is_picture: Whether nobody can press anything in it.
    """

    published_toggled = Signal(bool)

    def __init__(
        self,
        theme: Theme,
        name: str,
        published: str,
        parent: QWidget | None = None,
        *,
        is_picture: bool = False,
    ) -> None:
        super().__init__(parent)
        self._is_picture = is_picture
        self._result: Result | None = None
        self._underway: str | None = None
        self._published_words = published
        self.table = FiguresTable(name, theme)
        self.published = QCheckBox(_("Show figures published by others beside"))
        self.published.setToolTip(published)
        self.published.toggled.connect(self._toggle)
        self.note = QLabel()
        self.note.setWordWrap(True)
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self.note, Role.HINT)

    @property
    def result(self) -> Result | None:
        """What is shown."""
        return self._result

    @property
    def shows_published(self) -> bool:
        """Whether figures published by others stand beside."""
        return self.published.isChecked()

    def show_published(self, are_shown: bool) -> None:
        """Show figures published by others beside, or no longer."""
        self.published.setChecked(are_shown)

    def show_result(self, result: Result, underway: str | None = None) -> None:
        """Show what there is so far.

        Args:
            result: A benchmark of this kind, finished or not.
            underway: The name of the rung that is being measured.
        """
        self._result, self._underway = result, underway
        self._show(result, underway)
        has_published = self._has_published(result)
        self.published.setVisible(has_published and not self._is_picture)
        beside = self._published_words if self.shows_published and has_published else ""
        words = "\n".join(part for part in (mark_words(rows_of(result)), beside) if part)
        self.note.setText(words)
        self.note.setVisible(bool(words))

    def _show(self, result: Result, underway: str | None) -> None:
        """Fill charts and table."""
        raise NotImplementedError

    def _has_published(self, result: Result) -> bool:
        """Whether others have published figures of any of it."""
        raise NotImplementedError

    def _toggle(self, are_shown: bool) -> None:
        if self._result is not None:
            self.show_result(self._result, self._underway)
        self.published_toggled.emit(are_shown)

    def _lay_out(self, charts: QWidget) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING + 4)
        for widget in (charts, on_card(self.table), self.published, self.note):
            column.addWidget(widget)
        column.addStretch(1)
