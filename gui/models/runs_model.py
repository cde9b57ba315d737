"""The list of runs as a table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
)
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap

from core.run_summary import RunSummary
from core.story import State
from gui import numbers
from gui.models.runs_columns import Column, ColumnKind, RunRow, columns, metric_in_full
from gui.models.runs_row import ShownRow
from gui.run_titles import told_apart
from gui.states import state_colour
from gui.theme import Theme
from gui.widgets.plain_tip import tip_of

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
        self._rows: list[ShownRow] = []
        self._sizes: dict[Path, int] = {}
        self._titles: dict[tuple[Path, str], str] = {}
        self._dots: dict[State, QIcon] = {}
        theme.changed.connect(self._repaint_dots)

    def summary(self, row: int) -> RunSummary:
        """The run in a row of this model (not of a sorted view on it)."""
        return self._rows[row].summary

    def shown(self, row: int) -> ShownRow:
        """All that is shown of it."""
        return self._rows[row]

    @property
    def total_size(self) -> int | None:
        """Bytes of all runs together; None before all of them are counted."""
        sizes = [shown.row.size for shown in self._rows]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def longest_text(self, column: Column) -> str:
        """The text of most letters in a column."""
        return max((shown.texts[column] for shown in self._rows), key=len, default="")

    def size_of(self, summary: RunSummary) -> int | None:
        """Bytes that a run takes; None where nobody has counted them."""
        return self._sizes.get(summary.run.path)

    @property
    def has_tags(self) -> bool:
        """Whether any run has a tag."""
        return any(shown.summary.tags for shown in self._rows)

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
        titles = told_apart([(summary.run.path, summary.title) for summary in alike])
        shown = zip(alike, titles, strict=True)
        self._titles = {(one.run.path, one.title): title for one, title in shown if title != one.title}
        self.show_some(summaries)

    def show_some(self, summaries: Sequence[RunSummary]) -> None:
        """Show these runs anew, or add them."""
        wanted = {summary.run.path: summary for summary in summaries}
        for place, old in enumerate(self._rows):
            new = wanted.pop(old.summary.run.path, None)
            if new is not None and (new != old.summary or self._title_of(new) != old.row.title):
                self._swap(place, new)
        if wanted:
            self.beginInsertRows(QModelIndex(), len(self._rows), len(self._rows) + len(wanted) - 1)
            self._rows += map(self._row, wanted.values())
            self.endInsertRows()

    def show_sizes(self, sizes: Mapping[Path, int]) -> None:
        """Say how many bytes runs take, by their folders."""
        self._sizes.update(sizes)
        for place, old in enumerate(self._rows):
            size = sizes.get(old.summary.run.path, old.row.size)
            if size != old.row.size:
                self._swap(place, old.summary)

    def _row(self, summary: RunSummary) -> ShownRow:
        size = self._sizes.get(summary.run.path)
        return ShownRow(RunRow(summary, size, self._title_of(summary)), self._columns)

    def _title_of(self, summary: RunSummary) -> str:
        return self._titles.get((summary.run.path, summary.title), "")

    def _swap(self, place: int, summary: RunSummary) -> None:
        self._rows[place] = self._row(summary)
        self.dataChanged.emit(self.index(place, 0), self.index(place, COLUMNS - 1))

    def rowCount(self, parent: Index | None = None) -> int:
        """One row a run."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        """The columns of `Column`."""
        return 0 if parent is not None and parent.isValid() else COLUMNS

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Titles of the columns, on the side their values stand."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        kind = self._columns[Column(section)]
        if role == Qt.ItemDataRole.DisplayRole:
            return kind.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return kind.help or kind.title
        return _alignment(kind) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, raw value, dot or tip of a cell."""
        if not index.isValid():
            return None
        column, shown = index.column(), self._rows[index.row()]
        found: Any = None
        if role == Qt.ItemDataRole.DisplayRole:
            found = shown.texts[column]
        elif role == SORT_ROLE:
            found = shown.raws[column]
        elif role == Qt.ItemDataRole.TextAlignmentRole:
            found = self._alignments[column]
        elif role == Qt.ItemDataRole.ToolTipRole:
            found = tip_of(shown.summary.problem or self._tip(Column(column), shown))
        elif role == Qt.ItemDataRole.DecorationRole and column == Column.STATE:
            found = self._dot(shown.summary.state)
        return found

    def _tip(self, column: Column, shown: ShownRow) -> str:
        row = shown.summary
        if column is Column.NAME:
            return "\n".join(filter(None, (row.title, str(row.run.path), row.note)))
        return metric_in_full(row) if column is Column.METRIC else shown.texts[column]

    def _dot(self, state: State) -> QIcon:
        if state not in self._dots:
            self._dots[state] = _paint_dot(QColor(getattr(self._theme.tokens, state_colour(state))))
        return self._dots[state]

    def _repaint_dots(self) -> None:
        self._dots.clear()
        if self._rows:
            last = self.index(len(self._rows) - 1, Column.STATE)
            self.dataChanged.emit(self.index(0, Column.STATE), last, [Qt.ItemDataRole.DecorationRole])


def _looks(summary: RunSummary) -> tuple[str, str]:
    """By what a person knows a run from others: its title, and when it began, which has a column of its own."""
    return summary.title, numbers.moment(summary.started)


def _alignment(kind: ColumnKind) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if kind.is_number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


def _paint_dot(colour: QColor) -> QIcon:
    """A filled circle, painted at twice its size so that it stays round on fine screens; untinted in a selection."""
    pixmap = QPixmap(2 * DOT_PIXELS, 2 * DOT_PIXELS)
    pixmap.setDevicePixelRatio(2.0)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    painter.drawEllipse(4, 4, 8, 8)
    painter.end()
    icon = QIcon(pixmap)
    icon.addPixmap(pixmap, QIcon.Mode.Selected)
    return icon
