"""A place for an image on the page Try it: drop one there, or choose a file."""

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QImageReader, QPixmap
from PySide6.QtWidgets import QFileDialog, QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gui.theme import SPACING
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.path_line import dropped_path
from gui.widgets.roles import Role, set_role

SIDE = 72
"""Pixels of the small picture."""
KINDS = "*.png *.jpg *.jpeg *.webp *.bmp *.gif *.tif *.tiff"


class ImagePlace(QFrame):
    """Takes one image and shows it small.

    Signals:
        chosen: The path of an image, as text.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, Role.DROP)
        self.setAcceptDrops(True)
        self.picture = QLabel()
        self.picture.setFixedSize(SIDE, SIDE)
        self.picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.picture.hide()
        self.words = ElidedLabel(self.tr("Drop an image here"))
        set_role(self.words, Role.MUTED)
        self.button = QPushButton(self.tr("Choose an image…"))
        self.button.clicked.connect(self._choose)
        beside = QVBoxLayout()
        beside.setSpacing(SPACING)
        beside.addStretch(1)
        beside.addWidget(self.words)
        beside.addWidget(self.button, alignment=Qt.AlignmentFlag.AlignLeft)
        beside.addStretch(1)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * SPACING, SPACING, 2 * SPACING, SPACING)
        row.setSpacing(2 * SPACING)
        row.addWidget(self.picture)
        row.addLayout(beside, 1)

    def show_image(self, path: str) -> None:
        """Show an image without saying that it was chosen; empty: none."""
        self.picture.setVisible(bool(path))
        self.words.setText(Path(path).name if path else self.tr("Drop an image here"))
        if path:
            self.picture.setPixmap(small_picture(path, SIDE))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Welcome a file."""
        if dropped_path(event.mimeData()) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Take it."""
        path = dropped_path(event.mimeData())
        if path is not None:
            event.acceptProposedAction()
            self._take(str(path))

    def _choose(self) -> None:
        kinds = self.tr("Images ({})").format(KINDS)
        path, _ = QFileDialog.getOpenFileName(self, self.tr("Choose an image"), "", kinds)
        if path:
            self._take(path)

    def _take(self, path: str) -> None:
        self.show_image(path)
        self.chosen.emit(path)


def small_picture(path: str, side: int) -> QPixmap:
    """An image no larger than `side` pixels, decoded at that size; nothing where it can't be read."""
    reader = QImageReader(path)
    reader.setAutoTransform(True)
    size = reader.size()
    if size.isValid():
        reader.setScaledSize(size.scaled(QSize(side, side), Qt.AspectRatioMode.KeepAspectRatio))
    return QPixmap.fromImage(reader.read())
