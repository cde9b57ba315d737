"""A line for a path: takes what is dropped on it, and shows the end of a path that is too long for it."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QMimeData, QRect, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QStyle, QStyleOptionFrame, QToolButton, QWidget

from gui.theme import SPACING
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_tip import tip_of

MARGIN = 2
"""What Qt keeps free on both sides of the text of a line."""


class PathLine(QLineEdit):
    """A line of text that takes a dropped file or folder as its path.

    Without the focus, of a path too long for the line the end is shown; the tool tip has all of it.
    """

    def __init__(self, help_text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._help = help_text
        self.setToolTip(help_text)
        self.textChanged.connect(self._show_tip)

    def shown_text(self) -> str:
        """What of the text can be read now."""
        text = self.text()
        metrics = self.fontMetrics()
        if self.hasFocus() or metrics.horizontalAdvance(text) <= self._text_rect().width():
            return text
        return end_of_path(text, metrics, self._text_rect().width())

    def show_path(self, path: str) -> None:
        """Show a path without saying that it changed."""
        blocked = self.blockSignals(True)
        self.setText(path)
        self.blockSignals(blocked)
        self._show_tip()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the end of a long path; whatever else as usual."""
        text = self.shown_text()
        if text == self.text():
            super().paintEvent(event)
            return
        frame = QStyleOptionFrame()
        self.initStyleOption(frame)
        painter = QPainter(self)
        self.style().drawPrimitive(QStyle.PrimitiveElement.PE_PanelLineEdit, frame, painter, self)
        side = QStyle.visualAlignment(self.layoutDirection(), self.alignment())
        painter.setPen(frame.palette.text().color())
        painter.setLayoutDirection(
            Qt.LayoutDirection.LeftToRight
        )  # a path is read from its root in any language
        painter.drawText(self._text_rect(), side | Qt.AlignmentFlag.AlignVCenter, text)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take local files, and texts as usual."""
        if dropped_path(event.mimeData()) is not None:
            event.acceptProposedAction()
        else:
            super().dragEnterEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        """Replace the text by the dropped path."""
        path = dropped_path(event.mimeData())
        if path is None:
            super().dropEvent(event)
        else:
            self.setText(str(path))
            event.acceptProposedAction()

    def _show_tip(self) -> None:
        self.setToolTip(tip_of(self.text()) or self._help)

    def _text_rect(self) -> QRect:
        frame = QStyleOptionFrame()
        self.initStyleOption(frame)
        inside = self.style().subElementRect(QStyle.SubElement.SE_LineEditContents, frame, self)
        clear = next(iter(self.findChildren(QToolButton)), None)
        taken = clear.width() + SPACING // 2 if clear is not None and self.text() else 0
        if self.layoutDirection() is Qt.LayoutDirection.RightToLeft:
            return inside.adjusted(MARGIN + taken, 0, -MARGIN, 0)
        return inside.adjusted(MARGIN, 0, -MARGIN - taken, 0)


class PathLabel(ElidedLabel):
    """A path on one line, no wider than itself; without room its end is shown, and its tool tip has all of it."""

    def __init__(self, path: str = "", parent: QWidget | None = None) -> None:
        super().__init__(path, parent)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # as in any language

    def shown_text(self) -> str:
        """What of the path can be read now."""
        text, metrics, room = self.text(), self.fontMetrics(), self.contentsRect().width()
        return text if metrics.horizontalAdvance(text) <= room else end_of_path(text, metrics, room)


def end_of_path(path: str, metrics: QFontMetrics, width: int) -> str:
    """As many of a path's last parts as fit into `width` pixels; of a part too long for that, its end."""
    return _longest_that_fits(
        path, lambda text: metrics.horizontalAdvance(text) <= width
    ) or metrics.elidedText(path, Qt.TextElideMode.ElideLeft, width)


def _longest_that_fits(path: str, fits: Callable[[str], bool]) -> str:
    parts = path.replace("\\", "/").split("/")
    for first in range(1, len(parts)):
        text = "…/" + "/".join(parts[first:])
        if fits(text):
            return text
    return ""


def dropped_path(data: QMimeData) -> Path | None:
    """The first local file or folder in what is dragged; None: there is none."""
    return next(iter(dropped_paths(data)), None)


def dropped_paths(data: QMimeData) -> list[Path]:
    """The local files and folders in what is dragged."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
