"""Which of the reasons that hold a processor's clock down count.

NVIDIA's driver says why it holds a clock down, macOS how hot it finds the computer; elsewhere a GPU's low clock while
busy and hot tells. A CPU's doesn't: its highest clock is that of one core alone.
"""

from core.machine.heat import SLOWED_FROM
from core.machine.throttling import Throttle
from core.samples import DeviceSampled, Source
from core.watchers import thresholds as limits


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
