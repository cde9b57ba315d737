"""The header of a table in which each column has a list to choose what it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHeaderView, QTableView

from gui.theme import SPACING
from gui.widgets.choice_list import ChoiceList
from gui.widgets.segmented import Segment

NARROWEST_LETTERS = 13
LIST_PADDING = 56
"""What a list has beside its text: its arrow and the room around it."""


@dataclass(frozen=True)
class HeadColumn:
    """A column: its name, what it is (a value of the choices; empty: nothing), and whether that is a guess."""

    name: str
    use: str = ""
    is_guess: bool = False


class RoleHeader(QHeaderView):
    """Names of columns, and below each a list. Tab goes from list to list; one out of sight is scrolled into view.

    Signals:
        use_chosen: The name of a column, and the value the person chose for it.

    Args:
        table: Whose header it is.
    """

    use_chosen = Signal(str, str)

    def __init__(self, table: QTableView) -> None:
        super().__init__(Qt.Orientation.Horizontal, table)
        self._table = table
        self._columns: tuple[HeadColumn, ...] = ()
        self._choices: tuple[Segment, ...] = ()
        self._lists: list[ChoiceList] = []
        self.setDefaultAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeading)
        self.setHighlightSections(False)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setMinimumSectionSize(NARROWEST_LETTERS * self.fontMetrics().averageCharWidth())
        self.sectionResized.connect(self._place)
        table.horizontalScrollBar().valueChanged.connect(self._place)

    def set_columns(self, columns: Sequence[HeadColumn], choices: Sequence[Segment]) -> None:
        """Show what each column is, of these choices."""
        is_other = [column.name for column in columns] != [column.name for column in self._columns]
        if is_other or tuple(choices) != self._choices:
            self._columns, self._choices = tuple(columns), tuple(choices)
            self._make_lists()
        self._columns = tuple(columns)
        for box, column in zip(self._lists, columns, strict=True):
            self._dress(box, column)
        self._place()

    @property
    def lists(self) -> dict[str, ChoiceList]:
        """The lists by the names of their columns."""
        return {column.name: box for column, box in zip(self._columns, self._lists, strict=True)}

    def sizeHint(self) -> QSize:
        """Room for a name and a list."""
        size = super().sizeHint()
        list_height = self._lists[0].sizeHint().height() if self._lists else 0
        return QSize(size.width(), self._name_height() + list_height + SPACING // 2)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the lists in their sections."""
        super().resizeEvent(event)
        self._place()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Bring the column into view whose list gets the focus."""
        if event.type() is QEvent.Type.FocusIn and watched in self._lists:
            self.show_column(self._lists.index(watched))
        return super().eventFilter(watched, event)

    def show_column(self, column: int) -> None:
        """Scroll sideways until a column is seen."""
        model = self._table.model()
        if model is not None and model.rowCount():
            top = max(0, self._table.rowAt(0))
            self._table.scrollTo(model.index(top, column))

    def least_width(self, column: int) -> int:
        """Pixels in which the name of a column and what it is can be read, within reason."""
        box, metrics = self._lists[column], self.fontMetrics()
        use = box.fontMetrics().horizontalAdvance(box.currentText()) + LIST_PADDING
        name = min(
            metrics.horizontalAdvance(self._columns[column].name),
            NARROWEST_LETTERS * metrics.averageCharWidth(),
        )
        return max(use, name) + 2 * SPACING

    def _make_lists(self) -> None:
        for old in self._lists:
            old.hide()
            old.deleteLater()
        self._lists = []
        for column in self._columns:
            box = ChoiceList(self._choices, self.viewport())
            box.setProperty("column", column.name)
            box.activated.connect(self._tell)
            box.installEventFilter(self)
            box.show()
            self._lists.append(box)
        for before, after in zip([self._table, *self._lists], self._lists, strict=False):
            self._table.setTabOrder(before, after)
        self.updateGeometry()

    def _dress(self, box: ChoiceList, column: HeadColumn) -> None:
        box.choose(column.use)
        for index, choice in enumerate(self._choices):
            is_marked = column.is_guess and choice.value == column.use
            text = self.tr("{use} · guess").format(use=choice.title) if is_marked else choice.title
            box.setItemText(index, text)
        name = (
            self.tr("What column {name} is, guessed") if column.is_guess else self.tr("What column {name} is")
        )
        box.setAccessibleName(name.format(name=column.name))
        box.setToolTip(
            self.tr("Guessed from the data; choose another if it is wrong") if column.is_guess else ""
        )

    def _place(self) -> None:
        top = self._name_height()
        for index, box in enumerate(self._lists):
            left = self.sectionViewportPosition(index) + SPACING // 2
            width = self.sectionSize(index) - SPACING
            box.setGeometry(left, top, max(1, width), box.sizeHint().height())

    def _name_height(self) -> int:
        return self.fontMetrics().height() + 2 * SPACING

    def _tell(self) -> None:
        box = self.sender()
        if isinstance(box, ChoiceList):
            self.use_chosen.emit(str(box.property("column")), str(box.currentData()))
