"""Why a processor holds its clocks down, in words."""

from enum import StrEnum


class Throttle(StrEnum):
    """What `core.events.DeviceSampled.throttled` may hold, and what `core.watchers.held_back` finds.

    A power cap is the usual state of a card that works hard; the others mean that something is not as it should be. No
    driver tells of the last two: they follow from other figures.
    """

    POWER_CAP = "power cap"
    POWER_BRAKE = "power brake"
    THERMAL_SOFTWARE = "thermal slowdown (software)"
    THERMAL_HARDWARE = "thermal slowdown (hardware)"
    HARDWARE = "hardware slowdown"
    PRESSURE = "thermal pressure"
    HOT = "it is hot, and its clock is low"


THERMAL = frozenset({Throttle.THERMAL_SOFTWARE, Throttle.THERMAL_HARDWARE, Throttle.PRESSURE, Throttle.HOT})
"""The processor, or its memory, is too hot."""

_BITS = {
    0x04: Throttle.POWER_CAP,
    0x20: Throttle.THERMAL_SOFTWARE,
    0x40: Throttle.THERMAL_HARDWARE,
    0x80: Throttle.POWER_BRAKE,
}
"""By the values of `nvmlClocksEventReason…` in nvml.h.

Left out is what slows nothing down: an idle GPU (0x01), clocks that somebody asked for (0x02), a group of GPUs kept in
step (0x10), the display's clocks (0x100).
"""

_HARDWARE = 0x08
"""Set together with the hardware's thermal slowdown and the power brake; alone on cards that don't tell these apart."""


def throttle_reasons(mask: int) -> tuple[Throttle, ...]:
    """The words for a mask of `nvmlDeviceGetCurrentClocksEventReasons`; empty: nothing holds the clocks down."""
    found = tuple(word for bit, word in _BITS.items() if mask & bit)
    told_apart = {Throttle.THERMAL_HARDWARE, Throttle.POWER_BRAKE}
    if mask & _HARDWARE and not told_apart.intersection(found):
        return (*found, Throttle.HARDWARE)
    return found
