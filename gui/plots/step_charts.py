"""The charts over training steps: loss, held-out metrics, step time."""

import itertools
import math

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication

from gui import numbers
from gui.models.run_history import RunHistory
from gui.numbers import NumberFormat
from gui.plots.axes import StepRule, decimal_step, step_axis
from gui.plots.chart import Chart, Clockwork, Reading, Span, Stage
from gui.plots.lines import Line, Look
from gui.plots.reduction import reduce
from gui.theme import Tokens

SPIKE = 4.0
"""A step so many times slower than nearly all would squash the rest: it runs out at the top, the legend names it."""

ROOM_ABOVE = 1.03
"""The slowest step stays off the upper edge, where its line or dot would be cut."""

PEAKS = 200
"""Blocks of steps whose slowest tell what is usual."""

ROOM_FOR_DOTS = 1.015
"""The step axis goes on a little beyond the last step, so that the dot of the last evaluation is whole."""


class StepChart(Chart):
    """Base of the charts over training steps."""

    def __init__(
        self, title: str, stage: Stage, history: RunHistory, y_rule: StepRule, y_format: NumberFormat
    ) -> None:
        self.history = history
        self.total_steps: int | None = None
        super().__init__(
            title,
            stage,
            x_axis=step_axis(),
            clockwork=Clockwork(history.clock_of_step, history.step_at),
            y_rule=y_rule,
            y_format=y_format,
        )

    def x_span(self) -> Span:
        """The whole run as planned."""
        reached = self.history.step_seconds.x[-1] if len(self.history.step_seconds) else 1.0
        return 0.0, ROOM_FOR_DOTS * float(max(reached, self.total_steps or 1))

    def empty_text(self) -> str:
        """A run without steps says so."""
        if len(self.history.step_seconds):
            return ""
        return self.tr("No step was made") if self.is_over else self.tr("No steps yet")

    def under_cursor(self, x: float | None) -> list[Reading]:
        """Names the step under the cursor."""
        return [] if x is None else [Reading(self.tr("step {}").format(numbers.count(round(x))))]


class LossChart(StepChart):
    """Training loss as it came and smoothed, evaluation loss as dots, checkpoints as ticks at the foot."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._checkpoints = pg.ScatterPlotItem(symbol="t1", size=7, pen=pg.mkPen(None))
        super().__init__(
            QCoreApplication.translate("LossChart", "Loss"), stage, history, decimal_step, numbers.loss_tick
        )
        self.add_decoration(self._checkpoints)
        self.set_lines(
            [
                Line("", history.loss, "run", Look.FAINT),
                Line("", history.smooth_loss, "run"),
                Line("", history.eval_loss, "optimizer", Look.DOTS),
            ]
        )

    def readings(self, x: float | None) -> list[Reading]:
        """Training loss (the newest one smoothed) and evaluation loss; a loss that is no number is said so."""
        found = self.under_cursor(x)
        train = self.history.loss.read(x) if x is not None else self.history.smooth_loss.last
        if train is not None and math.isnan(train):
            step, value = self.history.first_non_finite or (0, math.nan)
            words = self.tr("{} since step {}").format(numbers.not_finite(value), numbers.count(step))
            found.append(Reading(words, "bad"))
        elif train is not None:
            found.append(Reading(self.tr("train {}").format(numbers.loss(train)), "run"))
        held_out = self.history.eval_loss.read(x)
        if held_out is not None:
            found.append(Reading(self.tr("eval {}").format(numbers.loss(held_out)), "optimizer"))
        return found

    def empty_text(self) -> str:
        """Says when there is nothing but NaN to draw."""
        if len(self.history.loss) and not np.isfinite(self.history.loss.y).any():
            return self.tr("Every loss so far is not a number")
        return super().empty_text()

    def decorate(self, x: Span, y: Span) -> None:
        """Mark the checkpoints."""
        steps = self.history.checkpoint_steps
        self._checkpoints.setData(steps, [y[0] + (y[1] - y[0]) * 0.02] * len(steps))

    def colour(self, tokens: Tokens) -> None:
        """Checkpoints are quiet."""
        self._checkpoints.setBrush(pg.mkBrush(tokens.muted))


class MetricsChart(StepChart):
    """Accuracy, F1 and whatever else each evaluation measured."""

    COLOURS = ("activations", "gradients", "optimizer", "run")

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        title = QCoreApplication.translate("MetricsChart", "Held-out accuracy")
        super().__init__(title, stage, history, decimal_step, numbers.share_tick)

    def refresh(self) -> None:
        """Take in metrics that were measured for the first time."""
        shown = [name for name in self.history.metrics if numbers.is_share(name)]
        if len(shown) != len(self.lines):
            colours = itertools.cycle(self.COLOURS)
            self.set_lines(
                [
                    Line(numbers.metric_title(name), self.history.metrics[name], colour, Look.DOTS)
                    for name, colour in reversed(list(zip(shown, colours, strict=False)))
                ]
            )
        super().refresh()

    def y_span(self, drawn: Span) -> Span:
        """Never beyond 100 %."""
        return (drawn[0], min(1.0, drawn[1])) if drawn[1] > drawn[0] else (max(0.0, drawn[0] - 0.1), 1.0)

    def readings(self, x: float | None) -> list[Reading]:
        """Each metric."""
        values = [(line, line.series.read(x)) for line in reversed(self.lines)]
        return self.under_cursor(x) + [
            Reading(f"{line.name} {numbers.share(value)}", line.colour)
            for line, value in values
            if value is not None
        ]

    def empty_text(self) -> str:
        """An evaluation comes at the end of an epoch."""
        if self.lines:
            return ""
        return self.tr("Never evaluated") if self.is_over else self.tr("Not evaluated yet")


class StepTimeChart(StepChart):
    """Wall time of each step, and the running median."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        title = QCoreApplication.translate("StepTimeChart", "Step time")
        super().__init__(title, stage, history, decimal_step, numbers.step_time_tick)
        self.set_lines(
            [
                Line("", history.step_seconds, "activations", Look.FAINT),
                Line("", history.median_seconds, "activations"),
            ]
        )

    def y_span(self, drawn: Span) -> Span:
        """From zero; a lone very slow step runs out at the top."""
        seconds = self.history.step_seconds
        _, peaks = reduce(seconds.x, seconds.y, PEAKS)
        usual = float(np.percentile(peaks, 95)) if len(peaks) else drawn[1]
        return 0.0, ROOM_ABOVE * drawn[1] if drawn[1] <= SPIKE * usual else 1.5 * usual

    def readings(self, x: float | None) -> list[Reading]:
        """The step under the cursor, or the median and the longest of all."""
        if x is not None:
            value = self.history.step_seconds.read(x)
            return [*self.under_cursor(x), Reading(numbers.step_time(value), "activations")]
        median, longest = self.history.median_seconds.last, self.history.longest_step
        if median is None or longest is None:
            return []
        found = [Reading(self.tr("median {}").format(numbers.step_time(median)), "activations")]
        if longest > SPIKE * median:
            found.append(Reading(self.tr("longest {}").format(numbers.step_time(longest))))
        return found
