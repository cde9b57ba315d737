"""The list of runs as a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QCoreApplication,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap

from core.runs import RunSummary
from core.story import State
from gui import numbers
from gui.states import state_colour, state_title
from gui.theme import Theme

Index = QModelIndex | QPersistentModelIndex

SORT_ROLE = int(Qt.ItemDataRole.UserRole)
"""Raw values: seconds, bytes, shares. What isn't known sorts below everything."""

SEARCH_ROLE = SORT_ROLE + 1
"""All words of a row, for the filter."""

DOT_PIXELS = 16
NOTHING = float("-inf")

_translate = QCoreApplication.translate


class Column(IntEnum):
    """The columns, in order."""

    NAME = 0
    STATE = 1
    MODEL = 2
    DATA = 3
    DEVICE = 4
    METRIC = 5
    TIME = 6
    MEMORY = 7
    STARTED = 8


@dataclass(frozen=True)
class ColumnKind:
    """How a column reads: its title, a row's text, and the raw value it sorts by."""

    title: str
    text: Callable[[RunSummary], str]
    raw: Callable[[RunSummary], float | str]
    is_number: bool = False


def _columns() -> dict[Column, ColumnKind]:
    return {
        Column.NAME: ColumnKind(
            _translate("runs", "Name"), lambda row: row.title, lambda row: row.title.casefold()
        ),
        Column.STATE: ColumnKind(
            _translate("runs", "State"),
            lambda row: state_title(row.state),
            lambda row: list(State).index(row.state),
        ),
        Column.MODEL: ColumnKind(
            _translate("runs", "Model"), lambda row: row.model, lambda row: row.model.casefold()
        ),
        Column.DATA: ColumnKind(
            _translate("runs", "Data"), lambda row: row.data, lambda row: row.data.casefold()
        ),
        Column.DEVICE: ColumnKind(
            _translate("runs", "Device"), lambda row: row.device, lambda row: row.device
        ),
        Column.METRIC: ColumnKind(
            _translate("runs", "Best result"), _metric_text, _metric_raw, is_number=True
        ),
        Column.TIME: ColumnKind(
            _translate("runs", "Time"),
            lambda row: numbers.duration(row.seconds),
            lambda row: _or_nothing(row.seconds),
            is_number=True,
        ),
        Column.MEMORY: ColumnKind(
            _translate("runs", "Peak memory"),
            lambda row: numbers.memory(row.peak_bytes),
            lambda row: _or_nothing(row.peak_bytes),
            is_number=True,
        ),
        Column.STARTED: ColumnKind(
            _translate("runs", "Started"),
            lambda row: numbers.moment(row.started),
            lambda row: _or_nothing(row.started),
        ),
    }


def _or_nothing(value: float | None) -> float:
    return NOTHING if value is None else float(value)


def _metric_text(row: RunSummary) -> str:
    if row.metric is None or row.best is None:
        return numbers.MISSING
    value = numbers.metric_format(row.metric)(row.best)
    return value if numbers.is_share(row.metric) else f"{value} {numbers.metric_title(row.metric).lower()}"


def _metric_in_full(row: RunSummary) -> str:
    if row.metric is None or row.best is None:
        return ""
    return f"{numbers.metric_title(row.metric)} {numbers.metric_format(row.metric)(row.best)}"


def _metric_raw(row: RunSummary) -> float:
    """Better sorts higher, whether that is a larger share or a smaller loss."""
    if row.metric is None or row.best is None:
        return NOTHING
    return row.best if numbers.is_share(row.metric) else -row.best


class RunsModel(QAbstractTableModel):
    """Summaries of runs. Rows are immutable; `show` swaps those that changed and keeps the others where they are."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._columns = _columns()
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
            found = " ".join([*(kind.text(row) for kind in self._columns.values()), _metric_in_full(row)])
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
        return _metric_in_full(row) if column is Column.METRIC else self._columns[column].text(row)

    def _dot(self, state: State) -> QIcon:
        if state not in self._dots:
            self._dots[state] = _paint_dot(QColor(getattr(self._theme.tokens, state_colour(state))))
        return self._dots[state]

    def _repaint_dots(self) -> None:
        self._dots.clear()
        if self._rows:
            last = self.index(len(self._rows) - 1, Column.STATE)
            self.dataChanged.emit(self.index(0, Column.STATE), last, [Qt.ItemDataRole.DecorationRole])


class RunsFilter(QSortFilterProxyModel):
    """Sorts by raw values and keeps the runs that hold every word typed."""

    def __init__(self, model: RunsModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._words: list[str] = []
        self.setSourceModel(model)
        self.setSortRole(SORT_ROLE)

    def search(self, text: str) -> None:
        """Keep the runs in which every word of `text` occurs somewhere."""
        self._words = text.casefold().split()
        self.invalidate()

    def filterAcceptsRow(self, source_row: int, source_parent: Index) -> bool:
        """Whether a run holds every word."""
        place = self.sourceModel().index(source_row, 0, source_parent)
        found = str(place.data(SEARCH_ROLE)).casefold()
        return all(word in found for word in self._words)


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
