"""Lists of names and values, and what tables of whole rows have in common."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QTableView,
    QTableWidget,
    QVBoxLayout,
    QWidget,
)

from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import meanings_in, role_label, text_label, tip_of
from gui.widgets.layout import FLUSH, clear, fill

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class TableRow:
    """A name, what it is, and a muted line below that, such as why it is so."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Group:
    """Rows below a heading; an empty title is no heading."""

    title: str
    rows: tuple[TableRow, ...]


class KeyValue(QWidget):
    """A list of names with their values. Values wrap and may be selected and copied.

    Args:
        name_width: Least width of the names in pixels, to stand in line with other rows.
    """

    def __init__(self, name_width: int = 0) -> None:
        super().__init__()
        self._shape: list[tuple[str, list[str]]] = []
        self._rows: list[TableRow] = []
        self._values: list[_Value] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(2 * SPACING)
        self._grid.setVerticalSpacing(SPACING - 2)
        self._grid.setColumnStretch(1, 1)
        self._grid.setColumnMinimumWidth(0, name_width)

    def set_rows(self, rows: Iterable[tuple[str, str]]) -> None:
        """Show these (name, value) pairs; rows whose names stay the same are only given their new values."""
        self.set_groups([Group("", tuple(TableRow(name, value) for name, value in rows))])

    def set_groups(self, groups: Iterable[Group]) -> None:
        """Show these groups; where headings and names stay the same, only the values are new."""
        groups = list(groups)
        shape = [(group.title, [row.name for row in group.rows]) for group in groups]
        if shape != self._shape:
            self._shape = shape
            self._rebuild()
        self._rows = [row for group in groups for row in group.rows]
        for row, value in zip(self._rows, self._values, strict=True):
            value.show_row(row)

    def set_marks(self, marks: Mapping[str, str]) -> None:
        """Mark the rows of these names with a dot; each says in a tool tip what its mark means."""
        for row, value in zip(self._rows, self._values, strict=True):
            value.show_mark(marks.get(row.name, ""))

    def rows(self) -> list[tuple[str, str]]:
        return [(row.name, row.value) for row in self._rows]

    def _rebuild(self) -> None:
        clear(self._grid)
        self._values = []
        place = 0
        for title, names in self._shape:
            if title:
                heading = role_label(Role.STRONG, title)
                heading.setContentsMargins(0, 2 * SPACING if place else 0, 0, 0)
                self._grid.addWidget(heading, place, 0, 1, 2)
                place += 1
            for index, name in enumerate(names):
                if index or title:
                    hairline = QFrame()
                    hairline.setFixedHeight(1)
                    set_role(hairline, Role.RULE)
                    self._grid.addWidget(hairline, place, 0, 1, 2)
                    place += 1
                label, value = role_label(Role.MUTED, name), _Value(name)
                label.setToolTip(meanings_in(name))
                self._grid.addWidget(label, place, 0, Qt.AlignmentFlag.AlignTop)
                self._grid.addWidget(value, place, 1, Qt.AlignmentFlag.AlignTop)
                self._values.append(value)
                place += 1


class _Value(QWidget):
    """What a row's name is, and the note below."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._value = text_label(selectable=True)
        self._note = text_label(role=Role.HINT, selectable=True)
        self._value.setAccessibleName(name)
        self._note.hide()
        self._dot = role_label(Role.CHANGED, "•")
        self._dot.hide()
        line = QHBoxLayout()
        line.addWidget(self._value, 1)
        line.addWidget(self._dot, 0, Qt.AlignmentFlag.AlignTop)
        fill(QVBoxLayout(self), line, self._note, margins=FLUSH, spacing=2)

    def show_row(self, row: TableRow) -> None:
        """Show what has changed; a selection in what has not stays."""
        for label, text in ((self._value, row.value), (self._note, row.note)):
            if label.text() != text:
                label.setText(text)
        self._note.setVisible(bool(row.note))
        self.show_mark("")

    def show_mark(self, words: str) -> None:
        """Mark the value, or take the mark away where there are no words."""
        tip = "\n".join(filter(None, (words, meanings_in(self._value.text()))))
        for label in (self._dot, self._value):
            label.setToolTip(tip_of(tip))
        self._value.setAccessibleDescription(words)
        self._dot.setVisible(bool(words))


def set_up_texts(table: QTableWidget, name: str, titles: Sequence[str], widest: int = 0) -> None:
    """Make an empty table one of rows of texts, with these titles of its columns.

    Args:
        name: Its accessible name.
        widest: The column that takes what the others leave.
    """
    table.setColumnCount(len(titles))
    table.setHorizontalHeaderLabels(titles)
    table.setAccessibleName(name)
    set_up_rows(table)
    table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    table.horizontalHeader().setSectionResizeMode(widest, QHeaderView.ResizeMode.Stretch)


def set_up_rows(table: QTableView, *, padding: int = 2 * SPACING, on_card: bool = False) -> None:
    """Make a table one of whole rows, of which one can be chosen. Widths and names are its owner's.

    Args:
        padding: What a row is higher than its text, in pixels.
        on_card: Whether it lies on a card, and has no frame of its own.
    """
    if on_card:
        set_role(table, Role.INSET)
        table.setFrameShape(QFrame.Shape.NoFrame)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setTabKeyNavigation(False)
    _FirstAndLast(table)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + padding)
    header = table.horizontalHeader()
    header.setHighlightSections(False)
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignVCenter)


class _FirstAndLast(QObject):
    """Lets Home and End choose the first and the last row; Qt goes to the first and the last cell of a row."""

    def __init__(self, table: QTableView) -> None:
        super().__init__(table)
        self._table = table
        table.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if not isinstance(event, QKeyEvent) or event.type() is not QEvent.Type.KeyPress:
            return False
        rows = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: self._table.model().rowCount() - 1}
        row = rows.get(Qt.Key(event.key()))
        if row is None or event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            return False
        flags = QItemSelectionModel.SelectionFlag
        index = self._table.model().index(row, max(0, self._table.currentIndex().column()))
        self._table.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        return True
