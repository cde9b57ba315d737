"""Axes with few, round ticks in the unit people read, and the canvas that draws them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QMouseEvent, QPainter, QWheelEvent

from core.base.formats import memory_tick, percent_tick, step_time_tick
from core.base.language import _
from gui.charts.history import RunHistory, Smoothing
from gui.charts.series import Floats, Span

FOLLOWED_SHARE = 0.2
FOLLOWED_SECONDS = 60.0
"""Following the end of a run shows this share of it, at least so many seconds, unless the view is zoomed."""


class XKind(StrEnum):
    """X axis of the charts over training steps."""

    STEP = "step"
    EPOCH = "epoch"
    TIME = "time"


class SharedView(QObject):
    """Cursor, zoom and choices of all charts of a page.

    `cursor` and `span` are in seconds worked, which every chart can convert to its own axis; a `span` of None shows the
    whole run. If `follows`, the span moves along with the end of the run, until somebody zooms.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.cursor: float | None = None
        self.span: Span | None = None
        self.x_kind = XKind.STEP
        self.smoothing = Smoothing.LIGHT
        self.follows = False
        self._end = 0.0

    def set_cursor(self, clock: float | None) -> None:
        if clock != self.cursor:
            self.cursor = clock
            self.changed.emit()

    def zoom(self, span: Span | None) -> None:
        if span != self.span or self.follows:
            self.span, self.follows, self.cursor = span, False, None  # the mouse is elsewhere on the new axis
            self.changed.emit()

    def follow(self, follows: bool) -> None:
        """Move along with the end of the run, showing as much of it as now; or stop there."""
        if follows == self.follows:
            return
        self.follows = follows
        if follows:
            default = max(FOLLOWED_SECONDS, FOLLOWED_SHARE * self._end)
            self._show_end(default if self.span is None else self.span[1] - self.span[0])
        self.changed.emit()

    def set_end(self, end: float) -> None:
        """Set the seconds worked so far; emits no signal, as all charts are redrawn then."""
        self._end = end
        if self.follows and self.span is not None:
            self._show_end(self.span[1] - self.span[0])

    def set_x_kind(self, kind: XKind) -> None:
        if kind is not self.x_kind:
            self.x_kind = kind
            self.changed.emit()

    def set_smoothing(self, smoothing: Smoothing) -> None:
        if smoothing is not self.smoothing:
            self.smoothing = smoothing
            self.changed.emit()

    def _show_end(self, width: float) -> None:
        low = max(0.0, self._end - width)
        self.span = low, low + width


CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)

LOG_FACTORS = ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3))
"""Ticks in each decade, the densest first."""

NEARLY = 1e-9


def decimal_step(span: float, ticks: int) -> float:
    """The nearest of 1, 2, 5, 10, … that gives at most about so many ticks."""
    if span <= 0 or not math.isfinite(span):
        return 1.0
    rough = span / ticks
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)


def memory_step(span: float, ticks: int) -> float:
    """Round numbers of MB, GB or TB (powers of 1024 apart)."""
    unit = 1024.0 ** max(0, math.floor(math.log(max(span, 1.0), 1024)))
    return decimal_step(span / unit, ticks) * unit


def clock_step(span: float, ticks: int) -> float:
    """Steps of a clock, in seconds: 1, 2, 5, 10, 15, 30 s, then minutes, hours, days."""
    rough = span / ticks
    return next((float(step) for step in CLOCK_STEPS if step >= rough), 86_400.0 * math.ceil(rough / 86_400))


def _log_candidates(low: float, high: float) -> Iterator[list[float]]:
    """Logarithms of round values around `low` to `high`, fewer and fewer."""
    decades = range(math.floor(low + NEARLY), math.ceil(high - NEARLY) + 1)
    for factors in LOG_FACTORS:
        yield [decade + math.log10(factor) for decade in decades for factor in factors]
    yield [float(decade) for decade in decades]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """At most `most` decimal logarithms of round values from `low` to `high`, themselves logarithms; ascending."""
    inside: list[float] = []
    for ticks in _log_candidates(low, high):
        inside = [tick for tick in ticks if low - NEARLY <= tick <= high + NEARLY]
        if len(inside) <= most:
            return inside
    return inside[:: math.ceil(len(inside) / most)]


def log_frame(low: float, high: float, most: int) -> Span:
    """Widen a span of decimal logarithms to the next ticks; at least to a factor of two."""
    missing = max(0.0, math.log10(2) - (high - low))
    low, high = low - missing / 2, high + missing / 2
    for ticks in _log_candidates(low, high):
        below = max(tick for tick in ticks if tick <= low + NEARLY)
        above = min(tick for tick in ticks if tick >= high - NEARLY)
        if sum(below <= tick <= above for tick in ticks) <= most:
            break
    return below, above


