"""A layout that goes on in the next line where a line is full, as words do."""

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QStyle, QWidget


class FlowLayout(QLayout):
    """Lays widgets side by side, as large as they want to be; begins at the right where text is read from there.

    Args:
        gap: Pixels between neighbours in a line.
        line_gap: Pixels between lines.
        parent: The widget that is laid out.
    """

    def __init__(self, gap: int, line_gap: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._gap, self._line_gap = gap, line_gap
        self.setContentsMargins(0, 0, 0, 0)

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802 - Qt's name
        """Take one more, last."""
        self._items.append(item)

    def count(self) -> int:
        """How many there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802 - Qt's name
        """The one in this place; None beyond the last."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802 - Qt's name
        """Give up the one in this place; None beyond the last."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802 - Qt's name
        """It wants no more room than it needs."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        """The narrower, the more lines."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802 - Qt's name
        """Pixels of all lines at some width."""
        places = self._places(width)
        return max((place.bottom() + 1 for place in places), default=0)

    def sizeHint(self) -> QSize:
        """All in one line."""
        hints = [item.sizeHint() for item in self._items]
        width = sum(hint.width() for hint in hints) + self._gap * max(0, len(hints) - 1)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802 - Qt's name
        """One in each line."""
        smallest = QSize()
        for item in self._items:
            smallest = smallest.expandedTo(item.minimumSize())
        return smallest

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802 - Qt's name
        """Put each in its place."""
        super().setGeometry(rect)
        parent = self.parentWidget()
        direction = parent.layoutDirection() if parent else Qt.LayoutDirection.LeftToRight
        for item, place in zip(self._items, self._places(rect.width()), strict=True):
            placed = place.translated(rect.topLeft())
            item.setGeometry(QStyle.visualRect(direction, rect, placed))

    def _places(self, width: int) -> list[QRect]:
        """Where each stands, from the left of an empty corner."""
        places: list[QRect] = []
        x = y = line_height = 0
        for item in self._items:
            size = item.sizeHint()
            if x and x + size.width() > width:
                x, y = 0, y + line_height + self._line_gap
                line_height = 0
            places.append(QRect(QPoint(x, y), QSize(min(size.width(), width), size.height())))
            x += size.width() + self._gap
            line_height = max(line_height, size.height())
        return places
