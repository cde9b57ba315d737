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
    epochs_a_step,
    share_span,
    step_scale,
)
from gui.charts.chart import Chart, Stage
from gui.charts.history import PARTS, RunHistory, Smoothing
from gui.charts.overlays import Reading, Span
from gui.charts.series import Floats, Line, Look, Series, mixed

ROOM_FOR_DOTS = 1.015
"""The axis goes on a little beyond the last step, so that the dot of the last evaluation is whole."""


FEWEST_STEPS = 20
"""A run that has hardly begun shows at least so many."""


def shown_of(planned: int, reached: float) -> float:
    """How many steps of a live run are shown: all, or so small a part of these that what there is can be seen.

    The part is halved, so that the axis jumps a few times and not at every step.
    """
    shown = float(planned)
    while shown / 2 >= max(FEWEST_STEPS, 4 * reached):
        shown /= 2
    return shown


class StepChart(Chart):
    """Base of the charts over training steps. They are drawn over steps, epochs or time, as the page's view says."""

    place_column = "step"

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
        planned = reached if self.is_over else shown_of(self.total_steps or 1, reached)
        steps = ROOM_FOR_DOTS * max(reached, planned)
        return 0.0, steps * (epochs_a_step(self.history) if self._view.x_kind is XKind.EPOCH else 1.0)

    def empty_text(self) -> str:
        if len(self.history.step_seconds):
            return ""
        return _("No step was made") if self.is_over else _("No steps yet")

    def y_span(self, drawn: Span) -> Span:
        return 0.0, drawn[1]

    def figures(self, x: float | None) -> list[Reading]:
        """What the legend says, but for the step."""
        raise NotImplementedError

    def values(self, x: float) -> list[tuple[str, str]]:
        """What the box at the cursor says of the step `x`, as names with values."""
        raise NotImplementedError

    def readings(self, x: float | None) -> list[Reading]:
        step = [] if x is None else [Reading(_("step {}").format(formats.count(round(x))))]
        return self.figures(x) + step

    def details(self, x: float) -> list[tuple[str, str]]:
        epoch, clock = self.history.epoch_of_step(x), self.history.clock_of_step(x)
        found = [(_("step"), formats.count(round(x)))]
        if epoch is not None:
            found.append((_("epoch"), f"{epoch:.2f}"))
        if clock is not None:
            found.append((_("after"), formats.duration(clock)))
        return found + self.values(x)

    def beside(self) -> list[Line]:
        history = self.history
        return [
            Line("", history.step_epoch, "", column="epoch"),
            Line("", history.step_clock, "", column="seconds"),
        ]


class ThroughputChart(StepChart):
    """Samples a second of each step, or tokens; evaluations and checkpoints lie between steps and don't count."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._counts_tokens = False
        super().__init__(_("Throughput"), stage, history, VALUES)
        self.add_switch(_("Count tokens"), self.count_tokens)

    def count_tokens(self, tokens: bool) -> None:
        """Draw tokens a second in place of samples."""
        self._counts_tokens = tokens
        self.refresh()

    def wanted_lines(self) -> list[Line]:
        name = "tokens_per_second" if self._counts_tokens else "samples_per_second"
        drawn = getattr(self.history, name)
        return [Line("", drawn, "run", Look.FAINT, column=name), Line("", drawn, "run", Look.MEANS)]

    def figures(self, x: float | None) -> list[Reading]:
        samples, tokens = self.history.samples_per_second.at(x), self.history.tokens_per_second.at(x)
        found = []
        if is_finite(samples):
            words = _("{} rows/s").format(formats.three_figures(samples))
            found.append(Reading(words, "" if self._counts_tokens else "run"))
        if is_finite(tokens):
            words = _("{} tokens/s").format(formats.three_figures(tokens))
            found.append(Reading(words, "run" if self._counts_tokens else ""))
        return found

    def values(self, x: float) -> list[tuple[str, str]]:
        samples, tokens = self.history.samples_per_second.at(x), self.history.tokens_per_second.at(x)
        pairs = ((_("rows/s"), samples), (_("tokens/s"), tokens))
        return [(name, formats.three_figures(value)) for name, value in pairs if is_finite(value)]

    def empty_text(self) -> str:
        if self._counts_tokens and len(self.history.step_seconds) and not self.lines[0].series.extremes():
            return _("This run has no tokens")
        return super().empty_text()


def is_finite(value: float | None) -> TypeGuard[float]:
    """Whether there is a value; a pace isn't finite where something was compiled."""
    return value is not None and math.isfinite(value)


