"""Notices that a processor is held back: it is too hot, or gets too little power, and its clock is held down.

NVIDIA's driver says why it holds a clock down, macOS how hot it finds the computer; elsewhere a GPU's low clock while
busy and hot tells. A CPU's doesn't: its highest clock is that of one core alone. A GPU at its cap of power runs below
its highest clock by design: that alone is no finding unless it is far below.
"""

from collections.abc import Sequence

from core.events import DeviceSampled, Level, Source
from core.machine.throttling import Throttle
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.recent import Recent

MESSAGE = "throttling"

_THERMAL_LEVELS = {2: "heavy", 3: "trapping", 4: "sleeping"}
"""Apple's names of the levels (OSThermalNotification.h)."""


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find a processor that was held back for most of the last half minute."""
    share = limits.THROTTLED_SHARE_OVER if raised else limits.THROTTLED_SHARE
    for source, kept in recent.devices.items():
        samples = [sample for sample in kept if sample.time > recent.now - limits.THROTTLED_SECONDS]
        held_back = [sample for sample in samples if _cause(sample)]
        if len(samples) >= limits.THROTTLED_SAMPLES and len(held_back) >= share * len(samples):
            return _finding(source, held_back)
    return None


def _cause(sample: DeviceSampled) -> str:
    """Why a processor is held back, in words; empty: it isn't, or nobody tells."""
    if sample.thermal is not None and sample.thermal >= limits.THERMAL_PRESSURE:
        level = _THERMAL_LEVELS.get(sample.thermal, str(sample.thermal))
        return f"macOS calls the thermal pressure “{level}”"
    if sample.busy is not None and sample.busy < limits.BUSY:
        return ""
    if sample.throttled is None:
        return _heat(sample)
    if set(sample.throttled) <= {Throttle.POWER_CAP} and not _is_below(sample, limits.CLOCK_CAPPED):
        return ""
    return ", ".join(sample.throttled)


def _heat(sample: DeviceSampled) -> str:
    is_hot = sample.temperature is not None and sample.temperature >= limits.HOT
    is_slow = sample.source is not Source.SYSTEM and _is_below(sample, limits.CLOCK_LOW)
    return "it is hot, and its clock is low" if is_hot and is_slow else ""


def _is_below(sample: DeviceSampled, share: float) -> bool:
    """Whether the clock is known and below this share of its limit."""
    if sample.clock is None or sample.clock_limit is None:
        return False
    return sample.clock < share * sample.clock_limit


def _finding(source: Source, held_back: Sequence[DeviceSampled]) -> Finding:
    last = held_back[-1]
    name = last.name or "The processor"
    figures = [f"{last.temperature:.0f} °C"] if last.temperature is not None else []
    if last.clock is not None and last.clock_limit is not None:
        figures.append(f"{last.clock:,.0f} of {last.clock_limit:,.0f} MHz")
    if last.power is not None and last.power_limit is not None:
        figures.append(f"{last.power:.0f} of {last.power_limit:.0f} W")
    measured = f" ({', '.join(figures)})" if figures else ""
    return Finding(
        key=source.value,
        level=Level.WARNING,
        title=f"{name} is held back, so steps take longer",
        detail=f"The reason: {_cause(last)}{measured}. Give it air: nothing on its vents, fans free of dust, no "
        "other heavy work beside it. A laptop wants the power supply it came with.",
    )
