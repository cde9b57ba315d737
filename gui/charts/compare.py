"""Charts in which several runs lie over each other, each with one colour, on the same axes."""

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
from gui.charts.history import RunHistory
from gui.charts.overlays import Reading, Span
from gui.charts.series import Line, Look, Series

UNITS = {XKind.STEP: STEP, XKind.EPOCH: EPOCH, XKind.TIME: CLOCK}

ROOM_AT_END = 1.015
"""The axis goes on a little beyond the last point, so that its dot is whole."""

NAME_LETTERS = 28
"""So much of a run's name stands in the box at the cursor."""

LAST_LETTERS = 16
"""So much of its end, which tells when it was made where several have its name."""

PEAKS = 200
"""Stretches of a run whose slowest steps tell what is usual."""

SPIKE = 2.0
"""Steps so many times slower than nearly all would squash the rest."""


@dataclass(frozen=True)
class Curve:
    """A run that is compared: its name, the field of `gui.base.theme.Tokens` that is its colour, and its series."""

    name: str
    colour: str
    history: RunHistory


class CompareView(SharedView):
    """What charts of several runs share. Cursor and stretch count what the axis does, as each run has its own clock."""

    def lie_over(self, kind: XKind) -> None:
        """Draw over steps, epochs or time. A stretch of the one is none of the other."""
        if kind is not self.x_kind:
            self.stretch = self.cursor = None
        super().lie_over(kind)


class CompareChart(Chart):
    """Base of these charts. Subclasses say which series of a run is drawn.

    Args:
        title: What it shows.
        stage: What it shares with the others; its view is a `CompareView`.
        y_unit: What its height counts.
        quantity: What its values are called where they are saved.
        write: Formats a value.
        look: How a curve is drawn.
        can_be_log: Whether a logarithmic axis makes sense.
    """

    place_column = "step"

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
        self._curve_of: dict[Line, Curve] = {}
        self._look, self.write, self.quantity = look, write, quantity
        super().__init__(title, stage, RunHistory(), y_unit, can_be_log=can_be_log)

    def show_curves(self, curves: Sequence[Curve]) -> None:
        """Draw these runs from now on."""
        self._curves = list(curves)
        self.refresh()

    def series_of(self, history: RunHistory) -> Series | None:
        """What is drawn of a run; None: it has nothing of the kind."""
        raise NotImplementedError

    def scale_of(self, history: RunHistory) -> XScale:
        """How a run's series lies on the axis."""
        return step_scale(history, self._view.x_kind)

    def value_at(self, series: Series, place: float) -> float | None:
        """The value of a run at a place of its series; None beyond its ends."""
        return series.at(place)

    def wanted_lines(self) -> list[Line]:
        self._curve_of = {}
        for curve in self._curves:
            series = self.series_of(curve.history)
            if series is not None:
                column = f"{curve.name} {self.quantity}"
                line = Line(curve.name, series, curve.colour, self._look, column=column)
                self._curve_of[line] = curve
        return list(self._curve_of)

    def x_scale(self) -> XScale:
        """What the page has chosen; places on the axis are what all runs have in common."""
        return XScale(UNITS[self._view.x_kind], float, float, counts_steps=self._view.x_kind is XKind.STEP)

    def line_scale(self, line: Line, scale: XScale) -> XScale:
        return self.scale_of(self._curve_of[line].history)

    def x_span(self) -> Span:
        """As far as the longest run goes."""
        ends = [self._end_of(curve, line.series) for line, curve in self._curve_of.items()]
        shortest = SHORTEST_CLOCK if self.x_scale().unit is CLOCK else 0.0
        return 0.0, ROOM_AT_END * max([shortest, *ends]) or 1.0

    def readings(self, x: float | None) -> list[Reading]:
        """The value of each run under the cursor, or its newest, as its colour tells."""
        found = [
            Reading(self.write(value), curve.colour)
            for curve, value in self._values(x)
            if value is not None and value == value  # noqa: PLR0124 - NaN
        ]
        return found if x is None else [*found, Reading(self._place_text(x))]

    def details(self, x: float) -> list[tuple[str, str]]:
        """The value of each run with its name."""
        values = [(curve, value) for curve, value in self._values(x) if value is not None]
        named = [(_short(curve.name), self.write(value)) for curve, value in values]
        return [(_("at"), self._place_text(x)), *named] if named else []

    def empty_text(self) -> str:
        """Says when no run has anything to draw."""
        return "" if any(len(line.series) for line in self.lines) else _("Nothing to draw")

    def _values(self, x: float | None) -> list[tuple[Curve, float | None]]:
        return [(curve, self._value(curve, line.series, x)) for line, curve in self._curve_of.items()]

    def _value(self, curve: Curve, series: Series, x: float | None) -> float | None:
        if x is None or not len(series):
            return series.last
        if x > self._end_of(curve, series):
            return None
        place = self.scale_of(curve.history).nearest(x)
        return None if place is None else self.value_at(series, place)

    def _end_of(self, curve: Curve, series: Series) -> float:
        """Where a run's last point lies on the axis."""
        last = series.last_x
        return 0.0 if last is None else float(self.scale_of(curve.history).to_axis(np.array([last]))[0])

    def _place_text(self, x: float) -> str:
        unit = self.x_scale().unit
        if unit is CLOCK:
            return formats.duration(x)
        return (
            _("epoch {}").format(f"{x:.2f}")
            if unit is EPOCH
            else _("step {}").format(formats.count(round(x)))
        )


