"""Texts of a window that have no room: buttons, labels and titles of tables and tabs that are shown in part."""

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QComboBox, QHeaderView, QLabel, QTabBar, QWidget

from gui.widgets.labels import ElidedLabel


def cut_texts(window: QWidget) -> dict[str, str]:
    """Those that are visible, by class and place among the widgets of the class."""
    found: dict[str, str] = {}
    for kind in (QLabel, QAbstractButton, QComboBox, QHeaderView, QTabBar):
        for place, widget in enumerate(window.findChildren(kind)):
            if widget.isVisible() and not widget.visibleRegion().isEmpty():
                for part, text in _cut(widget):
                    found[f"{kind.__name__} {place} {part}"] = text
    return found


def _cut(widget: QWidget) -> Iterator[tuple[int, str]]:
    match widget:
        case ElidedLabel():
            if widget.shown_text() != widget.text():
                yield 0, widget.text()
        case QLabel():
            lacks_width = widget.sizeHint().width() > widget.width() + 1
            half_line = widget.fontMetrics().lineSpacing() // 2  # a font of other letters is a little higher
            lacks_height = widget.heightForWidth(widget.width()) > widget.height() + half_line
            if widget.text() and (lacks_height if widget.wordWrap() else lacks_width):
                yield 0, widget.text()
        case QAbstractButton():
            if widget.text() and widget.sizeHint().width() > widget.width() + 1:
                yield 0, widget.text()
        case QComboBox():
            room = widget.width() - 40  # the arrow and the frame
            if widget.fontMetrics().horizontalAdvance(widget.currentText()) > room:
                yield 0, widget.currentText()
        case QHeaderView() if widget.orientation() is Qt.Orientation.Horizontal and widget.model():
            for section in range(widget.count()):
                title = str(widget.model().headerData(section, Qt.Orientation.Horizontal) or "")
                if 0 < widget.sectionSize(section) < widget.fontMetrics().horizontalAdvance(title) + 4:
                    yield section, title
        case QTabBar():
            for tab in range(widget.count()):
                if widget.tabSizeHint(tab).width() > widget.tabRect(tab).width() + 1:
                    yield tab, widget.tabText(tab)
