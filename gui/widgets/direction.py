"""The order of reading where Qt doesn't see to it: margins of layouts, and what is painted by hand."""

from PySide6.QtCore import QMargins, QRectF, Qt
from PySide6.QtWidgets import QWidget


def margins(widget: QWidget, start: int, top: int, end: int, bottom: int) -> QMargins:
    """Margins of which `start` is on the side where a line of text begins."""
    if widget.layoutDirection() is Qt.LayoutDirection.RightToLeft:
        return QMargins(end, top, start, bottom)
    return QMargins(start, top, end, bottom)


def mirrored(widget: QWidget, rect: QRectF) -> QRectF:
    """Where a rectangle stands whose left is counted from the side where a line of text begins."""
    if widget.layoutDirection() is Qt.LayoutDirection.RightToLeft:
        return QRectF(widget.width() - rect.right(), rect.top(), rect.width(), rect.height())
    return rect
