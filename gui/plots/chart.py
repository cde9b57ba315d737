"""One chart: a title, what it reads right now, and lines over a shared stretch of the run."""

from dataclasses import dataclass

from PySide6.QtGui import QContextMenuEvent, QPixmap, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from gui.models.run_history import RunHistory
from gui.plots.axes import CLOCK, AxisUnit
from gui.plots.chart_frame import ChartFrame
from gui.plots.chart_menu import MenuButton
from gui.plots.chart_table import ChartData, columns_of
from gui.plots.legend import Reading, plain
from gui.plots.lines import DrawnLine, Line
from gui.plots.phase_marks import PhaseMarks, interruption_marks
from gui.plots.repaint_queue import RepaintQueue
from gui.plots.shared_view import SharedView, Stretch
from gui.plots.x_scale import XScale
from gui.theme import Theme, Tokens

__all__ = ["Chart", "Reading", "Span", "Stage"]

Span = tuple[float, float]


@dataclass(frozen=True)
class Stage:
    """What all charts of a page share."""

    theme: Theme
    queue: RepaintQueue
    view: SharedView


class Chart(ChartFrame):
    """Base of the charts of a run.

    A chart never draws by itself: it asks its `RepaintQueue`, and `redraw` does everything at its turn. Subclasses
    say over what they lie, what the readings are, and what stands there while nothing can be drawn.

    `place_column` is what the places of its series are called where its data is saved.

    Args:
        title: What it shows, in a word or two.
        stage: What it shares with the others.
        history: The run.
        y_unit: What its height counts.
        can_be_log: Whether a logarithmic axis makes sense.
    """

    place_column = "seconds"

    def __init__(
        self,
        title: str,
        stage: Stage,
        history: RunHistory,
        y_unit: AxisUnit,
        *,
        can_be_log: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        self.history = history
        self._theme = stage.theme
        self._queue = stage.queue
        self._view = stage.view
        self._lines: list[DrawnLine] = []
        self._moments = PhaseMarks()
        self._is_pointed_at = False
        self.can_be_log = can_be_log
        self.is_over: bool | None = False
        super().__init__(title, self.x_scale().unit, y_unit, parent)
        self.menu_button = MenuButton(self)
        self.set_button(self.menu_button)
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
        return self.grab_picture(scale, self._theme.tokens.surface)

    def data(self) -> ChartData:
        """What it shows, every point of it."""
        scale = self.x_scale()
        low, high = (scale.from_axis(edge) or 0.0 for edge in self._x_range(scale))
        return ChartData(
            self.place_column, columns_of(self.lines, low, high), columns_of(self.beside(), low, high)
        )

    @property
    def lines(self) -> list[Line]:
        """What is drawn."""
        return [drawn.line for drawn in self._lines]

    @property
    def legend_text(self) -> str:
        """What the legend says, as plain text."""
        return plain(self._readings())

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

    def beside(self) -> list[Line]:
        """What is saved beside the lines, of the places at which these have a point."""
        return []

    def moments(self) -> list[tuple[float, str]]:
        """What upright lines point out where it lies over time: seconds worked, with words."""
        return interruption_marks(self.history.interruptions)

    def taken_at_top(self, y: Span) -> int:
        """Pixels at the end of the picture's topmost line in which something is written."""
        return 0

    def colour(self, tokens: Tokens) -> None:
        """Give decorations the colours in force."""

    # Drawing.

    def refresh(self) -> None:
        """Ask to be redrawn."""
        self._queue.request(self)

    def is_shown(self) -> bool:
        """Whether any of it can be seen."""
        is_in_view = self.isVisible() and not self.visibleRegion().isEmpty()
        return is_in_view and not self.window().isMinimized()

    def redraw(self) -> None:
        """Bring the picture up to date. Only the repaint queue calls this."""
        scale = self.x_scale()
        self._canvas.x_axis.measure(scale.unit)
        x = self._x_range(scale)
        y = self._draw_lines(x, scale)
        self._canvas.set_ranges(*x, *y)
        self.decorate(x, y)
        moments = self.moments() if scale.unit is CLOCK else []
        self._moments.draw(self._canvas, moments, *x, self.taken_at_top(y))
        cursor = self._cursor_place(scale)
        is_in_picture = cursor is not None and x[0] <= cursor <= x[1]
        empty = self.empty_text()
        if empty and self.is_over is None:
            empty = " "  # why there is nothing is known once all is read
        self._cursor.setVisible(is_in_picture and not empty)
        if cursor is not None:
            self._cursor.setValue(cursor)
        self._mark_items.draw(self.history.marks.found, scale, x, y)
        self.show_readings(self._readings(), empty, self._theme.tokens)
        self.show_box(self._details_at(cursor, scale, x), cursor or 0.0)

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
            if low is not None and high is not None:
                return (low, high) if high > low else (low - 0.5, low + 0.5)  # no step ended meanwhile
        return self.x_span()

    def _cursor_place(self, scale: XScale) -> float | None:
        return None if self._view.cursor is None else scale.from_clock(self._view.cursor)

    def _readings(self) -> list[Reading]:
        scale = self.x_scale()
        cursor = self._cursor_place(scale)
        return self.readings(None if cursor is None else scale.nearest(cursor))

    def _details_at(self, cursor: float | None, scale: XScale, x: Span) -> list[tuple[str, str]]:
        """What the box at the cursor says; nothing where the mouse is at another chart."""
        if cursor is None or not self._is_pointed_at or self.empty_text():
            return []
        place = scale.nearest(cursor)
        values = self.details(place) if place is not None else []
        return [*values, *self._mark_items.words_near(cursor, x)] if values else []

    def _take_colours(self) -> None:
        tokens = self._theme.tokens
        self.paint_with(tokens)
        self._moments.paint_with(tokens)
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
