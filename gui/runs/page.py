"""The page with the list of all runs."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QLineEdit, QMenu, QStackedWidget, QWidget

from core.base import formats
from core.base.errors import OptionsError, UserError, why
from core.base.language import _, ngettext
from core.options import Tree, past_runs, run_file
from core.options.past_runs import RunNotes
from core.runs.compare import FEWEST, MOST
from core.runs.events import Action, Level
from core.runs.folder import RunFolder
from core.runs.library import run_title
from core.runs.notes import retagged
from core.runs.notes import write as write_notes
from core.runs.status import State
from core.runs.summary import RunSummary
from core.runs.trash import Trash
from gui.base.background import FileWork
from gui.base.files import reveal
from gui.base.theme import Role, Theme
from gui.base.tokens import PAGE_MARGINS, SPACING
from gui.base.trash import NotOverError, RunTrash
from gui.run.export_dialog import ExportSheet
from gui.run.extend_dialog import ExtendSheet, Length, from_its_model, length_of, titled
from gui.run.header import TITLES, RunAction
from gui.runs.columns import RunColumn
from gui.runs.panel import RunsPanel
from gui.runs.queue_card import QueueCard
from gui.runs.table import RunsFilter, RunsModel, RunsReader, RunsTable
from gui.widgets.cards import UNDO, MessageStrip
from gui.widgets.labels import role_label, text_label
from gui.widgets.layout import hbox, vbox

FILTER_LETTERS = 26

WORKING = (State.STARTING, State.TRAINING)
"""The states in which a run can be paused or stopped."""

WITH_MODEL = (State.FINISHED, State.STOPPED)
"""The states in which a run has a trained model."""

REFRESH_MS = 3000
"""How often the list is read again while it is shown; runs that are over cost next to nothing."""


class RunsPage(QWidget):
    """All runs of a folder.

    Args:
        runs_folder: Returns the folder with the runs; called at each reading.
        trash: Moves a folder to the trash; None: the system's.
    """

    run_opened = Signal(object)  # a `RunFolder`
    resume_requested = Signal(object)  # a `RunFolder`
    extend_requested = Signal(object, object)  # a `RunFolder` and a `core.runs.start.Extension`
    try_requested = Signal(object)  # a `RunFolder` whose model is to be opened under "Try it"
    edit_requested = Signal(object)  # a tree of options for a new run
    compare_requested = Signal(object)  # a list of `RunFolder`
    runs_gone = Signal(object)  # the folders of runs that were moved to the trash, a list of `Path`

    def __init__(self, theme: Theme, runs_folder: Callable[[], Path], trash: Trash | None = None) -> None:
        super().__init__()
        self._runs_folder = runs_folder
        self.model = RunsModel(theme, self)
        self._filter = RunsFilter(self.model, self)
        self.reader = RunsReader(self)
        self._again = QTimer(self, interval=REFRESH_MS)
        self.work = FileWork(self)
        self.bin = RunTrash(self, runs_folder, trash)
        self.table = RunsTable(self.model)
        self.table.setModel(self._filter)
        self.table.setSortingEnabled(True)
        self.table.sortByColumn(RunColumn.STARTED, Qt.SortOrder.DescendingOrder)
        self.table.setAccessibleName(_("Runs"))
        self.words = text_label(role=Role.MUTED)
        self.words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._why_empty = _("Reading the runs…")
        self.count = role_label(Role.MUTED)
        self.search = QLineEdit(placeholderText=_("Filter: words, tag:night"))
        self.search.setAccessibleName(_("Filter runs"))
        self.search.setToolTip(
            _(
                "Runs that contain all these words. name: state: model: data: device: tag: and note: search one field, "
                "such as state:paused."
            )
        )
        self.search.setClearButtonEnabled(True)
        letters = FILTER_LETTERS * self.search.fontMetrics().averageCharWidth()
        self.search.setFixedWidth(letters + 8 * SPACING)
        self.panel = RunsPanel()
        self.queue = QueueCard()
        self.strip = MessageStrip(closable=True)
        self._to_end: tuple[RunFolder, ...] = ()
        self._kept: list[RunFolder] = []  # to be selected
        self._lay_out()
        self._connect()
        self._show_count()

    def refresh(self) -> None:
        if self.isVisible():
            self.reader.read(self._runs_folder())

    def end_work(self) -> None:
        self.panel.commit()
        for sheet in self.findChildren(ExportSheet):
            sheet.reject()
        self.reader.stop()
        self.work.end_work()
        self.bin.end_work()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()
        self._again.start()
        self.table.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.panel.commit()
        if self.bin.waiting and not event.spontaneous():  # which a window that is minimised sends, too
            self.bin.finish()
            self.strip.hide()
        self._again.stop()
        self.reader.stop()

    def _select(self, runs: Collection[RunFolder]) -> None:
        rows = [self._filter.index(row, 0) for row in range(self._filter.rowCount())]
        selection = QItemSelection()
        for index in rows:
            if self._summary_at(index).run in runs:
                selection.select(index, index)
        whole = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
        self.table.selectionModel().select(selection, whole)
        if selection.indexes():
            self.table.scrollTo(selection.indexes()[0])

    def chosen(self) -> list[RunSummary]:
        """The selected runs, from top to bottom."""
        rows = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        return [self._summary_at(self._filter.index(row, 0)) for row in rows]

    def commands(self, runs: Sequence[RunSummary]) -> dict[RunAction, Callable[[], object]]:
        """What can be done with these runs."""
        do: dict[RunAction, Callable[[], object]] = {}
        working = [one for one in runs if one.state in WORKING]
        stoppable = working or [one for one in runs if one.state is State.QUEUED]
        if len(runs) == 1:
            summary, run = runs[0], runs[0].run
            if summary.state.can_resume:
                do[RunAction.RESUME] = lambda: self.resume_requested.emit(run)
            if summary.state in WITH_MODEL:
                do[RunAction.TRY] = lambda: self.try_requested.emit(run)
            if summary.state in WITH_MODEL or summary.state is State.PAUSED:  # exports its checkpoint
                do[RunAction.EXPORT] = lambda: ExportSheet(run, summary.title, self).open()
            if summary.state.is_over:
                do[RunAction.EXTEND] = partial(
                    self.work.put, partial(length_of, run), partial(self._ask_to_extend, run)
                )
            do[RunAction.DUPLICATE] = lambda: self._edit(run, dict)
            do[RunAction.RENAME] = self.panel.edit_name
            do[RunAction.REVEAL] = lambda: self._reveal(run)
        if working:
            do[RunAction.PAUSE] = lambda: self._ask(working, Action.PAUSE)
        if stoppable:
            do[RunAction.STOP] = lambda: self._ask(stoppable, Action.STOP)
        if FEWEST <= len(runs) <= MOST:
            do[RunAction.COMPARE] = lambda: self._compare(runs)
        if runs and all(one.state.is_over for one in runs):
            do[RunAction.TRASH] = lambda: self.throw_away([run.run for run in runs])
        return do

    def menu_for(self, index: QModelIndex) -> QMenu:
        """A context menu for a row, or for all selected rows if it is one of them."""
        chosen = self.chosen()
        runs = chosen if self._summary_at(index) in chosen else [self._summary_at(index)]
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        possible = self.commands(runs)
        is_one = len(runs) == 1
        titles = (
            TITLES if RunAction.PAUSE in possible else {**TITLES, RunAction.STOP: _("Remove from the queue")}
        )
        groups = (
            (RunAction.RESUME, RunAction.TRY, RunAction.EXPORT, RunAction.PAUSE, RunAction.STOP),
            (RunAction.DUPLICATE, RunAction.EXTEND, RunAction.REVEAL, RunAction.COMPARE),
            (RunAction.TRASH,),
        )
        if is_one:
            menu.addAction(_("Open"), lambda: self.run_opened.emit(runs[0].run))
        for group in groups:
            for action in group:
                title = titles[action]
                if action in possible:
                    menu.addAction(title, possible[action])
                elif action is RunAction.TRASH or (action is RunAction.COMPARE and not is_one):
                    menu.addAction(title).setEnabled(False)
            menu.addSeparator()
        return menu

    def _ask(self, runs: Sequence[RunSummary], action: Action) -> None:
        for run in runs:
            self.work.put(partial(run.run.request, action), lambda _: self._read_again())

    def _compare(self, runs: Sequence[RunSummary]) -> None:
        self.compare_requested.emit([run.run for run in runs])

    def _reveal(self, run: RunFolder) -> None:
        self.strip.show_outcome(reveal(run.path))

    def throw_away(self, runs: Sequence[RunFolder]) -> None:
        """Move runs to the trash, and offer to undo that until the page is left."""
        self.table.setFocus()
        self.bin.begin(runs)

    def _throw_chosen_away(self) -> None:
        self.throw_away([run.run for run in self.chosen()])

    def _on_kept(self, runs: list[RunFolder]) -> None:
        self._kept = runs
        self.strip.hide()
        self.table.setFocus()
        self._read_again()

    def _show_gone(self, title: str, text: str) -> None:
        self._to_end = ()
        self.strip.show_message(Level.INFO, title, text, (UNDO,))

    def _show_runs(self, summaries: list[RunSummary]) -> None:
        self._why_empty = ""
        self.model.show([one for one in summaries if one.run.path not in self.bin.leaving])
        self._settle()
        if self._kept:
            self._select(self._kept)
            self._kept = []
        elif self._filter.rowCount() and not (self.bin.waiting or self.chosen()):
            self.table.selectRow(0)

    def _show_some(self, summaries: list[RunSummary]) -> None:
        self.model.show_some([one for one in summaries if one.run.path not in self.bin.leaving])
        self._settle()

    def _settle(self) -> None:
        """Update everything that depends on the rows."""
        rows = map(self.model.summary, range(self.model.rowCount()))
        if self._to_end and not any(row.run in self._to_end and not row.state.is_over for row in rows):
            self._to_end = ()
            self.strip.hide()
        self.table.fit_columns()
        self._show_count()
        self._show_chosen()

    def _show_failure(self, error: UserError) -> None:
        self._to_end = error.runs if isinstance(error, NotOverError) else ()
        self.strip.show_error(error)

    def _show_sizes(self, sizes: dict[Path, int]) -> None:
        self.model.show_sizes(sizes)
        self._show_count()
        self._show_chosen()

    def _on_reading_failed(self, error: OSError) -> None:
        self._why_empty = _("The runs can't be listed.\n{file}: {reason}").format(
            file=error.filename or self._runs_folder(), reason=why(error)
        )
        self.model.show([])
        self._show_count()

    def _on_gone(self, gone: list[Path]) -> None:
        kept = [self.model.summary(row) for row in range(self.model.rowCount())]
        self.model.show([summary for summary in kept if summary.run.path not in gone])
        self.table.clearSelection()  # Delete pressed twice moves no other run
        self._settle()
        self._read_again()
        self.runs_gone.emit(gone)

    def _search(self, text: str) -> None:
        self._filter.search(text)
        self._show_count()
        self._show_chosen()

    def _show_count(self) -> None:
        """Show the number of runs and their size, or what to do if there is none."""
        total, shown = self.model.rowCount(), self._filter.rowCount()
        size = self._size_of(self._summary_at(self._filter.index(row, 0)) for row in range(shown))
        parts = [ngettext("{count} run", "{count} runs", total).format(count=formats.count(total))]
        if shown < total:
            text = ngettext("{shown} of {count} run", "{shown} of {count} runs", total)
            parts = [text.format(shown=formats.count(shown), count=formats.count(total))]
        if size is not None:
            parts.append(formats.memory(size))
        self.count.setText(formats.enumerated(parts) if total else "")
        self.panel.setVisible(total > 0)
        text = self._why_empty
        if not text and not total:
            text = _("No runs yet.\nPress New run, choose a model and data, and start it: it appears here.")
        self.words.setText(text or _("No run contains “{text}”.").format(text=self.search.text()))
        self._stack.setCurrentIndex(0 if shown else 1)

    def _show_chosen(self) -> None:
        chosen = self.chosen()
        self.panel.show_runs(chosen, self._size_of(chosen))

    def _size_of(self, runs: Iterable[RunSummary]) -> int | None:
        """Bytes of these runs; None until all are counted."""
        sizes = [self.model.size_of(summary) for summary in runs]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def _rename(self, run: RunSummary, title: str) -> None:
        self._change_notes([run], lambda notes: msgspec.structs.replace(notes, title=title))
        if title:
            self.model.show_some([replace(run, title=title)])

    def _tag(self, runs: Sequence[RunSummary], added: tuple[str, ...], removed: tuple[str, ...]) -> None:
        self._change_notes(runs, lambda notes: retagged(notes, added, removed))

    def _note(self, run: RunSummary, text: str) -> None:
        self._change_notes([run], lambda notes: msgspec.structs.replace(notes, text=text.strip()))

    def _change_notes(self, runs: Sequence[RunSummary], change: Callable[[RunNotes], RunNotes]) -> None:
        folders = [run.run.path for run in runs]

        def write() -> None:
            for folder in folders:
                write_notes(folder, change(past_runs.read(folder)))

        self.work.put(write, lambda _: self._read_again())

    def _edit(self, run: RunFolder, change: Callable[[Tree], Tree]) -> None:
        try:
            tree = run_file.read_tree(run.options_file)
        except OptionsError as error:
            self._show_failure(error)
        else:
            self.edit_requested.emit(titled(change(tree), run_title(run)))

    def _ask_to_extend(self, run: RunFolder, length: Length) -> None:
        sheet = ExtendSheet(length, self)
        sheet.chosen.connect(partial(self.extend_requested.emit, run))
        sheet.new_run_chosen.connect(lambda: self._edit(run, partial(from_its_model, run=run)))
        sheet.open()

    def _read_again(self) -> None:
        """Restart the reader, which may have read older files."""
        self.reader.stop()
        self.refresh()

    def _summary_at(self, index: QModelIndex) -> RunSummary:
        return self.model.summary(self._filter.mapToSource(index).row())

    def _open(self, index: QModelIndex) -> None:
        self.run_opened.emit(self._summary_at(index).run)

    def _show_menu(self, position: QPoint) -> None:
        index = self.table.indexAt(position)
        if index.isValid():
            self.menu_for(index).popup(self.table.viewport().mapToGlobal(position))

    def _connect(self) -> None:
        self.reader.some_read.connect(self._show_some)
        self.reader.runs_read.connect(self._show_runs)
        self.reader.sizes_counted.connect(self._show_sizes)
        self.reader.reading_failed.connect(self._on_reading_failed)
        self._again.timeout.connect(self.refresh)
        self.search.textChanged.connect(self._search)
        self.table.opened.connect(self._open)
        self.table.bin_requested.connect(self._throw_chosen_away)
        self.table.customContextMenuRequested.connect(self._show_menu)
        self.table.selectionModel().selectionChanged.connect(self._show_chosen)
        self.panel.renamed.connect(self._rename)
        self.panel.name.returnPressed.connect(self.table.setFocus)  # where Return opens the run
        self.panel.tagged.connect(self._tag)
        self.panel.noted.connect(self._note)
        self.panel.open_pressed.connect(lambda: self.run_opened.emit(self.chosen()[0].run))
        self.panel.compare_pressed.connect(lambda: self._compare(self.chosen()))
        self.panel.bin_pressed.connect(self._throw_chosen_away)
        self.bin.moved.connect(self._on_gone)
        self.bin.told.connect(self._show_gone)
        self.bin.kept.connect(self._on_kept)
        self.strip.fix_chosen.connect(self.bin.undo)
        self.strip.closed.connect(self.bin.finish)
        self.bin.failed.connect(self._show_failure)
        self.work.failed.connect(self._show_failure)

    def _lay_out(self) -> None:
        title = role_label(Role.PAGE_TITLE, _("Runs"))
        head = hbox(title, None, self.search)
        head.insertSpacing(1, SPACING)
        head.insertWidget(2, self.count, alignment=Qt.AlignmentFlag.AlignBottom)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.table)
        self._stack.addWidget(self.words)
        # the queue below: when it changes, the rows keep their places
        layout = vbox(
            head, self.strip, (self._stack, 1), self.queue, self.panel, spacing=SPACING + SPACING // 2
        )
        layout.setContentsMargins(*PAGE_MARGINS)
        self.setLayout(layout)
        self.setFocusProxy(self.table)
