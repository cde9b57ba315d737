"""Scroll areas without a frame, and layouts that follow the width there is."""

from collections.abc import Iterator

from PySide6.QtCore import QEvent, QMargins, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QKeyEvent, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QBoxLayout,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLayout,
    QLayoutItem,
    QPushButton,
    QScrollArea,
    QScrollBar,
    QStyle,
    QVBoxLayout,
    QWidget,
)

from gui.base.theme import Role, set_role
from gui.base.tokens import GUTTER, SPACING

FLUSH = (0, 0, 0, 0)
"""Margins of a layout that reaches to the edges of its widget."""

AROUND = 3 * SPACING
"""Pixels that are in view above and below what Tab comes to."""

DIRECT = Qt.FindChildOption.FindDirectChildrenOnly

Part = QWidget | QLayout | None


def fill(
    layout: QBoxLayout,
    *parts: Part | tuple[Part, int],
    margins: tuple[int, int, int, int] | QMargins | None = None,
    spacing: int | None = None,
) -> QBoxLayout:
    """Add widgets and layouts, each alone or with a stretch factor; None adds a stretch."""
    if isinstance(margins, QMargins):
        layout.setContentsMargins(margins)
    elif margins is not None:
        layout.setContentsMargins(*margins)
    if spacing is not None:
        layout.setSpacing(spacing)
    for part in parts:
        item, stretch = part if isinstance(part, tuple) else (part, 0)
        if isinstance(item, QWidget):
            layout.addWidget(item, stretch)
        elif item is not None:
            layout.addLayout(item, stretch)
        else:
            layout.addStretch(stretch or 1)
    return layout


def hbox(*parts: Part | tuple[Part, int], spacing: int = SPACING) -> QBoxLayout:
    """Return a horizontal layout without margins; see `fill`."""
    return fill(QHBoxLayout(), *parts, margins=FLUSH, spacing=spacing)


def vbox(*parts: Part | tuple[Part, int], spacing: int = SPACING) -> QBoxLayout:
    """Return a vertical layout without margins; see `fill`."""
    return fill(QVBoxLayout(), *parts, margins=FLUSH, spacing=spacing)


class InOrder:
    """A window in which Tab goes the way it is read, and brings into view where it comes to.

    Qt's own chain keeps the order in which widgets were made, and leads from a widget with a focus proxy back to that.
    """

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        window: QWidget = self  # type: ignore[assignment]
        focused = window.focusWidget() or window
        read = list(_as_read(window, focused))
        place = read.index(focused)
        ahead = read[place + 1 :] + read[:place]
        stop = next(filter(_is_stop, ahead if is_next else reversed(ahead)), None)
        if stop is not None:
            focus_in_view(
                stop, Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason
            )
        return stop is not None


def focus_in_view(widget: QWidget, reason: Qt.FocusReason) -> None:
    """Focus a widget and scroll to it, or to the top of a high one. Qt is content with the place of a text's cursor."""
    widget.setFocus(reason)
    for area in reversed(widget.window().findChildren(QScrollArea)):
        if area.viewport().isAncestorOf(widget):
            bar = area.verticalScrollBar()
            top = bar.value() + widget.mapTo(area.viewport(), QPoint()).y()
            lowest = top + widget.height() + AROUND - area.viewport().height()
            bar.setValue(min(top - AROUND, max(bar.value(), lowest)))


class Sheet(InOrder, QDialog):
    """A dialog that is deleted when it is closed. Return presses the button with the focus, else the main one."""

    main: QPushButton | None = None

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)

    def button_box(
        self, leave: QDialogButtonBox.StandardButton, main: QPushButton | None = None
    ) -> QDialogButtonBox:
        """Return a box with Close or Cancel, and with the main button if there is one."""
        box = QDialogButtonBox(leave)
        box.rejected.connect(self.reject)
        if main is not None:
            self.main = main
            set_role(main, Role.PRIMARY)
            box.addButton(main, QDialogButtonBox.ButtonRole.AcceptRole)
        return box

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Press no other button on Return; Qt would press the first one there is."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
        elif self.main is not None:
            self.main.click()


def fill_dialog(dialog: QWidget, *parts: Part | tuple[Part, int]) -> None:
    """Lay out the parts of a dialog below each other; see `fill`."""
    margins = (2 * SPACING, 2 * SPACING, 2 * SPACING, 2 * SPACING)
    fill(QVBoxLayout(dialog), *parts, margins=margins, spacing=SPACING + 4)


def tab_stops(widget: QWidget) -> list[QWidget]:
    """Return where Tab stops in a widget, in the order in which it is read."""
    return list(filter(_is_stop, _as_read(widget)))


def _as_read(widget: QWidget, focused: QWidget | None = None) -> Iterator[QWidget]:
    """A widget and all that is shown in it: first what its layout holds, then what has places of its own.

    One that has the focus is among them although it was just hidden.
    """
    yield widget
    layout = widget.layout()
    held = [] if layout is None else list(_held(layout))
    free = [one for one in widget.findChildren(QWidget, options=DIRECT) if one not in set(held)]
    free.sort(key=lambda one: (one.y(), one.x()))
    for part in (*held, *free):
        has_focus = focused is not None and (part is focused or part.isAncestorOf(focused))
        if has_focus or not (part.isHidden() or part.isWindow()):
            yield from _as_read(part, focused)


