"""What a person meets in a window: texts that are cut off, controls without a name, and where Tab leads."""

from itertools import pairwise

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QScrollArea,
    QTabBar,
    QWidget,
)

from gui.widgets.cards import Note
from gui.widgets.form import FormRow

CONTROLS = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QAbstractItemView, QTabBar)


def seen(root: QWidget, kind: type[QWidget] | tuple[type[QWidget], ...]) -> list[QWidget]:
    return [child for child in root.findChildren(QWidget) if isinstance(child, kind) and child.isVisible()]


def is_inner(widget: QWidget) -> bool:
    """Whether it is a part of a control rather than one: the line of a spin box, a scroll bar, a header's corner."""
    parents = []
    parent = widget.parentWidget()
    while parent is not None:
        parents.append(parent)
        parent = parent.parentWidget()
    if any(isinstance(parent, FormRow) and widget is parent.mark for parent in parents):
        return True  # Tab leaves it out: Undo does the same
    if any(isinstance(parent, (QAbstractSpinBox, QComboBox, QTabBar, QLineEdit)) for parent in parents):
        return True
    name = type(widget).__name__
    return name in ("QHeaderView", "QTableCornerButton", "QComboBoxListView") or any(
        isinstance(parent, QAbstractItemView) for parent in parents
    )


def enclosing_scroll(widget: QWidget) -> QScrollArea | None:
    parent = widget
    while not parent.isWindow():
        parent = parent.parentWidget()
        if isinstance(parent, QScrollArea):
            return parent
    return None


def described(widget: QWidget) -> str:
    text = widget.text() if isinstance(widget, QLabel | QAbstractButton) else widget.accessibleName()
    return f"{type(widget).__name__} {text!r}"


def cut_off(window: QWidget) -> list[str]:
    """The texts that can't be read whole."""
    cut = []
    for widget in seen(window, (QLabel, QAbstractButton)):
        if is_inner(widget):
            continue
        wraps = isinstance(widget, QLabel) and widget.wordWrap()
        note = widget.parentWidget()
        if isinstance(note, Note) and note._more.isVisible():
            continue  # its link opens the whole text
        if not wraps and widget.sizeHint().width() > widget.width():
            cut.append(described(widget))
        if wraps and widget.heightForWidth(widget.width()) > widget.height():
            cut.append(f"{described(widget)} is squashed")
        scroll = enclosing_scroll(widget)
        room = scroll.viewport() if scroll is not None else window
        left = widget.mapTo(room, QPoint(0, 0)).x()
        if left < 0 or left + widget.width() > room.width():
            cut.append(f"{described(widget)} reaches over the edge")
    return cut


def unreachable_by_tab(window: QWidget, page: QWidget) -> list[str]:
    """The controls without a name, and those at which Tab doesn't stop."""
    controls = [control for control in seen(page, CONTROLS) if not is_inner(control) and control.isEnabled()]
    assert controls
    reachable = tab_chain(window)
    return [
        described(control)
        for control in controls
        if not spoken_name(control) or not takes_tab(control, reachable)
    ]


def spoken_name(control: QWidget) -> str:
    text = control.text() if isinstance(control, QAbstractButton) else ""
    if isinstance(control, QTabBar):
        text = " ".join(control.tabText(index) for index in range(control.count()))
    return control.accessibleName() or text


def tab_chain(window: QWidget) -> set[QWidget]:
    """Everything in the window's chain of focus that Tab stops at."""
    found = {window}
    widget = window.nextInFocusChain()
    while widget not in found:
        found.add(widget)
        widget = widget.nextInFocusChain()
    return {widget for widget in found if widget.focusPolicy() & Qt.FocusPolicy.TabFocus}


def backwards(window: QWidget) -> list[str]:
    """Where Tab goes back on the screen: up, other than to the top of the next column, or back in a line.

    Once it does, from the last control to the first, wherever in its chain the window is.
    """
    window.focusNextPrevChild(True)
    stops: list[QWidget] = []
    widget = window.nextInFocusChain()
    while widget is not window:
        is_stop = widget.focusPolicy() & Qt.FocusPolicy.TabFocus and not widget.focusProxy()
        if is_stop and widget.isVisible() and widget.isEnabled() and widget.window() is window:
            stops.append(widget)
        widget = widget.nextInFocusChain()
    wrong = []
    for before, after in pairwise([*stops, *stops[:1]]):
        start = place_of(seen_beside(before, after), window)
        end = place_of(seen_beside(after, before), window)
        goes_up = end.bottom() <= start.top() and end.left() < start.center().x()
        goes_back = abs(end.center().y() - start.center().y()) < 8 and end.right() <= start.left()
        if goes_up or goes_back:
            wrong.append(f"from {described(before)} to {described(after)}")
    return wrong if len(wrong) > 1 else []


def seen_beside(widget: QWidget, other: QWidget) -> QWidget:
    """The widget, or the outermost area with it but not with the other: what is scrolled away is where its area is."""
    shown, area = widget, enclosing_scroll(widget)
    while area is not None and not area.isAncestorOf(other):
        shown, area = area, enclosing_scroll(area)
    return shown


def place_of(widget: QWidget, window: QWidget) -> QRect:
    """Where it is in a window, as if that were read from left to right."""
    place = QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())
    if window.layoutDirection() is Qt.LayoutDirection.RightToLeft:
        place.moveLeft(window.width() - place.right())
    return place


def takes_tab(control: QWidget, reachable: set[QWidget]) -> bool:
    """Whether Tab stops at it, or at the choice of its group that is taken (arrow keys lead to the others)."""
    if isinstance(control, QAbstractButton) and control.group() is not None and control.group().exclusive():
        return any(button in reachable for button in control.group().buttons())
    return control in reachable
