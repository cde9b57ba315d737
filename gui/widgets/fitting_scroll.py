"""Scroll areas that don't look like one: no frame, the page's own background, never sideways."""

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QScrollBar, QWidget

from gui.theme import GUTTER
from gui.widgets.roles import Role, set_role


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
