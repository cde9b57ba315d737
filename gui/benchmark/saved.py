"""The list of results that were kept, newest first: to open one, to hold two against each other, to be rid of some."""

from collections.abc import Callable, Sequence
from gettext import gettext as _
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QObject, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from core.base import format as numbers
from core.base.errors import UserError
from core.benchmark import result as kept
from core.benchmark.comparison import Change, Compared, Comparison, compare
from core.benchmark.plan import Kind
from core.benchmark.result import Kept, Result, Row, Standing
from core.benchmark.table import best_trade
from gui.base.background import FileWork
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.base.trash import BinQuestion
from gui.benchmark.devices import DevicesView
from gui.benchmark.methods import MethodsView
from gui.benchmark.results import (
    Cell,
    FiguresTable,
    Heading,
    Line,
    Tone,
    figure,
    kept_title,
    machine_words,
    on_card,
    row_tip,
    times,
)
from gui.benchmark.saving import BenchmarkSaving, view_of
from gui.charts.bars import MARK, Bar, BarChart, Better
from gui.charts.bars import Line as Across
from gui.charts.overlays import Reading
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import ElidedLabel
from gui.widgets.layout import PageScroll

# --- Moving kept results of benchmarks to the bin: asks once, moves in a thread


Remove = Callable[[Path], None]


