"""The charts over training steps: loss, metrics, step time, throughput, learning rate, gradient norm."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

from core.base import formats
from core.base.language import _
from gui.base.tokens import Tokens
from gui.charts.axes import (
    SHARES,
    SHORTEST_CLOCK,
    STEP_TIMES,
    VALUES,
    AxisUnit,
    XKind,
    XScale,
    epochs_per_step,
    share_span,
    step_scale,
)
from gui.charts.chart import Chart, Stage
from gui.charts.history import MEDIAN_STEPS, PARTS, RunHistory, Smoothing
from gui.charts.overlays import Reading
from gui.charts.series import ChartLine, Floats, Look, Series, Span, mixed

MARGIN_AT_END = 1.015
"""The axis extends a little beyond the last step, so that the dot of the last evaluation is whole."""

FEWEST_STEPS = 20


def shown_steps(planned: int, reached: float) -> float:
    """How many steps of a live run to show: all, or a part that is halved until the steps so far are a quarter of it.

    So the axis jumps a few times, and not at every step.
    """
    shown = float(planned)
    while shown / 2 >= max(FEWEST_STEPS, 4 * reached):
        shown /= 2
    return shown


def is_finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


class StepChart(Chart):
    """Base of the charts over training steps, drawn over steps, epochs or time as the page's view says."""

    x_column = "step"

    def __init__(
        self, title: str, stage: Stage, history: RunHistory, y_unit: AxisUnit, *, can_be_log: bool = False
    ) -> None:
        self.total_steps: int | None = None
        super().__init__(title, stage, history, y_unit, can_be_log=can_be_log)

    def x_scale(self) -> XScale:
        return step_scale(self.history, self._view.x_kind)

    def x_span(self) -> Span:
        if self._view.x_kind is XKind.TIME:
            return 0.0, max(SHORTEST_CLOCK, self.history.last_clock)
        reached = self.history.step_seconds.last_x or 1.0
        planned = reached if self.is_over else shown_steps(self.total_steps or 1, reached)
        steps = MARGIN_AT_END * max(reached, planned)
        return 0.0, steps * (epochs_per_step(self.history) if self._view.x_kind is XKind.EPOCH else 1.0)

    def empty_text(self) -> str:
        if len(self.history.step_seconds):
            return ""
        return _("No step was made") if self.is_over else _("No steps yet")

    def y_span(self, drawn: Span) -> Span:
        return 0.0, drawn[1]

    def evaluated(
        self, line: ChartLine, x: float | None, name: str, write: Callable[[float], str]
    ) -> list[Reading]:
        """The evaluation at or before `x`; without it that of the model which was kept, or the newest."""
        series = line.series
        value = series.up_to(self.history.model_step if x is None else x)
        note = _("(best)") if x is None and value != series.last else ""
        return (
            [] if value is None else [Reading(write(value), line.colour, name, note=note, symbol=line.symbol)]
        )

    def position_readings(self, x: float) -> list[Reading]:
        epoch, clock = self.history.step_epoch.between(x), self.history.step_clock.between(x)
        # Translators: the noun before a number, one update of the weights
        readings = [Reading(formats.count(round(x)), name=_("step"))]
        if epoch is not None:
            readings.append(Reading(f"{epoch:.2f}", name=_("epoch")))
        if clock is not None:
            readings.append(Reading(formats.duration(clock), name=_("after")))
        return readings

    def extra_columns(self) -> list[ChartLine]:
        return [
            ChartLine("", self.history.step_epoch, "", column="epoch"),
            ChartLine("", self.history.step_clock, "", column="seconds"),
        ]


