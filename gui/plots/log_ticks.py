"""Ticks of an axis whose positions are decimal logarithms: whole powers of ten, and 2 and 5 times these where there
is room."""

import math

_WITHIN_A_DECADE = ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3))
"""What may stand in each decade, the densest first."""

_NEARLY = 1e-9


def between(low: float, high: float, most: int) -> list[float]:
    """Positions of ticks.

    Args:
        low: Where the picture begins, as a logarithm.
        high: Where it ends.
        most: How many there is room for.

    Returns:
        Ascending logarithms of round values.
    """
    found = _candidates(low, high)
    for ticks in found:
        inside = [tick for tick in ticks if low - _NEARLY <= tick <= high + _NEARLY]
        if len(inside) <= most:
            return inside
    decades = range(math.ceil(low - _NEARLY), math.floor(high + _NEARLY) + 1)
    return [float(decade) for decade in decades[:: math.ceil(len(decades) / most)]]


def frame(low: float, high: float, most: int) -> tuple[float, float]:
    """Widen a span of logarithms to the next ticks; at least to a factor of two."""
    if high - low < math.log10(2):
        middle = (low + high) / 2
        low, high = middle - math.log10(2) / 2, middle + math.log10(2) / 2
    for ticks in _candidates(math.floor(low), math.ceil(high)):
        below = max(tick for tick in ticks if tick <= low + _NEARLY)
        above = min(tick for tick in ticks if tick >= high - _NEARLY)
        if sum(below <= tick <= above for tick in ticks) <= most:
            return below, above
    return float(math.floor(low + _NEARLY)), float(math.ceil(high - _NEARLY))


def _candidates(low: float, high: float) -> list[list[float]]:
    decades = range(math.floor(low), math.ceil(high) + 1)
    return [
        [decade + math.log10(factor) for decade in decades for factor in factors]
        for factors in _WITHIN_A_DECADE
    ]
