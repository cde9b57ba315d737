"""Axes with few, round ticks in the unit people read."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication, QRectF

from gui.numbers import NumberFormat, loss_tick, memory_tick, percent_tick, share_tick, step_time_tick
from gui.plots import log_ticks

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


def epoch_text(epoch: float) -> str:
    """A tick of an axis of epochs: `0`, `0.5`, `3`."""
    return f"{epoch:,.6g}"


TEXT_OFFSET = 6
"""Pixels between an axis and its texts."""

FINER_DIGITS = (6, 8, 10, 12)
"""Digits that are tried one after the other until all ticks of an axis differ."""

OVERHANG = 40
"""Pixels by which a tick's text may reach beyond the axis."""


@dataclass(frozen=True)
class AxisUnit:
    """What an axis counts.

    Args:
        rule: Chooses the distance between ticks.
        write: Turns a tick's value into text.
        pixels_per_tick: Room that each tick has at least.
        write_finely: The same with so many digits, where those of `write` don't tell ticks apart; None: they always do.
        prefix: A word before the first tick, which names the axis without taking a line of its own. It is translated
            when it is shown.
    """

    rule: StepRule
    write: NumberFormat
    pixels_per_tick: int
    prefix: str = ""
    write_finely: Callable[[float, int], str] | None = None


STEP = AxisUnit(whole_step, step_text, 72, str(QT_TRANSLATE_NOOP("axes", "step")))
EPOCH = AxisUnit(decimal_step, epoch_text, 72, str(QT_TRANSLATE_NOOP("axes", "epoch")))
CLOCK = AxisUnit(clock_step, clock_text, 80)
"""Time worked, in seconds."""

ROW = 26
"""Pixels that each tick of an upright axis has at least."""

VALUES = AxisUnit(decimal_step, loss_tick, ROW, write_finely=loss_tick)
STEP_TIMES = AxisUnit(decimal_step, step_time_tick, ROW)
SHARES = AxisUnit(decimal_step, share_tick, ROW)
BYTES = AxisUnit(memory_step, memory_tick, ROW)
PERCENT = AxisUnit(decimal_step, percent_tick, ROW)


class RoundAxis(pg.AxisItem):
    """An axis with one level of ticks at round values.

    Args:
        orientation: `left` or `bottom`.
        unit: What it counts; may be changed later by `measure`.
    """

    def __init__(self, orientation: str, unit: AxisUnit) -> None:
        super().__init__(orientation, pen=None, maxTickLength=0)
        self.unit = unit
        self.is_log = False
        self.setStyle(
            tickTextOffset=TEXT_OFFSET,
            autoExpandTextSpace=False,
            autoReduceTextSpace=False,
            hideOverlappingLabels=False,
        )

    def measure(self, unit: AxisUnit) -> None:
        """Count something else from now on."""
        if unit != self.unit:
            self.unit = unit
            self._redraw()

    def set_log(self, is_log: bool) -> None:
        """Take positions for decimal logarithms of values, or for the values themselves."""
        if is_log != self.is_log:
            self.is_log = is_log
            self._redraw()

    def boundingRect(self) -> QRectF:
        """A little more than its own: pyqtgraph leaves out texts that stand across the edge, the outermost ones."""
        return super().boundingRect().adjusted(-OVERHANG, -OVERHANG, OVERHANG, OVERHANG)

    def frame(self, low: float, high: float, size: float) -> tuple[float, float]:
        """Widen a span of positions to whole ticks, so that the outermost grid lines frame the picture."""
        if self.is_log:
            return log_ticks.frame(low, high, self._most_ticks(size))
        if high <= low:
            low, high = (0.0, 2 * high) if high > 0 else (low - 1.0, low + 1.0)
        for _ in range(2):  # widening may ask for a coarser step
            step = self.tick_step(high - low, size)
            low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        return low, high

    def tick_step(self, span: float, size: float) -> float:
        """Distance between ticks for `span` on `size` pixels."""
        return self.unit.rule(span, self._most_ticks(size))

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:  # noqa: N802, N803
        """The ticks in the picture, as pyqtgraph asks for them: one level only."""
        low, high = sorted((minVal, maxVal))
        if self.is_log:
            return [(1.0, log_ticks.between(low, high, self._most_ticks(size)))]
        step = self.tick_step(high - low, size)
        first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
        return [(step, [number * step for number in range(first, last + 1)])]

    def texts_between(self, low: float, high: float, size: float) -> list[str]:
        """What stands at the ticks from `low` to `high` on `size` pixels."""
        [(step, values)] = self.tickValues(low, high, size)
        return self.tickStrings(values, 1.0, step)

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """The ticks' texts."""
        texts = self._told_apart([10.0**value if self.is_log else value for value in values])
        if texts and self.unit.prefix:
            texts[0] = f"{_translate('axes', self.unit.prefix)} {texts[0]}"
        return texts

    def _told_apart(self, values: list[float]) -> list[str]:
        texts, finely = [self.unit.write(value) for value in values], self.unit.write_finely
        for digits in FINER_DIGITS:
            if finely is None or len(set(texts)) == len(texts):
                break
            texts = [finely(value, digits) for value in values]
        return texts

    def _most_ticks(self, size: float) -> int:
        return max(2, int(size / self.unit.pixels_per_tick))

    def _redraw(self) -> None:
        self.picture = None
        self.update()
