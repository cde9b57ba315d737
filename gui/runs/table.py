"""The table of runs: model, background reader, filter and view."""

import heapq
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QSortFilterProxyModel,
    Qt,
    QThread,
    Signal,
)
from PySide6.QtGui import QColor, QIcon, QKeyEvent, QPainter, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView

from core.base import formats
from core.runs.folder import RunFolder
from core.runs.library import list_runs
from core.runs.status import State
from core.runs.summary import RunSizes, RunSummary, stamp, summarize
from gui.base.background import wait_briefly
from gui.base.theme import Theme
from gui.base.titles import distinct_titles
from gui.run.words import STATE_COLOURS
from gui.runs.columns import RunColumn, RunColumnKind, RunRow, columns, metric_in_full
from gui.widgets.labels import tip_of
from gui.widgets.tables import Index, set_up_rows

SORT_ROLE = int(Qt.ItemDataRole.UserRole)
"""Raw values: seconds, bytes, shares. Unknown values sort below all others."""

DOT_PIXELS = 16

COLUMNS = len(RunColumn)


MOST_MEASURED = 20
"""Texts of a column whose widths are asked for."""


class RunsModel(QAbstractTableModel):
    """A row per run. Rows are immutable; a change replaces a row, so that the others keep selection and position."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._columns = columns()
        self._alignments = [_alignment(kind) for kind in self._columns.values()]
        self._rows: list[RunRow] = []
        self._sizes: dict[Path, int] = {}
        self._titles: dict[tuple[Path, str], str] = {}
        self._dots: dict[State, QIcon] = {}
        theme.changed.connect(self._repaint_dots)

    def summary(self, row: int) -> RunSummary:
        """The run in a row of this model (not of a sorted view of it)."""
        return self._rows[row].summary

    def row(self, row: int) -> RunRow:
        return self._rows[row]

    def longest_texts(self, column: RunColumn) -> list[str]:
        """The texts with the most letters, any of which may be the widest."""
        return heapq.nlargest(MOST_MEASURED, {row.texts[column] for row in self._rows}, key=len)

    def size_of(self, summary: RunSummary) -> int | None:
        return self._sizes.get(summary.run.path)

    @property
    def has_tags(self) -> bool:
        return any(row.summary.tags for row in self._rows)

    def show(self, summaries: Sequence[RunSummary]) -> None:
        """Make these the rows; runs of the same title and start show when they were made."""
        wanted = {summary.run.path for summary in summaries}
        for place in reversed(range(len(self._rows))):
            if self._rows[place].summary.run.path not in wanted:
                self.beginRemoveRows(QModelIndex(), place, place)
                del self._rows[place]
                self.endRemoveRows()
        counts = Counter(map(_appearance, summaries))
        alike = [summary for summary in summaries if counts[_appearance(summary)] > 1]
        titles = distinct_titles([(summary.run.path, summary.title) for summary in alike])
        self._titles = {
            (summary.run.path, summary.title): title
            for summary, title in zip(alike, titles, strict=True)
            if title != summary.title
        }
        self.show_some(summaries)

    def show_some(self, summaries: Sequence[RunSummary]) -> None:
        """Update these runs, or add them."""
        wanted = {summary.run.path: summary for summary in summaries}
        for place, old in enumerate(self._rows):
            new = wanted.pop(old.summary.run.path, None)
            if new is not None and (new != old.summary or self._title_of(new) != old.title):
                self._swap(place, new)
        if wanted:
            self.beginInsertRows(QModelIndex(), len(self._rows), len(self._rows) + len(wanted) - 1)
            self._rows += map(self._row, wanted.values())
            self.endInsertRows()

    def show_sizes(self, sizes: Mapping[Path, int]) -> None:
        """Set the bytes of runs, by their folders."""
        self._sizes.update(sizes)
        for place, old in enumerate(self._rows):
            if sizes.get(old.summary.run.path, old.size) != old.size:
                self._swap(place, old.summary)

    def _row(self, summary: RunSummary) -> RunRow:
        return RunRow(summary, self.size_of(summary), self._title_of(summary), self._columns)

    def _title_of(self, summary: RunSummary) -> str:
        return self._titles.get((summary.run.path, summary.title), "")

    def _swap(self, place: int, summary: RunSummary) -> None:
        self._rows[place] = self._row(summary)
        self.dataChanged.emit(self.index(place, 0), self.index(place, COLUMNS - 1))

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else COLUMNS

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        kind = self._columns[RunColumn(section)]
        if role == Qt.ItemDataRole.DisplayRole:
            return kind.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return kind.help or kind.title
        return _alignment(kind) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        column, row = RunColumn(index.column()), self._rows[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return row.texts[column]
            case Qt.ItemDataRole.TextAlignmentRole:
                return self._alignments[column]
            case Qt.ItemDataRole.ToolTipRole:
                return tip_of(row.summary.problem or self._tip(column, row))
            case Qt.ItemDataRole.DecorationRole if column is RunColumn.STATE:
                return self._dot(row.summary.state)
        return row.raws[column] if role == SORT_ROLE else None

    def _tip(self, column: RunColumn, row: RunRow) -> str:
        summary = row.summary
        if column is RunColumn.NAME:
            return "\n".join(filter(None, (summary.title, str(summary.run.path), summary.note)))
        return metric_in_full(summary) if column is RunColumn.METRIC else row.texts[column]

    def _dot(self, state: State) -> QIcon:
        if state not in self._dots:
            self._dots[state] = dot(QColor(getattr(self._theme.tokens, STATE_COLOURS[state])))
        return self._dots[state]

    def _repaint_dots(self) -> None:
        self._dots.clear()
        if self._rows:
            last = self.index(len(self._rows) - 1, RunColumn.STATE)
            self.dataChanged.emit(self.index(0, RunColumn.STATE), last, [Qt.ItemDataRole.DecorationRole])


def _appearance(summary: RunSummary) -> tuple[str, str]:
    """The columns by which a person distinguishes runs."""
    return summary.title, formats.moment(summary.started)


def _alignment(kind: RunColumnKind) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if kind.is_number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


def dot(colour: QColor, *, is_filled: bool = True) -> QIcon:
    """A circle or a ring, at twice its size for high-resolution screens; not tinted if selected."""
    pixmap = QPixmap(2 * DOT_PIXELS, 2 * DOT_PIXELS)
    pixmap.setDevicePixelRatio(2.0)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(colour, 1.5))
    if is_filled:
        painter.setBrush(colour)
    painter.drawEllipse(4, 4, 8, 8)
    painter.end()
    icon = QIcon(pixmap)
    icon.addPixmap(pixmap, QIcon.Mode.Selected)
    return icon


FIRST_SECONDS = 0.1
"""When the newest runs are reported, which fill the visible part of the table."""

REPORT_SECONDS = 0.5
"""How often the others are reported."""

SIZES_AT_ONCE = 100
"""More rows at once would delay the window noticeably."""

COUNTING_SECONDS = 2.0
"""How long sizes are counted before the list is read again; the rest follows then."""


class RunsReader(QThread):
    """Reads all runs of a folder once per start, the newest first, then counts their bytes on disk."""

    some_read = Signal(object)  # a list of `core.runs.summary.RunSummary` that are new or have changed
    runs_read = Signal(object)  # all of them
    sizes_counted = Signal(object)  # bytes by the folders of runs
    reading_failed = Signal(object)  # an `OSError`

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = Path()
        self._known: dict[Path, tuple[tuple[int, ...], RunSummary]] = {}
        self._sizes = RunSizes()
        self._counted: set[Path] = set()

    def read(self, folder: Path) -> None:
        """Start reading, unless it is already."""
        if not self.isRunning():
            self._folder = folder
            self.start()

    def stop(self) -> None:
        """Stop within milliseconds."""
        self.requestInterruption()
        wait_briefly(self)

    def run(self) -> None:
        try:
            runs = list_runs(self._folder)
        except OSError as error:
            self.reading_failed.emit(error)
            return
        if self._read(runs):
            self._count(runs)

    def _read(self, runs: list[RunFolder]) -> bool:
        """Summarize all runs; returns whether all are done."""
        summaries, changed = [], []
        next_report = time.monotonic() + FIRST_SECONDS
        for run in runs:
            if self.isInterruptionRequested():
                return False
            before = self._known.get(run.path)
            summary = self._summary(run)
            summaries.append(summary)
            if before is None or before[1] is not summary:
                changed.append(summary)
            if changed and time.monotonic() > next_report:
                self.some_read.emit(changed)
                changed, next_report = [], time.monotonic() + REPORT_SECONDS
        self.runs_read.emit(summaries)
        return True

    def _count(self, runs: list[RunFolder]) -> None:
        """Count the bytes of as many runs as there is time for."""
        counted: dict[Path, int] = {}
        started = reported = time.monotonic()
        for run in sorted(runs, key=lambda run: run.path in self._counted):
            if self.isInterruptionRequested() or time.monotonic() - started > COUNTING_SECONDS:
                break
            counted[run.path] = self._sizes.of(run)
            self._counted.add(run.path)
            if len(counted) >= SIZES_AT_ONCE or time.monotonic() - reported > REPORT_SECONDS:
                self.sizes_counted.emit(counted)
                counted, reported = {}, time.monotonic()
        self.sizes_counted.emit(counted)

    def _summary(self, run: RunFolder) -> RunSummary:
        dates = stamp(run)
        known = self._known.get(run.path)
        if known is not None and known[0] == dates and known[1].state.is_over:
            return known[1]
        summary = summarize(run)
        self._known[run.path] = (dates, summary)
        return summary


class RunsFilter(QSortFilterProxyModel):
    """Sorts by raw values and keeps the runs that contain every word, as `RunRow.contains`."""

    def __init__(self, model: RunsModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._words: list[str] = []
        self.setSourceModel(model)
        self.setSortRole(SORT_ROLE)

    def search(self, text: str) -> None:
        self._words = text.casefold().split()
        self.invalidate()

    def filterAcceptsRow(self, source_row: int, source_parent: Index) -> bool:
        if not self._words:
            return True
        row = self._model.row(source_row)
        return all(row.contains(word) for word in self._words)


PADDING = 20
"""Pixels on both sides of a cell's text."""

