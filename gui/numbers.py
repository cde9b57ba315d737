"""Numbers as people read them: with a unit, about three figures, and never a bare NaN.

Memory is counted as macOS, Windows and the makers of graphics cards count it: 1 GB is 1,073,741,824 bytes, so
that a computer sold with 16 GB shows 16 GB.
"""

import math
import time
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication

MISSING = "–"
"""Stands where there is no figure."""

NumberFormat = Callable[[float], str]

_translate = QCoreApplication.translate

_MINUTE = 60
_HOUR = 3600
_DAY = 86_400


def three_figures(value: float) -> str:
    """About three significant figures, without an exponent where it can be: 0.0213, 1.31, 48.2, 1,204."""
    if not math.isfinite(value):
        return not_finite(value)
    size = abs(value)
    if size >= 999.5:
        return f"{value:,.0f}"
    if size and size < 0.001:
        return f"{value:.1e}"
    decimals = 4 if size < 0.0995 else 3 if size < 0.995 else 2 if size < 9.95 else 1 if size < 99.5 else 0
    return f"{value:.{decimals}f}"


def not_finite(value: float) -> str:
    """The words for a value that is no number any more."""
    if math.isnan(value):
        return _translate("numbers", "not a number")
    return _translate("numbers", "infinite")


def loss(value: float | None) -> str:
    """A loss: `1.31`, `0.0042`; says so when it is not a number."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    return three_figures(value)


def count(value: int | None) -> str:
    """A count with its thousands set apart: `1,797`."""
    return MISSING if value is None else f"{value:,}"


def compact_count(value: int) -> str:
    """A large count in three figures: `11.2 million`."""
    for limit, word in (
        (1_000_000_000, _translate("numbers", "billion")),
        (1_000_000, _translate("numbers", "million")),
    ):
        if value >= limit:
            return f"{_scaled(value / limit)} {word}"
    return f"{value:,}"


def share(value: float | None) -> str:
    """A share of 1 in percent: `95.3 %`."""
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return not_finite(value)
    return f"{value * 100:.1f} %"


def whole_percent(value: float) -> str:
    """A share of 1 in whole percent: `4 %`."""
    return f"{value * 100:.0f} %"


def memory(value: float | None) -> str:
    """Bytes: `912 MB`, `9.6 GB`, `134 GB`."""
    if value is None:
        return MISSING
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "KB")):
        if abs(value) >= 0.9995 * 1024**power:
            return f"{_scaled(value / 1024**power)} {unit}"
    return f"{value:.0f} B"


def rate(samples_per_second: float | None) -> str:
    """Samples a second: `152 rows/s`."""
    if samples_per_second is None:
        return MISSING
    return _translate("numbers", "{} rows/s").format(three_figures(samples_per_second))


def step_time(seconds: float | None) -> str:
    """The time of one step: `42.1 ms`, `1.93 s`, `2 min 05 s`."""
    if seconds is None:
        return MISSING
    if not math.isfinite(seconds):
        return not_finite(seconds)
    if seconds >= _MINUTE:
        return duration(seconds)
    if seconds >= 0.9995:
        return f"{three_figures(seconds)} s"
    return "0 s" if seconds == 0 else f"{three_figures(seconds * 1000)} ms"


def duration(seconds: float | None) -> str:
    """A length of time: `8 s`, `2 min 05 s`, `1 h 20 min`, `2 d 3 h`."""
    if seconds is None:
        return MISSING
    whole = max(0, round(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def about(seconds: float) -> str:
    """A forecast length of time, no finer than it can be known: `25 s`, `8 min`, `2 h 10 min`."""
    if seconds < _MINUTE - 2.5:
        return f"{max(5, 5 * round(seconds / 5))} s"
    if seconds < _HOUR - 30:
        return f"{round(seconds / _MINUTE)} min"
    step = 5 * _MINUTE
    whole = step * round(seconds / step)
    if whole % _HOUR == 0 or whole >= _DAY:
        return f"{round(whole / _HOUR)} h"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"


def moment(unix_seconds: float | None) -> str:
    """A point in time, local: `21 Nov, 14:05`; of another year the day: `21 Nov 2025`."""
    if unix_seconds is None:
        return MISSING
    then = time.localtime(unix_seconds)
    form = "%d %b, %H:%M" if then.tm_year == time.localtime().tm_year else "%d %b %Y"
    return time.strftime(form, then).lstrip("0")


def epochs(value: float) -> str:
    """Passes over the data: `3`, `0.9`."""
    return f"{value:,.1f}".removesuffix(".0")


def loss_tick(value: float, digits: int = 4) -> str:
    """A tick of an axis of losses, with so many digits at most: `0`, `0.5`, `2`."""
    return f"{value:,.{digits}g}"


def step_time_tick(seconds: float) -> str:
    """A tick of an axis of step times: `0`, `250 ms`, `1.5 s`."""
    if seconds == 0:
        return "0"
    return f"{seconds:,.4g} s" if seconds >= 0.9995 else f"{1000 * seconds:.4g} ms"


def share_tick(value: float) -> str:
    """A tick of an axis of shares: `90 %`."""
    return f"{100 * value:.10g} %"


def percent_tick(value: float) -> str:
    """A tick of an axis of percent: `50 %`."""
    return f"{value:.10g} %"


def memory_tick(value: float) -> str:
    """A tick of an axis of bytes: `0`, `0.5 GB`, `16 GB`; tenths of a unit stay in that unit."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "KB")):
        size = value / 1024**power
        if size >= 0.9995 or (size > 0.05 and abs(size - round(size, 1)) < 1e-6):
            return f"{size:.3g} {unit}" if size < 999.5 else f"{size:,.0f} {unit}"
    return f"{value:.0f} B" if value else "0"


def is_share(metric: str) -> bool:
    """Whether a metric of this name is a share of 1, the more the better."""
    return any(word in metric for word in ("accuracy", "f1", "precision", "recall"))


def metric_format(name: str) -> Callable[[float | None], str]:
    """How a metric of this name is written: shares as percent, losses and errors as numbers."""
    return share if is_share(name) else loss


def metric_title(name: str) -> str:
    """What a metric is called on screen: `eval_f1` is `F1`."""
    bare = name.removeprefix("eval_")
    titles = {
        "loss": _translate("numbers", "Loss"),
        "accuracy": _translate("numbers", "Accuracy"),
        "f1": _translate("numbers", "F1"),
        "precision": _translate("numbers", "Precision"),
        "recall": _translate("numbers", "Recall"),
        "token_accuracy": _translate("numbers", "Token accuracy"),
        "bits_per_character": _translate("numbers", "Bits a character"),
        "nats_per_character": _translate("numbers", "Nats a character"),
        "pearson": _translate("numbers", "Pearson"),
        "spearman": _translate("numbers", "Spearman"),
        "mae": _translate("numbers", "Mean absolute error"),
        "matthews": _translate("numbers", "Matthews correlation"),
        "top5_accuracy": _translate("numbers", "Top-5 accuracy"),
    }
    return titles.get(bare, bare.replace("_", " ").capitalize())


def _scaled(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