def clock_text(seconds: float) -> str:
    """Text of a tick: `0`, `30 s`, `1:30`, `5 min`, `1 h 30`."""
    minutes, rest = divmod(round(seconds), 60)
    if rest:
        return f"{minutes}:{rest:02d}" if minutes else _("{seconds} s").format(seconds=rest)
    if minutes < 60:
        return _("{minutes} min").format(minutes=minutes) if minutes else "0"
    hours, minutes = divmod(minutes, 60)
    template = _("{hours} h {minutes:02d}") if minutes else _("{hours} h")
    return template.format(hours=hours, minutes=minutes)


TEXT_OFFSET = 6
"""Pixels between an axis and its texts."""

OVERHANG = 40
"""Pixels by which a tick's text may reach beyond the axis."""

ROW = 26
"""Pixels that each tick of an upright axis has at least."""


FEWEST_PARTS, CLOSEST = 2, 0.6
"""An axis has at least so many parts if ticks at this share of the usual distance give them."""


@dataclass(frozen=True)
class AxisUnit:
    """The unit of an axis.

    Args:
        step: Distance between ticks, given a span of values and a number of ticks.
        pixels_per_tick: Least distance between ticks.
        counts_digits: Whether `write` takes the number of significant digits, too.
    """

    step: Callable[[float, int], float]
    write: Callable[..., str]
    pixels_per_tick: int = ROW
    counts_digits: bool = False


# no half training step
STEP = AxisUnit(lambda span, ticks: max(1.0, decimal_step(span, ticks)), lambda step: f"{step:,.0f}", 72)
EPOCH = AxisUnit(decimal_step, lambda epoch: f"{epoch:,.6g}", 72)
CLOCK = AxisUnit(clock_step, clock_text, 80)
VALUES = AxisUnit(decimal_step, lambda value, digits=4: f"{value:,.{digits}g}", counts_digits=True)
STEP_TIMES = AxisUnit(decimal_step, step_time_tick)
SHARES = AxisUnit(decimal_step, lambda share: percent_tick(100 * share))
BYTES = AxisUnit(memory_step, memory_tick)
PERCENT = AxisUnit(decimal_step, percent_tick)


def share_span(drawn: Span) -> Span:
    """The span of an axis of shares: at most up to 1, and never empty."""
    return (drawn[0], min(1.0, drawn[1])) if drawn[1] > drawn[0] else (max(0.0, drawn[0] - 0.1), 1.0)


def _ticks(low: float, high: float, step: float, *, widens: bool = False) -> tuple[int, int]:
    """Return the first and the last tick as multiples of the step: inside a span, or enclosing it."""
    if widens:
        return math.floor(low / step + NEARLY), math.ceil(high / step - NEARLY)
    return math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)


class DirectAxis(pg.AxisItem):
    """An axis that paints itself.

    The QPicture that pyqtgraph plays loses the spaces between the parts of a text that run in different directions.
    """

    picture: tuple[Any, ...] | None

    def paint(self, p: QPainter, _option: object, _widget: object) -> None:
        p.save()
        p.setFont(self.style["tickFont"] or p.font())
        p.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # that of each text
        if self.picture is None:  # something has changed
            self.picture = self.generateDrawSpecs(p) or ()
        if self.picture:
            self.drawPicture(p, *self.picture)
        p.restore()


