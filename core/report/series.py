"""Figures for a chart: points in their order, thinned so that every peak and dip stays."""

import math
from array import array
from dataclasses import dataclass, field

POINTS = 1500
"""So many a line has at most; more can't be told apart on a page."""


@dataclass
class Line:
    """Points of a line; y is NaN where there is no figure. `title` stands in the legend."""

    title: str
    x: "array[float]" = field(default_factory=lambda: array("d"))
    y: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, x: float, y: float | None) -> None:
        """Add a point."""
        self.x.append(x)
        self.y.append(math.nan if y is None else y)

    def cut(self, beyond: float) -> None:
        """Forget the points whose x is larger."""
        while self.x and self.x[-1] > beyond:
            self.x.pop()
            self.y.pop()

    def scaled(self, x: float, y: float) -> "Line":
        """The same line, all x and all y divided by these."""
        return Line(
            self.title, array("d", (one / x for one in self.x)), array("d", (one / y for one in self.y))
        )

    @property
    def finite(self) -> list[float]:
        """The figures that are numbers."""
        return [value for value in self.y if math.isfinite(value)]


def thinned(line: Line, points: int = POINTS) -> list[tuple[float, float]]:
    """The points of a line, of many the lowest and the highest of each of `points / 2` stretches, in their order.

    A stretch without any number gives one NaN, where the line is broken.
    """
    count = len(line.x)
    if count <= points:
        return list(zip(line.x, line.y, strict=True))
    stretches = points // 2
    found: list[tuple[float, float]] = []
    for place in range(stretches):
        start, end = place * count // stretches, (place + 1) * count // stretches
        numbers = [index for index in range(start, end) if math.isfinite(line.y[index])]
        if not numbers:
            found.append((line.x[start], math.nan))
            continue
        low, high = min(numbers, key=line.y.__getitem__), max(numbers, key=line.y.__getitem__)
        found += [(line.x[index], line.y[index]) for index in sorted({low, high})]
    return found


def smoothed(line: Line, title: str, weight: float = 0.95) -> Line:
    """The running mean of a line, the newest figure weighing `1 - weight` at last; NaN is passed over."""
    found, mean, seen = Line(title), 0.0, 0.0
    for x, y in zip(line.x, line.y, strict=True):
        if math.isfinite(y):
            mean = weight * mean + (1 - weight) * y
            seen = weight * seen + (1 - weight)
        found.add(x, mean / seen if seen else math.nan)
    return found
