"""Images: decoded at the size that is needed, scaled to the space there is, with the menu of their file, in a grid."""

from pathlib import Path

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QIcon,
    QImageIOHandler,
    QImageReader,
    QMouseEvent,
    QPainter,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QLabel,
    QLayout,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from core.base.language import _
from gui.base.files import open_file, open_file_menu
from gui.base.theme import Role, Theme, set_role
from gui.base.tokens import SPACING
from gui.widgets.labels import isolated, text_label
from gui.widgets.layout import FLUSH, fill
from gui.widgets.tables import Index


def decoded(content: bytes) -> QPixmap:
    """Decode the content of an image file."""
    image = QPixmap()
    image.loadFromData(content)
    return image


def read_image(path: Path, side: int) -> tuple[QPixmap, tuple[int, int]]:
    """Decode an image of `side` pixels at most, and return it with its width and height in the file.

    Where it can't be decoded the image is null.
    """
    reader = QImageReader(str(path))
    reader.setAutoTransform(True)
    size = reader.size()
    if max(size.width(), size.height()) > side:
        reader.setScaledSize(size.scaled(side, side, Qt.AspectRatioMode.KeepAspectRatio))
    image = QPixmap.fromImage(reader.read())
    is_turned = bool(reader.transformation() & QImageIOHandler.Transformation.TransformationRotate90)
    return image, (size.height(), size.width()) if is_turned else (size.width(), size.height())


def picture(path: Path, side: int) -> QPixmap:
    """Decode an image into a square of `side` pixels; one of a few pixels keeps its hard edges."""
    image, size = read_image(path, side)
    if image.isNull():
        return image
    smooth, fast = Qt.TransformationMode.SmoothTransformation, Qt.TransformationMode.FastTransformation
    return image.scaled(
        side, side, Qt.AspectRatioMode.KeepAspectRatio, smooth if 2 * max(size) > side else fast
    )


LEAST_PICTURE = 80
"""Pixels."""


class Picture(QWidget):
    """An image scaled to the space there is, with a caption that names its size."""

    def __init__(self) -> None:
        super().__init__()
        self._pixmap = QPixmap()
        self.picture, self.caption = QLabel(), text_label(role=Role.HINT)
        for label in (self.picture, self.caption):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        layout = fill(QVBoxLayout(self), None, self.picture, self.caption, None, margins=FLUSH, spacing=2)
        layout.setAlignment(self.picture, Qt.AlignmentFlag.AlignHCenter)
        layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setMinimumSize(LEAST_PICTURE, LEAST_PICTURE)
        self._path = ""

    def show_image(
        self,
        title: str,
        image: QPixmap,
        label: str,
        path: str = "",
        size: tuple[int, int] | None = None,
    ) -> None:
        """Show an image; it has a menu if it is one of the file at `path`, of which it may be a copy smaller than
        `size`.
        """
        self._path, self._pixmap = path, image
        self.setToolTip(path)
        width, height = size or (self._pixmap.width(), self._pixmap.height())
        text = _("{title}, {width:,} × {height:,}")
        self.caption.setText(text.format(title=title, width=width, height=height))
        self.picture.setAccessibleName(f"{self.caption.text()} {label}".strip())
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if self._path:
            open_file_menu(self, Path(self._path), event.globalPos())

    def mouseDoubleClickEvent(self, _event: QMouseEvent) -> None:
        if self._path:
            open_file(self, Path(self._path))

    def _fit(self) -> None:
        if self._pixmap.isNull():
            return
        ratio = self.devicePixelRatioF()
        room = self.size() - QSize(0, self.caption.sizeHint().height() + 2)
        size = room.expandedTo(QSize(1, 1)) * ratio
        is_tiny = self._pixmap.width() * 2 <= size.width()  # its pixels should be visible as such
        smooth, fast = Qt.TransformationMode.SmoothTransformation, Qt.TransformationMode.FastTransformation
        keep = Qt.AspectRatioMode.KeepAspectRatio
        scaled = self._pixmap.scaled(size, keep, fast if is_tiny else smooth)
        scaled.setDevicePixelRatio(ratio)
        self.picture.setPixmap(scaled)
        self.picture.setFixedSize(scaled.deviceIndependentSize().toSize())  # the caption stays below it


SIDE, TILE_WIDTH = 72, 116
"""Side of a picture, and width of its tile, in pixels."""
LINES = 3
"""Lines of text below a picture: the prediction, the true label, the name."""


class Tiles(QListView):
    """Rows of a table of examples as pictures.

    Args:
        columns: The columns of the expected and of the predicted answer; the first column has picture and name.
    """

    def __init__(self, theme: Theme, columns: tuple[int, int]) -> None:
        super().__init__()
        set_role(self, Role.INSET)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setViewMode(QListView.ViewMode.IconMode)
        self.setMovement(QListView.Movement.Static)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setUniformItemSizes(True)
        self.setSpacing(SPACING // 2)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setItemDelegate(_Tile(theme, columns, self))
        theme.changed.connect(self.viewport().update)

    def sizeHint(self) -> QSize:
        return QSize(4 * TILE_WIDTH, 3 * TILE_WIDTH)

    def minimumSizeHint(self) -> QSize:
        return QSize(2 * TILE_WIDTH, TILE_WIDTH)


class _Tile(QStyledItemDelegate):
    def __init__(self, theme: Theme, columns: tuple[int, int], view: QWidget) -> None:
        super().__init__(view)
        self._theme, self._view, self._columns = theme, view, columns

    def sizeHint(self, _option: QStyleOptionViewItem, _index: Index) -> QSize:
        return QSize(TILE_WIDTH, SIDE + LINES * self._view.fontMetrics().height() + 2 * SPACING)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        tokens, rect = self._theme.tokens, option.rect
        style = self._view.style()
        self.initStyleOption(option, index)
        style.drawPrimitive(QStyle.PrimitiveElement.PE_PanelItemViewItem, option, painter, self._view)
        icon = index.data(Qt.ItemDataRole.DecorationRole)
        place = QRect(rect.center().x() - SIDE // 2, rect.top() + SPACING // 2, SIDE, SIDE)
        if isinstance(icon, QIcon):
            icon.paint(painter, place)
        expected, predicted = (
            str(index.sibling(index.row(), column).data() or "") for column in self._columns
        )
        true = _("True: {label}").format(label=isolated(expected)) if expected else ""
        line = QRect(
            rect.left() + 2, place.bottom() + SPACING // 2, rect.width() - 4, option.fontMetrics.height()
        )
        for text, colour in (
            (predicted, tokens.text),
            (true, tokens.text),
            (str(index.data() or ""), tokens.muted),
        ):
            shown = option.fontMetrics.elidedText(text, Qt.TextElideMode.ElideMiddle, line.width())
            painter.setPen(QColor(colour))
            painter.drawText(line, Qt.AlignmentFlag.AlignCenter, shown)
            line.translate(0, line.height())
