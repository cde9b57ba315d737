"""What a person meets in a window: texts that are cut off, controls without a name, and where Tab leads."""

from collections.abc import Iterable
from itertools import pairwise

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QTabBar,
    QTextBrowser,
    QWidget,
)

from gui.widgets.cards import Note
from gui.widgets.form import FormRow

MOST_PRESSES = 500
"""After so many a round of Tab has no end."""

CONTROLS = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QAbstractItemView, QTabBar)


def seen(root: QWidget, kind: type[QWidget] | tuple[type[QWidget], ...]) -> list[QWidget]:
    return [child for child in root.findChildren(QWidget) if isinstance(child, kind) and child.isVisible()]


def press(parent: QWidget, text: str) -> None:
    """Press the newest button with this text: a strip's earlier ones are deleted later."""
    [button for button in parent.findChildren(QPushButton) if button.text() == text][-1].click()


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
        if isinstance(note, Note) and note.more.isVisible():
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


def unnamed(page: QWidget) -> list[str]:
    """The controls that a screen reader could not name."""
    controls = [control for control in seen(page, CONTROLS) if not is_inner(control) and control.isEnabled()]
    assert controls
    return [described(control) for control in controls if not spoken_name(control)]


def spoken_name(control: QWidget) -> str:
    text = control.text() if isinstance(control, QAbstractButton) else ""
    if isinstance(control, QTabBar):
        text = " ".join(control.tabText(index) for index in range(control.count()))
    return control.accessibleName() or text


def astray(window: QWidget) -> list[str]:
    """What is wrong with the way on which Tab leads around a window, pressed until it is back where it began.

    It passes every control once, as the window is read, each comes into view, and Shift+Tab leads back the same way.
    """
    window.activateWindow()
    there, wrong = tab_round(window, Qt.KeyboardModifier.NoModifier)
    back, wrong_back = tab_round(window, Qt.KeyboardModifier.ShiftModifier)
    back.reverse()
    begin = back.index(there[0]) if there[0] in back else 0
    if [*back[begin:], *back[:begin]] != there:
        wrong.append(f"forth {[*map(described, there)]}, back {[*map(described, back)]}")
    groups = [stop.group() for stop in there if is_one_of_few(stop)]
    wrong += [f"{group} twice" for group in set(groups) if groups.count(group) > 1]
    for control in tab_targets(window):
        if control not in there and not (is_one_of_few(control) and control.group() in groups):
            wrong.append(f"{described(control)} is never reached")
    steps_back = backwards(there, window)
    return [*wrong, *wrong_back, *(steps_back if len(steps_back) > 1 else [])]


def tab_round(window: QWidget, modifier: Qt.KeyboardModifier) -> tuple[list[QWidget], list[str]]:
    """Press Tab until a control has the focus again; returns where it was, and what was wrong on the way."""
    passed: list[QWidget] = []
    wrong: list[str] = []
    for _press in range(MOST_PRESSES):
        QTest.keyClick(window.focusWidget() or window, Qt.Key.Key_Tab, modifier)
        focused = window.focusWidget()
        assert focused is not None
        is_next_link = isinstance(focused, QLabel | QTextBrowser) and focused in passed[-1:]
        if focused in passed and not is_next_link:
            break
        if not is_next_link:
            passed.append(focused)
        if not is_in_view(focused):
            wrong.append(f"{described(focused)} has the focus out of view")
    if focused is not passed[0]:
        wrong.append(f"{described(focused)} comes again, and {described(passed[0])} doesn't")
    return passed, wrong


def without_ring(stops: Iterable[QWidget]) -> list[str]:
    """Where Tab stops, and it can't be seen."""
    plain = []
    for stop in stops:
        stop.setFocus(Qt.FocusReason.TabFocusReason)
        focused = stop.grab().toImage()
        stop.clearFocus()
        if stop.grab().toImage() == focused:
            plain.append(described(stop))
    return plain


def tab_targets(window: QWidget) -> list[QWidget]:
    """Where Tab should stop: at all that can be used, and at what takes the focus to be scrolled."""
    found = [
        part
        for part in seen(window, QWidget)
        if part.window() is window and part.isEnabled() and not is_inner(part)
    ]
    return [
        part
        for part in found
        if not part.focusProxy()
        and (isinstance(part, CONTROLS) or part.focusPolicy() & Qt.FocusPolicy.TabFocus)
    ]


def is_one_of_few(control: QWidget) -> bool:
    """Whether it is a choice of a group, of which Tab stops at one (arrow keys lead to the others)."""
    return isinstance(control, QAbstractButton) and control.group() is not None


def is_in_view(widget: QWidget) -> bool:
    """Whether no area around a widget is scrolled away from it."""
    area = enclosing_scroll(widget)
    while area is not None:
        place = QRect(widget.mapTo(area.viewport(), QPoint()), widget.size())
        shown = place & area.viewport().rect()
        if shown.height() < min(place.height(), area.viewport().height() // 2):
            return False
        area = enclosing_scroll(area)
    return True


def backwards(stops: list[QWidget], window: QWidget) -> list[str]:
    """Where a way goes back on the screen: up, other than to the top of the next column, or back in a line.

    Once it does, from the last control to the first.
    """
    wrong = []
    for before, after in pairwise([*stops, *stops[:1]]):
        start = place_of(seen_beside(before, after), window)
        end = place_of(seen_beside(after, before), window)
        goes_up = end.bottom() <= start.top() and end.left() < start.center().x()
        goes_back = abs(end.center().y() - start.center().y()) < 8 and end.right() <= start.left()
        if goes_up or goes_back:
            wrong.append(f"from {described(before)} to {described(after)}")
    return wrong


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
