"""Scroll areas that don't look like one: no frame, the page's own background, never sideways."""

import html
from collections.abc import Sequence
from enum import Enum
from gettext import gettext as _

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QLabel,
    QLayout,
    QLayoutItem,
    QScrollArea,
    QScrollBar,
    QStyle,
    QWidget,
)

from gui.base.theme import Role, set_role
from gui.base.tokens import GUTTER, SPACING

# --- A line that sums up, and a link in it that shows the rest


LINK = '<a href="#" style="text-decoration:none">{}</a>'


class Disclosure(QLabel):
    """A calm hint whose details stay folded until they are asked for.

    Args:
        ask: The words of the link that shows the details, such as "Why?".
        parent: Qt's parent.
    """

    def __init__(self, ask: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ask = ask
        self._summary = ""
        self._details: tuple[str, ...] = ()
        self._is_open = False
        set_role(self, Role.HINT)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.linkActivated.connect(self._toggle)
        self.hide()

    def show_words(self, summary: str, details: Sequence[str] = ()) -> None:
        """Say a sentence, and keep details behind its link. Whoever owns it shows and hides it."""
        if (summary, tuple(details)) == (self._summary, self._details):
            return
        self._summary, self._details = summary, tuple(details)
        self._paint_words()

    @property
    def summary(self) -> str:
        """The sentence that is always seen."""
        return self._summary

    @property
    def details(self) -> tuple[str, ...]:
        """The lines behind the link."""
        return self._details

    @property
    def is_open(self) -> bool:
        """Whether the details are seen."""
        return self._is_open and bool(self._details)

    def open(self, shown: bool) -> None:
        """Show or fold the details."""
        self._is_open = shown
        self._paint_words()

    def changeEvent(self, event: QEvent) -> None:
        """Give the link the colours that are in force now: Qt keeps those it was written in."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and self._details:
            self.clear()
            self._paint_words()

    def _toggle(self) -> None:
        self.open(not self._is_open)

    def _paint_words(self) -> None:
        flags = Qt.TextInteractionFlag.NoTextInteraction
        parts = [html.escape(self._summary)]
        if self._details:
            flags = (
                Qt.TextInteractionFlag.LinksAccessibleByMouse
                | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
            )
            link = _("Less") if self._is_open else self._ask
            parts[0] += f"&nbsp; {LINK.format(html.escape(link))}"
        if self.is_open:
            parts += map(html.escape, self._details)
        if self.textInteractionFlags() != flags:
            self.setTextInteractionFlags(flags)
        self.setText("<br>".join(parts))
        told = self._details if self.is_open else ()
        self.setAccessibleName(" ".join((self._summary, *told)))


# --- Scroll areas that don't look like one: no frame, the page's own background, never sideways


class QuietBar(QScrollBar):
    """A scroll bar that keeps its place where nothing can be scrolled, unseen: what is beside it never moves."""

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint only what can be moved."""
        if self.maximum() > self.minimum():
            super().paintEvent(event)


class PageScroll(QScrollArea):
    """Scrolls its content up and down. Qt's own scroll area squashes texts that wrap; this one asks their height.

    Args:
        content: What is scrolled.
        parent: Qt's parent.
        most_lines: As high as its content, but no higher than so many lines; None: as high as there is room.
    """

    def __init__(
        self, content: QWidget, parent: QWidget | None = None, *, most_lines: int | None = None
    ) -> None:
        super().__init__(parent)
        self._most_lines = most_lines
        set_role(content, Role.PAGE)
        self._content = content
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setVerticalScrollBar(QuietBar())
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)
        content.installEventFilter(self)

    def minimumSizeHint(self) -> QSize:
        """Never so narrow that the content is cut off at its side."""
        return QSize(self._content.minimumSizeHint().width() + GUTTER, 6 * self.fontMetrics().height())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Give the content the height it needs at the width it has."""
        if watched is self._content and event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            height = self.content_height()
            self._content.setMinimumHeight(height)
            if self._most_lines is not None:
                self.setFixedHeight(min(height, self._most_lines * self.fontMetrics().height()))
            self.updateGeometry()
        return super().eventFilter(watched, event)

    def content_height(self) -> int:
        """Height of the content at the width there is, in pixels."""
        if self._content.hasHeightForWidth():
            return self._content.heightForWidth(self._content.width())
        return self._content.sizeHint().height()


# --- A layout that goes on in the next line where a line is full, as words do


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


# --- Panels beside each other where there is room, below each other where there isn't


class Arrangement(Enum):
    """How panels stand."""

    WIDE = "wide"
    CLOSE = "close"
    BELOW = "below"


class SideBySide(QWidget):
    """Lays panels out: evenly where there is room, the first one wider where it is close, then below each other.

    Signals:
        arranged: The `Arrangement`, where it has changed.

    Args:
        panels: What is laid out, in the order of reading.
        wide: Letters that each has room for at least, or it is close.
        close: Letters that each has room for at least, or they stand below each other.
        parent: Qt's parent.
    """

    arranged = Signal(object)

    def __init__(
        self, panels: Sequence[QWidget], *, wide: int, close: int, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._panels, self._wide, self._close = tuple(panels), wide, close
        self.arrangement = Arrangement.WIDE
        self._box = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(SPACING + 4)
        for panel in panels:
            self._box.addWidget(panel, 2)

    def minimumSizeHint(self) -> QSize:
        """As narrow as the widest alone."""
        size = super().minimumSizeHint()
        return QSize(max(panel.minimumSizeHint().width() for panel in self._panels), size.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Stand otherwise where the room asks for it."""
        super().resizeEvent(event)
        letters = self.width() / (len(self._panels) * self.fontMetrics().averageCharWidth())
        fitting = Arrangement.CLOSE if letters >= self._close else Arrangement.BELOW
        self._arrange(Arrangement.WIDE if letters >= self._wide else fitting)

    def _arrange(self, wanted: Arrangement) -> None:
        if wanted is self.arrangement:
            return
        self.arrangement = wanted
        across, down = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
        self._box.setDirection(down if wanted is Arrangement.BELOW else across)
        self._box.setStretch(0, 3 if wanted is Arrangement.CLOSE else 2)
        self.arranged.emit(wanted)
