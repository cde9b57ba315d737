"""Notices that a processor is held back: it is too hot, or gets too little power, and its clock is held down.

`core.watchers.held_back` says which reasons count.
"""

from collections.abc import Sequence

from core.events import DeviceSampled, Level, Source
from core.machine.heat import thermal_name
from core.machine.throttling import Throttle
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.held_back import held_back
from core.watchers.offers import STOP
from core.watchers.recent import Recent

MESSAGE = "throttling"


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find a processor that was held back for most of the last half minute."""
    share = limits.THROTTLED_SHARE_OVER if raised else limits.THROTTLED_SHARE
    for source, kept in recent.devices.items():
        samples = [sample for sample in kept if sample.time > recent.now - limits.THROTTLED_SECONDS]
        slowed = [sample for sample in samples if held_back(sample)]
        if len(samples) >= limits.THROTTLED_SAMPLES and len(slowed) >= share * len(samples):
            return _finding(source, slowed)
    return None


def _cause(sample: DeviceSampled) -> str:
    """Why a processor is held back, in words."""
    reasons = held_back(sample)
    if Throttle.PRESSURE in reasons and sample.thermal is not None:
        return f"macOS calls the thermal pressure “{thermal_name(sample.thermal)}”"
    return ", ".join(reasons)


def _finding(source: Source, slowed: Sequence[DeviceSampled]) -> Finding:
    last = slowed[-1]
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
        fixes=(STOP,),
    )
