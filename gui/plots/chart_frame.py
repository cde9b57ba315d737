"""What a chart is made of before anything is drawn: a card with canvas, legend, cursor, menu and a box of values."""

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontInfo, QPixmap
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from gui.plots.axes import AxisUnit, RoundAxis
from gui.plots.canvas import Canvas
from gui.plots.hover_box import HoverBox
from gui.plots.legend import Legend, Reading, plain
from gui.plots.mark_items import MarkItems
from gui.theme import SPACING, Tokens
from gui.widgets.card import Card
from gui.widgets.roles import Role, set_role

HEIGHT = 96
HEADING_GAPS = 7 * SPACING
"""Pixels of the heading's line that are neither title, legend nor button."""
AXIS_FONT = 0.88
"""Size of the axes' figures, as a share of the page's own."""


class ChartFrame(Card):
    """The card and its parts; it knows nothing of a run.

    Args:
        title: What the chart shows, in a word or two.
        x_unit: What its width counts.
        y_unit: What its height counts.
    """

    def __init__(self, title: str, x_unit: AxisUnit, y_unit: AxisUnit, parent: QWidget | None = None) -> None:
        super().__init__(title, parent)
        self._canvas = Canvas(RoundAxis("bottom", x_unit), RoundAxis("left", y_unit))
        self._canvas.setAccessibleName(title)
        self._canvas.setMinimumHeight(HEIGHT)
        self._canvas.show_values(False)
        self._canvas.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._cursor.setZValue(20)
        self._canvas.addItem(self._cursor, ignoreBounds=True)
        self._mark_items = MarkItems(self._canvas)
        self._box = HoverBox()
        self._canvas.scene().addItem(self._box)
        self._legend = Legend()
        self.set_trailing(self._legend)
        self._button: QWidget | None = None
        self._empty = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        set_role(self._empty, Role.MUTED)
        self._empty.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        QGridLayout(self._canvas).addWidget(self._empty)
        self.body.addWidget(self._canvas)

    def set_button(self, button: QWidget) -> None:
        """Put a button at the end of the heading; it isn't in pictures of the chart."""
        self._button = button
        self.add_to_heading(button)

    def add_decoration(self, item: pg.GraphicsObject) -> None:
        """Put something that is no line into the picture."""
        self._canvas.addItem(item, ignoreBounds=True)

    def picture_rows(self) -> int:
        """Height of the picture itself, in pixels."""
        return self._canvas.rows()

    def grab_picture(self, scale: float, ground: str) -> QPixmap:
        """The whole card as an image of `scale` pixels for each on screen, on a colour, without its button."""
        image = QPixmap(self.size() * scale)
        image.setDevicePixelRatio(scale)
        image.fill(ground)
        if self._button is not None:
            self._button.hide()
        self.render(image)
        if self._button is not None:
            self._button.show()
        return image

    def show_readings(self, readings: list[Reading], empty: str, tokens: Tokens) -> None:
        """Write the legend; or `empty` in place of the picture, where there is nothing to draw."""
        self._empty.setText(empty)
        self._empty.setVisible(bool(empty))
        self._canvas.show_values(not empty)
        taken = self.title_width() + (0 if self._button is None else self._button.sizeHint().width())
        room = self.contentsRect().width() - HEADING_GAPS - taken
        if self._legend.show_readings([] if empty else readings, room, tokens):
            self._canvas.setAccessibleDescription(empty or plain(readings))

    def show_box(self, values: list[tuple[str, str]], place: float) -> None:
        """Show names with values beside a place on the x axis; none: no box."""
        self._box.show_values(values, self._canvas.place_of(place), self._canvas.picture())

    def paint_with(self, tokens: Tokens) -> None:
        """Take the colours in force."""
        self._canvas.setBackground(tokens.surface)
        self._canvas.set_selection_colour(tokens.accent_soft)
        self._cursor.setPen(pg.mkPen(tokens.muted, width=1, dash=[2, 3]))
        font = QFont(self.font())
        font.setPixelSize(round(AXIS_FONT * QFontInfo(font).pixelSize()))
        for axis in (self._canvas.x_axis, self._canvas.y_axis):
            axis.setTextPen(pg.mkPen(tokens.faint))
            axis.setTickPen(pg.mkPen(tokens.grid))
            axis.setPen(pg.mkPen(None))
        self._canvas.set_axis_font(font)
        self._box.paint_with(tokens, font)
        self._mark_items.paint_with(tokens)
