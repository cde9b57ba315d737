"""Scroll areas that don't look like one: no frame, the page's own background, never sideways."""

from PySide6.QtCore import QEvent, QObject, QSize
from PySide6.QtGui import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

from gui.widgets.roles import Role, set_role


class PageScroll(QScrollArea):
    """Scrolls its content up and down."""

    def __init__(self, content: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(content, Role.PAGE)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)


class FittingScroll(PageScroll):
    """As high as its content while there is room, so that what follows it stands right below; else it scrolls."""

    def __init__(self, content: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(content, parent)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        content.installEventFilter(self)

    def sizeHint(self) -> QSize:
        """The size of the content at the width there is."""
        content = self.widget()
        if content is None:
            return super().sizeHint()
        width = self.viewport().width()
        hint = content.sizeHint()
        height = content.heightForWidth(width) if content.hasHeightForWidth() else hint.height()
        return QSize(hint.width(), max(height, 1))

    def minimumSizeHint(self) -> QSize:
        """A few lines."""
        return QSize(0, min(6 * self.fontMetrics().height(), self.sizeHint().height()))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Ask for more or less room when the content changes."""
        if watched is self.widget() and event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self.updateGeometry()
        return super().eventFilter(watched, event)
