"""The list of all runs: sorts, filters as you type; opens, names, compares any of them, or moves them to the bin."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from gettext import gettext as _
from pathlib import Path
from typing import Protocol

import msgspec
from PySide6.QtCore import QCoreApplication, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from core.base import formats
from core.base.errors import OptionsError, UserError
from core.memory import history
from core.options import Tree, past_runs, run_file
from core.options.past_runs import RunNotes
from core.runs.bin import Trash
from core.runs.compare import FEWEST, MOST
from core.runs.events import Level
from core.runs.folder import Action, RunFolder
from core.runs.status import State
from core.runs.summary import RunSummary
from gui.base.background import FileWork
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import PAGE_MARGINS, SPACING
from gui.base.trash import NotOverError, RunBin, reveal
from gui.run.export_dialog import ExportSheet
from gui.run.extend_dialog import ExtendSheet, Length, from_its_model, length_of
from gui.run.words import forecast_words
from gui.runs import table
from gui.runs.columns import Column
from gui.runs.details import RunsPanel
from gui.runs.queue_card import QueueCard
from gui.runs.table import RunsFilter, RunsModel, RunsReader, RunsTable
from gui.widgets.cards import MessageStrip

FILTER_LETTERS = 26


class RunsHead(QWidget):
    """A line above the list.

    Args:
        columns_menu: Makes the menu in which columns are chosen.
        parent: Qt's parent.
    """

    def __init__(self, columns_menu: Callable[[], QMenu], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._columns_menu = columns_menu
        title = QLabel(_("Runs"))
        set_role(title, Role.PAGE_TITLE)
        self.count = QLabel()
        set_role(self.count, Role.MUTED)
        self.columns = QPushButton(_("Columns"))
        set_role(self.columns, Role.LINK)
        self.columns.setToolTip(_("Choose what the list shows"))
        self.columns.clicked.connect(self._pop_up)
        self.search = QLineEdit()
        self._dress_search()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACING)
        row.addWidget(title)
        row.addSpacing(SPACING)
        row.addWidget(self.count, alignment=Qt.AlignmentFlag.AlignBottom)
        row.addStretch(1)
        row.addWidget(self.columns)
        row.addWidget(self.search)

    def show_count(self, shown: int, total: int, size: int | None) -> None:
        """Say how many runs there are and what they take.

        Args:
            shown: How many the filter lets through.
            total: How many there are.
            size: Bytes of all of them; None: not counted yet.
        """
        words = formats.count(total)
        words = _("1 run") if total == 1 else _("{} runs").format(words)
        if shown < total:
            words = _("{} of {}").format(formats.count(shown), words)
        if size is not None:
            words = _("{}, {}").format(words, formats.memory(size))
        self.count.setText(words if total else "")
        self.columns.setVisible(total > 0)

    def _dress_search(self) -> None:
        self.search.setPlaceholderText(_("Filter: words, tag:night"))
        self.search.setAccessibleName(_("Filter runs"))
        self.search.setToolTip(
            _(
                "Runs that hold all these words. name: state: model: data: device: tag: and note: look at one thing "
                "alone, such as state:paused."
            )
        )
        self.search.setClearButtonEnabled(True)
        letters = FILTER_LETTERS * self.search.fontMetrics().averageCharWidth()
        self.search.setFixedWidth(letters + 8 * SPACING)

    def _pop_up(self) -> None:
        menu = self._columns_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.columns.mapToGlobal(QPoint(0, self.columns.height())))


class RunsList(QWidget):
    """Shows the table while there is a row in it. `trouble` is why the runs can't be listed; empty: they can."""

    def __init__(self, model: RunsModel, rows: RunsFilter, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.trouble = ""
        self.table = RunsTable(model)
        self.table.setModel(rows)
        self.table.setSortingEnabled(True)
        self.table.sortByColumn(Column.STARTED, Qt.SortOrder.DescendingOrder)
        self.table.setAccessibleName(_("Runs"))
        self.words = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        self.words.setWordWrap(True)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.forecasts = QLabel()
        self.forecasts.setWordWrap(True)
        self.forecasts.hide()
        for label in (self.words, self.forecasts):
            set_role(label, Role.MUTED)
        self._stack = QStackedLayout()
        self._stack.addWidget(self.table)
        self._stack.addWidget(self.words)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACING)
        column.addLayout(self._stack, 1)
        column.addWidget(self.forecasts)

    def show_state(self, shown: int, total: int, searched: str) -> None:
        """Show the table; or say what to do where there is no run, or none that was looked for."""
        if self.trouble:
            self.words.setText(self.trouble)
        elif not total:
            self.words.setText(
                _("No runs yet.\nPress New run, choose a model and data, and start it: it will stand here.")
            )
        elif not shown:
            self.words.setText(_("No run holds “{}”.").format(searched))
        self._stack.setCurrentIndex(0 if shown else 1)