class RoundAxis(DirectAxis):
    """An axis with one level of ticks at round values; `orientation` is `left` or `bottom`."""

    def __init__(self, orientation: str, unit: AxisUnit) -> None:
        super().__init__(orientation, pen=None, maxTickLength=0)
        self.unit = unit
        self.is_log = False
        self.setStyle(
            tickTextOffset=TEXT_OFFSET,
            autoExpandTextSpace=False,
            autoReduceTextSpace=False,
            hideOverlappingLabels=False,
        )

    def set_unit(self, unit: AxisUnit, *, is_log: bool = False) -> None:
        """Set the unit, and whether positions are decimal logarithms of values."""
        if (unit, is_log) != (self.unit, self.is_log):
            self.unit, self.is_log = unit, is_log
            self.picture = None
            self.update()

    def boundingRect(self) -> QRectF:
        return super().boundingRect().adjusted(-OVERHANG, -OVERHANG, OVERHANG, OVERHANG)

    def frame(self, low: float, high: float, size: float) -> Span:
        """Widen a span to whole ticks, so that the outermost grid lines frame the plot."""
        if self.is_log:
            return log_frame(low, high, self._most_ticks(size))
        if high <= low:
            low, high = (0.0, 2 * high) if high > 0 else (low - 1.0, low + 1.0)
        for _turn in range(2):  # widening may need a coarser step
            step = self._step(low, high, size, widens=True)
            first, last = _ticks(low, high, step, widens=True)
            low, high = first * step, last * step
        return low, high

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:  # noqa: N802, N803
        low, high = sorted((minVal, maxVal))
        if self.is_log:
            return [(1.0, log_ticks(low, high, self._most_ticks(size)))]
        step = self._step(low, high, size)
        first, last = _ticks(low, high, step)
        return [(step, [number * step for number in range(first, last + 1)])]

    def texts_between(self, low: float, high: float, size: float) -> list[str]:
        """Texts of the ticks from `low` to `high` on `size` pixels."""
        [(step, values)] = self.tickValues(low, high, size)
        return self.tickStrings(values, 1.0, step)

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        if self.is_log:
            values = [10.0**value for value in values]
        if self.unit.counts_digits:  # as many as distinguish neighbours
            highest = max(map(abs, values), default=0.0)
            is_few = self.is_log or not highest
            digits = 4 if is_few else max(4, 2 + math.floor(math.log10(highest / spacing)))
            return [self.unit.write(value, digits) for value in values]
        texts = [self.unit.write(value) for value in values]
        if texts and self.unit in (STEP, EPOCH):
            first = _("step {number}") if self.unit is STEP else _("epoch {number}")
            texts[0] = first.format(number=texts[0])
        return texts

    def _step(self, low: float, high: float, size: float, *, widens: bool = False) -> float:
        """Return the distance between ticks; a smaller one if that gives three ticks whose texts have room."""
        usual = self._most_ticks(size)
        step = 1.0
        for parts in range(usual, max(usual, int(size / (CLOSEST * self.unit.pixels_per_tick))) + 1):
            step = self.unit.step(high - low, parts)
            first, last = _ticks(low, high, step, widens=widens)
            if last - first >= FEWEST_PARTS:
                break
        return step

    def _most_ticks(self, size: float) -> int:
        return max(2, int(size / self.unit.pixels_per_tick))


WIDEST_VALUE = "1,000 MB"
"""All charts leave this much to the left, so that their plots line up."""

WIDEST_STEP = "100,000"
"""Half of it may reach beyond the right end of the axis."""

BELOW = 5
"""Pixels below the texts of the x axis."""
UNDERMOST = -200
"""Below pyqtgraph's view box (-100), so that the grid lies under the lines."""

SHORTEST_DRAG = 6
"""Pixels; a shorter drag is a click."""


