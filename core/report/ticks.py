"""Where the ticks of an axis stand, and what they say."""

import math
from collections.abc import Callable

GB = 1 << 30
MB = 1 << 20


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two bounds, about `count` of them: 1, 2 or 5 times a power of ten apart."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low] if math.isfinite(low) else []
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    nearest = ((1, 1.5), (2, 3.5), (5, 7.5), (10, math.inf))
    step = next(factor * power for factor, most in nearest if rough < most * power)
    first = math.ceil(low / step - 1e-9)
    found = []
    while first * step <= high + step * 1e-9:
        found.append(first * step)
        first += 1
    return found


def number(value: float) -> str:
    """A figure in as few letters as tell it: `0.05`, `12,000`, `3e-05`."""
    if value == 0:
        return "0"
    if abs(value) < 0.0001:
        mantissa, _, power = f"{value:.2e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    shown = f"{value:,.4f}" if abs(value) < 10 else f"{value:,.1f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def counted(value: float) -> str:
    """A count: `1,200`, `1.5 million`."""
    return f"{value / 1e6:g} million" if abs(value) >= 1e6 else f"{value:,.6g}"


def byte_scale(high: float) -> tuple[float, str]:
    """What bytes are divided by, and the unit, for an axis that goes up to `high`."""
    return (GB, "GB") if high >= GB else (MB, "MB")


def time_scale(seconds: float) -> tuple[float, str]:
    """What seconds are divided by, and the unit, for an axis that goes up to `seconds`."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return size, unit
    return 1.0, "seconds"


def step_scale(seconds: float) -> tuple[float, str]:
    """As `time_scale`, for the time of single steps."""
    return (1e-3, "ms") if seconds < 1 else (1.0, "s")


Say = Callable[[float], str]
"""Writes the figure at a tick."""
