"""The image that is asked about on the page Try it: chosen, dropped, pasted or drawn."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QPoint, QPointF, Qt, QTemporaryDir, QTimer, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QImage,
    QMouseEvent,
    QPaintDevice,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPixmap,
    QTransform,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QMenu,
    QVBoxLayout,
    QWidget,
)

from core.base.language import _
from core.options.presets import IMAGE_FORMATS
from gui.base.files import add_file_actions
from gui.base.theme import Role, set_role
from gui.base.tokens import SPACING
from gui.widgets.inputs import Chooser, dropped_paths
from gui.widgets.labels import ElidedLabel, link_button, push_button, role_label, text_label
from gui.widgets.layout import FLUSH, fill, hbox, vbox
from gui.widgets.pictures import picture

SIDE = 96
"""Pixels of the thumbnail."""


PAD, LARGEST_DRAWN = 192, 64
"""Side of the drawing pad, and of the largest images that a drawing resembles, in pixels."""
PEN, MOST_ENLARGED = PAD / 6, 10.0
"""Width of a stroke in pixels, and how much a small drawing is enlarged at most."""
PAUSE_MS = 1000
COARSE = 8
"""Side of a drawing as it is saved, in pixels: strokes are as soft as those of scanned digits."""


class DrawingPad(QWidget):
    """A square to draw in with the left mouse button. A second after each stroke the whole drawing is an image."""

    drawn = Signal(str)  # the path of the image, as text; it is deleted with the pad
    changed = Signal(bool)  # whether there is a stroke

    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(PAD, PAD)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self.setAccessibleName(_("Drawing pad"))
        self.setToolTip(_("Draw with the mouse. The model answers one second after each stroke."))
        self._folder, self._count = QTemporaryDir(), 0
        self._strokes: list[QPainterPath] = []
        self._paper, self._ink = Qt.GlobalColor.black, Qt.GlobalColor.white
        self._pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._pause.timeout.connect(self._finish)

    def show_for(self, example: QImage) -> None:
        """Draw in the colours of an example from now on; it is hidden where those aren't small grey images.

        What is drawn stays, and is asked again.
        """
        self.setVisible(0 < example.width() <= LARGEST_DRAWN and example.isGrayscale())
        is_light = not self.isHidden() and example.pixelColor(0, 0).lightness() > 127
        black, white = Qt.GlobalColor.black, Qt.GlobalColor.white
        self._ink, self._paper = (black, white) if is_light else (white, black)
        self._show([] if self.isHidden() else self._strokes)
        self._pause.start() if self._strokes else None

    def clear(self) -> None:
        self._show([])

    def undo(self) -> None:
        self._show(self._strokes[:-1])
        self._pause.start() if self._strokes else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            stroke = QPainterPath(event.position())
            stroke.lineTo(event.position() + QPointF(0.5, 0))  # a dot, until the mouse moves
            self._show([*self._strokes, stroke])

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._strokes[-1].lineTo(event.position())
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self._pause.start()

    def paintEvent(self, event: QPaintEvent) -> None:
        self._draw(self)
        if not self._strokes:
            painter = QPainter(self)
            painter.setPen(Qt.GlobalColor.gray)
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, _("Draw here"))

    def _show(self, strokes: list[QPainterPath]) -> None:
        self._strokes = strokes
        self._pause.stop()
        self.changed.emit(bool(strokes))
        self.update()

    def _draw(self, device: QPaintDevice, scale: float = 1.0, shift: QPointF | None = None) -> None:
        painter = QPainter(device)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(0, 0, PAD, PAD, self._paper)
        ends, corners = Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin
        painter.setPen(QPen(self._ink, PEN, Qt.PenStyle.SolidLine, ends, corners))
        where = QTransform.fromScale(scale, scale)
        for stroke in self._strokes:
            painter.drawPath(where.map(stroke).translated(shift or QPointF()))

    def _finish(self) -> None:
        """Save the drawing as large as it fits and centred, as scanned digits are."""
        self._count += 1
        path = self._folder.filePath(_("Drawing {number}").format(number=self._count) + ".png")
        side, how = COARSE, Qt.TransformationMode.SmoothTransformation
        drawn = QPainterPath()
        for stroke in self._strokes:
            drawn.addPath(stroke)
        box, image = drawn.boundingRect(), QImage(PAD, PAD, QImage.Format.Format_RGB32)
        scale = min(MOST_ENLARGED, (PAD - PEN) / max(box.width(), box.height()))
        self._draw(image, scale, QPointF(PAD, PAD) / 2 - box.center() * scale)
        if image.scaled(side, side, mode=how).save(path):
            self.drawn.emit(path)


class ImageBox(QFrame):
    """An image to choose, drop, paste or draw, with a thumbnail; or several."""

    chosen = Signal(str)  # the path of the image, as text
    several = Signal(object)  # a list of the paths, `Path`, of several images or of folders
    cleared = Signal()  # the drawing has no strokes any more
    failed = Signal(object)  # a `core.base.errors.UserError`: why a file isn't shown

    def __init__(self) -> None:
        super().__init__()
        set_role(self, Role.DROP)
        self.setAcceptDrops(True)
        self.picture, self.seen = QLabel(), QLabel()
        self.name, self._seen_side = ElidedLabel(role=Role.HINT), QWidget()
        self._pictures = QWidget()
        for label in (self.picture, self.seen):
            label.setFixedHeight(SIDE)
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        seen_title = role_label(Role.HINT, _("What the model sees"))
        fill(QVBoxLayout(self._seen_side), self.seen, seen_title, margins=FLUSH, spacing=SPACING // 2)
        own = vbox(self.picture, self.name, spacing=SPACING // 2)
        columns = fill(QHBoxLayout(self._pictures), own, self._seen_side, None, margins=FLUSH)
        columns.setSpacing(2 * SPACING)
        self.picture.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.picture.customContextMenuRequested.connect(self._open_menu)
        self._path, self._folder, self._pasted = "", QTemporaryDir(), 0
        self.invert = QCheckBox(_("Invert (the training images have light and dark swapped)"))
        self.invert.clicked.connect(self._ask_inverted)
        self.button = push_button(_("Choose images…"), self._choose)
        self.pad = DrawingPad()
        self.pad.drawn.connect(self._take)
        self.undo = link_button(_("Undo"), self.pad.undo, _("Removes the last stroke."), flush=True)
        self.clear = link_button(_("Clear"), self.pad.clear, _("Removes the drawing."), flush=True)
        self._edits = QWidget(enabled=False)
        fill(QHBoxLayout(self._edits), self.undo, self.clear, None, margins=FLUSH, spacing=2 * SPACING)
        self.pad.changed.connect(self._on_strokes)
        words = text_label(_("or drop or paste them here, or a folder"), Role.MUTED)
        buttons = hbox(self.button, (words, 1))
        beside = vbox(None, self._pictures, buttons, self.invert, None, self._edits)
        fill(
            QHBoxLayout(self),
            self.pad,
            (beside, 1),
            margins=(2 * SPACING, SPACING, 2 * SPACING, SPACING),
            spacing=2 * SPACING,
        )

        self.show_image("")

    def show_for(self, example: QImage) -> None:
        """Take no image, but one like an example of the run."""
        self.pad.show_for(example)
        self._edits.setHidden(self.pad.isHidden())
        self.show_image("")

    def show_image(self, path: str, name: str = "") -> None:
        """Show an image, called by its file's name or `name`, without emitting `chosen`; an empty path shows none."""
        self._path = path
        self.seen.clear()
        self._seen_side.hide()
        self.name.setText(name or Path(path).name)
        image = picture(Path(path), SIDE) if path else QPixmap()
        self.invert.setChecked(False)
        self.invert.hide()
        self.picture.setPixmap(image)
        self._pictures.setHidden(image.isNull())

    def show_seen(self, png: bytes, swapped: bool) -> None:
        """Show the image as the model sees it, which can be inverted if its light and dark are `swapped`."""
        self.invert.setVisible(swapped or self.invert.isChecked())
        seen = QPixmap()
        seen.loadFromData(png)
        self._pictures.show()
        self._seen_side.show()
        self.seen.setPixmap(seen.scaled(SIDE, SIDE, Qt.AspectRatioMode.KeepAspectRatio))

    def _on_strokes(self, is_drawn: bool) -> None:
        if not is_drawn and (self.undo.hasFocus() or self.clear.hasFocus()):
            self.button.setFocus()  # it would go to an example
        self._edits.setEnabled(is_drawn)
        if not is_drawn:
            self.show_image("")
            self.cleared.emit()

    def _ask_inverted(self) -> None:
        path = Path(self._path)
        if self.invert.isChecked():
            image = QImage(self._path).convertToFormat(QImage.Format.Format_Grayscale8)
            image.invertPixels()
            path = Path(self._folder.filePath(_("{name}, inverted").format(name=path.stem) + ".png"))
            image.save(str(path))
        self.chosen.emit(str(path))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_paths(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        if paths := dropped_paths(event.mimeData()):
            event.acceptProposedAction()
            self.take(paths)

    def take(self, paths: Sequence[Path]) -> None:
        """Take one image, or several and the images in folders."""
        if len(paths) == 1 and not paths[0].is_dir():
            self._take(str(paths[0]))
        elif paths:
            self.show_image("")
            self.several.emit(list(paths))

    def paste(self, image: QImage) -> None:
        """Take an image of the clipboard."""
        self._pasted += 1
        path = self._folder.filePath(_("Pasted image {number}").format(number=self._pasted) + ".png")
        if image.save(path):
            self._take(path)

    def _choose(self) -> None:
        kinds = _("Images ({kinds})").format(kinds=" ".join(f"*{ending}" for ending in IMAGE_FORMATS))
        self.take([Path(path) for path in Chooser.files(self, _("Choose images"), kinds)])

    def _open_menu(self, position: QPoint) -> None:
        menu = QMenu(self)
        add_file_actions(menu, Path(self._path), self.failed.emit)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.picture.mapToGlobal(position))

    def _take(self, path: str) -> None:
        self.show_image(path)
        self.chosen.emit(path)
