"""The table of runs: whole rows, columns that fit, Enter opens."""

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from gui.models.runs_columns import Column, columns
from gui.theme import SPACING

PADDING = 20
"""What the style sheet and Qt keep free on both sides of a cell's text, in pixels, and a little."""

DOT_ROOM = 22

FLEXIBLE = (Column.NAME, Column.MODEL, Column.DATA)
"""These columns share what the others leave; their texts are cut with "…", the tool tip has all of them."""


class RunsTable(QTableView):
    """A table of whole rows in which Enter opens the current one.

    Signals:
        opened: The index of the row to open.
    """

    opened = Signal(QModelIndex)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 2 * SPACING)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.doubleClicked.connect(self.opened)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.opened.emit(self.currentIndex())
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the columns into the width there is."""
        super().resizeEvent(event)
        self.fit_columns()

    def fit_columns(self) -> None:
        """Give the columns their widths; call when the texts in them have changed."""
        header = self.horizontalHeader()
        if header.count() != len(Column):
            return
        fixed = {
            column: max(self._width_of(column, kind.title), self._width_of(column, kind.sample))
            for column, kind in columns().items()
            if column not in FLEXIBLE
        }
        wanted = {column: max(self.sizeHintForColumn(column), 3 * PADDING) for column in FLEXIBLE}
        shared = share_out(self.viewport().width() - sum(fixed.values()), wanted)
        for column, width in (fixed | shared).items():
            header.resizeSection(column, width)

    def _width_of(self, column: Column, text: str) -> int:
        dot = DOT_ROOM if column is Column.STATE else 0
        return self.fontMetrics().horizontalAdvance(text) + PADDING + dot


def share_out(room: int, wanted: dict[Column, int]) -> dict[Column, int]:
    """Give each column what it wants; where that is too much the widest are cut alike. The name takes what is left."""
    given: dict[Column, int] = {}
    for number, column in enumerate(sorted(wanted, key=lambda column: wanted[column])):
        fair = (room - sum(given.values())) // (len(wanted) - number)
        given[column] = max(0, min(wanted[column], fair))
    given[Column.NAME] += max(0, room - sum(given.values()))
    return given
