"""The table of runs: whole rows of which several can be chosen, columns that fit, Enter opens."""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QSortFilterProxyModel,
    Qt,
    QThread,
    Signal,
)
from PySide6.QtGui import QAction, QColor, QIcon, QKeyEvent, QPainter, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView, QWidget

from core.base import formats, settings
from core.base.files import write_atomically
from core.base.language import _
from core.options import past_runs
from core.runs.folder import RunFolder
from core.runs.library import list_runs
from core.runs.status import State
from core.runs.summary import RunSizes, RunSummary, summarize
from gui.base.background import wait_briefly
from gui.base.theme import Theme
from gui.base.trash import distinct_titles
from gui.run.words import STATE_COLOURS
from gui.runs.columns import Column, ColumnKind, RunRow, columns, metric_in_full
from gui.widgets.labels import tip_of
from gui.widgets.tables import set_up_rows

FILE = "runs-list.json"


class RunsLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the hidden columns."""

    hidden: tuple[str, ...] = ()


def hidden_columns() -> frozenset[Column]:
    """None where the file is missing or damaged."""
    try:
        kept = msgspec.json.decode((settings.home() / FILE).read_bytes(), type=RunsLayout)
    except (OSError, msgspec.MsgspecError):
        return frozenset()
    return frozenset(column for column in Column if column.name in kept.hidden and column is not Column.NAME)


def keep_hidden(columns: Iterable[Column]) -> None:
    """Remember the hidden columns.

    Raises:
        OSError: That can't be written.
    """
    layout = RunsLayout(hidden=tuple(column.name for column in sorted(columns)))
    settings.home().mkdir(parents=True, exist_ok=True)
    write_atomically(settings.home() / FILE, msgspec.json.encode(layout))


Index = QModelIndex | QPersistentModelIndex

SORT_ROLE = int(Qt.ItemDataRole.UserRole)
"""Raw values: seconds, bytes, shares. What isn't known sorts below everything."""

DOT_PIXELS = 16

COLUMNS = len(Column)