class CompareLoss(CompareChart):
    """The losses of training, smoothed as the page says."""

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
        """Draw another one."""
        self.metric_name = self.quantity = name
        self.set_title(formats.metric_title(name) if name != "eval_loss" else _("Evaluation loss"))
        self.write = formats.metric_format(name)
        self._canvas.y_axis.measure(SHARES if formats.is_share(name) else VALUES)
        self.refresh()

    def series_of(self, history: RunHistory) -> Series | None:
        return history.eval_loss if self.metric_name == "eval_loss" else history.metrics.get(self.metric_name)

    def value_at(self, series: Series, place: float) -> float | None:
        return series.up_to(place)

    def y_span(self, drawn: Span) -> Span:
        return share_span(drawn) if formats.is_share(self.metric_name) else drawn


class CompareStepTime(CompareChart):
    """The usual time of a step: the median of the last fifty."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(_("Step time"), stage, STEP_TIMES, "step_seconds", write=formats.step_time)
        self.explain(_("The median of the last 51 steps, so that a lone slow one doesn't hide the rest."))

    def series_of(self, history: RunHistory) -> Series:
        return history.median_seconds

    def y_span(self, drawn: Span) -> Span:
        peaks = [line.series.reduced(-np.inf, np.inf, PEAKS)[1] for line in self.lines]
        known = [float(np.nanpercentile(one, 90)) for one in peaks if np.isfinite(one).any()]
        usual = max(known, default=0.0)
        return 0.0, drawn[1] if drawn[1] <= SPIKE * usual else 1.5 * usual


class CompareMemory(CompareChart):
    """What each run holds, always over time: memory is held between steps, too."""

    place_column = "seconds"

    def __init__(self, stage: Stage) -> None:
        super().__init__(_("Memory"), stage, BYTES, "bytes", write=formats.memory)
        self.explain(_("What each run holds where it computes, over the time it has worked."))

    def series_of(self, history: RunHistory) -> Series:
        return history.memory.picture.run

    def scale_of(self, history: RunHistory) -> XScale:
        return CLOCK_SCALE

    def x_scale(self) -> XScale:
        return CLOCK_SCALE

    def y_span(self, drawn: Span) -> Span:
        return 0.0, drawn[1]


def _short(name: str) -> str:
    first = NAME_LETTERS - LAST_LETTERS - 1
    return name if len(name) <= NAME_LETTERS else f"{name[:first].rstrip()}…{name[-LAST_LETTERS:]}"