class ValueChart(StepChart):
    """One value of each step, with the means of its neighbours where `means` says so.

    `name` stands before the value in the box at the cursor; `unknown` says why no step has a value.
    """

    def __init__(
        self,
        title: str,
        stage: Stage,
        history: RunHistory,
        line: Line,
        *,
        name: str,
        means: bool = False,
        write: Callable[[float], str],
        unknown: str = "",
    ) -> None:
        self._line, self._name, self._write, self._unknown = line, name, write, unknown
        self._means = [Line("", line.series, line.colour, Look.MEANS)] if means else []
        super().__init__(title, stage, history, VALUES, can_be_log=True)

    def wanted_lines(self) -> list[Line]:
        return [self._line, *self._means]

    def figures(self, x: float | None) -> list[Reading]:
        value = self._line.series.at(x)
        return [] if value is None else [Reading(self._write(value), self._line.colour)]

    def values(self, x: float) -> list[tuple[str, str]]:
        value = self._line.series.at(x)
        return [] if value is None else [(self._name, self._write(value))]

    def empty_text(self) -> str:
        if self._unknown and len(self.history.step_seconds) and self._line.series.extremes() is None:
            return self._unknown
        return super().empty_text()


def learning_rate_chart(stage: Stage, history: RunHistory) -> StepChart:
    """The learning rate of each step, as the schedule had it."""
    line = Line("", history.learning_rate, "run", column="learning_rate")
    return ValueChart(
        _("Learning rate"), stage, history, line, name=_("learning rate"), write=lambda value: f"{value:.4g}"
    )


def gradient_norm_chart(stage: Stage, history: RunHistory) -> StepChart:
    """The norm of all gradients of a step, before clipping; known only where gradients are clipped."""
    return ValueChart(
        _("Gradient norm"),
        stage,
        history,
        Line("", history.grad_norm, "gradients", Look.FAINT, column="grad_norm"),
        name=_("norm"),
        means=True,
        write=formats.loss,
        unknown=_("Known only where gradients are clipped"),
    )


class LossChart(StepChart):
    """Training loss as it came and smoothed, evaluation loss as dots."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        super().__init__(_("Loss"), stage, history, VALUES, can_be_log=True)

    def wanted_lines(self) -> list[Line]:
        history, is_raw = self.history, self._view.smoothing is Smoothing.OFF
        lines = [Line("", history.loss, "run", Look.LINE if is_raw else Look.FAINT, column="train_loss")]
        if not is_raw:
            lines.append(Line("", self._smoothed, "run"))
        return [*lines, Line("", history.eval_loss, "optimizer", Look.DOTS, column="eval_loss")]

    @property
    def _smoothed(self) -> Series:
        return self.history.loss_smoothed(
            max(self._view.smoothing, Smoothing.LIGHT, key=list(Smoothing).index)
        )

    def y_span(self, drawn: Span) -> Span:
        return drawn

    def figures(self, x: float | None) -> list[Reading]:
        """Training loss (the newest one smoothed) and evaluation loss; a loss that is no number is said so."""
        history, found = self.history, []
        is_smoothed = x is None and self._view.smoothing is not Smoothing.OFF
        train = self._smoothed.last if is_smoothed else history.loss.at(x)
        if train is not None and math.isnan(train):
            words = formats.not_finite(math.nan)
            if x is None and history.first_non_finite is not None:
                step, value = history.first_non_finite
                words = _("{} since step {}").format(formats.not_finite(value), formats.count(step))
            found.append(Reading(words, "bad"))
        elif train is not None:
            found.append(Reading(_("train {}").format(formats.loss(train)), "run"))
        held_out = history.eval_loss.up_to(x)
        if held_out is not None:
            found.append(Reading(_("eval {}").format(formats.loss(held_out)), "optimizer"))
        if is_smoothed and train is not None:
            found.append(Reading(_("train is smoothed")))
        return found

    def values(self, x: float) -> list[tuple[str, str]]:
        values = (
            (_("train"), self.history.loss.at(x)),
            (_("smoothed"), self._smoothed.at(x)),
            (_("eval"), self.history.eval_loss.up_to(x)),
        )
        return [(name, formats.loss(value)) for name, value in values if value is not None]

    def empty_text(self) -> str:
        if len(self.history.loss) and self.history.loss.extremes() is None:
            return _("Every loss so far is not a number")
        return super().empty_text()


class MetricsChart(StepChart):
    """Accuracy, F1 and whatever else each evaluation measured."""

    COLOURS = ("activations", "gradients", "optimizer", "run")

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        super().__init__(_("Evaluation"), stage, history, SHARES)

    def wanted_lines(self) -> list[Line]:
        metrics = [(name, series) for name, series in self.history.metrics.items() if formats.is_share(name)]
        lines = [
            Line(formats.metric_title(name), series, colour, Look.DOTS, column=name)
            for (name, series), colour in zip(metrics, itertools.cycle(self.COLOURS), strict=False)
        ]
        return lines[::-1]

    def y_span(self, drawn: Span) -> Span:
        return share_span(drawn)

    def _measured(self, x: float | None) -> list[tuple[Line, float]]:
        values = ((line, line.series.up_to(x)) for line in reversed(self.lines))
        return [(line, value) for line, value in values if value is not None]

    def figures(self, x: float | None) -> list[Reading]:
        return [
            Reading(f"{line.name} {formats.share(value)}", line.colour, line.name)
            for line, value in self._measured(x)
        ]

    def values(self, x: float) -> list[tuple[str, str]]:
        return [(line.name, formats.share(value)) for line, value in self._measured(x)]

    def empty_text(self) -> str:
        if self.lines:
            return ""
        return _("Never evaluated") if self.is_over else _("Not evaluated yet")


SPIKE = 4.0
"""A step so many times slower than nearly all would squash the rest: it runs out at the top, the legend names it."""

ROOM_ABOVE = 1.03
"""The slowest step stays off the upper edge, where its line or dot would be cut."""

PEAKS = 200
"""Blocks of steps whose slowest tell what is usual."""

LEAST_SHARE = 0.005
"""What takes less of the time isn't named in the legend."""