class BenchBin(QObject):
    """Asks and moves. One of it serves a page for as long as that lives.

    Signals:
        moved: Some are gone, or tried to; the list is to be read anew.
        failed: A `core.base.errors.UserError`: why one stayed.

    Args:
        window: What the questions belong to.
        remove: What moves a file.
    """

    moved = Signal()
    failed = Signal(object)

    def __init__(self, window: QWidget, remove: Remove = kept.remove) -> None:
        super().__init__(window)
        self._remove = remove
        self.asking = BinQuestion(window)
        self._work = FileWork(self)
        self._work.failed.connect(self._fail)

    def begin(self, results: Sequence[Kept]) -> None:
        """Ask whether they are to go. Returns at once."""
        if not results or self.asking.is_open:
            return
        if len(results) == 1:
            words = _("Move “{}” to the bin?").format(kept_title(results[0]))
        else:
            words = _("Move {} results to the bin?").format(numbers.count(len(results)))
        names = "\n".join(f"{kept_title(one)}, {numbers.moment(one.begun)}" for one in results[:6])
        back = _("What lies in the bin can be put back until the bin is emptied.")
        paths = tuple(one.path for one in results)
        agree = _("Move to the bin")
        self.asking.ask(words, f"{names}\n\n{back}", agree, lambda: self._move(paths))

    def end_work(self) -> None:
        """Put the question away, and wait for what is being moved."""
        self.asking.put_away()
        self._work.end_work()

    def _move(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self._work.put(lambda path=path: self._remove(path), lambda _: self.moved.emit())  # type: ignore[misc]

    def _fail(self, error: UserError) -> None:
        self.failed.emit(error)
        self.moved.emit()


# --- Two results of different days, held against each other: what became faster


class ComparedResults(QWidget):
    """A chart of how many times as fast the later one is, a table of both, and notes.

    Signals:
        left: The person wants back to the list.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    left = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.back = QPushButton(_("‹ Earlier results"))
        set_role(self.back, Role.LINK)
        self.back.clicked.connect(self.left)
        self.title, self.which = ElidedLabel(), ElidedLabel()
        set_role(self.title, Role.CARD_TITLE)
        set_role(self.which, Role.MUTED)
        self.notes = QLabel()
        self.notes.setWordWrap(True)
        set_role(self.notes, Role.MUTED)
        self.chart = BarChart(_("Speed, the later against the earlier"), Better.MORE, theme)
        self.table = FiguresTable(_("Both results"), theme)
        self._lay_out()

    def show_comparison(self, found: Comparison) -> None:
        """Show it."""
        self.title.setText(found.later.plan.title)
        self.which.setText(_("Earlier: {} · later: {}").format(_named(found.earlier), _named(found.later)))
        self.notes.setText("\n".join(found.notes))
        self.notes.setVisible(bool(found.notes))
        meanings = (
            Reading(_("faster"), "activations"),
            Reading(_("slower"), "optimizer"),
            Reading(_("within the spread"), "others"),
            Reading(_("the line is at 1 ×")),
        )
        line = Across(1.0, is_origin=True)
        self.chart.show_bars([_bar(one) for one in found.rows], line=line, meanings=meanings)
        self.table.show_lines(_headings(), [_line(one) for one in found.rows])

    def _lay_out(self) -> None:
        names = QVBoxLayout()
        names.setSpacing(2)
        names.addWidget(self.title)
        names.addWidget(self.which)
        head = QHBoxLayout()
        head.setSpacing(SPACING)
        head.addLayout(names, 1)
        head.addWidget(self.back)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING + 4)
        column.addLayout(head)
        column.addWidget(self.notes)
        column.addWidget(self.chart)
        column.addWidget(on_card(self.table))
        column.addStretch(1)


def _named(result: Result) -> str:
    return f"{numbers.moment(result.begun)}, {result.machine.title}"


def change_words(change: Change) -> str:
    """What became of a pace."""
    words = {
        Change.FASTER: _("faster"),
        Change.SLOWER: _("slower"),
        Change.SAME: _("within the spread"),
        Change.UNKNOWN: "",
    }
    return words[change]


def _bar(one: Compared) -> Bar:
    if one.speed is None:
        return Bar(one.title, words=_why_without(one))
    colours = {Change.FASTER: "activations", Change.SLOWER: "optimizer"}
    marked = any(row is not None and row.is_disturbed for row in (one.earlier, one.later))
    tip = "\n".join(part for part in (times(one.speed), change_words(one.change)) if part)
    colour = colours.get(one.change, "others")
    return Bar(one.title, one.speed, times(one.speed), colour=colour, tip=tip, is_marked=marked)


def _why_without(one: Compared) -> str:
    if one.earlier is None:
        return _("only in the later one")
    if one.later is None:
        return _("only in the earlier one")
    lacking = [row for row in (one.later, one.earlier) if not row.is_measured]
    return next((row.reason for row in lacking if row.reason), _("not measured"))


def _headings() -> tuple[Heading, ...]:
    faster = _("How many times as fast the later one is")
    memory = _("Which share of the earlier one's memory the later one takes")
    spread = _("Whether the middle halves of the timed steps lie apart")
    return (
        Heading(_("Row"), is_figure=False),
        Heading(_("Samples/s, earlier")),
        Heading(_("later")),
        Heading(_("Speed"), faster),
        Heading(_("Change"), spread, is_figure=False),
        Heading(_("Memory, earlier"), leaves=1),
        Heading(_("later"), leaves=1),
        Heading(_("Memory"), memory),
    )


def _line(one: Compared) -> Line:
    named = one.later or one.earlier
    key = named.rung.name if named is not None else one.title
    if one.speed is None:
        quiet = Cell(one.title, Tone.QUIET)
        words = _why_without(one)
        return Line(key, (quiet,), Cell(words, Tone.QUIET), words)
    tones = {Change.FASTER: Tone.GOOD, Change.SLOWER: Tone.WARNING}
    tone = tones.get(one.change, Tone.QUIET)
    return Line(
        key,
        (
            Cell(one.title),
            *_paces((one.earlier, one.later)),
            Cell(times(one.speed)),
            Cell(change_words(one.change), tone),
            *_peaks((one.earlier, one.later)),
            Cell(times(one.memory)),
        ),
    )


def _paces(rows: Sequence[Row | None]) -> list[Cell]:
    cells = []
    for row in rows:
        pace = row.samples_per_second if row is not None else None
        mark = f" {MARK}" if row is not None and row.is_disturbed else ""
        tip = row_tip(row) if row is not None else ""
        cells.append(Cell(f"{figure(pace.median if pace else None)}{mark}", tip=tip))
    return cells


def _peaks(rows: Sequence[Row | None]) -> list[Cell]:
    return [Cell(numbers.memory((row.peak or None) if row is not None else None)) for row in rows]


# --- The list of results that were kept, newest first: to open one


class KeptList(QWidget):
    """A line a result; files that can't be read say why.

    Signals:
        opened: A `Kept` that is to be shown.
        compared: Two results, the earlier one first, that are to be held against each other.
        bin_wanted: The `Kept`s, a tuple, that are to go.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    opened = Signal(object)
    compared = Signal(object, object)
    bin_wanted = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kept: tuple[Kept, ...] = ()
        self.empty = QLabel(
            _("Nothing has been measured yet. What you measure under Methods and Devices is kept here.")
        )
        self.empty.setWordWrap(True)
        set_role(self.empty, Role.MUTED)
        self.table = FiguresTable(_("Earlier results"), theme)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.open = QPushButton(_("Open"))
        self.compare = QPushButton(_("Compare"))
        self.bin = QPushButton(_("Move to the bin…"))
        self.said = QLabel()
        set_role(self.said, Role.HINT)
        self._card = on_card(self.table)
        self._buttons = QWidget()
        self._lay_out()
        self._connect()
        self.show_kept(())

    def show_kept(self, found: Sequence[Kept]) -> None:
        """Show these; what is chosen stays so."""
        self._kept = tuple(found)
        self.table.show_lines(self._headings(), [self._line(one) for one in found])
        self.empty.setVisible(not found)
        self._card.setVisible(bool(found))
        self._buttons.setVisible(bool(found))
        self._offer()

    def chosen(self) -> tuple[Kept, ...]:
        """What is chosen, from top to bottom."""
        keys = self.table.chosen
        return tuple(one for one in self._kept if str(one.path) in keys)

    def _offer(self) -> None:
        chosen = self.chosen()
        self.open.setEnabled(len(chosen) == 1 and chosen[0].result is not None)
        self.bin.setEnabled(bool(chosen))
        self.compare.setEnabled(self._pair() is not None)
        self.said.setText(self._why_not(chosen))

    def _pair(self) -> tuple[Result, Result] | None:
        """The two that can be compared, the earlier one first."""
        found = [one.result for one in self.chosen() if one.result is not None]
        if len(found) != 2 or len(self.chosen()) != 2 or found[0].kind is not found[1].kind:
            return None
        earlier, later = sorted(found, key=lambda one: one.begun)
        return earlier, later

    def _why_not(self, chosen: Sequence[Kept]) -> str:
        if len(chosen) < 2:
            return _("Choose two of the same kind to compare them.") if len(self._kept) > 1 else ""
        if len(chosen) > 2:
            return _("Only two can be compared.")
        if any(one.result is None for one in chosen):
            return _("A file that can't be read can't be compared.")
        return "" if self._pair() else _("Methods and devices can't be compared.")

    def _headings(self) -> tuple[Heading, ...]:
        return (
            Heading(_("What was measured"), is_figure=False),
            Heading(_("Kind"), is_figure=False),
            Heading(_("Machine"), is_figure=False),
            Heading(_("Measured"), is_figure=False),
            Heading(_("Rows"), _("How many have figures, of how many"), leaves=1),
            Heading("", is_figure=False),
        )

    def _line(self, one: Kept) -> Line:
        result, key = one.result, str(one.path)
        if result is None:
            return Line(
                key, (Cell(kept_title(one), Tone.QUIET),), Cell(one.problem, Tone.WARNING), one.problem
            )
        kinds = {Kind.METHODS: _("Methods"), Kind.DEVICES: _("Devices")}
        measured = sum(row.is_measured for row in result.rows)
        rows = _("{} of {}").format(numbers.count(measured), numbers.count(len(result.plan.rungs)))
        cells = (
            Cell(result.plan.title, tip=result.plan.title),
            Cell(kinds[result.kind]),
            Cell(result.machine.title, tip=result.machine.title),
            Cell(numbers.moment(result.begun)),
            Cell(rows, Tone.QUIET),
            Cell(self._state(result), Tone.QUIET),
        )
        return Line(key, cells)

    def _state(self, result: Result) -> str:
        words = {
            Standing.WHOLE: _("whole"),
            Standing.CANCELLED: _("cancelled"),
            Standing.UNDER_WAY: _("under way"),
            Standing.BROKEN_OFF: _("broken off"),
        }
        return words[result.standing]

    def _open(self, key: str) -> None:
        for one in self._kept:
            if str(one.path) == key and one.result is not None:
                self.opened.emit(one)

    def _open_chosen(self) -> None:
        self._open(str(self.chosen()[0].path))

    def _compare(self) -> None:
        pair = self._pair()
        if pair is not None:
            self.compared.emit(*pair)

    def _want_bin(self) -> None:
        if chosen := self.chosen():
            self.bin_wanted.emit(chosen)

    def _lay_out(self) -> None:
        row = QHBoxLayout(self._buttons)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        for button in (self.open, self.compare, self.bin):
            row.addWidget(button)
        row.addSpacing(SPACING)
        row.addWidget(self.said, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING + 4)
        for widget in (self._buttons, self._card, self.empty):
            column.addWidget(widget)
        column.addStretch(1)

    def _connect(self) -> None:
        self.table.choice_changed.connect(self._offer)
        self.table.opened.connect(self._open)
        self.table.bin_wanted.connect(self._want_bin)
        self.open.clicked.connect(self._open_chosen)
        self.compare.clicked.connect(self._compare)
        self.bin.clicked.connect(self._want_bin)


# --- One earlier result, shown as it was when it was measured


class OpenedResult(QWidget):
    """Its title and machine, what can be done with it, its charts and its table.

    Signals:
        left: The person wants back to the list.
        use_requested: The `core.benchmark.plan.Rung` whose options are to be carried into a new run.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    left = Signal()
    use_requested = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.view: MethodsView | DevicesView | None = None
        self.back = QPushButton(_("‹ Earlier results"))
        set_role(self.back, Role.LINK)
        self.title, self.where = ElidedLabel(), ElidedLabel()
        set_role(self.title, Role.CARD_TITLE)
        set_role(self.where, Role.MUTED)
        self.saving = BenchmarkSaving(theme)
        self.strip = MessageStrip(closable=True)
        self.strip.hide()
        self.notes = QLabel()
        self.notes.setWordWrap(True)
        set_role(self.notes, Role.MUTED)
        self._lay_out()
        self._connect()

    def show_result(self, result: Result) -> None:
        """Show another one."""
        self.strip.hide()
        self.title.setText(result.plan.title)
        self.where.setText(machine_words(result))
        self.notes.setText("\n".join((best_trade(result), *result.plan.notes)))
        self.saving.show_result(result)
        self.saving.take_published(False)
        if self.view is not None:
            self._column.removeWidget(self.view)
            self.view.hide()
            self.view.deleteLater()
        self.view = view_of(result, self._theme)
        if isinstance(self.view, MethodsView):
            self.view.use_requested.connect(self.use_requested)
        self.view.published_toggled.connect(self.saving.take_published)
        self._column.insertWidget(2, self.view)

    def _connect(self) -> None:
        self.back.clicked.connect(self.left)
        self.saving.tell_in(self.strip)

    def _lay_out(self) -> None:
        names = QVBoxLayout()
        names.setSpacing(2)
        names.addWidget(self.title)
        names.addWidget(self.where)
        head = QHBoxLayout()
        head.setSpacing(SPACING)
        head.addLayout(names, 1)
        head.addWidget(self.saving)
        head.addWidget(self.back)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(SPACING + 4)
        self._column.addLayout(head)
        self._column.addWidget(self.strip)
        self._column.addWidget(self.notes)
        self._column.addStretch(1)


# --- Earlier results: the list of what was kept, one of them opened


class EarlierResults(QWidget):
    """Reads what was kept, in a thread, each time it comes into view.

    Signals:
        use_requested: The `core.benchmark.plan.Rung` whose options are to be carried into a new run.

    Args:
        theme: The colours.
        parent: Qt's parent.
        read: Finds all that was kept.
        remove: Moves a file to the bin.
    """

    use_requested = Signal(object)

    def __init__(
        self,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        read: Callable[[], Sequence[Kept]] = kept.kept,
        remove: Remove = kept.remove,
    ) -> None:
        super().__init__(parent)
        self._read = read
        self._reading = FileWork(self)
        self.bin = BenchBin(self, remove)
        self.strip = MessageStrip(closable=True)
        self.strip.hide()
        self.list = KeptList(theme)
        self.opened = OpenedResult(theme)
        self.compared = ComparedResults(theme)
        self._pages = QStackedWidget()
        self._scrolls: dict[QWidget, PageScroll] = {}
        self._lay_out()
        self._connect()

    @property
    def shown(self) -> QWidget:
        """Which of the three is in view."""
        return next(part for part, scroll in self._scrolls.items() if scroll is self._pages.currentWidget())

    def refresh(self) -> None:
        """Read the list anew, in the background."""
        self._reading.put(self._read, self.list.show_kept)

    def show_list(self) -> None:
        """Show all that was kept."""
        self._show(self.list)
        self.refresh()
        self.list.table.setFocus()

    def show_result(self, result: Result) -> None:
        """Show one."""
        self.opened.show_result(result)
        self._show(self.opened)
        self.opened.back.setFocus()

    def show_comparison(self, earlier: Result, later: Result) -> None:
        """Hold two of the same kind against each other."""
        self.compared.show_comparison(compare(earlier, later))
        self._show(self.compared)
        self.compared.back.setFocus()

    def end_work(self) -> None:
        """Leave no thread behind: what is being written or moved is so to its end."""
        self.bin.end_work()
        self.opened.saving.end_work()
        self._reading.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        """Something may have been measured meanwhile."""
        super().showEvent(event)
        self.refresh()

    def _show(self, part: QWidget) -> None:
        self.strip.hide()
        scroll = self._scrolls[part]
        self._pages.setCurrentWidget(scroll)
        scroll.verticalScrollBar().setValue(0)

    def _open(self, found: Kept) -> None:
        if found.result is not None:
            self.show_result(found.result)

    def _connect(self) -> None:
        self.list.opened.connect(self._open)
        self.list.compared.connect(self.show_comparison)
        self.list.bin_wanted.connect(self.bin.begin)
        self.bin.moved.connect(self.refresh)
        self.bin.failed.connect(self.strip.show_error)
        self._reading.failed.connect(self.strip.show_error)
        self.opened.left.connect(self.show_list)
        self.opened.use_requested.connect(self.use_requested)
        self.compared.left.connect(self.show_list)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.end_work)

    def _lay_out(self) -> None:
        for part in (self.list, self.opened, self.compared):
            content = QWidget()
            column = QVBoxLayout(content)
            column.setContentsMargins(0, SPACING, 0, 2 * SPACING)
            column.addWidget(part)
            self._scrolls[part] = PageScroll(content)
            self._pages.addWidget(self._scrolls[part])
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING)
        column.addWidget(self.strip)
        column.addWidget(self._pages, 1)
