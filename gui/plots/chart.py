"""One chart: a title, what it reads right now, and lines over a shared stretch of the run."""

from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QContextMenuEvent, QFont, QFontInfo, QPixmap, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from gui.models.marks import Mark
from gui.plots.axes import AxisUnit, RoundAxis
from gui.plots.canvas import Canvas
from gui.plots.chart_menu import MenuButton
from gui.plots.chart_table import Table, table_of
from gui.plots.hover_box import HoverBox
from gui.plots.legend import Legend, Reading
from gui.plots.lines import DrawnLine, Line
from gui.plots.mark_items import MarkItems
from gui.plots.repaint_queue import RepaintQueue
from gui.plots.shared_view import SharedView, Stretch
from gui.plots.x_scale import XScale
from gui.theme import SPACING, Theme, Tokens
from gui.widgets.card import Card
from gui.widgets.roles import Role, set_role

__all__ = ["Chart", "Reading", "Span", "Stage"]

Span = tuple[float, float]

HEIGHT = 96
HEADING_GAPS = 7 * SPACING
"""Pixels of the heading's line that are neither title, legend nor button."""
AXIS_FONT = 0.88
"""Size of the axes' figures, as a share of the page's own."""


@dataclass(frozen=True)
class Stage:
    """What all charts of a page share."""

    theme: Theme
    queue: RepaintQueue
    view: SharedView


