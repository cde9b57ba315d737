"""The table of what was found on the Hub: whole rows, one of which is chosen, and words where there are none."""

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QHeaderView,
    QLabel,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from core.hub_questions import Found
from gui import numbers
from gui.numbers import MISSING
from gui.pages.hub_words import state_words
from gui.theme import SPACING
from gui.widgets.roles import Role, set_role
from gui.widgets.row_table import set_up_rows

NAME = 0
STATE = 6
PARAMETERS = 2

Index = QModelIndex | QPersistentModelIndex

REFUSED = Qt.ItemDataRole.UserRole
GREYED = 0.45
"""Opacity of what can't be used."""


class _Greying(QStyledItemDelegate):
    """Paints what can't be used paler, in the colours of the moment."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802 - Qt's name
        super().initStyleOption(option, index)
        if index.data(REFUSED):
            colour = option.palette.color(QPalette.ColorRole.Text)
            colour.setAlphaF(GREYED)
            for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
                option.palette.setColor(role, colour)


class HubResults(QTableWidget):
    """A row a model.

    Signals:
        chosen_changed: Another row is chosen, or none.
    """

    chosen_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, 7, parent)
        self._found: tuple[Found, ...] = ()
        self.setHorizontalHeaderLabels(
            [
                self.tr("Name"),
                self.tr("Size"),
                self.tr("Parameters"),
                self.tr("Downloads"),
                self.tr("Likes"),
                self.tr("Licence"),
                "",
            ]
        )
        downloads = self.horizontalHeaderItem(3)
        assert downloads is not None
        downloads.setToolTip(self.tr("In the last 30 days"))
        self.setAccessibleName(self.tr("What was found"))
        set_up_rows(self)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        self.setItemDelegate(_Greying(self))
        self._empty = QLabel(self.viewport())
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setWordWrap(True)
        self._empty.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self._empty, Role.MUTED)
        self.itemSelectionChanged.connect(self.chosen_changed)

    @property
    def chosen(self) -> Found | None:
        """The one whose row is chosen."""
        rows = self.selectionModel().selectedRows()
        return self._found[rows[0].row()] if rows else None

    @property
    def found(self) -> tuple[Found, ...]:
        """All rows."""
        return self._found

    @property
    def empty_words(self) -> str:
        """What is said where there is no row."""
        return "" if self._empty.isHidden() else self._empty.text()

    def show_found(self, found: Sequence[Found]) -> None:
        """Show these rows; the first is chosen, or the one that was."""
        before = self.chosen
        self._found = tuple(found)
        self._empty.hide()
        self.setRowCount(len(found))
        for row, one in enumerate(found):
            for column, words in enumerate(_cells(one)):
                self._put(row, column, words, one)
        names = [one.id for one in found]
        row = names.index(before.id) if before is not None and before.id in names else 0
        if found:
            self.selectRow(row)
            self.scrollToTop()
        self.chosen_changed.emit()

    def show_empty(self, words: str) -> None:
        """Show these words in place of rows."""
        self._found = ()
        self.setRowCount(0)
        self._empty.setText(words)
        self._empty.show()
        self._fit_empty()
        self.chosen_changed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the words in the middle."""
        super().resizeEvent(event)
        self._fit_empty()

    def _fit_empty(self) -> None:
        margin = 6 * SPACING
        self._empty.setGeometry(self.viewport().rect().adjusted(margin, 0, -margin, 0))

    def _put(self, row: int, column: int, words: str, found: Found) -> None:
        item = QTableWidgetItem(words)
        item.setToolTip(found.refusal or (found.id if column == NAME else ""))
        if column not in (NAME, 5, STATE):
            item.setTextAlignment(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
        item.setData(REFUSED, bool(found.refusal))
        self.setItem(row, column, item)


def _cells(found: Found) -> tuple[str, ...]:
    parameters = MISSING if found.parameters is None else numbers.compact_count(found.parameters)
    return (
        found.id,
        numbers.memory(found.size),
        parameters,
        numbers.count(found.downloads),
        numbers.count(found.likes),
        found.licence or MISSING,
        state_words(found),
    )
