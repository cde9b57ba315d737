"""Charts of several runs on the same axes, each run in its own colour."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from core.base import formats
from core.base.language import _
from gui.charts.axes import (
    BYTES,
    CLOCK,
    CLOCK_SCALE,
    EPOCH,
    SHARES,
    SHORTEST_CLOCK,
    STEP,
    STEP_TIMES,
    VALUES,
    AxisUnit,
    SharedView,
    XKind,
    XScale,
    share_span,
    step_scale,
)
from gui.charts.chart import Chart, Stage
from gui.charts.history import MEDIAN_STEPS, RunHistory
from gui.charts.overlays import SHAPES, Reading
from gui.charts.series import ChartLine, Look, Series, Span
from gui.charts.training import MARGIN_AT_END, PEAKS, is_finite

NAME_LETTERS = 32
NAME_END_LETTERS = 16


def shortened(name: str) -> str:
    """A long name without its middle: names often differ at their ends."""
    if len(name) <= NAME_LETTERS:
        return name
    return f"{name[: NAME_LETTERS - NAME_END_LETTERS - 1].rstrip()}…{name[-NAME_END_LETTERS:]}"


UNITS = {XKind.STEP: STEP, XKind.EPOCH: EPOCH, XKind.TIME: CLOCK}
SLOW_STEPS = 2.0
"""The axis isn't extended to steps that are slower than usual by this factor."""


@dataclass(frozen=True)
class Curve:
    """A run, and the field of `gui.base.tokens.Tokens` that is its colour."""

    name: str
    colour: str
    history: RunHistory

    @property
    def symbol(self) -> str:
        """The shape of its dots, which goes with its colour: colours alone are hard to tell apart."""
        return [*SHAPES][(int(self.colour.removeprefix("curve")) - 1) % len(SHAPES)]


class CompareView(SharedView):
    """A shared view whose cursor and span are in the axis' unit, as each run has its own clock."""

    def set_x_kind(self, kind: XKind) -> None:
        if kind is not self.x_kind:
            self.span = self.cursor = None
        super().set_x_kind(kind)


class CompareChart(Chart):
    """Base of these charts; subclasses choose the series of a run.

    Args:
        stage: Shared with the other charts; its view is a `CompareView`.
        quantity: Name of the values in a saved table.
    """

    x_column = "step"
    legend_lines = 1

    def __init__(
        self,
        title: str,
        stage: Stage,
        y_unit: AxisUnit,
        quantity: str,
        *,
        write: Callable[[float], str] = formats.loss,
        look: Look = Look.LINE,
        can_be_log: bool = False,
    ) -> None:
        self._curves: list[Curve] = []
        self._curve_of: dict[ChartLine, Curve] = {}
        self._look, self.write, self.quantity = look, write, quantity
        super().__init__(title, stage, RunHistory(), y_unit, can_be_log=can_be_log)

    def show_curves(self, curves: Sequence[Curve]) -> None:
        self._curves = list(curves)
        self.refresh()

    def series_of(self, history: RunHistory) -> Series | None:
        """The series to draw; None if the run has none."""
        raise NotImplementedError

    def scale_of(self, history: RunHistory) -> XScale:
        return step_scale(history, self._view.x_kind)

    def value_at(self, series: Series, x: float) -> float | None:
        return series.at(x)

    def wanted_lines(self) -> list[ChartLine]:
        self._curve_of = {}
        for curve in self._curves:
            series = self.series_of(curve.history)
            if series is not None:
                column = f"{curve.name} {self.quantity}"
                symbol = curve.symbol if self._look is Look.DOTS else "o"
                line = ChartLine(curve.name, series, curve.colour, self._look, column=column, symbol=symbol)
                self._curve_of[line] = curve
        return list(self._curve_of)

    def x_scale(self) -> XScale:
        """Return the scale of the axis itself, which all runs share."""
        return XScale(UNITS[self._view.x_kind], float, float, is_over_steps=self._view.x_kind is XKind.STEP)

    def line_scale(self, line: ChartLine, scale: XScale) -> XScale:
        return self.scale_of(self._curve_of[line].history)

    def x_span(self) -> Span:
        """Return the range of the x axis: to the end of the longest run."""
        ends = [self._end_of(curve, line.series) for line, curve in self._curve_of.items()]
        shortest = SHORTEST_CLOCK if self.x_scale().unit is CLOCK else 0.0
        return 0.0, MARGIN_AT_END * max([shortest, *ends]) or 1.0

    def readings(self, x: float | None) -> list[Reading]:
        return [
            Reading(
                self.write(value), curve.colour, shortened(curve.name), is_named=False, symbol=line.symbol
            )
            for line, curve in self._curve_of.items()
            if is_finite(value := self._value(curve, line.series, x))
        ]

    def position_readings(self, x: float) -> list[Reading]:
        unit = self.x_scale().unit
        if unit is CLOCK:
            return [Reading(formats.duration(x), name=_("at"), is_named=False)]
        if unit is EPOCH:
            return [Reading(f"{x:.2f}", name=_("epoch"))]
        return [Reading(formats.count(round(x)), name=_("step"))]

    def empty_text(self) -> str:
        return "" if any(len(line.series) for line in self.lines) else _("No values so far")

    def _value(self, curve: Curve, series: Series, x: float | None) -> float | None:
        """The value at a position on the axis, or the newest if it is None."""
        if x is None or not len(series):
            return series.last
        if x > self._end_of(curve, series):
            return None
        position = self.scale_of(curve.history).nearest(x)
        return None if position is None else self.value_at(series, position)

    def _end_of(self, curve: Curve, series: Series) -> float:
        """Position of a run's last point on the axis."""
        last = series.last_x
        return 0.0 if last is None else float(self.scale_of(curve.history).to_axis(np.array([last]))[0])


