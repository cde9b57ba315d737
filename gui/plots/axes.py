"""Axes with few, round ticks in the unit people read."""

import math
from collections.abc import Callable

import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication, QRectF

from gui.numbers import NumberFormat

StepRule = Callable[[float, int], float]
"""Gives the distance between ticks for a span of values and a wanted number of ticks."""

_translate = QCoreApplication.translate

_CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


def decimal_step(span: float, ticks: int) -> float:
    """The nearest of 1, 2, 5, 10, … that gives at most about so many ticks."""
    if span <= 0 or not math.isfinite(span):
        return 1.0
    rough = span / ticks
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)


def whole_step(span: float, ticks: int) -> float:
    """Like `decimal_step`, never below 1: there is no half training step."""
    return max(1.0, decimal_step(span, ticks))


def memory_step(span: float, ticks: int) -> float:
    """Round numbers of MB, GB or TB (powers of 1024 apart)."""
    if span <= 0:
        return 1.0
    unit = 1024.0 ** max(0, math.floor(math.log(span, 1024)))
    return decimal_step(span / unit, ticks) * unit


def clock_step(span: float, ticks: int) -> float:
    """Steps of a clock, in seconds: 1, 2, 5, 10, 15, 30 s, then minutes, hours, days."""
    rough = span / ticks
    fitting = next((step for step in _CLOCK_STEPS if step >= rough), None)
    return float(fitting) if fitting is not None else 86_400.0 * math.ceil(rough / 86_400)


def clock_text(seconds: float) -> str:
    """A tick of a time axis: `0`, `30 s`, `5 min`, `1 h 30`."""
    whole = round(seconds)
    if whole == 0:
        return "0"
    if whole % 60:
        minutes = f"{whole // 60}:" if whole >= 60 else ""
        return f"{minutes}{whole % 60:02d}" if minutes else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole % 3600 == 0 else f"{whole // 3600} h {whole % 3600 // 60:02d}"


def step_text(step: float) -> str:
    """A tick of a step axis."""
    return f"{step:,.0f}"


TEXT_OFFSET = 6
"""Pixels between an axis and its texts."""

OVERHANG = 40
"""Pixels by which a tick's text may reach beyond the axis."""


class RoundAxis(pg.AxisItem):
    """An axis with one level of ticks at round values.

    Args:
        orientation: `left` or `bottom`.
        rule: Chooses the distance between ticks.
        write: Turns a tick's value into text.
        pixels_per_tick: Room that each tick has at least.
        prefix: A word before the first tick, which names the axis without taking a line of its own.
    """

    def __init__(
        self, orientation: str, rule: StepRule, write: NumberFormat, *, pixels_per_tick: int, prefix: str = ""
    ) -> None:
        super().__init__(orientation, pen=None, maxTickLength=0)
        self._rule = rule
        self._write = write
        self._pixels_per_tick = pixels_per_tick
        self._prefix = prefix
        self.setStyle(
            tickTextOffset=TEXT_OFFSET,
            autoExpandTextSpace=False,
            autoReduceTextSpace=False,
            hideOverlappingLabels=False,
        )

    def boundingRect(self) -> QRectF:
        """A little more than its own: pyqtgraph leaves out texts that stand across the edge, the outermost ones."""
        return super().boundingRect().adjusted(-OVERHANG, -OVERHANG, OVERHANG, OVERHANG)

    def tick_step(self, span: float, size: float) -> float:
        """Distance between ticks for `span` on `size` pixels."""
        return self._rule(span, max(2, int(size / self._pixels_per_tick)))

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:  # noqa: N802, N803
        """The ticks in the picture, as pyqtgraph asks for them: one level only."""
        low, high = sorted((minVal, maxVal))
        step = self.tick_step(high - low, size)
        first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
        return [(step, [number * step for number in range(first, last + 1)])]

    def texts_between(self, low: float, high: float, size: float) -> list[str]:
        """What stands at the ticks from `low` to `high` on `size` pixels."""
        [(step, values)] = self.tickValues(low, high, size)
        return self.tickStrings(values, 1.0, step)

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """The ticks' texts."""
        texts = [self._write(value) for value in values]
        if texts and self._prefix:
            texts[0] = f"{self._prefix} {texts[0]}"
        return texts


def step_axis() -> RoundAxis:
    """The axis of training steps."""
    word = _translate("axes", "step")
    return RoundAxis("bottom", whole_step, step_text, pixels_per_tick=72, prefix=word)


def clock_axis() -> RoundAxis:
    """The axis of time since the run's start, in seconds."""
    return RoundAxis("bottom", clock_step, clock_text, pixels_per_tick=80)
