"""The list of all runs: sorts, filters as you type; opens, names, compares any of them, or moves them to the bin."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import QCoreApplication, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from core import run_file, run_notes
from core.bin import Trash
from core.errors import OptionsError, UserError
from core.events import Level
from core.memory import record
from core.options import Tree
from core.run_folder import Action, RunFolder
from core.run_notes import RunNotes
from core.run_summary import RunSummary
from gui.file_work import FileWork
from gui.files import reveal
from gui.forecast_words import forecast_words
from gui.models import runs_layout
from gui.models.runs_columns import Column
from gui.models.runs_filter import RunsFilter
from gui.models.runs_model import RunsModel
from gui.models.runs_reader import RunsReader
from gui.pages.export_sheet import ExportSheet
from gui.pages.extend_sheet import ExtendSheet, Length, length_of
from gui.pages.queue_card import QueueCard
from gui.pages.run_reuse import from_its_model
from gui.pages.runs_head import RunsHead
from gui.pages.runs_list import RunsList
from gui.pages.runs_menu import menu_of
from gui.pages.runs_panel import RunsPanel
from gui.run_bin import NotOverError, RunBin
from gui.theme import PAGE_MARGINS, SPACING, Theme
from gui.widgets.message_strip import MessageStrip

REFRESH_MS = 3000
"""How often the list is read again while it is shown; runs that are over cost next to nothing."""


class RunsPage(QWidget):
    """All runs of a folder.

    Signals:
        run_opened: A `RunFolder` to be shown.
        resume_requested: A `RunFolder` to go on with.
        extend_requested: A `RunFolder` that is over, and the `core.extending.Extension` to train it for.
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
        self.table.put_away(runs_layout.hidden_columns())
        self._show_count()

    def refresh(self) -> None:
        """Read the list again, in the background; while hidden nothing is read."""
        if self.isVisible():
            self._reader.read(self._runs_folder())

    def end_work(self) -> None:
        """Keep what was written, and leave no thread behind."""
        self.panel.keep()
        for sheet in self.findChildren(ExportSheet):
            sheet.reject()
        self._reader.stop()
        self.work.end_work()
        self.bin.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        """Keep the list fresh while it is seen."""
        super().showEvent(event)
        self.refresh()
        self._again.start()
        self.table.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:
        """Nobody looks: stop reading."""
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
        words = forecast_words(record.read())
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
        words = self.tr("The runs can't be listed.\n{}: {}")
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
        self._say_of(runs, lambda notes: run_notes.retagged(notes, came, went))

    def _note(self, run: RunSummary, text: str) -> None:
        self._say_of([run], lambda notes: msgspec.structs.replace(notes, text=text.strip()))

    def _say_of(self, runs: Sequence[RunSummary], change: Callable[[RunNotes], RunNotes]) -> None:
        folders = [run.run.path for run in runs]

        def write() -> None:
            for folder in folders:
                run_notes.write(folder, change(run_notes.read(folder)))

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
        self.work.put(lambda: runs_layout.keep_hidden(hidden))

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
