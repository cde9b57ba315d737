"""Figures that follow a noisy one more calmly."""

import bisect
import math
from collections import deque

import numpy as np

from gui.plots.reduction import Floats

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

    def of(self, values: list[float]) -> list[float]:
        """Take in values and give the median after each of them."""
        window, ordered, found = self._window, self._sorted, []
        for value in values:
            window.append(value)
            bisect.insort(ordered, value)
            if len(window) > MEDIAN_STEPS:
                del ordered[bisect.bisect_left(ordered, window.popleft())]
            found.append(ordered[len(ordered) // 2])
        return found


class Smoothing:
    """An exponential mean whose newest value weighs `settling` divided by how many there are, within bounds."""

    def __init__(self, settling: float, least: float, most: float = MOST_WEIGHT) -> None:
        self._settling = settling
        self._least = least
        self._most = most

    def of(self, values: Floats, before: float | None, count: int) -> Floats:
        """Means that follow `values`, NaN where these are; after a gap they start anew. Shape (n,).

        Args:
            values: What is new. Shape (n,).
            before: The mean up to it; None or NaN to start anew.
            count: How many values it is made of.
        """
        settled = max(0, math.ceil(self._settling / self._least) - count)
        found: list[float] = []
        mean = math.nan if before is None else before
        for place, value in enumerate(values[:settled].tolist(), start=count + 1):
            weight = max(self._least, min(self._most, self._settling / place))
            mean = mean + weight * (value - mean) if mean == mean and value == value else value  # noqa: PLR0124
            found.append(mean)
        weight = self._least
        for value in values[settled:].tolist():  # comparing with itself asks for NaN, a million times
            mean = mean + weight * (value - mean) if mean == mean and value == value else value  # noqa: PLR0124
            found.append(mean)
        return np.array(found, np.float64)