class ThroughputChart(StepChart):
    """Samples or tokens per second of each step; evaluations and checkpoints between steps don't count."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._counts_tokens = False
        super().__init__(_("Throughput"), stage, history, VALUES)
        self.add_switch(_("Count tokens"), self.count_tokens)

    def count_tokens(self, counts_tokens: bool) -> None:
        self._counts_tokens = counts_tokens
        self.refresh()

    def wanted_lines(self) -> list[ChartLine]:
        name = "tokens_per_second" if self._counts_tokens else "samples_per_second"
        series = getattr(self.history, name)
        return [
            ChartLine("", series, "run", Look.FAINT, column=name),
            ChartLine("", series, "run", Look.MEANS),
        ]

    def readings(self, x: float | None) -> list[Reading]:
        samples, tokens = self.history.samples_per_second.at(x), self.history.tokens_per_second.at(x)
        readings = []
        if is_finite(samples):
            text, colour = formats.rate(samples), "" if self._counts_tokens else "run"
            readings.append(Reading(text, colour, _("examples"), is_named=False))
        if is_finite(tokens):
            text = _("{count} tokens/s").format(count=formats.three_figures(tokens))
            readings.append(Reading(text, "run" if self._counts_tokens else "", _("tokens"), is_named=False))
        return readings

    def empty_text(self) -> str:
        if self._counts_tokens and len(self.history.step_seconds) and not self.lines[0].series.extremes():
            return _("This run has no tokens")
        return super().empty_text()


class ValueChart(StepChart):
    """One value of each step.

    Args:
        name: Its name in the box at the cursor.
        has_means: Whether means are drawn over the line.
        unknown: Text for a run without values.
    """

    leaves_out = True

    def __init__(
        self,
        title: str,
        stage: Stage,
        history: RunHistory,
        line: ChartLine,
        *,
        name: str,
        write: Callable[[float], str],
        has_means: bool = False,
        unknown: str = "",
    ) -> None:
        self._value_lines = [line, ChartLine("", line.series, line.colour, Look.MEANS)][: 1 + has_means]
        self._name, self._write, self._unknown = name, write, unknown
        super().__init__(title, stage, history, VALUES, can_be_log=True)

    def wanted_lines(self) -> list[ChartLine]:
        return self._value_lines

    def readings(self, x: float | None) -> list[Reading]:
        line = self._value_lines[0]
        value = line.series.at(x)
        return [] if value is None else [Reading(self._write(value), line.colour, self._name, is_named=False)]

    def empty_text(self) -> str:
        if self._unknown and len(self.history.step_seconds) and not self._value_lines[0].series.extremes():
            return self._unknown
        return super().empty_text()


def learning_rate_chart(stage: Stage, history: RunHistory) -> StepChart:
    return ValueChart(
        _("Learning rate"),
        stage,
        history,
        ChartLine("", history.learning_rate, "run", column="learning_rate"),
        name=_("learning rate"),
        write=lambda rate: formats.plain_number(float(f"{rate:.4g}")),
    )


def gradient_norm_chart(stage: Stage, history: RunHistory) -> StepChart:
    """The norm of all gradients before clipping."""
    return ValueChart(
        _("Gradient norm"),
        stage,
        history,
        ChartLine("", history.grad_norm, "gradients", Look.FAINT, column="grad_norm"),
        name=_("norm"),
        write=formats.loss,
        has_means=True,
        unknown=_("Recorded only if gradients are clipped"),
    )


class LossChart(StepChart):
    """Training loss of each step and smoothed, validation loss as dots."""

    leaves_out = True

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        super().__init__(_("Loss"), stage, history, VALUES, can_be_log=True)

    def wanted_lines(self) -> list[ChartLine]:
        history, is_raw = self.history, self._view.smoothing is Smoothing.OFF
        lines = [ChartLine("", history.loss, "run", Look.LINE if is_raw else Look.FAINT, column="train_loss")]
        if not is_raw:
            lines.append(ChartLine("", self._smoothed, "run"))
        return [*lines, self._validation]

    @property
    def _validation(self) -> ChartLine:
        return ChartLine("", self.history.eval_loss, "optimizer", Look.DOTS, column="eval_loss")

    @property
    def _smoothed(self) -> Series:
        is_off = self._view.smoothing is Smoothing.OFF
        return self.history.loss_smoothed(Smoothing.LIGHT if is_off else self._view.smoothing)

    def y_span(self, drawn: Span) -> Span:
        return drawn

    def readings(self, x: float | None) -> list[Reading]:
        history, readings = self.history, []
        is_smoothed = x is None and self._view.smoothing is not Smoothing.OFF
        train = self._smoothed.last if is_smoothed else history.loss.at(x)
        if train is not None and math.isnan(train):
            text = formats.not_finite(math.nan)
            if x is None and history.first_non_finite is not None:
                step, value = history.first_non_finite
                text = _("{value} since step {step}").format(
                    value=formats.not_finite(value), step=formats.count(step)
                )
            readings.append(Reading(text, "bad", _("train"), is_named=False))
        elif train is not None:
            note = _("(smoothed)") if is_smoothed else ""
            readings.append(Reading(formats.loss(train), "run", _("train"), note=note))
        return [*readings, *self.evaluated(self._validation, x, _("validation"), formats.loss)]

    def details(self, x: float) -> list[Reading]:
        value = self._smoothed.at(x)
        return [] if value is None else [Reading(formats.loss(value), name=_("smoothed"))]

    def empty_text(self) -> str:
        if len(self.history.loss) and self.history.loss.extremes() is None:
            return _("Every loss so far is NaN")
        return super().empty_text()


class MetricsChart(StepChart):
    """The metric of the evaluations by which the run is judged, and others that share its axis."""

    LOOKS = (("activations", "o"), ("gradients", "s"), ("optimizer", "d"), ("run", "t"))
    LARGER = 3
    """Pixels by which the dots of each further metric are larger: equal ones show round those before."""
    SHORT = {"eval_top5_accuracy": _("Top-5"), "eval_token_accuracy": _("Tokens")}
    TOGETHER = (formats.is_share, formats.CORRELATIONS.__contains__)

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        super().__init__(_("Evaluation"), stage, history, VALUES)

    def wanted_lines(self) -> list[ChartLine]:
        known = {**self.history.metrics, "eval_loss": self.history.eval_loss}
        found = [name for name, series in known.items() if len(series)]
        lead = next((name for name in formats.METRIC_NAMES if name in found), "")
        names = next(([name for name in found if of(name)] for of in self.TOGETHER if of(lead)), [lead])
        self.canvas.y_axis.set_unit(SHARES if formats.is_share(lead) else VALUES)
        self.leaves_out = lead in formats.LESS_IS_BETTER
        lines = [
            ChartLine(
                self.SHORT.get(name, formats.metric_title(name)),
                known[name],
                look[0],
                Look.DOTS,
                column=name,
                symbol=look[1],
                size=7 + self.LARGER * min(place, len(self.LOOKS) - 1),
            )
            for place, (name, look) in enumerate(
                zip(filter(None, names), itertools.cycle(self.LOOKS), strict=False)
            )
        ]
        return lines[::-1]

    def y_span(self, drawn: Span) -> Span:
        return share_span(drawn) if self.canvas.y_axis.unit is SHARES else drawn

    def readings(self, x: float | None) -> list[Reading]:
        return [
            reading
            for line in reversed(self.lines)
            for reading in self.evaluated(line, x, line.name, formats.metric_format(line.column))
        ]

    def empty_text(self) -> str:
        if self.lines:
            return ""
        return _("Not evaluated") if self.is_over else _("Not evaluated yet")


SPIKE = 4.0
"""The axis isn't extended to steps that are slower than usual by this factor; the legend names the slowest."""

