"""The table of runs: whole rows of which several can be chosen, columns that fit, Enter opens."""

from collections.abc import Collection

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView, QWidget

from gui.models.runs_columns import Column, columns
from gui.models.runs_model import RunsModel
from gui.widgets.row_table import set_up_rows

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
        self.setTextElideMode(
            Qt.TextElideMode.ElideMiddle
        )  # what tells names apart often stands at their ends
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
        """Enter opens, Delete moves to the bin; on a Mac it is Cmd with the key that deletes backwards, too."""
        key, with_command = event.key(), event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.opened.emit(self.currentIndex())
        elif key == Qt.Key.Key_Delete or (key == Qt.Key.Key_Backspace and with_command):
            self.bin_wanted.emit()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the columns into the width there is."""
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
                why = self.tr("no run has one") if is_bare else self.tr("no room for it now")
                action.setText(self.tr("{} ({})").format(kind.title, why))
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
