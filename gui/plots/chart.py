"""One chart: a title, what it reads right now, and lines over a shared stretch of the run."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontInfo, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from gui.numbers import NumberFormat
from gui.plots.axes import RoundAxis, StepRule
from gui.plots.canvas import Canvas
from gui.plots.lines import DrawnLine, Line
from gui.plots.repaint_queue import RepaintQueue
from gui.plots.shared_view import SharedView, Stretch
from gui.theme import SPACING, Theme, Tokens
from gui.widgets.card import Card
from gui.widgets.roles import Role, set_role

Span = tuple[float, float]

PIXELS_PER_ROW = 26
HEIGHT = 104
LEGEND_MARGIN = 4 * SPACING
"""Pixels between the title and the legend, with what bold letters of the title take more."""
AXIS_FONT = 0.88
"""Size of the axes' figures, as a share of the page's own."""


@dataclass(frozen=True)
class Stage:
    """What all charts of a page share."""

    theme: Theme
    queue: RepaintQueue
    view: SharedView


@dataclass(frozen=True)
class Clockwork:
    """How a chart's x axis and the seconds since the run's start turn into each other; None where they can't yet."""

    to_clock: Callable[[float], float | None]
    from_clock: Callable[[float], float | None]


@dataclass(frozen=True)
class Reading:
    """One figure in a chart's legend. `colour` names a field of `gui.theme.Tokens`; empty is plain text."""

    text: str
    colour: str = ""


class Chart(Card):
    """Base of the charts of a run.

    A chart never draws by itself: it asks its `RepaintQueue`, and `redraw` does everything at its turn. Subclasses
    say what the x axis covers, what the readings are, and what stands there while nothing can be drawn.
    """

    def __init__(
        self,
        title: str,
        stage: Stage,
        *,
        x_axis: RoundAxis,
        clockwork: Clockwork,
        y_rule: StepRule,
        y_format: NumberFormat,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(title, parent)
        self._theme = stage.theme
        self._queue = stage.queue
        self._view = stage.view
        self._clockwork = clockwork
        self._lines: list[DrawnLine] = []
        self.is_over = False
        self._canvas = Canvas(x_axis, RoundAxis("left", y_rule, y_format, pixels_per_tick=PIXELS_PER_ROW))
        self._canvas.setAccessibleName(title)
        self._canvas.setMinimumHeight(HEIGHT)
        self._canvas.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._cursor.setZValue(20)
        self._canvas.addItem(self._cursor, ignoreBounds=True)
        self._legend = QLabel()
        self._legend.setTextFormat(Qt.TextFormat.RichText)
        self._legend.setMinimumWidth(1)  # what it says never makes a chart wider than the others
        set_role(self._legend, Role.MUTED)
        self.set_trailing(self._legend)
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
        return " · ".join(reading.text for reading in self.readings(self._cursor_x()))

    # What subclasses decide.

    def x_span(self) -> Span:
        """What the x axis covers when the whole run is shown."""
        raise NotImplementedError

    def readings(self, x: float | None) -> list[Reading]:
        """The legend: values at the cursor, or the newest where `x` is None."""
        raise NotImplementedError

    def empty_text(self) -> str:
        """Words in place of the picture; empty when there is something to draw."""
        raise NotImplementedError

    def y_span(self, drawn: Span) -> Span:
        """What the y axis covers, given the lowest and highest value in the picture."""
        return drawn

    def decorate(self, x: Span, y: Span) -> None:
        """Place what is no line (markers, ceilings) into the picture."""

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
        low, high = self._x_range()
        found = [span for drawn in self._lines if (span := drawn.draw(low, high, self._canvas.columns()))]
        y = self._rounded(
            self.y_span((min(span[0] for span in found), max(span[1] for span in found)) if found else (0, 1))
        )
        self._canvas.set_ranges(low, high, *y)
        self.decorate((low, high), y)
        cursor = self._cursor_x()
        self._cursor.setVisible(cursor is not None and low <= cursor <= high)
        if cursor is not None:
            self._cursor.setValue(cursor)
        self._write_legend()

    def showEvent(self, event: QShowEvent) -> None:
        """Draw what was missed while hidden."""
        super().showEvent(event)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """What has room has changed."""
        super().resizeEvent(event)
        self.refresh()

    def _x_range(self) -> Span:
        stretch = self._view.stretch
        if stretch is not None:
            low, high = self._clockwork.from_clock(stretch.low), self._clockwork.from_clock(stretch.high)
            if low is not None and high is not None and high > low:
                return low, high
        return self.x_span()

    def _rounded(self, span: Span) -> Span:
        """Widen to whole ticks, so that the outermost grid lines frame the picture."""
        low, high = span
        if high <= low:
            low, high = (0.0, 2 * high) if high > 0 else (low - 1.0, low + 1.0)
        for _ in range(2):  # widening may ask for a coarser step
            step = self._canvas.y_axis.tick_step(high - low, self._canvas.rows())
            low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        return low, high

    def _cursor_x(self) -> float | None:
        return None if self._view.cursor is None else self._clockwork.from_clock(self._view.cursor)

    def _write_legend(self) -> None:
        empty = self.empty_text()
        self._empty.setText(empty)
        self._empty.setVisible(bool(empty))
        self._canvas.show_values(not empty)
        readings = self._fitting(self.readings(self._cursor_x()) if not empty else [])
        html = "&nbsp;&nbsp; ".join(self._as_html(reading) for reading in readings)
        if html != self._legend.text():
            self._legend.setText(html)
            self._canvas.setAccessibleDescription(empty or self.legend_text)

    def _fitting(self, readings: list[Reading]) -> list[Reading]:
        """As many of the readings as the heading has room for, the first one at least."""
        width = self.fontMetrics().horizontalAdvance
        room = self.contentsRect().width() - 4 * SPACING - width(self.title) - LEGEND_MARGIN
        for number, reading in enumerate(readings):
            room -= width(f"●  {reading.text}   " if reading.colour else f"{reading.text}   ")
            if room < 0 and number:
                return readings[:number]
        return readings

    def _as_html(self, reading: Reading) -> str:
        text = reading.text.replace(" ", "&nbsp;")
        if not reading.colour:
            return text
        return f'<span style="color:{getattr(self._theme.tokens, reading.colour)}">●</span>&nbsp;{text}'

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
        for drawn in self._lines:
            drawn.paint_with(tokens)
        self.colour(tokens)
        self.refresh()

    # The mouse.

    def _point_at(self, x: float | None) -> None:
        self._view.point_at(None if x is None else self._clockwork.to_clock(x))

    def _zoom_to(self, low: float, high: float) -> None:
        clocks = self._clockwork.to_clock(low), self._clockwork.to_clock(high)
        if clocks[0] is not None and clocks[1] is not None and clocks[1] > clocks[0]:
            self._view.zoom_to(Stretch(clocks[0], clocks[1]))

    def _show_all(self) -> None:
        self._view.zoom_to(None)