WORKING = (State.STARTING, State.TRAINING)
"""The states in which a run heeds what it is asked."""

WITH_MODEL = (State.FINISHED, State.STOPPED)
"""The states in which a run has a trained model."""


class Deeds(Protocol):
    """What the menu does."""

    def open_run(self, run: RunSummary) -> None:
        """Show its page."""

    def resume(self, run: RunSummary) -> None:
        """Go on with it."""

    def try_model(self, run: RunSummary) -> None:
        """Ask its model."""

    def export(self, run: RunSummary) -> None:
        """Make of its model what other programs take."""

    def ask(self, runs: Sequence[RunSummary], action: Action) -> None:
        """Ask runs that train."""

    def duplicate(self, run: RunSummary) -> None:
        """Open a new run with the same options."""

    def start_from_model(self, run: RunSummary) -> None:
        """Open a new run that starts from its model."""

    def extend(self, run: RunSummary) -> None:
        """Ask how much longer it is to train."""

    def compare(self, runs: Sequence[RunSummary]) -> None:
        """Hold them against each other."""

    def reveal(self, run: RunSummary) -> None:
        """Show its folder."""

    def throw_away(self, runs: Sequence[RunSummary]) -> None:
        """Move them to the bin."""


def menu_of(runs: Sequence[RunSummary], deeds: Deeds, parent: QWidget) -> QMenu:
    """The menu, made anew each time; what makes no sense for these runs isn't in it, or is grey."""
    menu = QMenu(parent)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    if len(runs) == 1:
        _add_of_one(menu, runs[0], deeds)
    _add_requests(menu, runs, deeds)
    menu.addSeparator()
    if len(runs) == 1:
        _add_goings_on(menu, runs[0], deeds)
        _add(menu, _("Show the folder"), lambda: deeds.reveal(runs[0]))
    else:
        comparing = _add(menu, _("Compare"), lambda: deeds.compare(runs))
        comparing.setEnabled(FEWEST <= len(runs) <= MOST)
    menu.addSeparator()
    binning = _add(menu, _("Move to the bin"), lambda: deeds.throw_away(runs))
    binning.setEnabled(any(run.state.is_over for run in runs))
    return menu


def _add_of_one(menu: QMenu, run: RunSummary, deeds: Deeds) -> None:
    _add(menu, _("Open"), lambda: deeds.open_run(run))
    if run.state.can_resume:
        _add(menu, _("Resume"), lambda: deeds.resume(run))
    if run.state in WITH_MODEL:
        _add(menu, _("Try it"), lambda: deeds.try_model(run))
    if run.state in (State.FINISHED, State.STOPPED, State.PAUSED):  # of a paused one, its checkpoint
        _add(menu, _("Export…"), lambda: deeds.export(run))


def _add_goings_on(menu: QMenu, run: RunSummary, deeds: Deeds) -> None:
    """What more can be trained from what there is."""
    _add(menu, _("Duplicate"), lambda: deeds.duplicate(run))
    if run.state in WITH_MODEL:
        _add(menu, _("New run from its model"), lambda: deeds.start_from_model(run))
    if run.state.is_over:
        _add(menu, _("Train longer…"), lambda: deeds.extend(run))


