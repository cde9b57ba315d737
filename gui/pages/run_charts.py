"""The four charts of a run page, over one shared stretch of the run."""

import itertools
import math

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QGridLayout, QWidget

from gui import numbers
from gui.models.run_history import RunHistory
from gui.numbers import NumberFormat
from gui.plots.axes import StepRule, clock_axis, clock_text, decimal_step, memory_step, step_axis
from gui.plots.chart import Chart, Clockwork, Reading, Span, Stage
from gui.plots.lines import Line, Look
from gui.plots.repaint_queue import RepaintQueue
from gui.plots.series import Series
from gui.plots.shared_view import SharedView
from gui.theme import SPACING, Theme, Tokens

SHORTEST_CLOCK = 10.0
"""Seconds that the memory chart covers at least."""

SPIKE = 4.0
"""A step so many times slower than the median would squash the rest: it runs out at the top, the legend names it."""

ROOM_FOR_DOTS = 1.015
"""The step axis goes on a little beyond the last step, so that the dot of the last evaluation is whole."""

CEILING_IN_PICTURE = 0.25
"""From this share of the ceiling on, the ceiling is drawn; further below it would squash what is in use."""


def value_at(series: Series, x: float | None) -> float | None:
    """The value under the cursor, or the newest."""
    return series.last if x is None else series.at(x)


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
        return "" if len(self.history.step_seconds) else self.tr("No steps yet")

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
        train = value_at(self.history.loss, x) if x is not None else self.history.smooth_loss.last
        if train is not None and math.isnan(train):
            step, value = self.history.first_non_finite or (0, math.nan)
            words = self.tr("{} since step {}").format(numbers.not_finite(value), numbers.count(step))
            found.append(Reading(words, "bad"))
        elif train is not None:
            found.append(Reading(self.tr("train {}").format(numbers.loss(train)), "run"))
        held_out = value_at(self.history.eval_loss, x)
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
        values = [(line, value_at(line.series, x)) for line in reversed(self.lines)]
        return self.under_cursor(x) + [
            Reading(f"{line.name} {numbers.share(value)}", line.colour)
            for line, value in values
            if value is not None
        ]

    def empty_text(self) -> str:
        """An evaluation comes at the end of an epoch."""
        return "" if self.lines else self.tr("Not evaluated yet")


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
        median = self.history.median_seconds.last or drawn[1]
        return 0.0, drawn[1] if drawn[1] <= SPIKE * median else 2 * median

    def readings(self, x: float | None) -> list[Reading]:
        """The step under the cursor, or the median and the longest of all."""
        if x is not None:
            value = value_at(self.history.step_seconds, x)
            return [*self.under_cursor(x), Reading(numbers.step_time(value), "activations")]
        median, longest = self.history.median_seconds.last, self.history.longest_step
        if median is None or longest is None:
            return []
        found = [Reading(self.tr("median {}").format(numbers.step_time(median)), "activations")]
        if longest > SPIKE * median:
            found.append(Reading(self.tr("longest {}").format(numbers.step_time(longest))))
        return found


class MemoryChart(Chart):
    """Memory of this run under that of all other programs, and how much there is."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self.history = history
        self._ceiling = pg.InfiniteLine(
            angle=0, movable=False, label="", labelOpts={"position": 0.99, "anchors": [(1, 1), (1, 1)]}
        )
        super().__init__(
            QCoreApplication.translate("MemoryChart", "Memory"),
            stage,
            x_axis=clock_axis(),
            clockwork=Clockwork(float, float),
            y_rule=memory_step,
            y_format=numbers.memory_tick,
        )
        self.add_decoration(self._ceiling)
        self.set_lines(
            [
                Line("", history.system_bytes, "others", Look.AREA),
                Line("", history.system_bytes, "others"),
                Line("", history.process_bytes, "run", Look.AREA),
                Line("", history.process_bytes, "run"),
                Line("", history.device_bytes, "gradients"),
            ]
        )

    def x_span(self) -> Span:
        """From the start until now."""
        return 0.0, max(SHORTEST_CLOCK, self.history.last_clock)

    def y_span(self, drawn: Span) -> Span:
        """From zero; up to the ceiling unless that is far away."""
        ceiling = self.history.ceiling
        if ceiling is not None and drawn[1] >= CEILING_IN_PICTURE * ceiling:
            return 0.0, max(drawn[1], 1.04 * ceiling)
        return 0.0, 1.1 * drawn[1]

    def readings(self, x: float | None) -> list[Reading]:
        """This run, all others, the accelerator, and how much there is."""
        history = self.history
        found = [] if x is None else [Reading(clock_text(x))]
        mine, everyone = value_at(history.process_bytes, x), value_at(history.system_bytes, x)
        if mine is not None:
            found.append(Reading(self.tr("this run {}").format(numbers.memory(mine)), "run"))
        if everyone is not None:
            others = max(0.0, everyone - (mine or 0.0))
            found.append(Reading(self.tr("others {}").format(numbers.memory(others)), "others"))
        device = value_at(history.device_bytes, x)
        if device is not None:
            found.append(Reading(self.tr("PyTorch {}").format(numbers.memory(device)), "gradients"))
        if x is None and history.ceiling is not None and not self._ceiling.isVisible():
            found.append(Reading(self.tr("of {}").format(numbers.memory(history.ceiling))))
        return found

    def empty_text(self) -> str:
        """Samples come once a second."""
        return (
            ""
            if len(self.history.system_bytes) or len(self.history.process_bytes)
            else self.tr("Not measured yet")
        )

    def decorate(self, x: Span, y: Span) -> None:
        """Draw the ceiling where it is in the picture."""
        ceiling = self.history.ceiling
        self._ceiling.setVisible(ceiling is not None and ceiling <= y[1])
        if ceiling is not None:
            self._ceiling.setValue(ceiling)
            self._ceiling.label.setFormat(self.tr("this computer has {}").format(numbers.memory(ceiling)))

    def colour(self, tokens: Tokens) -> None:
        """Red is for ceilings."""
        self._ceiling.setPen(pg.mkPen(tokens.bad, width=1, dash=[6, 4]))
        self._ceiling.label.setColor(tokens.bad)


class RunCharts(QWidget):
    """Loss and held-out metrics above step time and memory."""

    def __init__(self, theme: Theme, history: RunHistory, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.queue = RepaintQueue(self)
        self.view = SharedView(self)
        stage = Stage(theme, self.queue, self.view)
        self.loss = LossChart(stage, history)
        self.metrics = MetricsChart(stage, history)
        self.step_time = StepTimeChart(stage, history)
        self.memory = MemoryChart(stage, history)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(SPACING + SPACING // 2)
        for place, chart in enumerate(self.charts):
            grid.addWidget(chart, place // 2, place % 2)
            grid.setColumnStretch(place % 2, 1)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All four, in reading order."""
        return self.loss, self.metrics, self.step_time, self.memory

    def refresh(self, total_steps: int | None) -> None:
        """Ask all charts to be redrawn. `total_steps` is how long the step axis is, once known."""
        for chart in self.charts:
            if isinstance(chart, StepChart):
                chart.total_steps = total_steps
            chart.refresh()