MARGIN_AT_TOP = 1.03
"""The slowest step stays off the upper edge, where its line or dot would be cut."""

PEAKS = 200
"""Number of blocks of steps; the 95th percentile of their slowest steps is the usual duration."""

LEAST_SHARE = 0.005
"""Pauses with a smaller share of the time aren't named in the legend."""

COLOURS = (("others", 1.0), ("run", 0.75), ("activations", 0.75), ("optimizer", 0.75), ("line", 1.0))
"""Of each part, and of the rest: a colour of `gui.base.tokens.Tokens` and its strength over the card."""


@dataclass(frozen=True)
class StackedParts:
    """Stacked parts of steps.

    `x` are steps, shape (k,); `tops` the upper edges in seconds, the last one that of the whole step, shape (5, k).
    """

    x: Floats
    tops: Floats

    @property
    def shares(self) -> list[float]:
        """The five parts' shares in the total time, 0 to 1."""
        seconds = np.diff(self.tops, axis=0, prepend=0.0).sum(axis=1)
        return list(seconds / (seconds.sum() or 1.0))


class StepTimeChart(StepChart):
    """Wall time of each step over its parts, which are averaged if there are more steps than pixels."""

    legend_lines = 2

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self.parts: StackedParts | None = None
        self.pauses = pg.PlotDataItem(connect="pairs")  # upright lines, cut off at the top
        self.pauses.setZValue(-5)
        self._pause_share = 0.0
        self._bands = [pg.PlotDataItem(fillLevel=0.0, pen=None) for _colour in COLOURS]
        self._part_names = _("data"), _("forward"), _("backward"), _("optimizer"), _("other")
        super().__init__(_("Step time"), stage, history, STEP_TIMES)
        for depth, band in enumerate(reversed(self._bands)):  # the whole step is the lowest
            band.setZValue(depth - 30)
            self.add_decoration(band)
        self.add_decoration(self.pauses)
        self.explain(
            _(
                "Where the time of a step goes. A GPU works asynchronously, so Hone waits for it between the parts in "
                "a few steps only, which costs less than 1 % of the time; other steps show wall time. Upright lines "
                "are evaluations and checkpoints that the training waited for. The line across is the median of "
                "the last {count} steps."
            ).format(count=MEDIAN_STEPS)
        )

    def y_span(self, drawn: Span) -> Span:
        _x, peaks = self.history.step_seconds.reduced(-np.inf, np.inf, PEAKS)
        usual = float(np.percentile(peaks, 95)) if len(peaks) else drawn[1]
        return 0.0, MARGIN_AT_TOP * drawn[1] if drawn[1] <= SPIKE * usual else 1.5 * usual

    def draw_more(self, low: float, high: float, scale: XScale) -> None:
        self.parts = parts_between(self.history, low, high, self.canvas.columns())
        x = np.empty(0) if self.parts is None else scale.to_axis(self.parts.x)
        for number, band in enumerate(self._bands):
            band.setData(x, x if self.parts is None else self.parts.tops[number])
        pauses = [pause for pause in self.history.pauses if low <= pause.step <= high]
        seconds = np.array([pause.seconds for pause in pauses], float)
        steps = scale.to_axis(np.array([pause.step for pause in pauses], float))
        heights = np.stack((np.zeros(len(pauses)), seconds), axis=1).ravel()
        self.pauses.setData(np.repeat(steps, 2), heights)
        clock = self.history.step_clock
        duration = (clock.between(high) or 0.0) - (clock.between(low) or 0.0)
        self._pause_share = min(1.0, seconds.sum() / duration) if duration > 0 else 0.0

    def readings(self, x: float | None) -> list[Reading]:
        """The step at `x` and its parts; else the recent median, the share of each part and the slowest step."""
        history = self.history
        if x is not None:
            whole = history.step_seconds.at(x)
            if whole is None:
                return []
            step = Reading(formats.step_time(whole), self._line_colour, _("step time"), is_named=False)
            return [step, *self._part_readings(x, whole)]
        median, extremes = history.median_seconds.last, history.step_seconds.extremes()
        if median is None or extremes is None:
            return []
        readings = [Reading(formats.step_time(median), self._line_colour, _("recently"))]
        if self.parts is not None:
            shares = zip(self._part_names, COLOURS, formats.whole_shares(self.parts.shares), strict=True)
            readings += [
                Reading(formats.whole_percent(share), colour, name)
                for name, (colour, _strength), share in sorted(shares, key=lambda part: -part[2])
                if share
            ]
        if self._pause_share >= LEAST_SHARE:
            # of something else than the parts of a step, which make 100 % without them
            share = _("{share} of the whole time").format(share=formats.whole_percent(self._pause_share))
            readings.append(Reading(share, "gradients", _("pauses")))
        if extremes[1] > SPIKE * median:
            readings.append(Reading(formats.step_time(extremes[1]), name=_("longest")))
        return readings

    def details(self, x: float) -> list[Reading]:
        names = {"evaluation": _("evaluation after it"), "checkpoint": _("checkpoint after it")}
        return [
            Reading(formats.step_time(pause.seconds), name=names[pause.kind])
            for pause in self.history.pauses
            if pause.step == round(x)
        ]

    def paint_with(self, tokens: Tokens) -> None:
        ground = QColor(tokens.surface)
        for band, (name, strength) in zip(self._bands, COLOURS, strict=True):
            band.setFillBrush(pg.mkBrush(mixed(QColor(getattr(tokens, name)), ground, strength)))
        self.pauses.setPen(pg.mkPen(tokens.gradients, width=1))

    def wanted_lines(self) -> list[ChartLine]:
        history = self.history
        lines = [
            ChartLine("", history.step_seconds, self._line_colour, Look.FAINT, column="step_seconds"),
            ChartLine("", history.median_seconds, self._line_colour),
        ]
        if history.forward_seconds.extremes() is not None:
            lines += [
                ChartLine("", getattr(history, part), "others", Look.HIDDEN, column=part) for part in PARTS
            ]
        return lines

    @property
    def _line_colour(self) -> str:
        return "activations" if self.history.forward_seconds.extremes() is None else "text"

    def _part_readings(self, x: float, whole: float) -> list[Reading]:
        """The parts that were measured of a step, the longest first."""
        seconds = [getattr(self.history, part).at(x) for part in PARTS]
        known = [value for value in seconds if is_finite(value)]
        if len(known) == len(PARTS):
            seconds.append(max(0.0, whole - sum(known)))
        parts = [part for part in zip(seconds, self._part_names, COLOURS, strict=False) if is_finite(part[0])]
        return [
            Reading(formats.step_time(value), colour, name)
            for value, name, (colour, _strength) in sorted(parts, key=lambda part: -part[0])
        ]


def parts_between(history: RunHistory, low: float, high: float, columns: int) -> StackedParts | None:
    """The parts of the steps from `low` to `high`, averaged to at most two per column; None if none are known."""
    means = [getattr(history, name).means(low, high, columns) for name in (*PARTS, "step_seconds")]
    rows = np.stack([values for _x, values in means])
    known = np.isfinite(rows).all(axis=0)
    if not known.any():
        return None
    tops = np.cumsum(rows[:-1, known], axis=0)
    return StackedParts(means[0][0][known], np.vstack([tops, np.maximum(rows[-1, known], tops[-1])]))
