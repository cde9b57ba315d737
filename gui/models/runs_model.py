"""The list of runs as a table."""

from collections.abc import Sequence
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
from gui.forecast_words import off_by
from gui.models.runs_columns import Column, ColumnKind, columns, metric_in_full
from gui.states import state_colour
from gui.theme import Theme

Index = QModelIndex | QPersistentModelIndex

SORT_ROLE = int(Qt.ItemDataRole.UserRole)
"""Raw values: seconds, bytes, shares. What isn't known sorts below everything."""

SEARCH_ROLE = SORT_ROLE + 1
"""All words of a row, for the filter."""

DOT_PIXELS = 16


class RunsModel(QAbstractTableModel):
    """Summaries of runs. Rows are immutable; `show` swaps those that changed and keeps the others where they are."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._columns = columns()
        self._rows: list[RunSummary] = []
        self._dots: dict[State, QIcon] = {}
        theme.changed.connect(self._repaint_dots)

    def summary(self, row: int) -> RunSummary:
        """The run in a row of this model (not of a sorted view on it)."""
        return self._rows[row]

    def show(self, summaries: Sequence[RunSummary]) -> None:
        """Make these the rows."""
        wanted = {summary.run.path: summary for summary in summaries}
        for place in reversed(range(len(self._rows))):
            if self._rows[place].run.path not in wanted:
                self.beginRemoveRows(QModelIndex(), place, place)
                del self._rows[place]
                self.endRemoveRows()
        for place, old in enumerate(self._rows):
            new = wanted.pop(old.run.path)
            if new != old:
                self._rows[place] = new
                self.dataChanged.emit(self.index(place, 0), self.index(place, len(Column) - 1))
        if wanted:
            self.beginInsertRows(QModelIndex(), len(self._rows), len(self._rows) + len(wanted) - 1)
            self._rows += wanted.values()
            self.endInsertRows()

    def rowCount(self, parent: Index | None = None) -> int:
        """One row a run."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        """The columns of `Column`."""
        return 0 if parent is not None and parent.isValid() else len(Column)

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
        column, row = Column(index.column()), self._rows[index.row()]
        kind = self._columns[column]
        found: Any = None
        if role == Qt.ItemDataRole.DisplayRole:
            found = kind.text(row)
        elif role == SORT_ROLE:
            found = kind.raw(row)
        elif role == SEARCH_ROLE:
            found = " ".join([*(kind.text(row) for kind in self._columns.values()), metric_in_full(row)])
        elif role == Qt.ItemDataRole.TextAlignmentRole:
            found = _alignment(kind)
        elif role == Qt.ItemDataRole.ToolTipRole:
            found = row.problem or self._tip(column, row)
        elif role == Qt.ItemDataRole.DecorationRole and column is Column.STATE:
            found = self._dot(row.state)
        return found

    def _tip(self, column: Column, row: RunSummary) -> str:
        if column is Column.NAME:
            return f"{row.title}\n{row.run.path}"
        if column is Column.MEMORY and row.forecast_error is not None:
            told = self.tr("{memory}, forecast {error}")
            return told.format(memory=numbers.memory(row.peak_bytes), error=off_by(row.forecast_error))
        return metric_in_full(row) if column is Column.METRIC else self._columns[column].text(row)

    def _dot(self, state: State) -> QIcon:
        if state not in self._dots:
            self._dots[state] = _paint_dot(QColor(getattr(self._theme.tokens, state_colour(state))))
        return self._dots[state]

    def _repaint_dots(self) -> None:
        self._dots.clear()
        if self._rows:
            last = self.index(len(self._rows) - 1, Column.STATE)
            self.dataChanged.emit(self.index(0, Column.STATE), last, [Qt.ItemDataRole.DecorationRole])


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