def _held(layout: QLayout) -> Iterator[QWidget]:
    places = list(range(layout.count()))
    if isinstance(layout, QGridLayout):
        places.sort(key=layout.getItemPosition)  # type: ignore[arg-type]
    for item in filter(None, map(layout.itemAt, places)):
        inner, widget = item.layout(), item.widget()
        if inner is not None:
            yield from _held(inner)
        elif widget is not None:
            yield widget


def _is_stop(widget: QWidget) -> bool:
    """Whether Tab stops at a widget: of the buttons of which one is chosen at that one, else at the first."""
    if not (widget.isVisible() and widget.isEnabled()):
        return False
    group = widget.group() if isinstance(widget, QAbstractButton) else None
    if group is None:
        return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) and not widget.focusProxy()
    buttons = [button for button in group.buttons() if button.isVisible() and button.isEnabled()]
    return widget is next((button for button in buttons if button.isChecked()), buttons[0])


def keep_place(widget: QWidget) -> None:
    """Keep the place of a widget while it is hidden, so that nothing beside or below it moves."""
    policy = widget.sizePolicy()
    policy.setRetainSizeWhenHidden(True)
    widget.setSizePolicy(policy)


def set_shown(widget: QWidget, on: bool) -> None:
    """Show or hide a part of a page; one that isn't hidden is not shown, as that would style it before its page."""
    if widget.isHidden() is on:
        widget.setVisible(on)


def clear(layout: QLayout) -> None:
    """Remove everything from a layout. Widgets are deleted later, as one of them may be the sender."""
    while (item := layout.takeAt(0)) is not None:
        widget = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()


class QuietBar(QScrollBar):
    """A scroll bar that keeps its place, invisible, if there is nothing to scroll, so that nothing moves."""

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.maximum() > self.minimum():
            super().paintEvent(event)


class QuietScroll(QScrollArea):
    """Scrolls vertically, without a frame, and keeps the place of its bar. Tab leads to what is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setVerticalScrollBar(QuietBar())


class PageScroll(QuietScroll):
    """Scrolls its content vertically, with the height that wrapped texts need, which QScrollArea ignores.

    Args:
        most_lines: Limits the height to that of the content and to so many lines; None: any height.
    """

    def __init__(self, content: QWidget, *, most_lines: int | None = None) -> None:
        super().__init__()
        self._most_lines = most_lines
        set_role(content, Role.PAGE)
        self._content = content
        content.setParent(self.viewport())
        content.installEventFilter(self)

    def event(self, event: QEvent) -> bool:
        """Take the content when this is first shown: that lays it out."""
        if event.type() is QEvent.Type.Polish and self.widget() is None:
            self.setWidget(self._content)
        return super().event(event)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._content.minimumSizeHint().width() + GUTTER, 6 * self.fontMetrics().height())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if watched is self._content and event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            height = self.content_height()
            self._content.setMinimumHeight(height)
            if self._most_lines is not None:
                self.setFixedHeight(min(height, self._most_lines * self.fontMetrics().height()))
            self.updateGeometry()
        return super().eventFilter(watched, event)

    def content_height(self) -> int:
        """Return the height of the content at its width, in pixels."""
        if self._content.hasHeightForWidth():
            return self._content.heightForWidth(self._content.width())
        return self._content.sizeHint().height()


class FlowLayout(QLayout):
    """Lays out widgets at their size hints in lines, in the direction of reading.

    Args:
        gap: Pixels between neighbours in a line.
        line_gap: Pixels between lines.
    """

    def __init__(self, gap: int, line_gap: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._gap, self._line_gap = gap, line_gap
        self.setContentsMargins(0, 0, 0, 0)

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802 - Qt's name
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802 - Qt's name
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802 - Qt's name
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802 - Qt's name
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802 - Qt's name
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802 - Qt's name
        places = self._places(width)
        return max((place.bottom() + 1 for place in places), default=0)

    def sizeHint(self) -> QSize:
        hints = [item.sizeHint() for item in self._items]
        width = sum(hint.width() for hint in hints) + self._gap * max(0, len(hints) - 1)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802 - Qt's name
        smallest = QSize()
        for item in self._items:
            smallest = smallest.expandedTo(item.minimumSize())
        return smallest

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802 - Qt's name
        super().setGeometry(rect)
        parent = self.parentWidget()
        direction = parent.layoutDirection() if parent else Qt.LayoutDirection.LeftToRight
        for item, place in zip(self._items, self._places(rect.width()), strict=True):
            placed = place.translated(rect.topLeft())
            item.setGeometry(QStyle.visualRect(direction, rect, placed))

    def _places(self, width: int) -> list[QRect]:
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