def _add_requests(menu: QMenu, runs: Sequence[RunSummary], deeds: Deeds) -> None:
    """What is asked of those that train; a run that waits can only leave the queue."""
    working = [run for run in runs if run.state in WORKING]
    waiting = [run for run in runs if run.state is State.QUEUED]
    if working:
        _add(menu, _("Pause"), lambda: deeds.ask(working, Action.PAUSE))
        _add(menu, _("Stop and keep"), lambda: deeds.ask(working, Action.STOP))
    elif waiting:
        _add(menu, _("Leave the queue"), lambda: deeds.ask(waiting, Action.STOP))


def _add(menu: QMenu, words: str, do: Callable[[], None]) -> QAction:
    action = menu.addAction(words)
    action.triggered.connect(do)
    return action


REFRESH_MS = 3000
"""How often the list is read again while it is shown; runs that are over cost next to nothing."""


class RunsPage(QWidget):
    """All runs of a folder.

    Signals:
        run_opened: A `RunFolder` to be shown.
        resume_requested: A `RunFolder` to go on with.
        extend_requested: A `RunFolder` that is over, and the `core.runs.start.Extension` to train it for.
        try_requested: A `RunFolder` whose model is to be tried.
        edit_requested: A tree of options to start anew from.
        compare_requested: A list of `RunFolder` to hold against each other.
        runs_gone: The folders of runs, a list of `Path`, that have been moved away.

    Args:
        theme: Colours.
        runs_folder: Gives the folder that holds the runs; asked anew at each reading.
        trash: What moves a folder to the bin; None: the system.
        parent: Qt's parent.
    """

    run_opened = Signal(object)
    resume_requested = Signal(object)
    extend_requested = Signal(object, object)
    try_requested = Signal(object)
    edit_requested = Signal(object)
    compare_requested = Signal(object)
    runs_gone = Signal(object)

    def __init__(
        self,
        theme: Theme,
        runs_folder: Callable[[], Path],
        trash: Trash | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._runs_folder = runs_folder
        self.model = RunsModel(theme, self)
        self._filter = RunsFilter(self.model, self)
        self._reader = RunsReader(self)
        self._again = QTimer(self, interval=REFRESH_MS)
        self.work = FileWork(self)
        self.bin = RunBin(self, runs_folder, trash)
        self.list = RunsList(self.model, self._filter)
        self.table = self.list.table
        self.head = RunsHead(self.table.columns_menu)
        self.search = self.head.search
        self.panel = RunsPanel()
        self.queue = QueueCard()
        self.strip = MessageStrip(closable=True)
        self._to_end: tuple[RunFolder, ...] = ()
        self.strip.hide()
        self._lay_out()
        self._connect()
        self.table.put_away(table.hidden_columns())
        self._show_count()

    def refresh(self) -> None:
        if self.isVisible():
            self._reader.read(self._runs_folder())

    def end_work(self) -> None:
        self.panel.keep()
        for sheet in self.findChildren(ExportSheet):
            sheet.reject()
        self._reader.stop()
        self.work.end_work()
        self.bin.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()
        self._again.start()
        self.table.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.panel.keep()
        self._again.stop()
        self._reader.stop()

    def chosen(self) -> list[RunSummary]:
        """The runs whose rows are selected, from top to bottom."""
        rows = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        return [self._summary_at(self._filter.index(row, 0)) for row in rows]

    def menu_for(self, index: QModelIndex) -> QMenu:
        """What can be done with the run in a row of the table, or with all that are chosen where it is one of them."""
        summary = self._summary_at(index)
        chosen = self.chosen()
        return menu_of(chosen if summary in chosen else [summary], self, self)

    # What can be done with runs.

    def open_run(self, run: RunSummary) -> None:
        """Show its page."""
        self.run_opened.emit(run.run)

    def resume(self, run: RunSummary) -> None:
        """Go on with it."""
        self.resume_requested.emit(run.run)

    def try_model(self, run: RunSummary) -> None:
        """Ask its model."""
        self.try_requested.emit(run.run)

    def export(self, run: RunSummary) -> None:
        """Ask what its model is to become."""
        ExportSheet(run.run, run.title, self).open()

    def ask(self, runs: Sequence[RunSummary], action: Action) -> None:
        """Ask runs that train."""
        for run in runs:
            self.work.put(partial(run.run.ask, action), lambda _: self._read_anew())

    def duplicate(self, run: RunSummary) -> None:
        """Open a new run with the same options; the New run page says what of its files is gone."""
        self._edit(run, lambda tree: tree)

    def start_from_model(self, run: RunSummary) -> None:
        """Open a new run that starts from its model."""
        self._edit(run, lambda tree: from_its_model(tree, run.run))

    def extend(self, run: RunSummary) -> None:
        """Ask how much longer it is to train, once it is known how far it has come."""
        self.work.put(partial(length_of, run.run), lambda length: self._ask_to_extend(run.run, length))

    def compare(self, runs: Sequence[RunSummary]) -> None:
        """Hold them against each other."""
        self.compare_requested.emit([run.run for run in runs])

    def reveal(self, run: RunSummary) -> None:
        """Show its folder."""
        error = reveal(run.run.path)
        if error is None:
            self.strip.hide()
        else:
            self.strip.show_message(Level.WARNING, error.title, error.detail)

    def throw_away(self, runs: Sequence[RunSummary]) -> None:
        """Ask, then move them to the bin."""
        self.strip.hide()
        self.bin.begin([run.run for run in runs])

    # What the threads tell.

    def _show_runs(self, summaries: list[RunSummary]) -> None:
        self.list.trouble = ""
        self.model.show(summaries)
        self._settle()
        if self._filter.rowCount() and not self.table.selectionModel().hasSelection():
            self.table.selectRow(0)
        words = forecast_words(history.read())
        self.list.forecasts.setText(words)
        self.list.forecasts.setVisible(bool(words and summaries))

    def _show_some(self, summaries: list[RunSummary]) -> None:
        self.model.show_some(summaries)
        self._settle()

    def _settle(self) -> None:
        """What follows once rows have come, changed or gone."""
        rows = map(self.model.summary, range(self.model.rowCount()))
        if self._to_end and not any(row.run in self._to_end and not row.state.is_over for row in rows):
            self._to_end = ()
            self.strip.hide()
        self.table.show_tags(self.model.has_tags)
        self.table.fit_columns()
        self._show_count()
        self._show_chosen()

    def _tell_failure(self, error: UserError) -> None:
        self._to_end = error.runs if isinstance(error, NotOverError) else ()
        self.strip.show_error(error)

    def _show_sizes(self, sizes: dict[Path, int]) -> None:
        self.model.show_sizes(sizes)
        self._show_count()
        self._show_chosen()

    def _show_trouble(self, error: OSError) -> None:
        words = _("The runs can't be listed.\n{}: {}")
        self.list.trouble = words.format(error.filename or self._runs_folder(), error.strerror or error)
        self.model.show([])
        self._show_count()

    def _take_gone(self, gone: list[Path]) -> None:
        kept = [self.model.summary(row) for row in range(self.model.rowCount())]
        self.model.show([summary for summary in kept if summary.run.path not in gone])
        self._settle()
        self._read_anew()
        self.runs_gone.emit(gone)

    # What the person does.

    def _search(self, text: str) -> None:
        self._filter.search(text)
        self._show_count()
        self._show_chosen()

    def _show_count(self) -> None:
        """Say how many there are, or what to do where there is none."""
        total, shown = self.model.rowCount(), self._filter.rowCount()
        self.head.show_count(shown, total, self.model.total_size)
        self.list.show_state(shown, total, self.search.text())
        self.panel.setVisible(total > 0)

    def _show_chosen(self) -> None:
        chosen = self.chosen()
        sizes = [self.model.size_of(summary) for summary in chosen]
        size = None if None in sizes else sum(size for size in sizes if size is not None)
        self.panel.show_runs(chosen, size)

    def _rename(self, run: RunSummary, title: str) -> None:
        self._say_of([run], lambda notes: msgspec.structs.replace(notes, title=title))
        if title:
            self.model.show_some([replace(run, title=title)])

    def _tag(self, runs: Sequence[RunSummary], came: tuple[str, ...], went: tuple[str, ...]) -> None:
        self._say_of(runs, lambda notes: past_runs.retagged(notes, came, went))

    def _note(self, run: RunSummary, text: str) -> None:
        self._say_of([run], lambda notes: msgspec.structs.replace(notes, text=text.strip()))

    def _say_of(self, runs: Sequence[RunSummary], change: Callable[[RunNotes], RunNotes]) -> None:
        folders = [run.run.path for run in runs]

        def write() -> None:
            for folder in folders:
                past_runs.write(folder, change(past_runs.read(folder)))

        self.work.put(write, lambda _: self._read_anew())

    def _edit(self, run: RunSummary, change: Callable[[Tree], Tree]) -> None:
        try:
            tree = run_file.read_tree(run.run.options_file)
        except OptionsError as error:
            self._tell_failure(error)
        else:
            self.edit_requested.emit(change(tree))

    def _ask_to_extend(self, run: RunFolder, length: Length) -> None:
        sheet = ExtendSheet(length, self)
        sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        sheet.chosen.connect(partial(self.extend_requested.emit, run))
        sheet.open()

    def _read_anew(self) -> None:
        """What is being read may be older than what was just written."""
        self._reader.stop()
        self.refresh()

    def _summary_at(self, index: QModelIndex) -> RunSummary:
        return self.model.summary(self._filter.mapToSource(index).row())

    def _open(self, index: QModelIndex) -> None:
        self.open_run(self._summary_at(index))

    def _show_menu(self, position: QPoint) -> None:
        index = self.table.indexAt(position)
        if index.isValid():
            self.menu_for(index).popup(self.table.viewport().mapToGlobal(position))

    def _open_chosen(self) -> None:
        for summary in self.chosen()[:1]:
            self.open_run(summary)

    def _compare_chosen(self) -> None:
        self.compare(self.chosen())

    def _bin_chosen(self) -> None:
        self.throw_away(self.chosen())

    def _keep_columns(self, hidden: frozenset[Column]) -> None:
        self.work.put(lambda: table.keep_hidden(hidden))

    def _connect(self) -> None:
        self._reader.some_read.connect(self._show_some)
        self._reader.runs_read.connect(self._show_runs)
        self._reader.sizes_counted.connect(self._show_sizes)
        self._reader.reading_failed.connect(self._show_trouble)
        self._again.timeout.connect(self.refresh)
        self.search.textChanged.connect(self._search)
        self.table.opened.connect(self._open)
        self.table.bin_wanted.connect(self._bin_chosen)
        self.table.columns_chosen.connect(self._keep_columns)
        self.table.customContextMenuRequested.connect(self._show_menu)
        self.table.selectionModel().selectionChanged.connect(self._show_chosen)
        self.panel.renamed.connect(self._rename)
        self.panel.tagged.connect(self._tag)
        self.panel.noted.connect(self._note)
        self.panel.open_pressed.connect(self._open_chosen)
        self.panel.compare_pressed.connect(self._compare_chosen)
        self.panel.bin_pressed.connect(self._bin_chosen)
        self.bin.moved.connect(self._take_gone)
        self.bin.failed.connect(self._tell_failure)
        self.work.failed.connect(self._tell_failure)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.end_work)

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*PAGE_MARGINS)
        layout.setSpacing(SPACING + SPACING // 2)
        layout.addWidget(self.head)
        layout.addWidget(self.strip)
        layout.addWidget(self.queue)
        layout.addWidget(self.list, 1)
        layout.addWidget(self.panel)