class Chart(Card):
    """Base of the charts of a run.

    A chart never draws by itself: it asks its `RepaintQueue`, and `redraw` does everything at its turn. Subclasses
    say over what they lie, what the readings are, and what stands there while nothing can be drawn.

    `place_column` is what the places of its series are called where its data is saved.

    Args:
        title: What it shows, in a word or two.
        stage: What it shares with the others.
        y_unit: What its height counts.
        can_be_log: Whether a logarithmic axis makes sense.
    """

    place_column = "seconds"

    def __init__(
        self,
        title: str,
        stage: Stage,
        y_unit: AxisUnit,
        *,
        can_be_log: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(title, parent)
        self._theme = stage.theme
        self._queue = stage.queue
        self._view = stage.view
        self._lines: list[DrawnLine] = []
        self._is_pointed_at = False
        self.can_be_log = can_be_log
        self.is_over = False
        self._canvas = Canvas(RoundAxis("bottom", self.x_scale().unit), RoundAxis("left", y_unit))
        self._canvas.setAccessibleName(title)
        self._canvas.setMinimumHeight(HEIGHT)
        self._canvas.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._cursor.setZValue(20)
        self._canvas.addItem(self._cursor, ignoreBounds=True)
        self._mark_items = MarkItems(self._canvas)
        self._box = HoverBox()
        self._canvas.scene().addItem(self._box)
        self._legend = Legend()
        self.set_trailing(self._legend)
        self.menu_button = MenuButton(self)
        self.add_to_heading(self.menu_button)
        self._empty = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        set_role(self._empty, Role.MUTED)
        self._empty.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        QGridLayout(self._canvas).addWidget(self._empty)
        self.body.addWidget(self._canvas)
        self._canvas.hovered.connect(self._point_at)
        self._canvas.selected.connect(self._zoom_to)
        self._canvas.reset.connect(self._show_all)
        stage.view.changed.connect(self.refresh)
        stage.theme.changed.connect(self._take_colours)
        self._take_colours()

    def set_lines(self, lines: list[Line]) -> None:
        """Draw these lines from now on, the first one undermost."""
        for drawn in self._lines:
            self._canvas.removeItem(drawn.item)
        self._lines = [DrawnLine(line) for line in lines]
        for depth, drawn in enumerate(self._lines):
            drawn.item.setZValue(depth - 10)
            self._canvas.addItem(drawn.item, ignoreBounds=True)
        self._take_colours()

    def picture(self, scale: float) -> QPixmap:
        """The whole card as an image of `scale` pixels for each on screen, without its button."""
        self.redraw()
        image = QPixmap(self.size() * scale)
        image.setDevicePixelRatio(scale)
        image.fill(self._theme.tokens.surface)
        self.menu_button.hide()
        self.render(image)
        self.menu_button.show()
        return image

    def table(self) -> Table:
        """What it shows, every point of it."""
        scale = self.x_scale()
        low, high = (scale.from_axis(edge) for edge in self._x_range(scale))
        return table_of(self.lines, self.place_column, low or 0.0, high or 0.0)

    def add_decoration(self, item: pg.GraphicsObject) -> None:
        """Put something that is no line into the picture; `decorate` places it."""
        self._canvas.addItem(item, ignoreBounds=True)

    def picture_rows(self) -> int:
        """Height of the picture itself, in pixels."""
        return self._canvas.rows()

    @property
    def lines(self) -> list[Line]:
        """What is drawn."""
        return [drawn.line for drawn in self._lines]

    @property
    def legend_text(self) -> str:
        """What the legend says, as plain text."""
        return " · ".join(reading.text for reading in self._readings())

    @property
    def is_log(self) -> bool:
        """Whether the height counts orders of magnitude."""
        return self._canvas.y_axis.is_log

    def set_log(self, is_log: bool) -> None:
        """Let the height count orders of magnitude, or the values themselves."""
        self._canvas.y_axis.set_log(is_log and self.can_be_log)
        self.refresh()

    # What subclasses decide.

    def x_scale(self) -> XScale:
        """Over what it lies at the moment."""
        raise NotImplementedError

    def x_span(self) -> Span:
        """What the x axis covers when the whole run is shown."""
        raise NotImplementedError

    def readings(self, x: float | None) -> list[Reading]:
        """The legend: values at `x`, a place in the series, or the newest where it is None."""
        raise NotImplementedError

    def empty_text(self) -> str:
        """Words in place of the picture; empty when there is something to draw."""
        raise NotImplementedError

    def y_span(self, drawn: Span) -> Span:
        """What the y axis covers, given the lowest and highest value in the picture."""
        return drawn

    def draw_more(self, low: float, high: float, scale: XScale) -> Span | None:
        """Draw what is no line, from `low` to `high` of the series; returns its lowest and highest value."""
        return None

    def decorate(self, x: Span, y: Span) -> None:
        """Place what is no line (ceilings, bands) into the picture; both in places on the axes."""

    def details(self, x: float) -> list[tuple[str, str]]:
        """All that is known of a place in the series, as names with values, for the box at the cursor."""
        return []

    def marks(self) -> list[Mark]:
        """What happened at a moment of the run."""
        return []

    def colour(self, tokens: Tokens) -> None:
        """Give decorations the colours in force."""

    # Drawing.

    def refresh(self) -> None:
        """Ask to be redrawn."""
        self._queue.request(self)

    def is_shown(self) -> bool:
        """Whether any of it can be seen."""
        return self.isVisible() and not self.visibleRegion().isEmpty()

    def redraw(self) -> None:
        """Bring the picture up to date. Only the repaint queue calls this."""
        scale = self.x_scale()
        self._canvas.x_axis.measure(scale.unit)
        x = self._x_range(scale)
        y = self._draw_lines(x, scale)
        self._canvas.set_ranges(*x, *y)
        self.decorate(x, y)
        cursor = self._cursor_place(scale)
        is_in_picture = cursor is not None and x[0] <= cursor <= x[1]
        self._cursor.setVisible(is_in_picture and not self.empty_text())
        if cursor is not None:
            self._cursor.setValue(cursor)
        self._mark_items.draw(self.marks(), scale, x, y)
        self._write_legend()
        self._show_box(cursor, scale)

    def showEvent(self, event: QShowEvent) -> None:
        """Draw what was missed while hidden."""
        super().showEvent(event)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """What has room has changed."""
        super().resizeEvent(event)
        self.refresh()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """What can be done with the chart, at the mouse."""
        self.menu_button.pop_up(event.globalPos())

    def _draw_lines(self, x: Span, scale: XScale) -> Span:
        """Draw all lines; returns the frame they stand in, in places on the y axis."""
        low, high = (scale.from_axis(edge) for edge in x)
        found: list[Span] = []
        if low is not None and high is not None:
            columns = self._canvas.columns()
            spans = [
                drawn.draw(low, high, columns, to_axis=scale.to_axis, is_log=self.is_log)
                for drawn in self._lines
            ]
            found = [span for span in (*spans, self.draw_more(low, high, scale)) if span is not None]
        span = (min(span[0] for span in found), max(span[1] for span in found)) if found else (0.0, 1.0)
        return self._canvas.y_axis.frame(
            *(span if self.is_log else self.y_span(span)), float(self._canvas.rows())
        )

    def _x_range(self, scale: XScale) -> Span:
        stretch = self._view.stretch
        if stretch is not None:
            low, high = scale.from_clock(stretch.low), scale.from_clock(stretch.high)
            if low is not None and high is not None and high > low:
                return low, high
        return self.x_span()

    def _cursor_place(self, scale: XScale) -> float | None:
        return None if self._view.cursor is None else scale.from_clock(self._view.cursor)

    def _readings(self) -> list[Reading]:
        scale = self.x_scale()
        cursor = self._cursor_place(scale)
        return self.readings(None if cursor is None else scale.from_axis(cursor))

    def _write_legend(self) -> None:
        empty = self.empty_text()
        self._empty.setText(empty)
        self._empty.setVisible(bool(empty))
        self._canvas.show_values(not empty)
        taken = self.title_width() + self.menu_button.sizeHint().width()
        room = self.contentsRect().width() - HEADING_GAPS - taken
        readings = [] if empty else self._readings()
        if self._legend.show_readings(readings, room, self._theme.tokens):
            self._canvas.setAccessibleDescription(empty or " · ".join(reading.text for reading in readings))

    def _show_box(self, cursor: float | None, scale: XScale) -> None:
        place = scale.from_axis(cursor) if cursor is not None and self._is_pointed_at else None
        values = self.details(place) if place is not None and not self.empty_text() else []
        if values and self._view.cursor is not None:
            values += self._mark_items.words_near(cursor or 0.0)
        self._box.show_values(values, self._canvas.place_of(cursor or 0.0), self._canvas.picture())

    def _take_colours(self) -> None:
        tokens = self._theme.tokens
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
        for drawn in self._lines:
            drawn.paint_with(tokens)
        self.colour(tokens)
        self.refresh()

    # The mouse.

    def _point_at(self, x: float | None) -> None:
        self._is_pointed_at = x is not None
        self._queue.hurry()
        self._view.point_at(None if x is None else self.x_scale().to_clock(x))
        self.refresh()

    def _zoom_to(self, low: float, high: float) -> None:
        scale = self.x_scale()
        clocks = scale.to_clock(low), scale.to_clock(high)
        if clocks[0] is not None and clocks[1] is not None and clocks[1] > clocks[0]:
            self._view.zoom_to(Stretch(clocks[0], clocks[1]))

    def _show_all(self) -> None:
        self._view.zoom_to(None)