class RunsModel(QAbstractTableModel):
    """Runs, a row each. Rows are immutable; those that change are swapped, the others stay where they are."""

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
        """The run in a row of this model (not of a sorted view on it)."""
        return self._rows[row].summary

    def row(self, row: int) -> RunRow:
        return self._rows[row]

    @property
    def total_size(self) -> int | None:
        """Bytes of all runs; None before all of them are counted."""
        sizes = [row.size for row in self._rows]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def longest_text(self, column: Column) -> str:
        """The text of most letters in a column."""
        return max((row.texts[column] for row in self._rows), key=len, default="")

    def size_of(self, summary: RunSummary) -> int | None:
        return self._sizes.get(summary.run.path)

    @property
    def has_tags(self) -> bool:
        return any(row.summary.tags for row in self._rows)

    def show(self, summaries: Sequence[RunSummary]) -> None:
        """Make these the rows; those of the same title and beginning say when they were made."""
        wanted = {summary.run.path for summary in summaries}
        for place in reversed(range(len(self._rows))):
            if self._rows[place].summary.run.path not in wanted:
                self.beginRemoveRows(QModelIndex(), place, place)
                del self._rows[place]
                self.endRemoveRows()
        counts = Counter(map(_looks, summaries))
        alike = [summary for summary in summaries if counts[_looks(summary)] > 1]
        titles = distinct_titles([(summary.run.path, summary.title) for summary in alike])
        shown = zip(alike, titles, strict=True)
        self._titles = {(one.run.path, one.title): title for one, title in shown if title != one.title}
        self.show_some(summaries)

    def show_some(self, summaries: Sequence[RunSummary]) -> None:
        """Show these runs anew, or add them."""
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
        """Say how many bytes runs take, by their folders."""
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
        kind = self._columns[Column(section)]
        if role == Qt.ItemDataRole.DisplayRole:
            return kind.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return kind.help or kind.title
        return _alignment(kind) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        column, row = Column(index.column()), self._rows[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return row.texts[column]
            case Qt.ItemDataRole.TextAlignmentRole:
                return self._alignments[column]
            case Qt.ItemDataRole.ToolTipRole:
                return tip_of(row.summary.problem or self._tip(column, row))
            case Qt.ItemDataRole.DecorationRole if column is Column.STATE:
                return self._dot(row.summary.state)
        return row.raws[column] if role == SORT_ROLE else None

    def _tip(self, column: Column, row: RunRow) -> str:
        summary = row.summary
        if column is Column.NAME:
            return "\n".join(filter(None, (summary.title, str(summary.run.path), summary.note)))
        return metric_in_full(summary) if column is Column.METRIC else row.texts[column]

    def _dot(self, state: State) -> QIcon:
        if state not in self._dots:
            self._dots[state] = dot(QColor(getattr(self._theme.tokens, STATE_COLOURS[state])))
        return self._dots[state]

    def _repaint_dots(self) -> None:
        self._dots.clear()
        if self._rows:
            last = self.index(len(self._rows) - 1, Column.STATE)
            self.dataChanged.emit(self.index(0, Column.STATE), last, [Qt.ItemDataRole.DecorationRole])


def _looks(summary: RunSummary) -> tuple[str, str]:
    """By what a person knows a run from others: its title, and when it began, which has a column of its own."""
    return summary.title, formats.moment(summary.started)


def _alignment(kind: ColumnKind) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if kind.is_number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


def dot(colour: QColor, *, is_filled: bool = True) -> QIcon:
    """A circle, filled or as a ring, painted at twice its size for fine screens; untinted in a selection."""
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
"""So soon the window is told of the newest runs, which fill what can be seen."""

TELL_SECONDS = 0.5
"""So often it is told of the others."""

SIZES_AT_ONCE = 100
"""More rows than these would take a turn of the window that is felt."""

COUNTING_SECONDS = 2.0
"""For so long sizes are counted at most before the list is read again; the rest follows then."""


def _stamp(run: RunFolder) -> tuple[int, ...]:
    """When a run's files were last written; a run that is over and has the same stamp needn't be read again."""

    def written(path: Path) -> int:
        try:
            return path.stat().st_mtime_ns
        except OSError:
            return 0

    return tuple(
        map(written, (run.events_file, run.options_file, run.path / past_runs.FILE, run.keeper_file))
    )


class RunsReader(QThread):
    """Reads all runs of a folder once each time it is started, the newest first, then counts what they take on disk.

    Signals:
        some_read: A list of `core.runs.summary.RunSummary`: those that are new or have changed, as they are found.
        runs_read: All of them.
        sizes_counted: Bytes by the folders of runs, as they are counted.
        reading_failed: The `OSError` that stands between the folder and its list.
    """

    some_read = Signal(object)
    runs_read = Signal(object)
    sizes_counted = Signal(object)
    reading_failed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = Path()
        self._known: dict[Path, tuple[tuple[int, ...], RunSummary]] = {}
        self._sizes = RunSizes()
        self._counted: set[Path] = set()

    def read(self, folder: Path) -> None:
        """Start reading; nothing happens where it is reading already."""
        if not self.isRunning():
            self._folder = folder
            self.start()

    def stop(self) -> None:
        """Give up after the run at hand, a matter of milliseconds."""
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
        """Sum up all runs; returns whether nobody has interrupted that."""
        found, piece = [], []
        tell_next = time.monotonic() + FIRST_SECONDS
        for run in runs:
            if self.isInterruptionRequested():
                return False
            before = self._known.get(run.path)
            found.append(self._summary(run))
            if before is None or before[1] is not found[-1]:
                piece.append(found[-1])
            if piece and time.monotonic() > tell_next:
                self.some_read.emit(piece)
                piece, tell_next = [], time.monotonic() + TELL_SECONDS
        self.runs_read.emit(found)
        return True

    def _count(self, runs: list[RunFolder]) -> None:
        """Count the bytes of all runs, or of as many as there is time for."""
        counted: dict[Path, int] = {}
        begun = told = time.monotonic()
        for run in sorted(runs, key=lambda run: run.path in self._counted):
            if self.isInterruptionRequested() or time.monotonic() - begun > COUNTING_SECONDS:
                break
            counted[run.path] = self._sizes.of(run)
            self._counted.add(run.path)
            if len(counted) >= SIZES_AT_ONCE or time.monotonic() - told > TELL_SECONDS:
                self.sizes_counted.emit(counted)
                counted, told = {}, time.monotonic()
        self.sizes_counted.emit(counted)

    def _summary(self, run: RunFolder) -> RunSummary:
        stamp = _stamp(run)
        known = self._known.get(run.path)
        if known is not None and known[0] == stamp and known[1].state.is_over:
            return known[1]
        summary = summarize(run)
        self._known[run.path] = (stamp, summary)
        return summary


class RunsFilter(QSortFilterProxyModel):
    """Sorts by raw values and keeps the runs that hold every word typed.

    A word such as `state:paused` or `tag:night` looks at one of `gui.runs.table.FIELDS` alone.
    """

    def __init__(self, model: RunsModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._words: list[str] = []
        self.setSourceModel(model)
        self.setSortRole(SORT_ROLE)

    def search(self, text: str) -> None:
        """Keep the runs in which every word of `text` occurs somewhere."""
        self._words = text.casefold().split()
        self.invalidate()

    def filterAcceptsRow(self, source_row: int, source_parent: Index) -> bool:
        if not self._words:
            return True
        row = self._model.row(source_row)
        return all(row.holds(word) for word in self._words)


PADDING = 20
"""What the style sheet and Qt keep free on both sides of a cell's text, in pixels, and a little."""

DOT_ROOM = 22

WIDEST_LETTERS = 30
"""So wide the results become for one with a long name."""

LEAST = {
    Column.NAME: 8 * PADDING,
    Column.MODEL: 4 * PADDING,
    Column.DATA: 3 * PADDING,
    Column.TAGS: 3 * PADDING,
}
"""Pixels that the columns have at least which share what the others leave.

Their texts are cut with "…"; the tool tip has all of it.
"""

LEAVING = (Column.DEVICE, Column.MEMORY, Column.TIME, Column.SIZE, Column.TAGS, Column.DATA, Column.MODEL)
"""Where there is no room for all columns, these leave, the first one first."""


class RunsTable(QTableView):
    """A table of whole rows in which Enter opens the current one.

    Signals:
        opened: The index of the row to open.
        bin_wanted: The rows that are chosen are to go to the bin.
        columns_chosen: The columns that are put away from now on, a set of `Column`.

    Args:
        rows: What is shown, sorted or not.
        parent: Qt's parent.
    """

    opened = Signal(QModelIndex)
    bin_wanted = Signal()
    columns_chosen = Signal(object)

    def __init__(self, rows: RunsModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows = rows
        set_up_rows(self)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # the ends of names often tell them apart
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._kinds = columns()
        self._put_away: frozenset[Column] = frozenset()
        self._lacks_tags = True
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self._pop_up_columns)
        self.doubleClicked.connect(self.opened)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, with_command = event.key(), event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.opened.emit(self.currentIndex())
        elif key == Qt.Key.Key_Delete or (key == Qt.Key.Key_Backspace and with_command):
            self.bin_wanted.emit()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit_columns()

    def put_away(self, hidden: Collection[Column]) -> None:
        """Show no more of these columns."""
        self._put_away = frozenset(hidden)
        self.fit_columns()

    def show_tags(self, are_there: bool) -> None:
        """A column of tags stands there as soon as any run has one."""
        self._lacks_tags = not are_there

    def columns_menu(self) -> QMenu:
        """A switch for each column but the name; of those without room it is said."""
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        shown = set(self._shown())
        for column, kind in self._kinds.items():
            if column is Column.NAME:
                continue
            action = QAction(kind.title, menu, checkable=True, checked=column not in self._put_away)
            if column not in shown and action.isChecked():
                is_bare = column is Column.TAGS and self._lacks_tags
                why = _("no run has one") if is_bare else _("no room for it now")
                action.setText(_("{} ({})").format(kind.title, why))
            action.setData(int(column))
            action.toggled.connect(self._switch)
            menu.addAction(action)
        return menu

    def fit_columns(self) -> None:
        """Give the columns their widths; call when the texts in them have changed."""
        header = self.horizontalHeader()
        if header.count() != len(Column):
            return
        shown = self._shown()
        for column in Column:
            header.setSectionHidden(column, column not in shown)
        fixed = {column: self._fixed_width(column) for column in shown if column not in LEAST}
        flexible = [column for column in shown if column in LEAST]
        left = self.viewport().width() - sum(fixed.values()) - sum(LEAST[column] for column in flexible)
        if Column.METRIC in fixed:
            fixed[Column.METRIC] += max(0, min(left, self._long_result() - fixed[Column.METRIC]))
        wanted = {column: max(self._wide(column), 3 * PADDING) for column in flexible}
        shared = share_out(self.viewport().width() - sum(fixed.values()), wanted)
        for column, width in (fixed | shared).items():
            header.resizeSection(column, width)

    def _shown(self) -> list[Column]:
        """The columns that are wanted and have room."""
        wanted = [column for column in Column if column not in self._put_away]
        if self._lacks_tags and Column.TAGS in wanted:
            wanted.remove(Column.TAGS)
        for column in LEAVING:
            if sum(map(self._least_width, wanted)) <= self.viewport().width():
                break
            if column in wanted:
                wanted.remove(column)
        return wanted

    def _least_width(self, column: Column) -> int:
        return LEAST[column] if column in LEAST else self._fixed_width(column)

    def _fixed_width(self, column: Column) -> int:
        kind = self._kinds[column]
        return max(self._width_of(column, kind.title), self._width_of(column, kind.sample))

    def _long_result(self) -> int:
        """What a result with a long name wants, within limits."""
        widest = WIDEST_LETTERS * self.fontMetrics().averageCharWidth()
        return min(widest, self._wide(Column.METRIC))

    def _wide(self, column: Column) -> int:
        """What the longest text of a column wants. Qt's own way would ask every row for each width."""
        return self.fontMetrics().horizontalAdvance(self._rows.longest_text(column)) + PADDING

    def _width_of(self, column: Column, text: str) -> int:
        dot = DOT_ROOM if column is Column.STATE else 0
        return self.fontMetrics().horizontalAdvance(text) + PADDING + dot

    def _pop_up_columns(self, place: QPoint) -> None:
        menu = self.columns_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.horizontalHeader().mapToGlobal(place))

    def _switch(self, is_wanted: bool) -> None:
        action = self.sender()
        if isinstance(action, QAction):
            column = Column(action.data())
            hidden = self._put_away - {column} if is_wanted else self._put_away | {column}
            self.put_away(hidden)
            self.columns_chosen.emit(hidden)


def share_out(room: int, wanted: dict[Column, int]) -> dict[Column, int]:
    """Give each column what it wants; where that is too much the widest are cut alike.

    The name takes what is left, and is cut last.
    """
    given: dict[Column, int] = {}
    others = sorted((column for column in wanted if column is not Column.NAME), key=lambda one: wanted[one])
    left = room - min(wanted[Column.NAME], LEAST[Column.NAME])
    for number, column in enumerate(others):
        fair = (left - sum(given.values())) // (len(others) - number)
        given[column] = max(0, min(wanted[column], fair))
    given[Column.NAME] = max(0, room - sum(given.values()))
    return given
