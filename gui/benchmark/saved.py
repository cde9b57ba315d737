"""Earlier results: the list of what was saved, one of them opened, two compared."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QStackedWidget, QVBoxLayout, QWidget

from core.base import formats
from core.base.errors import UserError
from core.base.language import _
from core.benchmark import result as results
from core.benchmark.plan import Kind
from core.benchmark.result import Result, Saved
from core.benchmark.table import (
    Cell,
    Heading,
    Line,
    ResultTable,
    Tone,
    compare,
    comparison_table,
)
from core.runs.events import Level
from core.runs.trash import move_path
from gui.base.background import FileWork
from gui.base.theme import Role, Theme
from gui.base.tokens import SPACING
from gui.benchmark.results import ResultTableView, ResultView, fill_page, on_card
from gui.widgets.cards import MessageStrip
from gui.widgets.labels import ElidedLabel, link_button, push_button, role_label, text_label
from gui.widgets.layout import FLUSH, PageScroll, fill, hbox, vbox


class SubPage(PageScroll):
    """A scrolled column below a title, details and a link back to the list."""

    left = Signal()

    def __init__(self, *parts: QWidget) -> None:
        content = QWidget()
        super().__init__(content)
        self.title, self.details = ElidedLabel(role=Role.CARD_TITLE), ElidedLabel(role=Role.MUTED)
        self.back = link_button(_("‹ Earlier results"), self.left.emit)
        head = hbox((vbox(self.title, self.details, spacing=2), 1), self.back)
        fill_page(content, head, *parts)


class OpenedPage(SubPage):
    """One result, in the view of its kind."""

    def __init__(self, theme: Theme) -> None:
        self.views = {kind: ResultView(theme, kind) for kind in Kind}
        super().__init__(*self.views.values())

    def show_result(self, result: Result) -> None:
        self.title.setText(result.plan.title)
        self.details.setText(_moment_and_machine(result))
        view = self.views[result.kind]
        for other in self.views.values():
            other.setVisible(other is view)
        view.published.setChecked(False)
        if result.ended is None:  # it was interrupted: its other rows are not being measured
            result = msgspec.structs.replace(result, ended=result.begun)
        view.show_result(result)


class ComparedPage(SubPage):
    """Two results of a kind: what differs between them, and their speeds and memory in a table."""

    def __init__(self, theme: Theme) -> None:
        self.notes = text_label(role=Role.MUTED)
        self.table = ResultTableView(_("Both results"), theme)
        super().__init__(self.notes, on_card(self.table))

    def show_results(self, one: Result, other: Result) -> None:
        found = compare(one, other)
        self.title.setText(found.later.plan.title)
        earlier, later = _moment_and_machine(found.earlier), _moment_and_machine(found.later)
        self.details.setText(_("Earlier: {earlier} · later: {later}").format(earlier=earlier, later=later))
        self.notes.setText("\n".join(found.notes))
        self.notes.setVisible(bool(found.notes))
        self.table.show_table(comparison_table(found))


class SavedResults(QWidget):
    """The list of what was saved, read in a thread each time it is shown; results are opened, compared, removed."""

    use_requested = Signal(object)  # the `Variant` whose options are to be used in New run
    listed = Signal(object)  # what was saved, a sequence of `Saved`

    def __init__(
        self,
        theme: Theme,
        *,
        remove: Callable[[Path], None] = move_path,
    ) -> None:
        super().__init__()
        self._remove = remove
        self._saved: tuple[Saved, ...] = ()
        self._files = FileWork(self)
        self._files.failed.connect(self._on_failed)
        self.strip = MessageStrip(closable=True)
        empty = _("Nothing has been measured yet. Results of Methods and Devices are kept here.")
        self.empty = text_label(empty, Role.MUTED)
        self.table = ResultTableView(_("Earlier results"), theme)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.open = push_button(_("Open"), lambda: self._open(self.table.selected[0]))
        self.compare = push_button(_("Compare"), self._compare)
        self.bin = push_button(_("Move to the trash…"), self._throw_away)
        self.reason = role_label(Role.HINT)
        self.opened, self.compared = OpenedPage(theme), ComparedPage(theme)
        self._lay_out()
        self._connect()
        self.show_saved(())

    def show_saved(self, saved: Sequence[Saved]) -> None:
        """List results; what is selected stays selected."""
        self._saved = tuple(saved)
        headings = (
            Heading(_("What was measured"), is_figure=False),
            Heading(_("Kind"), is_figure=False),
            Heading(_("Machine"), is_figure=False),
            Heading(_("Measured"), is_figure=False),
            Heading(_("Rows"), _("How many have figures, of how many")),
            Heading(_("State"), is_figure=False),
        )
        self.table.show_table(ResultTable(headings, tuple(map(_line, saved))))
        self.empty.setVisible(not saved)
        self._card.setVisible(bool(saved))
        self._buttons.setVisible(bool(saved))
        self._update_buttons()
        self.listed.emit(saved)

    def refresh(self) -> None:
        self._files.put(results.saved, self.show_saved)

    def show_list(self) -> None:
        self._show(self._list)
        self.refresh()
        self.table.setFocus()

    def show_result(self, result: Result) -> None:
        self.opened.show_result(result)
        self._show(self.opened)

    def show_comparison(self, one: Result, other: Result) -> None:
        self.compared.show_results(one, other)
        self._show(self.compared)

    def end_work(self) -> None:
        self._files.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def _show(self, page: PageScroll) -> None:
        self.strip.hide()
        self._pages.setCurrentWidget(page)
        page.verticalScrollBar().setValue(0)

    def _selected(self) -> list[Saved]:
        keys = self.table.selected
        return [saved for saved in self._saved if str(saved.path) in keys]

    def _update_buttons(self) -> None:
        selected = self._selected()
        kinds = [saved.result.kind for saved in selected if saved.result is not None]
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
        self.reason.setText(reason)

    def _open(self, key: str) -> None:
        for saved in self._saved:
            if str(saved.path) == key and saved.result is not None:
                self.show_result(saved.result)

    def _compare(self) -> None:
        one, other = (saved.result for saved in self._selected())
        if one is not None and other is not None:
            self.show_comparison(one, other)

    def _throw_away(self) -> None:
        for saved in self._selected():
            self._files.put(partial(self._remove, saved.path))
        title = _("Moved to the trash")
        self.strip.show_message(Level.INFO, title, _("Results can be put back from the system's trash."))
        self.refresh()

    def _on_failed(self, error: UserError) -> None:
        self.strip.show_error(error)
        self.refresh()

    def _lay_out(self) -> None:
        self._card, self._buttons, content = on_card(self.table), QWidget(), QWidget()
        line = hbox(self.open, self.compare, self.bin)
        line.addSpacing(SPACING)
        line.addWidget(self.reason, 1)
        self._buttons.setLayout(line)
        fill_page(content, self._buttons, self._card, self.empty)
        self._list = PageScroll(content)
        self._pages = QStackedWidget()
        for page in (self._list, self.opened, self.compared):
            self._pages.addWidget(page)
        fill(QVBoxLayout(self), self.strip, (self._pages, 1), margins=FLUSH, spacing=SPACING)

    def _connect(self) -> None:
        self.table.selection_changed.connect(self._update_buttons)
        self.table.opened.connect(self._open)
        self.table.delete_pressed.connect(self._throw_away)
        for view in self.opened.views.values():
            view.use_requested.connect(self.use_requested)
            view.copied.connect(partial(self.strip.show_message, Level.INFO))
        for page in (self.opened, self.compared):
            page.left.connect(self.show_list)


def _line(saved: Saved) -> Line:
    key, result = str(saved.path), saved.result
    if result is None:
        return Line(
            key, (Cell(saved.title, Tone.QUIET),), Cell(saved.problem, Tone.WARNING), tip=saved.problem
        )
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


def _moment_and_machine(result: Result) -> str:
    return f"{formats.moment(result.begun)}, {result.machine.title}"
