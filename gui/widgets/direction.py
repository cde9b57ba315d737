"""Margins in the order of reading: Qt's layouts are mirrored for right-to-left languages, their margins are not."""

from PySide6.QtCore import QMargins, Qt
from PySide6.QtWidgets import QWidget


def margins(widget: QWidget, start: int, top: int, end: int, bottom: int) -> QMargins:
    """Margins of which `start` is on the side where a line of text begins."""
    if widget.layoutDirection() is Qt.LayoutDirection.RightToLeft:
        return QMargins(end, top, start, bottom)
    return QMargins(start, top, end, bottom)
