"""The charts of how it is driven: throughput, learning rate, gradient norm."""

import itertools
import math
from dataclasses import dataclass
from gettext import gettext as _

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

from core.base import format as numbers
from gui.base.tokens import Tokens
from gui.charts.axes import (
    SHARES,
    SHORTEST_CLOCK,
    STEP_TIMES,
    VALUES,
    AxisUnit,
    Smoothing,
    XKind,
    XScale,
    epochs_a_step,
    step_scale,
)
from gui.charts.chart import Chart, Span, Stage
from gui.charts.history import PARTS, RunHistory
from gui.charts.overlays import MeanLine, PauseLines, Reading, share_between
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

    def under_cursor(self, x: float | None) -> list[Reading]:
        """Names the step under the cursor."""
        return [] if x is None else [Reading(_("step {}").format(numbers.count(round(x))))]

    def place_details(self, x: float) -> list[tuple[str, str]]:
        """Which step is under the cursor, and when it ended."""
        epoch, clock = self.history.epoch_of_step(x), self.history.clock_of_step(x)
        return [
            (_("step"), numbers.count(round(x))),
            *([] if epoch is None else [(_("epoch"), f"{epoch:.2f}")]),
            *([] if clock is None else [(_("after"), numbers.duration(clock))]),
        ]

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
        self._mean = MeanLine(history.samples_per_second, "run")
        title = _("Throughput")
        super().__init__(title, stage, history, VALUES)
        self.add_decoration(self._mean.item)
        self._take_series()
        self.menu_button.add_switch(_("Count tokens"), self.count_tokens)

    def count_tokens(self, tokens: bool) -> None:
        """Draw tokens a second in place of samples."""
        self._counts_tokens = tokens
        self._take_series()
        self.refresh()

    def y_span(self, drawn: Span) -> Span:
        return 0.0, drawn[1]

    def draw_more(self, low: float, high: float, scale: XScale) -> Span | None:
        self._mean.draw(low, high, scale)
        return None

    def readings(self, x: float | None) -> list[Reading]:
        history = self.history
        values = (
            (history.samples_per_second.read(x), _("{} rows/s"), not self._counts_tokens),
            (history.tokens_per_second.read(x), _("{} tokens/s"), self._counts_tokens),
        )
        found = [
            Reading(words.format(numbers.three_figures(value)), "run" if is_drawn else "")
            for value, words, is_drawn in values
            if value is not None and math.isfinite(value)  # it isn't where something was compiled
        ]
        return found + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        history = self.history
        values = (
            (_("rows/s"), history.samples_per_second.at(x)),
            (_("tokens/s"), history.tokens_per_second.at(x)),
        )
        return [
            *self.place_details(x),
            *(
                (name, numbers.three_figures(value))
                for name, value in values
                if value is not None and math.isfinite(value)
            ),
        ]

    def empty_text(self) -> str:
        if self._counts_tokens and len(self.history.step_seconds) and not self.lines[0].series.extremes():
            return _("This run has no tokens")
        return super().empty_text()

    def colour(self, tokens: Tokens) -> None:
        self._mean.paint_with(tokens)

    def _take_series(self) -> None:
        history = self.history
        drawn = history.tokens_per_second if self._counts_tokens else history.samples_per_second
        self._mean.series = drawn
        names = ("samples_per_second", "tokens_per_second")
        self.set_lines([Line("", drawn, "run", Look.FAINT, column=names[self._counts_tokens])])


class LearningRateChart(StepChart):
    """The learning rate of each step, as the schedule had it."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        title = _("Learning rate")
        super().__init__(title, stage, history, VALUES, can_be_log=True)
        self.set_lines([Line("", history.learning_rate, "run", column="learning_rate")])

    def y_span(self, drawn: Span) -> Span:
        return 0.0, drawn[1]

    def readings(self, x: float | None) -> list[Reading]:
        value = self.history.learning_rate.read(x)
        return ([] if value is None else [Reading(f"{value:.3g}", "run")]) + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        value = self.history.learning_rate.at(x)
        return [
            *self.place_details(x),
            *([] if value is None else [(_("learning rate"), f"{value:.6g}")]),
        ]


class GradientNormChart(StepChart):
    """The norm of all gradients of a step, before clipping."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._mean = MeanLine(history.grad_norm, "gradients")
        title = _("Gradient norm")
        super().__init__(title, stage, history, VALUES, can_be_log=True)
        self.add_decoration(self._mean.item)
        self.set_lines([Line("", history.grad_norm, "gradients", Look.FAINT, column="grad_norm")])

    def y_span(self, drawn: Span) -> Span:
        return 0.0, drawn[1]

    def draw_more(self, low: float, high: float, scale: XScale) -> Span | None:
        self._mean.draw(low, high, scale, is_log=self.is_log)
        return None

    def readings(self, x: float | None) -> list[Reading]:
        value = self.history.grad_norm.read(x)
        return ([] if value is None else [Reading(numbers.loss(value), "gradients")]) + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        value = self.history.grad_norm.at(x)
        return [*self.place_details(x), *([] if value is None else [(_("norm"), numbers.loss(value))])]

    def empty_text(self) -> str:
        if len(self.history.step_seconds) and self.history.grad_norm.extremes() is None:
            return _("Known only where gradients are clipped")
        return super().empty_text()

    def colour(self, tokens: Tokens) -> None:
        self._mean.paint_with(tokens)