class Canvas(pg.PlotWidget):
    """A plot whose ranges are set by the program only.

    pyqtgraph's own panning, wheel zoom and menu are off: the wheel scrolls the page.
    """

    hovered = Signal(object)  # a position on the x axis under the mouse; None when the mouse leaves
    selected = Signal(float, float)  # two positions on the x axis, between which the mouse was dragged
    reset = Signal()  # a double click

    def __init__(self, x_axis: RoundAxis, y_axis: RoundAxis) -> None:
        super().__init__(axisItems={"bottom": x_axis, "left": y_axis}, enableMenu=False)
        self.x_axis, self.y_axis = x_axis, y_axis
        y_axis.setGrid(255)
        y_axis.setStyle(tickAlpha=255)
        y_axis.setZValue(UNDERMOST)
        self.view_box = self.getPlotItem().getViewBox()
        self.view_box.setMouseEnabled(x=False, y=False)
        self.view_box.disableAutoRange()
        self.view_box.setDefaultPadding(0.0)
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
        self._left_width = 0
        self.set_axis_font(self.font())

    def set_axis_font(self, font: QFont) -> None:
        self.axis_font = font
        self.axis_metrics = QFontMetrics(font)
        line = self.axis_metrics.height()
        for axis in (self.x_axis, self.y_axis):
            axis.setTickFont(font)
        self.x_axis.setHeight(line + TEXT_OFFSET + BELOW)
        beyond = self.axis_metrics.horizontalAdvance(WIDEST_STEP) // 2
        self.getPlotItem().setContentsMargins(0, (line + 1) // 2, beyond, 0)
        self._fit_left([])

    def _fit_left(self, texts: list[str]) -> None:
        """Leave enough space to the left for these values."""
        width = TEXT_OFFSET + max(map(self.axis_metrics.horizontalAdvance, (WIDEST_VALUE, *texts)))
        if width != self._left_width:
            self._left_width = width
            self.y_axis.setWidth(width)

    def columns(self) -> int:
        """Width of the plot area in pixels."""
        return max(50, int(self.view_box.width()))

    def rows(self) -> int:
        """Height of the plot area in pixels."""
        return max(30, int(self.view_box.height()))

    def below(self, x: float) -> QPoint:
        """The point of the screen at the bottom of the plot, at a position on the x axis."""
        at = self.view_box.mapViewToScene(QPointF(x, 0.0)).x()
        return self.mapToGlobal(self.mapFromScene(at, self.view_box.sceneBoundingRect().bottom()))

    def set_ranges(self, low_x: float, high_x: float, low_y: float, high_y: float) -> None:
        self._fit_left(self.y_axis.texts_between(low_y, high_y, self.rows()))
        self.view_box.setRange(
            xRange=(low_x, high_x), yRange=(low_y, high_y), padding=0, disableAutoRange=True
        )

    def show_values(self, shown: bool) -> None:
        """Show or hide the plot, its grid and the axes' values."""
        for item in (self.x_axis, self.y_axis, self.view_box):
            item.setOpacity(1.0 if shown else 0.0)

    def set_selection_colour(self, colour: str) -> None:
        self._selection.setBrush(pg.mkBrush(colour))
        for line in self._selection.lines:
            line.setPen(pg.mkPen(None))

    def _x_of(self, position: QPointF) -> float:
        return float(self.view_box.mapSceneToView(self.mapToScene(position.toPoint())).x())

    def mouseMoveEvent(self, ev: QMouseEvent) -> None:
        x = self._x_of(ev.position())
        if self._pressed_at is not None:
            self._selection.setRegion(sorted((self._x_of(self._pressed_at), x)))
            self._selection.setVisible(self._is_drag(ev))
        self.hovered.emit(x)

    def mousePressEvent(self, ev: QMouseEvent) -> None:
        if ev.button() is Qt.MouseButton.LeftButton:
            self._pressed_at = ev.position()

    def mouseReleaseEvent(self, ev: QMouseEvent) -> None:
        if self._pressed_at is not None and self._is_drag(ev):
            low, high = sorted((self._x_of(self._pressed_at), self._x_of(ev.position())))
            self.selected.emit(low, high)
        self._pressed_at = None
        self._selection.hide()

    def mouseDoubleClickEvent(self, ev: QMouseEvent) -> None:
        self._pressed_at = None
        self.reset.emit()

    def wheelEvent(self, ev: QWheelEvent) -> None:
        ev.ignore()

    def leaveEvent(self, ev: QEvent) -> None:
        self.hovered.emit(None)

    def _is_drag(self, ev: QMouseEvent) -> bool:
        return self._pressed_at is not None and abs(ev.position().x() - self._pressed_at.x()) >= SHORTEST_DRAG


@dataclass(frozen=True)
class XScale:
    """How positions of series lie on an x axis.

    Args:
        to_clock: From the axis to seconds worked; None if not known yet.
        from_clock: The other way.
        to_axis: From positions in a series to those on the axis. Shape (n,), ascending.
        from_axis: From a position on the axis to one in the series.
        is_over_steps: Whether the positions in series are training steps.
    """

    unit: AxisUnit
    to_clock: Callable[[float], float | None]
    from_clock: Callable[[float], float | None]
    to_axis: Callable[[Floats], Floats] = lambda values: values
    from_axis: Callable[[float], float | None] = float
    is_over_steps: bool = False

    def nearest(self, position: float) -> float | None:
        """The position in the series for one on the axis, rounded to a whole step."""
        found = self.from_axis(position)
        return float(round(found)) if found is not None and self.is_over_steps else found


SHORTEST_CLOCK = 10.0
"""Seconds that a chart over time covers at least."""

CLOCK_SCALE = XScale(CLOCK, float, float)
"""For series over seconds worked."""


def step_scale(history: RunHistory, kind: XKind) -> XScale:
    """Return the scale for series over training steps."""
    clock_of, step_at = history.step_clock.between, history.step_clock.inverse
    if kind is XKind.STEP:
        return XScale(STEP, clock_of, step_at, is_over_steps=True)
    if kind is XKind.TIME:
        return XScale(CLOCK, float, float, history.step_clock.interpolate, step_at, is_over_steps=True)
    share = epochs_per_step(history)

    def epoch_at(clock: float) -> float | None:
        step = step_at(clock)
        return None if step is None else step * share

    return XScale(
        EPOCH,
        lambda epoch: clock_of(epoch / share),
        epoch_at,
        lambda steps: steps * share,
        lambda epoch: epoch / share,
        is_over_steps=True,
    )


def epochs_per_step(history: RunHistory) -> float:
    """Return the epochs per step; 1 if not known yet."""
    steps, epochs = history.step_epoch.last_x, history.step_epoch.last
    return epochs / steps if steps and epochs else 1.0
