"""Which columns hold the texts, the images and the answer: lists filled with what is in the data."""

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core.catalogue import Option
from core.data_report import Column
from gui.field import Field
from gui.theme import SPACING
from gui.widgets.calm_inputs import CalmComboBox
from gui.widgets.plain_tip import plain_tip


class ColumnList(CalmComboBox):
    """A list of columns with an entry for "none of them" on top."""

    def __init__(self, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.addItem(empty, "")

    def offer(self, columns: Iterable[Column]) -> None:
        """List these columns; what is chosen stays chosen."""
        taken = self.column
        while self.count() > 1:
            self.removeItem(1)
        for column in columns:
            self.addItem(column.name, column.name)
            tip = plain_tip(", ".join(column.examples[:3]))
            self.setItemData(self.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.choose(taken)

    @property
    def column(self) -> str:
        """The chosen column; empty: none."""
        return str(self.currentData() or "")

    def choose(self, name: str) -> None:
        """Choose a column; one that is not in the list is added as it is."""
        if self.findData(name) < 0:
            self.addItem(name, name)
        self.setCurrentIndex(self.findData(name))


class TextColumnsField(Field):
    """`data.text_columns`: one list, and a second one for pairs."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self.first = ColumnList(self.tr("Guess"))
        self.second = ColumnList(self.tr("No second text"))
        self.first.setAccessibleName(self.tr("First text column"))
        self.second.setAccessibleName(self.tr("Second text column, for pairs"))
        lists = QVBoxLayout()
        lists.setSpacing(SPACING)
        for column_list in (self.first, self.second):
            column_list.setToolTip(option.help)
            column_list.activated.connect(self._tell)
            lists.addWidget(column_list)
        self._row.addLayout(lists, 1)
        self.setFocusProxy(self.first)

    def offer(self, columns: Iterable[Column]) -> None:
        """List these columns."""
        known = list(columns)
        self.first.offer(known)
        self.second.offer(known)

    def value(self) -> object:
        """The chosen columns."""
        return [column for column in (self.first.column, self.second.column) if column]

    def set_value(self, value: object) -> None:
        """Choose columns."""
        names = [str(name) for name in value] if isinstance(value, list | tuple) else []
        self.first.choose(names[0] if names else "")
        self.second.choose(names[1] if len(names) > 1 else "")


class OneColumnField(Field):
    """`data.label_column`, `data.image_column`."""

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(option, parent)
        self.columns = ColumnList(self.tr("Guess"))
        self._adopt(self.columns, stretch=True)
        self.columns.activated.connect(self._tell)

    def offer(self, columns: Iterable[Column]) -> None:
        """List these columns."""
        self.columns.offer(columns)

    def value(self) -> object:
        """The chosen column; None: guess it."""
        return self.columns.column or None

    def set_value(self, value: object) -> None:
        """Choose a column."""
        self.columns.choose(str(value or ""))
