"""The texts of a window, and those of labels, buttons, tables and tabs that are shown in part."""

from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QComboBox, QHeaderView, QLabel, QTabBar, QWidget

from gui.widgets.labels import ElidedLabel


def cut_texts(window: QWidget) -> dict[str, list[str]]:
    """Those that are visible, by place in the window."""
    kinds = QLabel, QAbstractButton, QComboBox, QHeaderView, QTabBar
    found = {_place(widget): [*_cut(widget)] for kind in kinds for widget in _visible(window, kind)}
    return {place: texts for place, texts in found.items() if texts}


def _place(widget: QWidget) -> str:
    """The classes of a widget and of what it is in, each with its number among those beside it."""
    parent = widget.parentWidget()
    if parent is None or widget.isWindow():
        return type(widget).__name__
    beside = [one for one in parent.children() if type(one) is type(widget)]
    return f"{_place(parent)}/{type(widget).__name__} {beside.index(widget)}"


def shown_texts(window: QWidget) -> list[str]:
    """All of labels and buttons."""
    return [
        widget.text()
        for kind in (QLabel, QAbstractButton)
        for widget in _visible(window, kind)
        if widget.text()
    ]


def _visible(window: QWidget, kind: type[QWidget]) -> list[Any]:
    return [
        widget
        for widget in window.findChildren(kind)
        if widget.isVisible() and not widget.visibleRegion().isEmpty()
    ]


def _cut(widget: QWidget) -> Iterator[str]:
    match widget:
        case ElidedLabel():
            if widget.shown_text() != widget.text():
                yield widget.text()
        case QLabel():
            lacks_width = widget.sizeHint().width() > widget.width() + 1
            half_line = widget.fontMetrics().lineSpacing() // 2  # a font of other letters is a little higher
            lacks_height = widget.heightForWidth(widget.width()) > widget.height() + half_line
            if widget.text() and (lacks_height if widget.wordWrap() else lacks_width):
                yield widget.text()
        case QAbstractButton():
            if widget.text() and widget.sizeHint().width() > widget.width() + 1:
                yield widget.text()
        case QComboBox():
            room = widget.width() - 40  # the arrow and the frame
            if widget.fontMetrics().horizontalAdvance(widget.currentText()) > room:
                yield widget.currentText()
        case QHeaderView() if widget.orientation() is Qt.Orientation.Horizontal and widget.model():
            for section in range(widget.count()):
                title = str(widget.model().headerData(section, Qt.Orientation.Horizontal) or "")
                if 0 < widget.sectionSize(section) < widget.fontMetrics().horizontalAdvance(title) + 4:
                    yield title
        case QTabBar():
            for tab in range(widget.count()):
                if widget.tabSizeHint(tab).width() > widget.tabRect(tab).width() + 1:
                    yield widget.tabText(tab)
