"""The drawing area of a chart: fixed ranges, and a mouse that reads, selects and resets."""

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from gui.plots.axes import TEXT_OFFSET, RoundAxis

WIDEST_VALUE = "1,000 MB"
"""Gives all charts the same room to the left, so that those one below the other line up."""

WIDEST_STEP = "100,000"
"""Half of it may reach beyond the right end of the axis."""

BELOW = 5
"""Pixels below the texts of the x axis."""
UNDERMOST = -200
"""Below pyqtgraph's view box (-100): the grid lies under the lines, not over them."""

SHORTEST_DRAG = 6
"""Pixels; below this a drag is a click with a shaky hand."""


class Canvas(pg.PlotWidget):
    """A plot whose ranges are set by hand only; everything the mouse does comes out as a signal.

    Positions are values on the x axis. pyqtgraph's own panning, wheel zoom and menu are off: the wheel belongs to
    the page.
    """

    hovered = Signal(object)
    selected = Signal(float, float)
    reset = Signal()

    def __init__(self, x_axis: RoundAxis, y_axis: RoundAxis, parent: QWidget | None = None) -> None:
        super().__init__(parent, axisItems={"bottom": x_axis, "left": y_axis}, enableMenu=False)
        self.x_axis = x_axis
        self.y_axis = y_axis
        y_axis.setGrid(255)
        y_axis.setStyle(tickAlpha=255)
        y_axis.setZValue(UNDERMOST)
        self._view = self.getPlotItem().getViewBox()
        self._view.setMouseEnabled(x=False, y=False)
        self._view.disableAutoRange()
        self._view.setDefaultPadding(0.0)
        self.getPlotItem().hideButtons()
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setMouseTracking(True)
        # Time runs to the right in every language.
        self.getPlotItem().setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._selection = pg.LinearRegionItem(movable=False)
        self._selection.setZValue(-20)
        self._selection.hide()
        self.addItem(self._selection)
        self._pressed_at: QPointF | None = None
        self._room = 0
        self._metrics = QFontMetrics(self.font())
        self.set_axis_font(self.font())

    def set_axis_font(self, font: QFont) -> None:
        """Write the axes' values in this font, and keep as much room for them as they need."""
        self.axis_font = font
        self._metrics = QFontMetrics(font)
        line = self._metrics.height()
        for axis in (self.x_axis, self.y_axis):
            axis.setTickFont(font)
        self.x_axis.setHeight(line + TEXT_OFFSET + BELOW)
        self.getPlotItem().setContentsMargins(
            0, (line + 1) // 2, self._metrics.horizontalAdvance(WIDEST_STEP) // 2, 0
        )
        self._make_room([])

    def _make_room(self, texts: list[str]) -> None:
        """Keep room to the left for these values; never less than for usual ones."""
        room = TEXT_OFFSET + max(map(self._metrics.horizontalAdvance, (WIDEST_VALUE, *texts)))
        if room != self._room:
            self._room = room
            self.y_axis.setWidth(room)

    def columns(self) -> int:
        """Pixel columns of the picture itself."""
        return max(50, int(self._view.width()))

    def rows(self) -> int:
        """Pixel rows of the picture itself."""
        return max(30, int(self._view.height()))

    def picture(self) -> QRectF:
        """Where the picture itself lies, in pixels of the whole."""
        return self._view.sceneBoundingRect()

    def place_of(self, x: float) -> float:
        """Where a value of the x axis lies, in pixels of the whole."""
        return float(self._view.mapViewToScene(QPointF(x, 0.0)).x())

    def set_ranges(self, low_x: float, high_x: float, low_y: float, high_y: float) -> None:
        """Show exactly this part."""
        self._make_room(self.y_axis.texts_between(low_y, high_y, self.rows()))
        self._view.setRange(xRange=(low_x, high_x), yRange=(low_y, high_y), padding=0, disableAutoRange=True)

    def show_values(self, shown: bool) -> None:
        """Show the picture, its grid and the axes' values, or leave them away where nothing is drawn yet."""
        for item in (self.x_axis, self.y_axis, self._view):
            item.setOpacity(1.0 if shown else 0.0)

    def set_selection_colour(self, colour: str) -> None:
        """Colour of the stretch that is being dragged out."""
        self._selection.setBrush(pg.mkBrush(colour))
        for line in self._selection.lines:
            line.setPen(pg.mkPen(None))

    def _x_of(self, position: QPointF) -> float:
        return float(self._view.mapSceneToView(self.mapToScene(position.toPoint())).x())

    def mouseMoveEvent(self, ev: QMouseEvent) -> None:
        """Read the value under the mouse, or drag out a stretch."""
        x = self._x_of(ev.position())
        if self._pressed_at is not None:
            self._selection.setRegion(sorted((self._x_of(self._pressed_at), x)))
            self._selection.setVisible(self._is_drag(ev))
        self.hovered.emit(x)

    def mousePressEvent(self, ev: QMouseEvent) -> None:
        """Begin to drag out a stretch."""
        if ev.button() is Qt.MouseButton.LeftButton:
            self._pressed_at = ev.position()

    def mouseReleaseEvent(self, ev: QMouseEvent) -> None:
        """Zoom into the stretch that was dragged out."""
        if self._pressed_at is not None and self._is_drag(ev):
            low, high = sorted((self._x_of(self._pressed_at), self._x_of(ev.position())))
            self.selected.emit(low, high)
        self._pressed_at = None
        self._selection.hide()

    def mouseDoubleClickEvent(self, ev: QMouseEvent) -> None:
        """Show the whole run again."""
        self._pressed_at = None
        self.reset.emit()

    def wheelEvent(self, ev: QWheelEvent) -> None:
        """Leave the wheel to the page."""
        ev.ignore()

    def leaveEvent(self, ev: QEvent) -> None:
        """Take the cursor away."""
        self.hovered.emit(None)

    def _is_drag(self, ev: QMouseEvent) -> bool:
        return self._pressed_at is not None and abs(ev.position().x() - self._pressed_at.x()) >= SHORTEST_DRAG