COLOURS = (("others", 1.0), ("run", 0.75), ("activations", 0.75), ("optimizer", 0.75), ("others", 0.4))
"""Of each part, and of the rest: a colour of `gui.base.theme.Tokens` and how strong it is over the card."""


@dataclass(frozen=True)
class Parts:
    """Parts of steps, one on the other.

    `x` are steps, shape (k,); `tops` each part's upper edge in seconds, the last one that of the whole step, shape
    (5, k).
    """

    x: Floats
    tops: Floats

    @property
    def shares(self) -> Floats:
        """What each part takes of all the time, 0 to 1. Shape (5,)."""
        seconds = np.diff(self.tops, axis=0, prepend=0.0).sum(axis=1)
        whole = seconds.sum()
        return seconds / whole if whole else seconds


class StepTimeChart(StepChart):
    """Wall time of each step over its parts, which are averages where there are more steps than pixels."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._parts: Parts | None = None
        self._pauses = pg.PlotDataItem(connect="pairs")  # upright lines; a long one runs out at the top
        self._pauses.setZValue(-5)
        self._pause_share = 0.0
        self._bands = [pg.PlotDataItem(fillLevel=0.0, pen=None) for _colour in COLOURS]
        super().__init__(_("Step time"), stage, history, STEP_TIMES)
        for depth, band in enumerate(reversed(self._bands)):  # the whole step undermost
            band.setZValue(depth - 30)
            self.add_decoration(band)
        self.add_decoration(self._pauses)
        self.explain(
            _(
                "Where the time of a step goes. On a GPU, which works on after it was told to, Hone waits for it "
                "between the parts in one step of many, so seldom that it is meant to cost less than 1 % of the time; "
                "the other steps are wall time. Upright lines are what steps waited for: evaluations and checkpoints."
            )
        )

    def y_span(self, drawn: Span) -> Span:
        _, peaks = self.history.step_seconds.reduced(-np.inf, np.inf, PEAKS)
        usual = float(np.percentile(peaks, 95)) if len(peaks) else drawn[1]
        return 0.0, ROOM_ABOVE * drawn[1] if drawn[1] <= SPIKE * usual else 1.5 * usual

    def draw_more(self, low: float, high: float, scale: XScale) -> None:
        self._parts = parts_between(self.history, low, high, self._canvas.columns())
        places = np.empty(0) if self._parts is None else scale.to_axis(self._parts.x)
        for number, band in enumerate(self._bands):
            band.setData(places, places if self._parts is None else self._parts.tops[number])
        pauses = [pause for pause in self.history.pauses if low <= pause.step <= high]
        steps, seconds = (
            np.array([getattr(pause, name) for pause in pauses], float) for name in ("step", "seconds")
        )
        heights = np.stack((np.zeros(len(pauses)), seconds), axis=1).ravel()
        self._pauses.setData(np.repeat(scale.to_axis(steps), 2), heights)
        lasted = (self.history.clock_of_step(high) or 0.0) - (self.history.clock_of_step(low) or 0.0)
        self._pause_share = min(1.0, seconds.sum() / lasted) if lasted > 0 else 0.0

    def figures(self, x: float | None) -> list[Reading]:
        """The step under the cursor, or the median, the longest of all and what part takes how much."""
        history = self.history
        if x is not None:
            longest_first = sorted(self._named_parts(x), key=lambda part: -part[2])
            return [Reading(formats.step_time(history.step_seconds.at(x)))] + [
                Reading(f"{name} {formats.step_time(value)}", colour) for name, colour, value in longest_first
            ]
        median, longest = history.median_seconds.last, history.longest_step
        if median is None or longest is None:
            return []
        found = [Reading(_("median {}").format(formats.step_time(median))), *self._share_readings()]
        if self._pause_share >= LEAST_SHARE:
            words = _("evaluating, saving {} of all time")
            found.append(Reading(words.format(formats.whole_percent(self._pause_share)), "gradients"))
        if longest > SPIKE * median:
            found.append(Reading(_("longest {}").format(formats.step_time(longest))))
        return found

    def values(self, x: float) -> list[tuple[str, str]]:
        whole = self.history.step_seconds.at(x)
        if whole is None:
            return []
        parts = [(name, formats.step_time(value)) for name, _colour, value in self._named_parts(x)]
        names = {"evaluation": _("evaluation after it"), "checkpoint": _("checkpoint after it")}
        pauses = [
            (names[pause.kind], formats.step_time(pause.seconds))
            for pause in self.history.pauses
            if pause.step == round(x)
        ]
        return [(_("step time"), formats.step_time(whole)), *parts, *pauses]

    def colour(self, tokens: Tokens) -> None:
        ground = QColor(tokens.surface)
        for band, (name, strength) in zip(self._bands, COLOURS, strict=True):
            band.setFillBrush(pg.mkBrush(mixed(QColor(getattr(tokens, name)), ground, strength)))
        self._pauses.setPen(pg.mkPen(tokens.gradients, width=1))

    def wanted_lines(self) -> list[Line]:
        history = self.history
        has_parts = history.forward_seconds.extremes() is not None
        colour = "text" if has_parts else "activations"
        lines = [
            Line("", history.step_seconds, colour, Look.FAINT, column="step_seconds"),
            Line("", history.median_seconds, colour),
        ]
        if has_parts:
            lines += [Line("", getattr(history, part), "others", Look.HIDDEN, column=part) for part in PARTS]
        return lines

    def _names(self) -> tuple[str, ...]:
        return _("data"), _("forward"), _("backward"), _("optimizer"), _("the rest")

    def _named_parts(self, x: float) -> list[tuple[str, str, float]]:
        """Of the step at `x`: each part that is known, its name, colour and seconds."""
        whole = self.history.step_seconds.at(x)
        values = [getattr(self.history, part).at(x) for part in PARTS]
        known = [value for value in values if value is not None and np.isfinite(value)]
        if whole is not None and len(known) == len(PARTS):
            values.append(max(0.0, whole - sum(known)))
        return [
            (name, colour, value)
            for name, (colour, _), value in zip(self._names(), COLOURS, values, strict=False)
            if value is not None and np.isfinite(value)
        ]

    def _share_readings(self) -> list[Reading]:
        if self._parts is None:
            return []
        named = sorted(
            zip(self._names(), COLOURS, self._parts.shares, strict=True), key=lambda part: -part[2]
        )  # there may be room for the largest only
        return [
            Reading(f"{name} {formats.whole_percent(share)}", colour)
            for name, (colour, _), share in named
            if share >= LEAST_SHARE
        ]


def parts_between(history: RunHistory, low: float, high: float, columns: int) -> Parts | None:
    """The parts of the steps from `low` to `high`, averaged to at most two a pixel column; None: none are known."""
    names = (*PARTS, "step_seconds")
    found = [getattr(history, name).means(low, high, columns) for name in names]
    rows = np.stack([values for _, values in found])
    known = np.isfinite(rows).all(axis=0)
    if not known.any():
        return None
    tops = np.cumsum(rows[:-1, known], axis=0)
    return Parts(found[0][0][known], np.vstack([tops, np.maximum(rows[-1, known], tops[-1])]))
