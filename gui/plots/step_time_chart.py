"""The chart of where a step's time goes."""

from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QColor

from gui import numbers
from gui.models.run_history import RunHistory
from gui.models.step_rows import PARTS
from gui.plots.axes import STEP_TIMES
from gui.plots.chart import Reading, Span, Stage
from gui.plots.lines import Line, Look, mixed
from gui.plots.pause_lines import PauseLines, share_between
from gui.plots.reduction import Floats
from gui.plots.step_chart import StepChart
from gui.plots.x_scale import XScale
from gui.theme import Tokens

SPIKE = 4.0
"""A step so many times slower than nearly all would squash the rest: it runs out at the top, the legend names it."""

ROOM_ABOVE = 1.03
"""The slowest step stays off the upper edge, where its line or dot would be cut."""

PEAKS = 200
"""Blocks of steps whose slowest tell what is usual."""

LEAST_SHARE = 0.005
"""What takes less of the time isn't named in the legend."""

COLOURS = (("others", 1.0), ("run", 0.75), ("activations", 0.75), ("optimizer", 0.75), ("others", 0.4))
"""Of each part, and of the rest: a colour of `gui.theme.Tokens` and how strong it is over the card."""


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
        self._bands = [pg.PlotDataItem(fillLevel=0.0, pen=None) for _ in COLOURS]
        title = QCoreApplication.translate("StepTimeChart", "Step time")
        super().__init__(title, stage, history, STEP_TIMES)
        for depth, band in enumerate(reversed(self._bands)):  # the whole step undermost
            band.setZValue(depth - 30)
            self.add_decoration(band)
        self.add_decoration(self._pauses)
        self._take_lines()
        self.explain(
            self.tr(
                "Where the time of a step goes. On a GPU, which works on after it was told to, Hone waits for it "
                "between the parts in one step of many, so seldom that it is meant to cost less than 1 % of the time; "
                "the other steps are wall time. Upright lines are what steps waited for: evaluations and checkpoints."
            )
        )

    def refresh(self) -> None:
        """Steps whose parts are known are drawn another way."""
        self._take_lines()
        super().refresh()

    def y_span(self, drawn: Span) -> Span:
        """From zero; a lone very slow step runs out at the top."""
        _, peaks = self.history.step_seconds.reduced(-np.inf, np.inf, PEAKS)
        usual = float(np.percentile(peaks, 95)) if len(peaks) else drawn[1]
        return 0.0, ROOM_ABOVE * drawn[1] if drawn[1] <= SPIKE * usual else 1.5 * usual

    def draw_more(self, low: float, high: float, scale: XScale) -> Span | None:
        """Draw the parts."""
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
        """The step under the cursor, or the median, the longest of all and what part takes how much."""
        if x is not None:
            value = self.history.step_seconds.read(x)
            return [Reading(numbers.step_time(value)), *self._at(x), *self.under_cursor(x)]
        median, longest = self.history.median_seconds.last, self.history.longest_step
        if median is None or longest is None:
            return []
        found = [Reading(self.tr("median {}").format(numbers.step_time(median)))]
        found += self._share_readings()
        if self._pause_share >= LEAST_SHARE:
            words = self.tr("evaluating, saving {} of all time")
            found.append(Reading(words.format(numbers.whole_percent(self._pause_share)), "gradients"))
        if longest > SPIKE * median:
            found.append(Reading(self.tr("longest {}").format(numbers.step_time(longest))))
        return found

    def details(self, x: float) -> list[tuple[str, str]]:
        """The step and all its parts."""
        whole = self.history.step_seconds.at(x)
        if whole is None:
            return []
        return [
            *self.place_details(x),
            (self.tr("step time"), numbers.step_time(whole)),
            *((name, numbers.step_time(value)) for name, _, value in self._named_parts(x)),
            *self._pauses_after(round(x)),
        ]

    def colour(self, tokens: Tokens) -> None:
        """Parts have their colours everywhere."""
        ground = QColor(tokens.surface)
        for band, (name, strength) in zip(self._bands, COLOURS, strict=True):
            band.setFillBrush(pg.mkBrush(mixed(QColor(getattr(tokens, name)), ground, strength)))
        self._pauses.paint_with(tokens)

    def _pauses_after(self, step: int) -> list[tuple[str, str]]:
        names = {"evaluation": self.tr("evaluation after it"), "checkpoint": self.tr("checkpoint after it")}
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
            self.tr("data"),
            self.tr("forward"),
            self.tr("backward"),
            self.tr("optimizer"),
            self.tr("the rest"),
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
