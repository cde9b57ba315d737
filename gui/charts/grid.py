"""The eight charts of a run, and the bar above them: x axis, smoothing, shown part."""

import math
from functools import partial

import numpy as np
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QScrollArea, QVBoxLayout, QWidget

from core.base import formats
from core.base.formats import NumberFormat, enumerated
from core.base.language import _
from core.runs.events import Throttle
from core.runs.words import phase_title
from gui.base.theme import Role, Theme, set_flag, set_role
from gui.base.tokens import GUTTER, SPACING, Tokens
from gui.charts.axes import BYTES, CLOCK_SCALE, PERCENT, SHORTEST_CLOCK, SharedView, XKind, XScale, clock_text
from gui.charts.chart import Chart, RepaintQueue, Stage
from gui.charts.history import RunHistory, Smoothing
from gui.charts.machine import DevicePicture, MemoryPicture
from gui.charts.overlays import CeilingLine, PressureBand, Reading, level_spans
from gui.charts.series import ChartLine, Look, Series, Span
from gui.charts.training import (
    LossChart,
    MetricsChart,
    StepChart,
    StepTimeChart,
    ThroughputChart,
    gradient_norm_chart,
    learning_rate_chart,
)
from gui.widgets.inputs import Segment, Segmented
from gui.widgets.labels import link_button, role_label
from gui.widgets.layout import QuietScroll, fill, hbox

# --- Charts of the machine: the processor that trains, and memory


class ClockChart(Chart):
    """Base of the charts that are always over time, as memory and processors are in use between steps, too."""

    @property
    def shown(self) -> DevicePicture | MemoryPicture:
        raise NotImplementedError

    def x_scale(self) -> XScale:
        return CLOCK_SCALE

    def x_span(self) -> Span:
        return 0.0, max(SHORTEST_CLOCK, self.history.last_clock)

    def empty_text(self) -> str:
        if len(self.shown):
            return ""
        return _("Never measured") if self.is_over else _("Not measured yet")

    def position_readings(self, x: float) -> list[Reading]:
        phase = self.history.phase_at(x)
        at = Reading(clock_text(x), name=_("at"), is_named=False)
        return [at] if phase is None else [at, Reading(phase_title(phase), name=_("phase"))]


def _reading(
    name: str,
    series: Series,
    x: float | None,
    write: NumberFormat,
    colour: str = "",
    *,
    is_named: bool = False,
) -> list[Reading]:
    """Return a value as a list of one reading; an empty list if the value isn't known."""
    value = series.at(x)
    return (
        [Reading(write(value), colour, name, is_named)] if value is not None and math.isfinite(value) else []
    )


class DeviceChart(ClockChart):
    """Figures of several kinds on one axis: each in percent of its limit, a temperature in degrees Celsius.

    Power and clock are relative to what the device may have at most, or to the maximum so far if that isn't known.
    Legend and box show the figures themselves.
    """

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self.band = PressureBand()
        super().__init__(_("Device"), stage, history, PERCENT)
        self.add_decoration(self.band)

    @property
    def shown(self) -> DevicePicture:
        return self.history.devices.picture

    def y_span(self, drawn: Span) -> Span:
        return 0.0, max(100.0, drawn[1])

    def readings(self, x: float | None) -> list[Reading]:
        picture = self.shown
        reasons = self._throttle_reasons(x)
        held_back = [Reading(enumerated(reasons), "warn", _("held back by"))] if reasons else []
        power = partial(formats.of_limit, limit=picture.power_limit, unit="W")
        clock = partial(formats.of_limit, limit=picture.clock_limit, unit="MHz")
        return [
            *held_back,
            *_reading(_("busy"), picture.busy, x, formats.whole_percent, "run", is_named=True),
            *_reading(_("temperature"), picture.temperature, x, formats.degrees, "optimizer"),
            *_reading(_("power"), picture.power, x, power, "gradients"),
            *_reading(_("clock"), picture.clock, x, clock, "others"),
        ]

    def details(self, x: float) -> list[Reading]:
        picture, devices = self.shown, self.history.devices
        cpu = [] if picture is devices.cpu else _reading(_("CPU"), devices.cpu.busy, x, formats.whole_percent)
        return [
            Reading(picture.name, name=_("device")),
            *_reading(_("thermal state"), picture.thermal, x, _thermal_text),
            *cpu,
            *_reading(_("battery"), devices.battery, x, formats.whole_percent),
            *_reading(_("free on disk"), devices.disk_free, x, formats.memory),
        ]

    def decorate(self, x: Span, y: Span) -> None:
        spans = [span for span in self.shown.throttled if span[1] >= x[0] and span[0] <= x[1]]
        begins, ends = (np.array([span[edge] for span in spans]) for edge in (0, 1))
        self.band.draw((begins, ends + 1.0, np.ones(len(spans))), x, y, self.canvas)

    def paint_with(self, tokens: Tokens) -> None:
        self.band.paint_with(tokens)

    def wanted_lines(self) -> list[ChartLine]:
        picture = self.shown
        lines = (
            (picture.clock, "others", _percent_factor(picture.clock, picture.clock_limit), "clock_mhz"),
            (picture.power, "gradients", _percent_factor(picture.power, picture.power_limit), "power_watts"),
            (picture.temperature, "optimizer", 1.0, "temperature_celsius"),
            (picture.busy, "run", 100.0, "busy"),
        )
        return [
            ChartLine("", series, colour, factor=factor, column=column)
            for series, colour, factor, column in lines
            if len(series)
        ]

    def _throttle_reasons(self, x: float | None) -> list[str]:
        picture = self.shown
        moment = picture.last_clock if x is None else x
        reasons = next(
            (reasons for low, high, reasons in reversed(picture.throttled) if low <= moment <= high + 1.0), ()
        )
        texts: dict[str, str] = {
            Throttle.POWER_CAP: _("its power limit"),
            Throttle.POWER_BRAKE: _("the power supply"),
            Throttle.THERMAL_SOFTWARE: _("heat"),
            Throttle.THERMAL_HARDWARE: _("great heat"),
            Throttle.HARDWARE: _("heat or power"),
            Throttle.PRESSURE: _("heat"),
            Throttle.HOT: _("heat"),
        }
        return [texts.get(reason, reason) for reason in reasons]


