"""Figures in the words of messages."""

from core import figures


def seconds(value: float) -> str:
    """A length of time, however short: `400 ms`, `4.2 s`, `1 min 20 s`."""
    if value < 0.9995:
        return f"{1000 * value:.0f} ms"
    return f"{value:.1f} s" if value < 9.95 else figures.duration(value)
