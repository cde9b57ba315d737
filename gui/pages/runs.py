"""The list of all runs: sorts, filters as you type, opens any of them."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from core import run_file
from core.errors import OptionsError
from core.events import Level
from core.memory import record
from core.run_folder import RunFolder
from core.run_summary import RunSummary
from gui.files import reveal
from gui.forecast_words import forecast_words
from gui.models.runs_columns import Column
from gui.models.runs_filter import RunsFilter
from gui.models.runs_model import RunsModel
from gui.models.runs_reader import RunsReader
from gui.pages.runs_table import RunsTable
from gui.theme import PAGE_MARGINS, SPACING, Theme
from gui.widgets.message_strip import MessageStrip
from gui.widgets.roles import Role, set_role

REFRESH_MS = 3000
"""How often the list is read again while it is shown; runs that are over cost next to nothing."""


class RunsPage(QWidget):
    """All runs of a folder.

    Signals:
        run_opened: A `RunFolder` to be shown.
        edit_requested: A tree of options to start anew from.

    Args:
        theme: Colours.
        runs_folder: Gives the folder that holds the runs; asked anew at each reading.
        parent: Qt's parent.
    """

    run_opened = Signal(object)
    edit_requested = Signal(object)

    def __init__(self, theme: Theme, runs_folder: Callable[[], Path], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._runs_folder = runs_folder
        self.model = RunsModel(theme, self)
        self._filter = RunsFilter(self.model, self)
        self._reader = RunsReader(self)
        self._again = QTimer(self, interval=REFRESH_MS)
        self.search = QLineEdit()
        self.table = RunsTable()
        self._trouble = ""
        self._words = QLabel()
        self._note = QLabel()
        self.forecasts = QLabel()
        self._strip = MessageStrip(closable=True)
        self._strip.hide()
        self._build()
        self._reader.runs_read.connect(self._show_runs)
        self._reader.reading_failed.connect(self._show_trouble)
        self._again.timeout.connect(self.refresh)
        self.search.textChanged.connect(self._search)
        self.table.opened.connect(self._open)
        self.table.customContextMenuRequested.connect(self._show_menu)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self._reader.stop)

    def refresh(self) -> None:
        """Read the list again, in the background; while hidden nothing is read."""
        if self.isVisible():
            self._reader.read(self._runs_folder())

    def showEvent(self, event: QShowEvent) -> None:
        """Keep the list fresh while it is seen."""
        super().showEvent(event)
        self.refresh()
        self._again.start()
        self.table.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:
        """Nobody looks: stop reading."""
        super().hideEvent(event)
        self._again.stop()
        self._reader.stop()

    def _build(self) -> None:
        title = QLabel(self.tr("Runs"))
        set_role(title, Role.PAGE_TITLE)
        set_role(self._note, Role.MUTED)
        set_role(self.forecasts, Role.MUTED)
        self.forecasts.setWordWrap(True)
        self.forecasts.hide()
        self.search.setPlaceholderText(self.tr("Filter"))
        self.search.setAccessibleName(self.tr("Filter runs"))
        self.search.setClearButtonEnabled(True)
        self.search.setMaximumWidth(260)
        top = QHBoxLayout()
        top.addWidget(title)
        top.addStretch()
        top.addWidget(self._note)
        top.addSpacing(SPACING)
        top.addWidget(self.search)
        set_role(self._words, Role.MUTED)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._words.setWordWrap(True)
        self._set_up_table()
        self._stack = QStackedLayout()
        self._stack.addWidget(self.table)
        self._stack.addWidget(self._words)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*PAGE_MARGINS)
        layout.setSpacing(SPACING + SPACING // 2)
        layout.addLayout(top)
        layout.addWidget(self._strip)
        layout.addLayout(self._stack)
        layout.addWidget(self.forecasts)
        self._show_count()

    def _set_up_table(self) -> None:
        self.table.setModel(self._filter)
        self.table.setSortingEnabled(True)
        self.table.sortByColumn(Column.STARTED, Qt.SortOrder.DescendingOrder)
        self.table.setAccessibleName(self.tr("Runs"))

    def _show_trouble(self, error: OSError) -> None:
        self._trouble = self.tr("The runs can't be listed.\n{}: {}").format(
            error.filename or self._runs_folder(), error.strerror or error
        )
        self.model.show([])
        self._show_count()

    def _show_runs(self, summaries: list[RunSummary]) -> None:
        self._trouble = ""
        self.model.show(summaries)
        self.table.fit_columns()
        if summaries and not self.table.currentIndex().isValid():
            self.table.selectRow(0)
        self._show_count()
        words = forecast_words(record.read())
        self.forecasts.setText(words)
        self.forecasts.setVisible(bool(words and summaries))

    def _search(self, text: str) -> None:
        self._filter.search(text)
        self._show_count()

    def _show_count(self) -> None:
        """Say how many there are, or what to do where there is none."""
        total, shown = self.model.rowCount(), self._filter.rowCount()
        if self._trouble:
            self._words.setText(self._trouble)
        elif not total:
            self._words.setText(
                self.tr(
                    "No runs yet.\nPress New run, choose a model and data, and start it: it will stand here."
                )
            )
        elif not shown:
            self._words.setText(self.tr("No run holds “{}”.").format(self.search.text()))
        self._stack.setCurrentIndex(0 if shown else 1)
        self._note.setText(self.tr("{} of {}").format(shown, total) if shown < total else "")

    def _summary_at(self, index: QModelIndex) -> RunSummary:
        return self.model.summary(self._filter.mapToSource(index).row())

    def _open(self, index: QModelIndex) -> None:
        self.run_opened.emit(self._summary_at(index).run)

    def _show_menu(self, position: QPoint) -> None:
        index = self.table.indexAt(position)
        if index.isValid():
            self.menu_for(index).popup(self.table.viewport().mapToGlobal(position))

    def menu_for(self, index: QModelIndex) -> QMenu:
        """What can be done with the run in a row of the table."""
        run = self._summary_at(index).run
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(self.tr("Open"), lambda: self.run_opened.emit(run))
        menu.addAction(self.tr("Duplicate"), lambda: self._duplicate(run))
        menu.addAction(self.tr("Show the folder"), lambda: self._show_folder(run))
        return menu

    def _show_folder(self, run: RunFolder) -> None:
        error = reveal(run.path)
        if error is None:
            self._strip.hide()
        else:
            self._strip.show_message(Level.WARNING, error.title, error.detail)

    def _duplicate(self, run: RunFolder) -> None:
        try:
            self.edit_requested.emit(run_file.read_tree(run.options_file))
        except OptionsError as error:
            self._strip.show_error(error)