def _percent_factor(series: Series, limit: float | None) -> float:
    """Converts values to percent of their limit, or of the maximum so far."""
    most = limit or (series.extremes() or (0.0, 0.0))[1]
    return 100.0 / most if most > 0 else 1.0


def _thermal_text(level: float) -> str:
    texts = (
        _("normal"),
        _("warm"),
        _("hot, slowed down"),
        _("very hot, slowed down much"),
        _("too hot to work"),
    )
    return texts[max(0, min(len(texts) - 1, round(level)))]


NEARLY_FULL = 0.75
"""Other programs and the ceiling are drawn once this share of it was in use; before, they would squash the run."""

LEAST_SPAN = 64 << 20
"""Bytes that the axis has at least."""

SAME_CEILING = 0.97
"""A limit of the run that is as near to the ceiling isn't drawn."""

HELD, WHOLE = 0.6, 0.35
"""Strength of the colour of what is held for tensors, and of the rest of the run."""

LEAST_SWAP = 16 << 20
"""Bytes; less swap isn't shown."""


class MemoryChart(ClockChart):
    """Memory of this run and of other programs: the graphics card's if the run uses it, else the computer's."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self.ceiling, self.limit = CeilingLine(0.995), CeilingLine(0.4)
        self.band = PressureBand()
        super().__init__(_("Memory"), stage, history, BYTES)
        for item in (self.ceiling, self.limit, self.band):
            self.add_decoration(item)

    @property
    def shown(self) -> MemoryPicture:
        return self.history.memory.picture

    def y_span(self, drawn: Span) -> Span:
        ceiling = self.shown.ceiling
        if ceiling is not None and self._is_nearly_full:
            return 0.0, max(drawn[1], 1.04 * ceiling)
        return 0.0, max(LEAST_SPAN, 1.1 * drawn[1])

    @property
    def _is_nearly_full(self) -> bool:
        picture = self.shown
        most = (picture.used.extremes() or picture.run.extremes() or (0.0, 0.0))[1]
        return not len(picture.run) or (picture.ceiling or math.inf) * NEARLY_FULL <= most

    def readings(self, x: float | None) -> list[Reading]:
        picture, memory = self.shown, self.history.memory
        readings = []
        run, used, level, swap = (
            series.at(x) for series in (picture.run, picture.used, memory.pressure, memory.swap)
        )
        if run is not None:
            readings.append(Reading(formats.memory(run), "run", _("this run")))
        if level is not None and level > 0:
            text = _("critical") if level > 1 else _("high")
            readings.append(Reading(text, "bad" if level > 1 else "warn", _("pressure")))
        if swap is not None and swap >= LEAST_SWAP:
            readings.append(Reading(formats.memory(swap), "text", _("swap")))
        if used is not None and picture.ceiling is not None:
            free = _("{free} of {memory}").format(
                free=formats.memory(max(0.0, picture.ceiling - used)),
                memory=formats.memory_tick(picture.ceiling),
            )
            readings.append(Reading(free, name=_("free")))
        if used is not None:
            colour = "others" if self._is_nearly_full else ""
            readings.append(Reading(formats.memory(used - (run or 0.0)), colour, _("other programs")))
        return readings

    def details(self, x: float) -> list[Reading]:
        picture, memory = self.shown, self.history.memory
        main = (
            _reading(_("main memory"), memory.computer.used, x, formats.memory) if memory.is_of_card else []
        )
        return [
            *_reading(_("tensors"), picture.tensors, x, formats.memory),
            *_reading(_("held"), picture.held, x, formats.memory),
            *main,
            *_reading(_("compressed"), memory.compressed, x, formats.memory),
        ]

    def decorate(self, x: Span, y: Span) -> None:
        memory, picture = self.history.memory, self.shown
        rows = self.canvas.rows()
        text = _("the GPU has {memory}") if memory.is_of_card else _("the computer has {memory}")
        self.ceiling.draw(picture.ceiling, _with_memory(text, picture.ceiling), y, rows)
        limit, ceiling = picture.limit, picture.ceiling
        if limit is not None and ceiling is not None and limit >= SAME_CEILING * ceiling:
            limit = None
        self.limit.draw(limit, _with_memory(_("its GPU may have {memory}"), limit), y, rows)
        spans = level_spans(*memory.pressure.reduced(*x, self.canvas.columns()))
        self.band.draw(spans, x, y, self.canvas)

    def paint_with(self, tokens: Tokens) -> None:
        self.band.paint_with(tokens)
        for line in (self.ceiling, self.limit):
            line.paint_with(tokens, self.canvas.axis_font)

    def wanted_lines(self) -> list[ChartLine]:
        picture, swap = self.shown, self.history.memory.swap
        has_tensors = len(picture.tensors) > 0
        others = [Look.AREA, Look.LINE] if self._is_nearly_full else [Look.HIDDEN]
        lines = [ChartLine("", picture.used, "others", look, column="all_programs_bytes") for look in others]
        lines.append(ChartLine("", picture.run, "run", Look.AREA, WHOLE if has_tensors else 1.0))
        if has_tensors:
            lines += [
                ChartLine("", picture.held, "run", Look.AREA, HELD, column="held_bytes"),
                ChartLine("", picture.tensors, "run", Look.AREA, column="tensor_bytes"),
            ]
        lines.append(ChartLine("", picture.run, "run", column="this_run_bytes"))
        if (swap.extremes() or (0.0, 0.0))[1] >= LEAST_SWAP:
            lines.append(ChartLine("", swap, "text", Look.DASHED, column="swap_bytes"))
        return lines


def _with_memory(text: str, size: int | None) -> str:
    return "" if size is None else text.format(memory=formats.memory_tick(size))


# --- The bar and the grid


class ChartBar(QWidget):
    """Controls above the charts that show and change a `SharedView`."""

    def __init__(self, view: SharedView) -> None:
        super().__init__()
        self._view = view
        self.x_kind = Segmented(
            (
                Segment(XKind.STEP, _("Steps"), _("Draw over training steps")),
                Segment(XKind.EPOCH, _("Epochs"), _("Draw over passes through the data")),
                Segment(
                    XKind.TIME,
                    _("Time"),
                    _("Draw over the time since the start, as memory and device always are"),
                ),
            )
        )
        self.x_kind.setAccessibleName(_("Charts over"))
        self.smoothing = Segmented(
            (
                Segment(Smoothing.OFF, _("Off"), _("The loss of each step")),
                Segment(Smoothing.LIGHT, _("Light"), _("Over about the last 20 steps")),
                Segment(Smoothing.STRONG, _("Strong"), _("Over about the last 100 steps")),
            )
        )
        self.smoothing.setAccessibleName(_("Smoothing of the loss"))
        tip = _("Show the newest part and follow it. Drag across a chart to choose how much.")
        self.follow = link_button(_("Follow"), tip=tip)
        self.follow.setCheckable(True)
        set_flag(self.follow, "stays", True)
        tip = _("A double click on a chart does the same")
        self.show_all = link_button(_("Whole run"), partial(view.zoom, None), tip)
        label = role_label(Role.MUTED, _("Smoothing"))
        self._marks = role_label(Role.MUTED, _("▲ checkpoint  | evaluation  ◆ message"))
        row = hbox(self.x_kind, label, self.smoothing, self._marks, None, self.show_all, self.follow)
        row.insertSpacing(1, SPACING)
        self.setLayout(row)
        self.x_kind.chosen.connect(lambda kind: view.set_x_kind(XKind(kind)))
        self.smoothing.chosen.connect(lambda smoothing: view.set_smoothing(Smoothing(smoothing)))
        self.follow.toggled.connect(view.follow)
        view.changed.connect(self._show_view)
        self._show_view()

    def offer_following(self, is_live: bool) -> None:
        """Show the button "Follow", which makes no sense for a run that is over."""
        self.follow.setVisible(is_live)
        self._show_marks()
        if not is_live:
            self._view.follow(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._show_marks()

    def _show_view(self) -> None:
        self.x_kind.set_value(self._view.x_kind)
        self.smoothing.set_value(self._view.smoothing)
        self.follow.setChecked(self._view.follows)
        self.show_all.setVisible(self._view.span is not None)
        self._show_marks()

    def _show_marks(self) -> None:
        """Explain the marks where there is space for it; pointing at one does so, too."""
        needed = self.sizeHint().width()
        if self._marks.isHidden():
            needed += self._marks.sizeHint().width() + SPACING
        self._marks.setVisible(needed <= self.width())


NARROWEST = 350
"""Width in pixels below which fewer charts are side by side."""

COLUMNS = (4, 2)
"""How many charts may be side by side, so that eight of them leave no gap."""

LOWEST = 188
"""Least height of a row of charts in pixels, before they scroll."""

HIGHEST, PEEK = 540, 52
"""Most height of each of the first two rows, which fill the view but for the titles of the next."""

GAP = SPACING + SPACING // 2


class RunCharts(QWidget):
    """The eight charts of a run, in reading order, as many side by side as fit."""

    def __init__(self, theme: Theme, history: RunHistory) -> None:
        super().__init__()
        self._history = history
        self.queue = RepaintQueue(self)
        self.view = SharedView(self)
        stage = Stage(theme, self.queue, self.view)
        self.loss = LossChart(stage, history)
        self.metrics = MetricsChart(stage, history)
        self.memory = MemoryChart(stage, history)
        self.step_time = StepTimeChart(stage, history)
        self.device = DeviceChart(stage, history)
        self.throughput = ThroughputChart(stage, history)
        self.learning_rate = learning_rate_chart(stage, history)
        self.gradient_norm = gradient_norm_chart(stage, history)
        self.charts = (
            self.loss,
            self.metrics,
            self.memory,
            self.step_time,
            self.device,
            self.throughput,
            self.learning_rate,
            self.gradient_norm,
        )
        for chart in self.charts:
            chart.is_over = None
        self.bar = ChartBar(self.view)
        self.bar.offer_following(False)
        self._columns = 0
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, GUTTER, 0)
        self._grid.setSpacing(GAP)
        self.area = self._scrolling()
        fill(QVBoxLayout(self), self.bar, (self.area, 1), margins=(0, SPACING, 0, 0), spacing=SPACING)
        self._arrange(2)

    def refresh(self, total_steps: int | None, *, is_over: bool | None) -> None:
        """Redraw all charts.

        Args:
            total_steps: Number of planned steps, once known.
            is_over: Whether nothing more will come; None while the past is read.
        """
        self.view.set_end(self._history.last_clock)
        self.bar.offer_following(is_over is False)
        for chart in self.charts:
            chart.is_over = is_over
            if isinstance(chart, StepChart):
                chart.total_steps = total_steps
            chart.refresh()

    def end_work(self) -> None:
        for chart in self.charts:
            chart.end_work()

    def minimumSizeHint(self) -> QSize:
        return QSize(NARROWEST, LOWEST + self.bar.sizeHint().height() + 2 * SPACING)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        most = (self.width() - GUTTER + GAP) // (NARROWEST + GAP)
        self._arrange(next((columns for columns in COLUMNS if columns <= most), min(COLUMNS)))
        room = LOWEST + self.height() - self.minimumSizeHint().height() - PEEK
        is_low = self._columns == max(COLUMNS)
        for row in range(min(COLUMNS)):
            self._grid.setRowMinimumHeight(
                row, LOWEST if is_low else max(LOWEST, min((room - GAP) // 2, HIGHEST))
            )

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        rows = -(-len(self.charts) // columns)
        for place in range(max(COLUMNS)):
            self._grid.setColumnStretch(place, int(place < columns))
        for row in range(len(self.charts)):
            self._grid.setRowStretch(row, int(row < rows))
            self._grid.setRowMinimumHeight(row, LOWEST if row < rows else 0)
        for place, chart in enumerate(self.charts):
            self._grid.addWidget(chart, place // columns, place % columns)
        self._columns = columns

    def _scrolling(self) -> QScrollArea:
        inside = QWidget()
        set_role(inside, Role.PAGE)
        inside.setLayout(self._grid)
        area = QuietScroll()
        set_role(area, Role.PAGE)
        area.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        area.setAccessibleName(_("Charts"))
        area.setWidget(inside)
        area.verticalScrollBar().valueChanged.connect(self._redraw)
        return area

    def _redraw(self) -> None:
        """Redraw charts that have come into view, whose turns were skipped before."""
        for chart in self.charts:
            chart.refresh()