DOT_WIDTH = 22
NAME_WIDTH = 12 * PADDING
"""The room that other columns leave for a long name."""

MOST_LETTERS = 18
MOST_METRIC_LETTERS = 28
"""Longer texts are elided, except in the name's column; tool tips show all."""

DROPPED = (
    RunColumn.DEVICE,
    RunColumn.MEMORY,
    RunColumn.TIME,
    RunColumn.SIZE,
    RunColumn.TAGS,
    RunColumn.DATA,
    RunColumn.MODEL,
)
"""Columns that are left out in a narrow window, the first one first."""


class RunsTable(QTableView):
    """A table in which Enter opens the current row, with columns that always fit into its width.

    Args:
        rows: The model, which may be shown sorted.
    """

    opened = Signal(QModelIndex)  # the index of the row to open
    bin_requested = Signal()

    def __init__(self, rows: RunsModel) -> None:
        super().__init__()
        self._rows = rows
        set_up_rows(self)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # names often differ at their ends
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._kinds = columns()
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.doubleClicked.connect(self.opened)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, with_command = event.key(), event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.opened.emit(self.currentIndex())
        elif key == Qt.Key.Key_Delete or (key == Qt.Key.Key_Backspace and with_command):
            self.bin_requested.emit()
        else:
            super().keyPressEvent(event)

    def list_columns(self, menu: QMenu) -> None:
        """Fill a menu with the titles of the columns that are shown; each does what a click on it does."""
        menu.clear()
        for column, kind in self._kinds.items():
            if not self.isColumnHidden(column):
                entry = menu.addAction(kind.title, partial(self._sort, column))
                entry.setCheckable(True)
                entry.setChecked(self.horizontalHeader().sortIndicatorSection() == column)

    def _sort(self, column: RunColumn) -> None:
        header, order = self.horizontalHeader(), Qt.SortOrder
        is_up = (
            header.sortIndicatorSection() == column and header.sortIndicatorOrder() is order.AscendingOrder
        )
        self.sortByColumn(column, order.DescendingOrder if is_up else order.AscendingOrder)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit_columns()

    def fit_columns(self) -> None:
        """Set the widths of columns; call it when their texts have changed."""
        header = self.horizontalHeader()
        if header.count() == len(RunColumn):
            widths = self._widths()
            for column in RunColumn:
                header.setSectionHidden(column, column not in widths)
                if column in widths:
                    header.resizeSection(column, widths[column])

    def _widths(self) -> dict[RunColumn, int]:
        """Widths of all columns that are shown; the name takes what the others leave.

        Where it is too little for the longest name, the others are only as wide as their texts are now.
        """
        all_there_is = self.viewport().width()
        shown = [column for column in RunColumn if column is not RunColumn.TAGS or self._rows.has_tags]
        widths = {column: self._width(column, with_sample=True) for column in shown}
        if sum(widths.values()) > all_there_is:
            widths = {column: self._width(column, with_sample=False) for column in shown}
        widths[RunColumn.NAME] = min(widths[RunColumn.NAME], NAME_WIDTH)
        for column in DROPPED:
            if sum(widths.values()) > all_there_is:
                widths.pop(column, None)
        widths[RunColumn.NAME] += max(0, all_there_is - sum(widths.values()))
        return widths

    def _width(self, column: RunColumn, *, with_sample: bool) -> int:
        # Qt's own way would ask every row for each width
        kind, advance = self._kinds[column], self.fontMetrics().horizontalAdvance
        text = max(map(advance, self._rows.longest_texts(column)), default=0)
        if column is not RunColumn.NAME:
            letters = MOST_METRIC_LETTERS if column is RunColumn.METRIC else MOST_LETTERS
            text = min(text, letters * self.fontMetrics().averageCharWidth())
        dot_width = DOT_WIDTH if column is RunColumn.STATE else 0
        sample = advance(kind.sample) if with_sample else 0
        return max(text, advance(kind.title), sample) + PADDING + dot_width