class LossChart(StepChart):
    """Training loss as it came and smoothed, evaluation loss as dots."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        title = _("Loss")
        super().__init__(title, stage, history, VALUES, can_be_log=True)
        self._take_smoothing()
        stage.view.changed.connect(self._take_smoothing)

    def _take_smoothing(self) -> None:
        history, smoothing = self.history, self._view.smoothing
        is_raw = smoothing is Smoothing.OFF
        lines = [Line("", history.loss, "run", Look.LINE if is_raw else Look.FAINT, column="train_loss")]
        if not is_raw:
            lines.append(Line("", self._smoothed, "run"))
        lines.append(Line("", history.eval_loss, "optimizer", Look.DOTS, column="eval_loss"))
        if lines != self.lines:
            self.set_lines(lines)

    @property
    def _smoothed(self) -> Series:
        strong = self._view.smoothing is Smoothing.STRONG
        return self.history.smoother_loss if strong else self.history.smooth_loss

    def readings(self, x: float | None) -> list[Reading]:
        found: list[Reading] = []
        newest = self.history.loss if self._view.smoothing is Smoothing.OFF else self._smoothed
        train = self.history.loss.read(x) if x is not None else newest.last
        if train is not None and math.isnan(train):
            found.append(Reading(self._not_finite_words(x), "bad"))
        elif train is not None:
            found.append(Reading(_("train {}").format(numbers.loss(train)), "run"))
        held_out = self.history.eval_loss.up_to(x)
        if held_out is not None:
            found.append(Reading(_("eval {}").format(numbers.loss(held_out)), "optimizer"))
        if x is None and train is not None and self._view.smoothing is not Smoothing.OFF:
            found.append(Reading(_("train is smoothed")))
        return found + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        history = self.history
        values = (
            (_("train"), history.loss.at(x)),
            (_("smoothed"), self._smoothed.at(x)),
            (_("eval"), history.eval_loss.up_to(x)),
        )
        return [
            *self.place_details(x),
            *((name, numbers.loss(value)) for name, value in values if value is not None),
        ]

    def _not_finite_words(self, x: float | None) -> str:
        step, value = self.history.first_non_finite or (0, math.nan)
        if x is not None:
            return numbers.not_finite(math.nan)
        return _("{} since step {}").format(numbers.not_finite(value), numbers.count(step))

    def empty_text(self) -> str:
        if len(self.history.loss) and self.history.loss.extremes() is None:
            return _("Every loss so far is not a number")
        return super().empty_text()


class MetricsChart(StepChart):
    """Accuracy, F1 and whatever else each evaluation measured."""

    COLOURS = ("activations", "gradients", "optimizer", "run")

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        title = _("Evaluation")
        super().__init__(title, stage, history, SHARES)

    def refresh(self) -> None:
        shown = [name for name in self.history.metrics if numbers.is_share(name)]
        if len(shown) != len(self.lines):
            colours = itertools.cycle(self.COLOURS)
            self.set_lines(
                [
                    Line(
                        numbers.metric_title(name), self.history.metrics[name], colour, Look.DOTS, column=name
                    )
                    for name, colour in reversed(list(zip(shown, colours, strict=False)))
                ]
            )
        super().refresh()

    def y_span(self, drawn: Span) -> Span:
        return (drawn[0], min(1.0, drawn[1])) if drawn[1] > drawn[0] else (max(0.0, drawn[0] - 0.1), 1.0)

    def readings(self, x: float | None) -> list[Reading]:
        values = [(line, line.series.up_to(x)) for line in reversed(self.lines)]
        found = [
            Reading(f"{line.name} {numbers.share(value)}", line.colour, line.name)
            for line, value in values
            if value is not None
        ]
        return found + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        values = [(line.name, line.series.up_to(x)) for line in reversed(self.lines)]
        return [
            *self.place_details(x),
            *((name, numbers.share(value)) for name, value in values if value is not None),
        ]

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
        self._pauses = PauseLines()
        self._pause_share = 0.0
        self._bands = [pg.PlotDataItem(fillLevel=0.0, pen=None) for _colour in COLOURS]
        title = _("Step time")
        super().__init__(title, stage, history, STEP_TIMES)
        for depth, band in enumerate(reversed(self._bands)):  # the whole step undermost
            band.setZValue(depth - 30)
            self.add_decoration(band)
        self.add_decoration(self._pauses)
        self._take_lines()
        self.explain(
            _(
                "Where the time of a step goes. On a GPU, which works on after it was told to, Hone waits for it "
                "between the parts in one step of many, so seldom that it is meant to cost less than 1 % of the time; "
                "the other steps are wall time. Upright lines are what steps waited for: evaluations and checkpoints."
            )
        )

    def refresh(self) -> None:
        self._take_lines()
        super().refresh()

    def y_span(self, drawn: Span) -> Span:
        _, peaks = self.history.step_seconds.reduced(-np.inf, np.inf, PEAKS)
        usual = float(np.percentile(peaks, 95)) if len(peaks) else drawn[1]
        return 0.0, ROOM_ABOVE * drawn[1] if drawn[1] <= SPIKE * usual else 1.5 * usual

    def draw_more(self, low: float, high: float, scale: XScale) -> Span | None:
        self._parts = parts_between(self.history, low, high, self._canvas.columns())
        places = np.empty(0) if self._parts is None else scale.to_axis(self._parts.x)
        for number, band in enumerate(self._bands):
            band.setData(places, places if self._parts is None else self._parts.tops[number])
        self._draw_pauses(low, high, scale)
        return None

    def _draw_pauses(self, low: float, high: float, scale: XScale) -> None:
        history = self.history
        self._pauses.draw(history.pauses, low, high, self._canvas.columns(), scale)
        begun, ended = history.clock_of_step(low), history.clock_of_step(high)
        self._pause_share = share_between(history.pauses, low, high, begun or 0.0, ended or 0.0)

    def readings(self, x: float | None) -> list[Reading]:
        if x is not None:
            value = self.history.step_seconds.read(x)
            return [Reading(numbers.step_time(value)), *self._at(x), *self.under_cursor(x)]
        median, longest = self.history.median_seconds.last, self.history.longest_step
        if median is None or longest is None:
            return []
        found = [Reading(_("median {}").format(numbers.step_time(median)))]
        found += self._share_readings()
        if self._pause_share >= LEAST_SHARE:
            words = _("evaluating, saving {} of all time")
            found.append(Reading(words.format(numbers.whole_percent(self._pause_share)), "gradients"))
        if longest > SPIKE * median:
            found.append(Reading(_("longest {}").format(numbers.step_time(longest))))
        return found

    def details(self, x: float) -> list[tuple[str, str]]:
        whole = self.history.step_seconds.at(x)
        if whole is None:
            return []
        return [
            *self.place_details(x),
            (_("step time"), numbers.step_time(whole)),
            *((name, numbers.step_time(value)) for name, _colour, value in self._named_parts(x)),
            *self._pauses_after(round(x)),
        ]

    def colour(self, tokens: Tokens) -> None:
        ground = QColor(tokens.surface)
        for band, (name, strength) in zip(self._bands, COLOURS, strict=True):
            band.setFillBrush(pg.mkBrush(mixed(QColor(getattr(tokens, name)), ground, strength)))
        self._pauses.paint_with(tokens)

    def _pauses_after(self, step: int) -> list[tuple[str, str]]:
        names = {"evaluation": _("evaluation after it"), "checkpoint": _("checkpoint after it")}
        return [
            (names[pause.kind], numbers.step_time(pause.seconds))
            for pause in self.history.pauses
            if pause.step == step
        ]

    def _take_lines(self) -> None:
        history = self.history
        whole = Line(
            "",
            history.step_seconds,
            "text" if self._has_parts() else "activations",
            Look.FAINT,
            column="step_seconds",
        )
        median = Line("", history.median_seconds, "text" if self._has_parts() else "activations")
        parts = [Line("", getattr(history, part), "others", Look.HIDDEN, column=part) for part in PARTS]
        lines = [whole, median, *(parts if self._has_parts() else [])]
        if lines != self.lines:
            self.set_lines(lines)

    def _has_parts(self) -> bool:
        return self.history.forward_seconds.extremes() is not None

    def _names(self) -> tuple[str, ...]:
        return (
            _("data"),
            _("forward"),
            _("backward"),
            _("optimizer"),
            _("the rest"),
        )

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

    def _at(self, x: float) -> list[Reading]:
        longest_first = sorted(self._named_parts(x), key=lambda part: -part[2])
        return [
            Reading(f"{name} {numbers.step_time(value)}", colour) for name, colour, value in longest_first
        ]

    def _share_readings(self) -> list[Reading]:
        if self._parts is None:
            return []
        named = sorted(
            zip(self._names(), COLOURS, self._parts.shares, strict=True), key=lambda part: -part[2]
        )  # there may be room for the largest only
        return [
            Reading(f"{name} {numbers.whole_percent(share)}", colour)
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
