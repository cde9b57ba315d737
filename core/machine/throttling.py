"""Why a processor holds its clocks down, in words, and which of the reasons count.

NVIDIA's driver says why it holds a clock down, macOS how hot it finds the computer; elsewhere a GPU's low clock while
busy and hot tells. A CPU's doesn't: its highest clock is that of one core alone.
"""

from enum import StrEnum

from core.machine.heat import SLOWED_FROM
from core.samples import DeviceSampled, Source
from core.watchers import thresholds as limits


class Throttle(StrEnum):
    """What `core.events.DeviceSampled.throttled` may hold, and what `held_back` finds.

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


def held_back(sample: DeviceSampled) -> tuple[str, ...]:
    """Why a processor is slower than it should be; empty: it isn't, or nobody tells.

    The words are those of `Throttle`, or such as a newer driver or Hone wrote down. A GPU at its cap of power runs
    below its highest clock by design: that counts only where it is far below. One that has little to do clocks down to
    save power, not because it has to.
    """
    if sample.thermal is not None and sample.thermal >= SLOWED_FROM:
        return (Throttle.PRESSURE,)
    if sample.busy is not None and sample.busy < limits.BUSY:
        return ()
    if sample.throttled is None:
        return (Throttle.HOT,) if _is_slowed_by_heat(sample) else ()
    is_far_below = _is_below(sample, limits.CLOCK_CAPPED)
    return tuple(reason for reason in sample.throttled if reason != Throttle.POWER_CAP or is_far_below)


def _is_slowed_by_heat(sample: DeviceSampled) -> bool:
    """Whether the temperature and the clock say so."""
    is_hot = sample.temperature is not None and sample.temperature >= limits.HOT
    return is_hot and sample.source is not Source.SYSTEM and _is_below(sample, limits.CLOCK_LOW)


def _is_below(sample: DeviceSampled, share: float) -> bool:
    """Whether the clock is known and below this share of its limit."""
    if sample.clock is None or sample.clock_limit is None:
        return False
    return sample.clock < share * sample.clock_limit
