"""Notices that the computer trains from its battery: slower on most, and not for long on all."""

from core.events import Level
from core.watchers import thresholds as limits
from core.watchers.finding import Finding
from core.watchers.offers import STOP
from core.watchers.recent import Recent

MESSAGE = "battery"


def look(recent: Recent, *, raised: str) -> Finding | None:
    """Find that the computer is unplugged: a note, or a warning once little is left."""
    since, battery = recent.unplugged_since, recent.battery
    if battery is None or since is None:
        return None
    if not raised and recent.now - since < limits.UNPLUGGED_SECONDS:
        return None
    left = f"{100 * battery.share:.0f} %"
    if battery.share < (limits.BATTERY_OVER if raised == "low" else limits.BATTERY_LOW):
        return Finding(
            key="low",
            level=Level.WARNING,
            title=f"The battery is at {left}",
            detail="Training empties a battery fast, and the computer will sleep or switch off before it is done. Plug "
            "it in, or stop: the run saves a checkpoint and ends.",
            fixes=(STOP,),
        )
    return Finding(
        key="unplugged",
        level=Level.INFO,
        title="The computer runs on its battery",
        detail=f"It is at {left}. Plugged in, most laptops train faster, and the run can't end for lack of power.",
        fixes=(STOP,),
    )
