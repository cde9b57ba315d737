"""Figures that follow a noisy one more calmly."""

import bisect
import math
from collections import deque

LEAST_WEIGHT, MOST_WEIGHT = 0.1, 0.5
"""Bounds of what a new loss weighs in the smoothed one: from about the last 3 losses to about the last 20."""

SETTLING = 20
"""A new loss weighs `SETTLING` divided by how many there are: a loss that still falls steeply is smoothed little."""

LEAST_WEIGHT_OF_SMOOTHER = 0.02
"""The same for the smoother loss: about the last 100."""

SETTLING_OF_SMOOTHER = 10

MEDIAN_STEPS = 51


class RunningMedian:
    """Median of the last `MEDIAN_STEPS` values, kept sorted so that adding one is cheap."""

    def __init__(self) -> None:
        self._window: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, value: float) -> float:
        """Take in a value and give the median."""
        self._window.append(value)
        bisect.insort(self._sorted, value)
        if len(self._window) > MEDIAN_STEPS:
            del self._sorted[bisect.bisect_left(self._sorted, self._window.popleft())]
        return self._sorted[len(self._sorted) // 2]


class Smoothing:
    """An exponential mean whose newest value weighs `settling` divided by how many there are, within bounds."""

    def __init__(self, settling: float, least: float, most: float = MOST_WEIGHT) -> None:
        self._settling = settling
        self._least = least
        self._most = most

    def next(self, before: float, value: float, count: int) -> float:
        """The mean with `value`, the `count`th of its kind; `before` is the mean up to it, NaN to start anew."""
        weight = max(self._least, min(self._most, self._settling / count))
        return value if math.isnan(before) else before + weight * (value - before)
