"""A table of figures as high as its lines, whose columns fit the width; a line may end in a link."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHeaderView,
    QPushButton,
    QSizePolicy,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from gui.models.figures_model import FiguresModel, Heading, Line
from gui.theme import SPACING, Theme
from gui.widgets.roles import Role, set_role
from gui.widgets.row_table import set_up_rows

PADDING = 20
"""What the style sheet and Qt keep free on both sides of a cell's text, in pixels, and a little."""

FEWEST_LETTERS = 14
"""Of the first column, which takes what the others leave."""

MOST_LETTERS = 48
"""So wide a column becomes by itself; texts beyond are cut, and their tips have all of it."""


class FiguresTable(QTableView):
    """Shows lines of figures; what is chosen stays so while they change. It never scrolls: what is around it does.

    Signals:
        pressed_link: The key of the line whose link was pressed.
        opened: The key of a line that was double-clicked, or on which Enter was pressed.
        bin_wanted: Delete was pressed: what is chosen is to go.
        choice_changed: Other lines are chosen.

    Args:
        name: What the table is, for a screen reader.
        theme: The colours.
        parent: Qt's parent.
    """

    pressed_link = Signal(str)
    opened = Signal(str)
    bin_wanted = Signal()
    choice_changed = Signal()

    def __init__(self, name: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows = FiguresModel(theme, self)
        self.setModel(self.rows)
        self.setAccessibleName(name)
        set_up_rows(self, padding=SPACING + 6)
        set_role(self, Role.INSET)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self._links: dict[str, QPushButton] = {}
        self.doubleClicked.connect(self._open)
        self.selectionModel().selectionChanged.connect(lambda *_: self.choice_changed.emit())

    def show_lines(
        self,
        headings: Sequence[Heading],
        lines: Sequence[Line],
        links: dict[str, tuple[str, str]] | None = None,
    ) -> None:
        """Show these lines.

        Args:
            headings: The columns; the last is that of the links, where there are any.
            lines: The lines.
            links: What the link of a line says, and what its tip does, by the line's key.
        """
        chosen = self.chosen
        before = len(self.rows.lines)
        is_kept = [line.key for line in self.rows.lines] == [line.key for line in lines]
        if not is_kept or tuple(headings) != self.rows.headings:
            self._links = {}  # Qt takes them away with the lines
        self.rows.show(headings, lines)
        self._span()
        self._show_links(links or {})
        if self.chosen != chosen:
            self.choose(*chosen)
        if before != len(lines):
            self.updateGeometry()
        self.fit_columns()

    @property
    def chosen(self) -> tuple[str, ...]:
        """The keys of the lines that are chosen, from top to bottom."""
        rows = {index.row() for index in self.selectionModel().selectedRows()} if self.rows.lines else set()
        return tuple(self.rows.lines[row].key for row in sorted(rows))

    def choose(self, *keys: str) -> None:
        """Choose lines by their keys, and no others; those that aren't there are passed over."""
        self.clearSelection()
        select = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
        for row, line in enumerate(self.rows.lines):
            if line.key in keys:
                self.selectionModel().select(self.rows.index(row, 0), select)

    def links(self) -> dict[str, QPushButton]:
        """The links by the keys of their lines."""
        return dict(self._links)

    def sizeHint(self) -> QSize:
        """As high as its lines."""
        height = self.horizontalHeader().sizeHint().height() + self.verticalHeader().length()
        return QSize(60 * self.fontMetrics().averageCharWidth(), height + 2)

    def minimumSizeHint(self) -> QSize:
        """As wide as what never leaves."""
        width = sum(self._wanted(column) for column in range(len(self.rows.headings)) if self._stays(column))
        return QSize(width, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the columns into the width there is."""
        super().resizeEvent(event)
        self.fit_columns()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens, Delete moves to the bin; on a Mac it is Cmd with the key that deletes backwards, too."""
        key, with_command = event.key(), event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self._open(self.currentIndex())
        elif key == Qt.Key.Key_Delete or (key == Qt.Key.Key_Backspace and with_command):
            self.bin_wanted.emit()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        """Turn the headings with the language."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.LayoutDirectionChange:
            self.rows.is_from_right = self.layoutDirection() is Qt.LayoutDirection.RightToLeft
            self.horizontalHeader().update()

    def fit_columns(self) -> None:
        """Give each column what its texts take, and a share of what is left; those leave for which there is no room."""
        columns = range(len(self.rows.headings))
        wanted = {column: self._wanted(column) for column in columns}
        first = self._wide(0) if wanted else 0
        leaving = sorted((column for column in columns if not self._stays(column)), key=self._rank)
        while leaving and sum(wanted.values()) - wanted[0] + first > self.viewport().width():
            rank = self._rank(leaving[-1])
            while leaving and self._rank(leaving[-1]) == rank:
                wanted.pop(leaving.pop())
        for column in columns:
            self.setColumnHidden(column, column not in wanted)
        if wanted:
            self._share_out(wanted, first)
        for column, width in wanted.items():
            self.setColumnWidth(column, width)

    def _share_out(self, wanted: dict[int, int], first: int) -> None:
        """Give the first column its texts' width where that is there, and all of them the rest in equal parts."""
        left = max(0, self.viewport().width() - sum(wanted.values()))
        more = min(left, max(0, first - wanted[0]))
        each, rest = divmod(left - more, len(wanted))
        for column in wanted:
            wanted[column] += each
        wanted[0] += more + rest

    def _open(self, index: QModelIndex) -> None:
        self.opened.emit(self.rows.lines[index.row()].key)

    def _stays(self, column: int) -> bool:
        return self.rows.headings[column].leaves == 0

    def _rank(self, column: int) -> int:
        return self.rows.headings[column].leaves

    def _wanted(self, column: int) -> int:
        if column:
            link = max((link.sizeHint().width() for link in self._links.values()), default=0)
            is_last = column == len(self.rows.headings) - 1
            return max(self._wide(column), link + SPACING if is_last else 0)
        return min(self._wide(0), FEWEST_LETTERS * self.fontMetrics().averageCharWidth() + PADDING)

    def _wide(self, column: int) -> int:
        widest = MOST_LETTERS * self.fontMetrics().averageCharWidth()
        return min(widest, self.fontMetrics().horizontalAdvance(self.rows.longest(column))) + PADDING

    def _span(self) -> None:
        columns = len(self.rows.headings)
        for row, line in enumerate(self.rows.lines):
            wide = columns - 1 if line.across is not None else 1
            if columns > 2 and self.columnSpan(row, 1) != wide:
                self.setSpan(row, 1, 1, wide)

    def _show_links(self, links: dict[str, tuple[str, str]]) -> None:
        last, before = len(self.rows.headings) - 1, set(self._links)
        for row, line in enumerate(self.rows.lines):
            if line.key in links and line.key not in self._links:
                self._links[line.key] = link = self._link(line, *links[line.key])
                self.setIndexWidget(self.rows.index(row, last), link)
            elif line.key not in links and line.key in self._links:
                # the view has to let go of it first: it places what it knows of, also where that is gone
                self.setIndexWidget(self.rows.index(row, last), None)  # type: ignore[arg-type]
                self._links.pop(line.key)
        if before != set(self._links):
            self._order_links()

    def _order_links(self) -> None:
        """Tab goes from line to line, in whatever order the links came."""
        ordered = [self._links[line.key] for line in self.rows.lines if line.key in self._links]
        for one, following in zip([self, *ordered], ordered, strict=False):
            self.setTabOrder(one, following)

    def _link(self, line: Line, words: str, tip: str) -> QPushButton:
        # with a parent: one that Python owned would be gone with the last name for it, before the view let go of it
        link = QPushButton(words, self.viewport())
        set_role(link, Role.LINK)
        link.setToolTip(tip)
        link.setAccessibleName(f"{words}: {line.cell(0).text}")
        link.clicked.connect(_telling(self.pressed_link.emit, line.key))
        return link


def on_card(table: FiguresTable) -> QFrame:
    """A card around a table."""
    card = QFrame()
    set_role(card, Role.CARD)
    inside = QVBoxLayout(card)
    inside.setContentsMargins(SPACING // 2, SPACING // 2, SPACING // 2, SPACING // 2)
    inside.addWidget(table)
    return card


def _telling(tell: Callable[[str], None], key: str) -> Callable[[], None]:
    return lambda: tell(key)
