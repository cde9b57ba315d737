"""The charts of how it is driven: throughput, learning rate, gradient norm."""

import math

from PySide6.QtCore import QCoreApplication

from gui import numbers
from gui.models.run_history import RunHistory
from gui.plots.axes import VALUES
from gui.plots.chart import Reading, Span, Stage
from gui.plots.lines import Line, Look
from gui.plots.mean_line import MeanLine
from gui.plots.step_chart import StepChart
from gui.plots.x_scale import XScale
from gui.theme import Tokens


class ThroughputChart(StepChart):
    """Samples a second of each step, or tokens; evaluations and checkpoints lie between steps and don't count."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._counts_tokens = False
        self._mean = MeanLine(history.samples_per_second, "run")
        title = QCoreApplication.translate("ThroughputChart", "Throughput")
        super().__init__(title, stage, history, VALUES)
        self.add_decoration(self._mean.item)
        self._take_series()
        self.menu_button.add_switch(self.tr("Count tokens"), self.count_tokens)

    def count_tokens(self, tokens: bool) -> None:
        """Draw tokens a second in place of samples."""
        self._counts_tokens = tokens
        self._take_series()
        self.refresh()

    def y_span(self, drawn: Span) -> Span:
        """From zero."""
        return 0.0, drawn[1]

    def draw_more(self, low: float, high: float, scale: XScale) -> Span | None:
        """Draw what is usual."""
        self._mean.draw(low, high, scale)
        return None

    def readings(self, x: float | None) -> list[Reading]:
        """Samples and tokens a second."""
        history = self.history
        values = (
            (history.samples_per_second.read(x), self.tr("{} rows/s"), not self._counts_tokens),
            (history.tokens_per_second.read(x), self.tr("{} tokens/s"), self._counts_tokens),
        )
        found = [
            Reading(words.format(numbers.three_figures(value)), "run" if is_drawn else "")
            for value, words, is_drawn in values
            if value is not None and math.isfinite(value)  # it isn't where something was compiled
        ]
        return found + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        """Both, and what makes them up."""
        history = self.history
        values = (
            (self.tr("rows/s"), history.samples_per_second.at(x)),
            (self.tr("tokens/s"), history.tokens_per_second.at(x)),
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
        """Texts alone have tokens."""
        if self._counts_tokens and len(self.history.step_seconds) and not self.lines[0].series.extremes():
            return self.tr("This run has no tokens")
        return super().empty_text()

    def colour(self, tokens: Tokens) -> None:
        """As the line it runs through."""
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
        title = QCoreApplication.translate("LearningRateChart", "Learning rate")
        super().__init__(title, stage, history, VALUES, can_be_log=True)
        self.set_lines([Line("", history.learning_rate, "run", column="learning_rate")])

    def y_span(self, drawn: Span) -> Span:
        """From zero."""
        return 0.0, drawn[1]

    def readings(self, x: float | None) -> list[Reading]:
        """The one of this step."""
        value = self.history.learning_rate.read(x)
        return ([] if value is None else [Reading(f"{value:.3g}", "run")]) + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        """With all its digits."""
        value = self.history.learning_rate.at(x)
        return [
            *self.place_details(x),
            *([] if value is None else [(self.tr("learning rate"), f"{value:.6g}")]),
        ]


class GradientNormChart(StepChart):
    """The norm of all gradients of a step, before clipping."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        self._mean = MeanLine(history.grad_norm, "gradients")
        title = QCoreApplication.translate("GradientNormChart", "Gradient norm")
        super().__init__(title, stage, history, VALUES, can_be_log=True)
        self.add_decoration(self._mean.item)
        self.set_lines([Line("", history.grad_norm, "gradients", Look.FAINT, column="grad_norm")])

    def y_span(self, drawn: Span) -> Span:
        """From zero."""
        return 0.0, drawn[1]

    def draw_more(self, low: float, high: float, scale: XScale) -> Span | None:
        """Draw what is usual."""
        self._mean.draw(low, high, scale, is_log=self.is_log)
        return None

    def readings(self, x: float | None) -> list[Reading]:
        """The one of this step."""
        value = self.history.grad_norm.read(x)
        return ([] if value is None else [Reading(numbers.loss(value), "gradients")]) + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        """The one of this step."""
        value = self.history.grad_norm.at(x)
        return [*self.place_details(x), *([] if value is None else [(self.tr("norm"), numbers.loss(value))])]

    def empty_text(self) -> str:
        """Not every run clips its gradients, and their norm is known only where it does."""
        if len(self.history.step_seconds) and self.history.grad_norm.extremes() is None:
            return self.tr("Known only where gradients are clipped")
        return super().empty_text()

    def colour(self, tokens: Tokens) -> None:
        """As the line it runs through."""
        self._mean.paint_with(tokens)
