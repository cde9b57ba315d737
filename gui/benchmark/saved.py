"""Earlier results: the list of what was saved, one of them opened, two compared."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from PySide6.QtCore import QCoreApplication, Qt, Signal
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

from core.base import formats
from core.base.errors import UserError
from core.base.language import _
from core.benchmark import result as results
from core.benchmark.plan import Kind
from core.benchmark.result import Result, Saved
from core.benchmark.table import (
    Cell,
    Change,
    Compared,
    Heading,
    Line,
    ResultTable,
    Tone,
    compare,
    comparison_table,
    times,
)
from core.runs.events import Level
from core.runs.trash import move_path
from gui.base.background import FileWork
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.base.trash import TrashDialog
from gui.benchmark.results import ResultTableView, ResultView, on_card
from gui.charts.bars import Bar, BarChart, Better
from gui.charts.bars import Line as LineAcross
from gui.charts.overlays import Reading
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import ElidedLabel
from gui.widgets.layout import FLUSH, PageScroll, fill

MOST_NAMED = 6
"""Results that the question before deleting names."""


class SavedResults(QWidget):
    """Reads what was saved, in a thread, each time it comes into view.

    Signals:
        use_requested: The `core.benchmark.plan.Variant` whose options are to be used in New run.

    Args:
        theme: The colours.
        read: Reads all that was saved.
        remove: Moves a file to the trash.
    """

    use_requested = Signal(object)

    def __init__(
        self,
        theme: Theme,
        *,
        read: Callable[[], Sequence[Saved]] = results.saved,
        remove: Callable[[Path], None] = move_path,
    ) -> None:
        super().__init__()
        self._theme, self._read, self._remove = theme, read, remove
        self._saved: tuple[Saved, ...] = ()
        self._files = FileWork(self)
        self._files.failed.connect(self._fail)
        self.question = TrashDialog(self)
        self.strip = MessageStrip(closable=True)
        self.strip.hide()
        self._pages = QStackedWidget()
        self._fill_list()
        self._scrolls = {"list": self._add_page(self.buttons, self._card, self.empty)}
        self._fill_opened()
        self._scrolls["opened"] = self._add_page(self._head(self.title, self.where), *self.views.values())
        self._fill_compared()
        parts = (self._head(self.plan, self.which), self.notes, self.chart, on_card(self.compared))
        self._scrolls["compared"] = self._add_page(*parts)
        fill(QVBoxLayout(self), self.strip, (self._pages, 1), margins=FLUSH, spacing=SPACING)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.end_work)
        self.show_saved(())

    @property
    def shown(self) -> str:
        return next(name for name, page in self._scrolls.items() if page is self._pages.currentWidget())

    def refresh(self) -> None:
        self._files.put(self._read, self.show_saved)

    def show_list(self) -> None:
        self._show("list")
        self.refresh()
        self.table.setFocus()

    def end_work(self) -> None:
        self.question.put_away()
        self._files.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def _show(self, name: str) -> None:
        self.strip.hide()
        self._pages.setCurrentWidget(self._scrolls[name])
        self._scrolls[name].verticalScrollBar().setValue(0)

    def _fail(self, error: UserError) -> None:
        self.strip.show_error(error)
        self.refresh()

    def _add_page(self, *parts: QWidget) -> PageScroll:
        content = QWidget()
        column = fill(QVBoxLayout(content), margins=(0, SPACING, 0, 2 * SPACING), spacing=SPACING + 4)
        for part in parts:
            column.addWidget(part)
        column.addStretch(1)
        scroll = PageScroll(content)
        self._pages.addWidget(scroll)
        return scroll

    def _head(self, title: ElidedLabel, details: ElidedLabel) -> QWidget:
        set_role(title, Role.CARD_TITLE)
        set_role(details, Role.MUTED)
        back = QPushButton(_("‹ Earlier results"))
        set_role(back, Role.LINK)
        back.clicked.connect(self.show_list)
        names, head = QVBoxLayout(), QWidget()
        names.setSpacing(2)
        names.addWidget(title)
        names.addWidget(details)
        fill(QHBoxLayout(head), (names, 1), back, margins=FLUSH, spacing=SPACING)
        head.setFocusProxy(back)
        return head

    # The list.

    def _fill_list(self) -> None:
        self.empty = QLabel(_("Nothing has been measured yet. Results of Methods and Devices are kept here."))
        self.empty.setWordWrap(True)
        set_role(self.empty, Role.MUTED)
        self.table = ResultTableView(_("Earlier results"), self._theme)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.open, self.compare = QPushButton(_("Open")), QPushButton(_("Compare"))
        self.bin, self.said = QPushButton(_("Move to the trash…")), QLabel()
        set_role(self.said, Role.HINT)
        self._card, self.buttons = on_card(self.table), QWidget()
        line = fill(
            QHBoxLayout(self.buttons), self.open, self.compare, self.bin, margins=FLUSH, spacing=SPACING
        )
        line.addSpacing(SPACING)
        line.addWidget(self.said, 1)
        self.table.selection_changed.connect(self._offer)
        self.table.opened.connect(self._open)
        self.table.delete_pressed.connect(self._ask_to_remove)
        self.open.clicked.connect(lambda: self._open(self.table.selected[0]))
        self.compare.clicked.connect(self._compare)
        self.bin.clicked.connect(self._ask_to_remove)

    def show_saved(self, found: Sequence[Saved]) -> None:
        """Show these; what is selected stays so."""
        self._saved = tuple(found)
        headings = (
            Heading(_("What was measured"), is_figure=False),
            Heading(_("Kind"), is_figure=False),
            Heading(_("Machine"), is_figure=False),
            Heading(_("Measured"), is_figure=False),
            Heading(_("Rows"), _("How many have figures, of how many")),
            Heading(_("State"), is_figure=False),
        )
        self.table.show_table(ResultTable(headings, tuple(map(_line, found))))
        self.empty.setVisible(not found)
        self._card.setVisible(bool(found))
        self.buttons.setVisible(bool(found))
        self._offer()

    def _selected(self) -> list[Saved]:
        keys = self.table.selected
        return [one for one in self._saved if str(one.path) in keys]

    def _offer(self) -> None:
        selected = self._selected()
        kinds = [one.result.kind for one in selected if one.result is not None]
        if len(selected) < 2:
            reason = _("Select two of the same kind to compare them.") if len(self._saved) > 1 else ""
        elif len(selected) > 2:
            reason = _("Only two can be compared.")
        elif len(kinds) < 2:
            reason = _("A file that can't be read can't be compared.")
        else:
            reason = "" if kinds[0] is kinds[1] else _("Methods and devices can't be compared.")
        self.open.setEnabled(len(selected) == len(kinds) == 1)
        self.compare.setEnabled(len(kinds) == len(selected) == 2 and not reason)
        self.bin.setEnabled(bool(selected))
        self.said.setText(reason)

    def _open(self, key: str) -> None:
        for one in self._saved:
            if str(one.path) == key and one.result is not None:
                self.show_result(one.result)

    def _compare(self) -> None:
        one, other = (found.result for found in self._selected())
        if one is not None and other is not None:
            self.show_comparison(one, other)

    def _ask_to_remove(self) -> None:
        selected = self._selected()
        if not selected or self.question.box is not None:
            return
        title = _("Move “{title}” to the trash?").format(title=selected[0].title)
        if len(selected) > 1:
            title = _("Move {count} results to the trash?").format(count=len(selected))
        lines = [one.title for one in selected[:MOST_NAMED]]
        lines += ["", _("They can be put back until the trash is emptied.")]
        paths = [one.path for one in selected]
        self.question.ask(title, "\n".join(lines), _("Move to the trash"), lambda: self._move(paths))

    def _move(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self._files.put(lambda path=path: self._remove(path))  # type: ignore[misc]
        self.refresh()

    # One result.

    def _fill_opened(self) -> None:
        self.title, self.where = ElidedLabel(), ElidedLabel()
        self.views = {kind: ResultView(self._theme, kind) for kind in Kind}
        for view in self.views.values():
            view.use_requested.connect(self.use_requested)
            view.copied.connect(self._tell_copied)

    def show_result(self, result: Result) -> None:
        self.title.setText(result.plan.title)
        self.where.setText(_named(result))
        view = self.views[result.kind]
        for other in self.views.values():
            other.setVisible(other is view)
        view.published.setChecked(False)
        if result.ended is None:  # nobody measures the rest of it
            result = msgspec.structs.replace(result, ended=result.begun)
        view.show_result(result)
        self._show("opened")

    def _tell_copied(self, form: str) -> None:
        self.strip.show_message(Level.INFO, _("The table is on the clipboard, as {form}").format(form=form))

    # Two results.

    def _fill_compared(self) -> None:
        self.plan, self.which, self.notes = ElidedLabel(), ElidedLabel(), QLabel()
        self.notes.setWordWrap(True)
        self.notes.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self.notes, Role.MUTED)
        self.chart = BarChart(_("Speed, later relative to earlier"), Better.MORE, self._theme)
        self.compared = ResultTableView(_("Both results"), self._theme)

    def show_comparison(self, one: Result, other: Result) -> None:
        found = compare(one, other)
        self.plan.setText(found.later.plan.title)
        words = _("Earlier: {earlier} · later: {later}")
        self.which.setText(words.format(earlier=_named(found.earlier), later=_named(found.later)))
        self.notes.setText("\n".join(found.notes))
        self.notes.setVisible(bool(found.notes))
        meanings = (
            Reading(_("faster"), "activations"),
            Reading(_("slower"), "optimizer"),
            Reading(_("within the spread"), "others"),
            Reading(_("the line is at 1 ×")),
        )
        bars = [_bar(row) for row in found.rows]
        self.chart.show_bars(bars, line=LineAcross(1.0, is_origin=True), meanings=meanings)
        self.compared.show_table(comparison_table(found))
        self._show("compared")


def _line(one: Saved) -> Line:
    key, result = str(one.path), one.result
    if result is None:
        return Line(key, (Cell(one.title, Tone.QUIET),), Cell(one.problem, Tone.WARNING), tip=one.problem)
    kinds = {Kind.METHODS: _("Methods"), Kind.DEVICES: _("Devices")}
    rows = _("{measured} of {rows}").format(measured=len(result.measured), rows=len(result.rows))
    cells = (
        Cell(result.plan.title, tip=result.plan.title),
        Cell(kinds[result.kind]),
        Cell(result.machine.title, tip=result.machine.title),
        Cell(formats.moment(result.begun)),
        Cell(rows, Tone.QUIET),
        Cell(result.standing.value, Tone.QUIET),
    )
    return Line(key, cells)


def _named(result: Result) -> str:
    return f"{formats.moment(result.begun)}, {result.machine.title}"


def _bar(one: Compared) -> Bar:
    if one.speed is None:
        return Bar(one.title, words=one.reason)
    colours = {Change.FASTER: "activations", Change.SLOWER: "optimizer"}
    is_marked = any(row is not None and row.is_disturbed for row in (one.earlier, one.later))
    colour = colours.get(one.change, "others")
    return Bar(one.title, one.speed, times(one.speed), colour=colour, is_marked=is_marked)
