"""An image before and after its transform, side by side."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QPixmap, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from core.data_report import Seen
from gui.theme import SPACING
from gui.widgets.roles import Role, set_role


class ImagesOfOne(QWidget):
    """An image as it is in the file, and as the model sees it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.before, self.after = Picture(self.tr("In the file")), Picture(self.tr("What the model sees"))
        arrow = QLabel("→" if self.layoutDirection() is Qt.LayoutDirection.LeftToRight else "←")
        set_role(arrow, Role.MUTED)
        font = QFont(arrow.font())
        font.setPointSizeF(1.5 * font.pointSizeF())
        arrow.setFont(font)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(SPACING)
        line.addWidget(self.before, 1)
        line.addWidget(arrow)
        line.addWidget(self.after, 1)

    def show_sample(self, seen: Seen) -> None:
        """Show one image."""
        self.before.show_png(seen.original, seen.label)
        self.after.show_png(seen.image, seen.label)


class Picture(QWidget):
    """An image as large as there is room, with a caption that names its size."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title
        self._pixmap = QPixmap()
        self._picture, self._caption = QLabel(), QLabel()
        self._picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._picture.setMinimumSize(64, 64)
        self._picture.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self._caption.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._caption.setWordWrap(True)
        set_role(self._caption, Role.HINT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._picture, 1)
        layout.addWidget(self._caption)

    def show_png(self, content: bytes, label: str) -> None:
        """Show the image of a PNG file."""
        self._pixmap = QPixmap()
        self._pixmap.loadFromData(content)
        size = self._pixmap.size()
        self._caption.setText(
            self.tr("{title}, {width} × {height}").format(
                title=self._title, width=size.width(), height=size.height()
            )
        )
        self._picture.setAccessibleName(f"{self._caption.text()} {label}".strip())
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the image into the room there is."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        if self._pixmap.isNull():
            return
        ratio = self.devicePixelRatioF()
        room = self._picture.size() * ratio
        is_tiny = self._pixmap.width() * 2 <= room.width()  # pixels of a tiny image are to be seen as such
        mode = Qt.TransformationMode
        scaled = self._pixmap.scaled(
            room,
            Qt.AspectRatioMode.KeepAspectRatio,
            mode.FastTransformation if is_tiny else mode.SmoothTransformation,
        )
        scaled.setDevicePixelRatio(ratio)
        self._picture.setPixmap(scaled)
