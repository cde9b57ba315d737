"""How hot macOS finds its computer: the levels of thermal pressure, and from which of them on it slows down."""

THERMAL_NAMES = ("nominal", "moderate", "heavy", "trapping", "sleeping")
"""Apple's names of the levels, from 0 on (`OSThermalPressureLevel` in OSThermalNotification.h)."""

SLOWED_FROM = THERMAL_NAMES.index("heavy")
"""The level from which on a Mac slows down: at moderate the fans turn and the pace is kept."""


def thermal_name(level: int) -> str:
    """Apple's name of a level; its number where it has none that is known."""
    return THERMAL_NAMES[level] if 0 <= level < len(THERMAL_NAMES) else str(level)
