"""A table of figures that is filled in as they come: lines of cells, some with a reason across instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor, QFont

from gui.theme import Theme
from gui.widgets.plain_tip import plain_tip

Index = QModelIndex | QPersistentModelIndex

SMALL = 0.92
"""What small figures are of the others' size."""


class Tone(Enum):
    """How a cell's text stands out."""

    PLAIN = "text"
    QUIET = "muted"
    SMALL = "small"
    GOOD = "ok"
    WARNING = "warn"
    ACTIVE = "accent"


@dataclass(frozen=True)
class Heading:
    """A column: its title, what its tip says, whether it holds figures, and whether it leaves where room is short.

    Of those that leave, the ones with the highest number go first, together; 0 stays.
    """

    title: str
    tip: str = ""
    is_figure: bool = True
    leaves: int = 0


WORDS = Heading("", is_figure=False)


@dataclass(frozen=True)
class Cell:
    """A text, how it stands out, and what its tip says (empty: the line's)."""

    text: str = ""
    tone: Tone = Tone.PLAIN
    tip: str = ""


@dataclass(frozen=True)
class Line:
    """A line: `key` tells it from the others. `across` stands in place of all cells but the first."""

    key: str
    cells: tuple[Cell, ...]
    across: Cell | None = None
    tip: str = ""

    def cell(self, column: int) -> Cell:
        """What stands in a column."""
        if self.across is not None and column:
            return self.across if column == 1 else Cell()
        return self.cells[column] if column < len(self.cells) else Cell()


class FiguresModel(QAbstractTableModel):
    """Shows lines; those that change are told of one by one, so that what is chosen and scrolled stays.

    `is_from_right` says that text is read from there: cells are turned by their view, headings aren't.

    Args:
        theme: The colours.
        parent: Qt's parent.
    """

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.headings: tuple[Heading, ...] = ()
        self.lines: tuple[Line, ...] = ()
        self.is_from_right = False
        theme.changed.connect(self._repaint)

    def show(self, headings: Sequence[Heading], lines: Sequence[Line]) -> None:
        """Show these lines below these headings."""
        titles, wanted = tuple(headings), tuple(lines)
        keys = [line.key for line in wanted]
        if titles != self.headings or keys != [line.key for line in self.lines]:
            self.beginResetModel()
            self.headings, self.lines = titles, wanted
            self.endResetModel()
            return
        before, self.lines = self.lines, wanted
        for row, (old, new) in enumerate(zip(before, wanted, strict=True)):
            if old != new:
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(titles) - 1))

    def rowCount(self, parent: Index | None = None) -> int:
        """One row a line."""
        return 0 if parent is not None and parent.isValid() else len(self.lines)

    def columnCount(self, parent: Index | None = None) -> int:
        """One column a heading."""
        return 0 if parent is not None and parent.isValid() else len(self.headings)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Title, tip and side of a column."""
        if orientation is not Qt.Orientation.Horizontal or section >= len(self.headings):
            return None
        heading = self.headings[section]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return heading.title
            case Qt.ItemDataRole.ToolTipRole:
                return heading.tip or None
            case Qt.ItemDataRole.TextAlignmentRole:
                return _turned(side(heading)) if self.is_from_right else side(heading)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, side, colour, size or tip of a cell."""
        if not index.isValid():
            return None
        line, column = self.lines[index.row()], index.column()
        cell = line.cell(column)
        given: dict[int, Callable[[], Any]] = {
            Qt.ItemDataRole.DisplayRole: lambda: isolated(cell.text) if self.is_from_right else cell.text,
            Qt.ItemDataRole.ToolTipRole: lambda: plain_tip(cell.tip or line.tip) or None,
            Qt.ItemDataRole.TextAlignmentRole: lambda: self._side(line, column),
            Qt.ItemDataRole.ForegroundRole: lambda: self._colour(cell.tone),
            Qt.ItemDataRole.FontRole: lambda: _small() if cell.tone is Tone.SMALL else None,
        }
        return given[role]() if role in given else None

    def longest(self, column: int) -> str:
        """The longest text that stands in a column, its title included."""
        texts = [self.headings[column].title]
        texts += [line.cell(column).text for line in self.lines if line.across is None or not column]
        return max(texts, key=len)

    def _side(self, line: Line, column: int) -> int:
        return side(WORDS if line.across is not None else self.headings[column])

    def _colour(self, tone: Tone) -> QColor:
        name = Tone.QUIET.value if tone is Tone.SMALL else tone.value
        return QColor(getattr(self._theme.tokens, name))

    def _repaint(self) -> None:
        if self.lines and self.headings:
            last = self.index(len(self.lines) - 1, len(self.headings) - 1)
            self.dataChanged.emit(self.index(0, 0), last)


def side(heading: Heading) -> int:
    """Figures stand at the end of their column, words at its beginning."""
    end = Qt.AlignmentFlag.AlignTrailing if heading.is_figure else Qt.AlignmentFlag.AlignLeading
    return int((end | Qt.AlignmentFlag.AlignVCenter).value)


def isolated(text: str) -> str:
    """A text that is read in its own direction, whatever is around it: `2 min 47 s` would read `min 47 s 2`."""
    return f"\u2068{text}\u2069" if text else text


def _turned(where: int) -> int:
    right = Qt.AlignmentFlag.AlignRight.value
    across = right | Qt.AlignmentFlag.AlignLeft.value
    return where & ~across | (across ^ (where & across))


def _small() -> QFont:
    font = QFont()
    if font.pointSizeF() > 0:
        font.setPointSizeF(font.pointSizeF() * SMALL)
    else:
        font.setPixelSize(round(font.pixelSize() * SMALL))
    return font
