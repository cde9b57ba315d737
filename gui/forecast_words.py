"""How good forecasts of memory have been, on this computer, in words."""

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication

from core.memory.record import PastRun, correction, teaching, typical_error
from gui import numbers

_translate = QCoreApplication.translate

EXACT = 0.005
"""Nearer than this the percent says 0."""

MINUS = "\N{MINUS SIGN}"


def forecast_words(past: Sequence[PastRun]) -> str:
    """How good the forecasts have been, and what they have taught; empty while there were none."""
    found = teaching(past)
    error = typical_error(found)
    if error is None:
        return ""
    one = _translate(
        "runs", "Memory forecast on this computer: off by {error} in one run that went through all its data"
    )
    several = _translate(
        "runs",
        "Memory forecasts on this computer: off by {error} in the median of {count} runs that went through all "
        "their data",
    )
    said = (one if len(found) == 1 else several).format(
        error=numbers.whole_percent(error), count=numbers.count(len(found))
    )
    return " ".join([f"{said}.", *_lessons(found)])


def _lessons(past: Sequence[PastRun]) -> list[str]:
    """The correction of each device that has one: a sentence of its own for one, a list for several."""
    devices = dict.fromkeys(one.device for one in past)
    factors = {device: correction(device, past) for device in devices}
    learned = {device: factor - 1 for device, factor in factors.items() if abs(factor - 1) >= EXACT}
    if len(learned) > 1:
        each = ", ".join(f"{device} {_signed(change)}" for device, change in learned.items())
        return [_translate("runs", "New ones are corrected: {devices}.").format(devices=each)]
    more = _translate("runs", "New ones for {device} are raised by {share}.")
    less = _translate("runs", "New ones for {device} are lowered by {share}.")
    return [
        (more if change > 0 else less).format(device=device, share=numbers.whole_percent(abs(change)))
        for device, change in learned.items()
    ]


def _signed(share: float) -> str:
    return f"{'+' if share > 0 else MINUS}{numbers.whole_percent(abs(share))}"