class CompareLoss(CompareChart):
    """The training losses, smoothed as the view says."""

    leaves_out = True

    def __init__(self, stage: Stage) -> None:
        super().__init__(_("Training loss"), stage, VALUES, "train_loss", can_be_log=True)

    def series_of(self, history: RunHistory) -> Series:
        return history.loss_smoothed(self._view.smoothing)


class CompareMetric(CompareChart):
    """One metric of the evaluations."""

    def __init__(self, stage: Stage) -> None:
        self.metric_name = "eval_loss"
        super().__init__(_("Evaluation"), stage, VALUES, self.metric_name, look=Look.DOTS)

    def show_metric(self, name: str) -> None:
        self.metric_name = self.quantity = name
        self.set_title(formats.metric_title(name) if name != "eval_loss" else _("Validation loss"))
        self.write = formats.metric_format(name)
        self.canvas.y_axis.set_unit(SHARES if formats.is_share(name) else VALUES)
        self.refresh()

    def series_of(self, history: RunHistory) -> Series | None:
        if not len(history.step_seconds):  # as of a test, whose one point would be at step 0
            return None
        return history.eval_loss if self.metric_name == "eval_loss" else history.metrics.get(self.metric_name)

    def value_at(self, series: Series, x: float) -> float | None:
        return series.up_to(x)

    def _value(self, curve: Curve, series: Series, x: float | None) -> float | None:
        """Return the value at a position, or that of the model that was kept if it is None."""
        return series.up_to(curve.history.model_step) if x is None else super()._value(curve, series, x)

    def y_span(self, drawn: Span) -> Span:
        return share_span(drawn) if formats.is_share(self.metric_name) else drawn


class CompareStepTime(CompareChart):
    """The median duration of the last steps."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(_("Step time"), stage, STEP_TIMES, "step_seconds", write=formats.step_time)
        text = _("The median of the last {count} steps, so that a single slow one doesn't hide the rest.")
        self.explain(text.format(count=MEDIAN_STEPS))

    def series_of(self, history: RunHistory) -> Series:
        return history.median_seconds

    def y_span(self, drawn: Span) -> Span:
        peaks = [line.series.reduced(-np.inf, np.inf, PEAKS)[1] for line in self.lines]
        known = [float(np.nanpercentile(values, 90)) for values in peaks if np.isfinite(values).any()]
        usual = max(known, default=0.0)
        return 0.0, drawn[1] if drawn[1] <= SLOW_STEPS * usual else 1.5 * usual


class CompareMemory(CompareChart):
    """Memory of each run, always over time: it is in use between steps, too."""

    x_column = "seconds"

    def __init__(self, stage: Stage) -> None:
        super().__init__(_("Memory"), stage, BYTES, "bytes", write=formats.memory)
        self.explain(_("Memory of each run on the device that trains, over the time worked."))

    def series_of(self, history: RunHistory) -> Series:
        return history.memory.picture.run

    def scale_of(self, history: RunHistory) -> XScale:
        return CLOCK_SCALE

    def x_scale(self) -> XScale:
        return CLOCK_SCALE

    def y_span(self, drawn: Span) -> Span:
        return 0.0, drawn[1]
