"""The charts of how well it goes: loss, and what evaluations measured."""

import itertools
import math

from PySide6.QtCore import QCoreApplication

from gui import numbers
from gui.models.run_history import RunHistory
from gui.plots.axes import SHARES, VALUES
from gui.plots.chart import Reading, Span, Stage
from gui.plots.lines import Line, Look
from gui.plots.series import Series
from gui.plots.shared_view import Smoothing
from gui.plots.step_chart import StepChart


class LossChart(StepChart):
    """Training loss as it came and smoothed, evaluation loss as dots."""

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        title = QCoreApplication.translate("LossChart", "Loss")
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
        """Training loss (the newest one smoothed) and evaluation loss; a loss that is no number is said so."""
        found: list[Reading] = []
        newest = self.history.loss if self._view.smoothing is Smoothing.OFF else self._smoothed
        train = self.history.loss.read(x) if x is not None else newest.last
        if train is not None and math.isnan(train):
            found.append(Reading(self._not_finite_words(x), "bad"))
        elif train is not None:
            found.append(Reading(self.tr("train {}").format(numbers.loss(train)), "run"))
        held_out = self.history.eval_loss.up_to(x)
        if held_out is not None:
            found.append(Reading(self.tr("eval {}").format(numbers.loss(held_out)), "optimizer"))
        if x is None and train is not None and self._view.smoothing is not Smoothing.OFF:
            found.append(Reading(self.tr("train is smoothed")))
        return found + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        """The loss of this step, as it came and smoothed, and the last evaluation up to it."""
        history = self.history
        values = (
            (self.tr("train"), history.loss.at(x)),
            (self.tr("smoothed"), self._smoothed.at(x)),
            (self.tr("eval"), history.eval_loss.up_to(x)),
        )
        return [
            *self.place_details(x),
            *((name, numbers.loss(value)) for name, value in values if value is not None),
        ]

    def _not_finite_words(self, x: float | None) -> str:
        step, value = self.history.first_non_finite or (0, math.nan)
        if x is not None:
            return numbers.not_finite(math.nan)
        return self.tr("{} since step {}").format(numbers.not_finite(value), numbers.count(step))

    def empty_text(self) -> str:
        """Says when there is nothing but NaN to draw."""
        if len(self.history.loss) and self.history.loss.extremes() is None:
            return self.tr("Every loss so far is not a number")
        return super().empty_text()


class MetricsChart(StepChart):
    """Accuracy, F1 and whatever else each evaluation measured."""

    COLOURS = ("activations", "gradients", "optimizer", "run")

    def __init__(self, stage: Stage, history: RunHistory) -> None:
        title = QCoreApplication.translate("MetricsChart", "Evaluation")
        super().__init__(title, stage, history, SHARES)

    def refresh(self) -> None:
        """Take in metrics that were measured for the first time."""
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
        """Never beyond 100 %."""
        return (drawn[0], min(1.0, drawn[1])) if drawn[1] > drawn[0] else (max(0.0, drawn[0] - 0.1), 1.0)

    def readings(self, x: float | None) -> list[Reading]:
        """Each metric."""
        values = [(line, line.series.up_to(x)) for line in reversed(self.lines)]
        found = [
            Reading(f"{line.name} {numbers.share(value)}", line.colour, line.name)
            for line, value in values
            if value is not None
        ]
        return found + self.under_cursor(x)

    def details(self, x: float) -> list[tuple[str, str]]:
        """What the last evaluation up to this step measured."""
        values = [(line.name, line.series.up_to(x)) for line in reversed(self.lines)]
        return [
            *self.place_details(x),
            *((name, numbers.share(value)) for name, value in values if value is not None),
        ]

    def empty_text(self) -> str:
        """An evaluation comes at the end of an epoch."""
        if self.lines:
            return ""
        return self.tr("Never evaluated") if self.is_over else self.tr("Not evaluated yet")
