"""Numbers as people read them: with a unit, about three figures, and never a bare NaN.

Memory is counted as macOS, Windows and the makers of graphics cards count it: 1 GB is 1,073,741,824 bytes, so
that a computer sold with 16 GB shows 16 GB.
"""

import math
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from typing import TypeVar

from core.base.language import IS_RIGHT_TO_LEFT, _, isolated, ngettext

Value = TypeVar("Value")


def _in_one_piece(write: Callable[[Value], str]) -> Callable[[Value], str]:
    """Has a function isolate what it writes: a figure stays before its unit in a sentence from right to left, too."""

    @wraps(write)
    def written(value: Value) -> str:
        return isolated(write(value))

    return written


# --- Metrics


@dataclass(frozen=True)
class Metric:
    """One metric. `title` is as it is written within a sentence."""

    name: str
    title: str
    less_is_better: bool = False

    def best(self, values: list[float]) -> float:
        return min(values) if self.less_is_better else max(values)


METRICS = (
    Metric("eval_accuracy", _("accuracy")),
    Metric("eval_f1", "F1"),
    Metric("eval_pearson", "Pearson"),
    Metric("eval_spearman", "Spearman"),
    Metric("eval_mae", _("mean absolute error"), less_is_better=True),
    Metric("eval_reward_accuracy", _("reward accuracy")),
    Metric("eval_perplexity", _("perplexity"), less_is_better=True),
    Metric("eval_loss", _("loss"), less_is_better=True),
    Metric("eval_matthews", _("Matthews correlation")),
    Metric("eval_top5_accuracy", _("top-5 accuracy")),
    Metric("eval_token_accuracy", _("token accuracy")),
    Metric("eval_precision", _("precision")),
    Metric("eval_recall", _("recall")),
    Metric("eval_reward_margin", _("reward margin")),
    Metric("eval_kl", _("KL divergence"), less_is_better=True),
    Metric("eval_bits_per_character", _("bits per character"), less_is_better=True),
    Metric("eval_nats_per_character", _("nats per character"), less_is_better=True),
)
"""All metrics; a run is judged by the first of these that it has."""

CORRELATIONS = frozenset({"eval_pearson", "eval_spearman", "eval_matthews"})
"""Metrics from -1 to 1."""

LESS_IS_BETTER = frozenset(metric.name for metric in METRICS if metric.less_is_better)
METRIC_NAMES = tuple(metric.name for metric in METRICS)
METRIC_TITLES = {metric.name: metric.title for metric in METRICS}


def metric_words(name: str) -> str:
    """Returns what a metric is called within a sentence: `eval_mae` is `mean absolute error`."""
    return METRIC_TITLES.get(name, name.removeprefix("eval_").replace("_", " "))


def metric_title(name: str) -> str:
    """Returns what a metric is called on its own: `eval_mae` is `Mean absolute error`."""
    return capitalized(metric_words(name))


def capitalized(words: str) -> str:
    """Returns words as a sentence begins: only the first letter is changed, and that of mlx-lm's name isn't."""
    return words if words.startswith("mlx-lm") else words[:1].upper() + words[1:]


def is_share(metric: str) -> bool:
    """Returns whether a metric of this name is a share of 1, the more the better."""
    return any(word in metric for word in ("accuracy", "f1", "precision", "recall"))


def metric_format(name: str) -> Callable[[float | None], str]:
    """Returns the format of a metric: shares as percent, losses and errors as numbers."""
    return share if is_share(name) else loss


def metric(name: str, value: float | None) -> str:
    """Formats a metric with its title, such as `accuracy 0.9611`."""
    return f"{metric_words(name)} {number(value)}"


def metrics(values: dict[str, float | None]) -> str:
    """Formats metrics in their usual order, then other scores."""
    known = [name for name in METRIC_TITLES if name in values]
    others = sorted(name for name in values if name not in METRIC_TITLES)
    return enumerated(metric(name, values[name]) for name in (*known, *others))


# --- Numbers


MISSING = "–"
"""In place of a figure that is unknown."""

NumberFormat = Callable[[float], str]


_MINUTE = 60
_HOUR = 3600
_DAY = 86_400


def three_figures(value: float) -> str:
    """Formats about three significant figures, if possible without an exponent: 0.0213, 1.31, 48.2, 1,204."""
    if not math.isfinite(value):
        return not_finite(value)
    size = abs(value)
    if size >= 999.5:
        return f"{value:,.0f}"
    if size and size < 0.001:
        return f"{value:.1e}"
    decimals = 4 if size < 0.0995 else 3 if size < 0.995 else 2 if size < 9.95 else 1 if size < 99.5 else 0
    return f"{value:.{decimals}f}"


def of_limit(value: float, limit: float | None, unit: str) -> str:
    """Formats a figure and the most it may be, if that is known: `61.2 of 70.0 W`."""
    if limit is None:
        return isolated(f"{three_figures(value)} {unit}")
    words = _("{value} of {limit} {unit}")
    return words.format(value=three_figures(value), limit=three_figures(limit), unit=unit)


def not_finite(value: float) -> str:
    return _("not a number") if math.isnan(value) else _("infinite")


def loss(value: float | None) -> str:
    """Formats a loss in three figures: `1.31`, `0.0042`, `not a number`."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    return three_figures(value)


def count(value: int | None) -> str:
    """Formats a count with its thousands set apart: `1,797`."""
    return MISSING if value is None else f"{value:,}"


def compact_count(value: int) -> str:
    """Formats a large count in three figures: `11.2 million`; one below 100,000 in full."""
    units = (10**9, _("{count} billion")), (10**6, _("{count} million")), (1000, _("{count} thousand"))
    for unit, template in units:
        if value >= max(unit, 100_000):
            return template.format(count=_scaled(value / unit))
    return f"{value:,}"


def in_percent(number: str) -> str:
    return _("{number} %").format(number=number)


@_in_one_piece
def share(value: float | None) -> str:
    """Formats a share of 1 in percent: `95.3 %`."""
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return not_finite(value)
    return in_percent(f"{value * 100:.1f}")


@_in_one_piece
def whole_percent(value: float) -> str:
    """Formats a share of 1 in whole percent: `4 %`."""
    return in_percent(f"{value * 100:.0f}")


@_in_one_piece
def degrees(celsius: float) -> str:
    """Formats a temperature: `71 °C`."""
    return f"{celsius:.0f} °C"


def whole_shares(shares: Sequence[float]) -> list[float]:
    """Rounds shares of 1 to whole percent such that they still add up to what they add up to.

    All are rounded down, and what is missing goes to those that lost most.
    """
    percents = [math.floor(100 * share) for share in shares]
    lost = sorted(range(len(shares)), key=lambda place: percents[place] - 100 * shares[place])
    for place in lost[: round(100 * sum(shares)) - sum(percents)]:
        percents[place] += 1
    return [percent / 100 for percent in percents]


@_in_one_piece
def memory(value: float | None) -> str:
    """Formats bytes: `912 MB`, `9.6 GB`, `134 GB`."""
    if value is None:
        return MISSING
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "KB")):
        if abs(value) >= 999.5 * 1024 ** (power - 1):
            return f"{_scaled(value / 1024**power)} {unit}"
    return f"{value:.0f} B"


def rate(samples_per_second: float | None) -> str:
    """Formats a number of examples a second: `152 examples/s`."""
    if samples_per_second is None:
        return MISSING
    return _("{speed} examples/s").format(speed=three_figures(samples_per_second))


_MILLISECONDS = _("{milliseconds} ms")
_SECONDS = _("{seconds} s")
_HOURS = _("{hours} h {minutes:02d} min")


@_in_one_piece
def step_time(seconds: float | None) -> str:
    """Formats the time of one step: `42.1 ms`, `1.93 s`, `2 min 05 s`."""
    if seconds is None:
        return MISSING
    if not math.isfinite(seconds):
        return not_finite(seconds)
    if seconds >= _MINUTE:
        return duration(seconds)
    if seconds >= 0.9995:
        return _SECONDS.format(seconds=three_figures(seconds))
    if seconds == 0:
        return _SECONDS.format(seconds=0)
    return _MILLISECONDS.format(milliseconds=three_figures(seconds * 1000))


@_in_one_piece
def duration(seconds: float | None) -> str:
    """Formats a length of time: `8 s`, `2 min 05 s`, `1 h 20 min`, `2 d 3 h`."""
    if seconds is None:
        return MISSING
    whole = max(0, round(seconds))
    if whole < _MINUTE:
        return _SECONDS.format(seconds=whole)
    if whole < _HOUR:
        return _("{minutes} min {seconds:02d} s").format(minutes=whole // _MINUTE, seconds=whole % _MINUTE)
    if whole < _DAY:
        return _HOURS.format(hours=whole // _HOUR, minutes=whole % _HOUR // _MINUTE)
    return _("{days} d {hours} h").format(days=whole // _DAY, hours=whole % _DAY // _HOUR)


@_in_one_piece
def about(seconds: float) -> str:
    """Formats a forecast length of time, no finer than it can be known: `25 s`, `8 min`, `2 h 10 min`, `5 days`."""
    if seconds >= 3 * 365 * _DAY:
        years = round(seconds / (365 * _DAY))
        return ngettext("{count:,} year", "{count:,} years", years).format(count=years)
    if seconds >= 3 * _DAY:
        days = round(seconds / _DAY)
        return ngettext("{count:,} day", "{count:,} days", days).format(count=days)
    if seconds < _MINUTE - 2.5:
        return _SECONDS.format(seconds=max(5, 5 * round(seconds / 5)))
    if seconds < _HOUR - 30:
        return _("{minutes} min").format(minutes=round(seconds / _MINUTE))
    step = 5 * _MINUTE
    whole = step * round(seconds / step)
    if whole % _HOUR == 0 or whole >= _DAY:
        return _("{hours} h").format(hours=round(whole / _HOUR))
    return _HOURS.format(hours=whole // _HOUR, minutes=whole % _HOUR // _MINUTE)


@_in_one_piece
def moment(unix_seconds: float | None) -> str:
    """Formats a local point in time: `11-21 14:05`, or the day if it is in another year: `2025-11-21`."""
    if unix_seconds is None:
        return MISSING
    then = time.localtime(unix_seconds)
    return time.strftime("%m-%d %H:%M" if then.tm_year == time.localtime().tm_year else "%Y-%m-%d", then)


def epochs(value: float) -> str:
    """Formats a number of epochs: `3`, `0.9`."""
    return f"{value:,.1f}".removesuffix(".0")


def step_time_tick(seconds: float) -> str:
    """Formats a tick of an axis of step times: `0`, `250 ms`, `1.5 s`."""
    if seconds == 0:
        return "0"
    if seconds >= 0.9995:
        return _SECONDS.format(seconds=f"{seconds:,.4g}")
    return _MILLISECONDS.format(milliseconds=f"{1000 * seconds:.4g}")


def percent_tick(value: float) -> str:
    """Formats a tick of an axis of percent: `50 %`."""
    return in_percent(f"{value:.10g}")


def memory_tick(value: float) -> str:
    """Formats a tick of an axis of bytes: `0`, `0.5 GB`, `16 GB`; tenths of a unit stay in that unit."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "KB")):
        size = value / 1024**power
        if size >= 0.9995 or (size > 0.05 and abs(size - round(size, 1)) < 1e-6):
            return f"{size:.3g} {unit}" if size < 999.5 else f"{size:,.0f} {unit}"
    return f"{value:.0f} B" if value else "0"


def _scaled(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


# --- Numbers in messages and terminals


def enumerated(items: Iterable[str]) -> str:
    """Returns what is listed in a sentence, with the commas of the language; empty without items."""
    first, *others = [*items] or [""]
    return reduce(lambda so_far, other: _("{items}, {item}").format(items=so_far, item=other), others, first)


def in_line(*parts: str) -> str:
    """Returns facts beside each other; empty ones are left out."""
    line = " · ".join(isolated(part) for part in parts if part)
    # The line would have the direction of its first letter.
    return f"\u200f{line}" if line and IS_RIGHT_TO_LEFT else line


def with_note(text: str, note: str) -> str:
    return _("{text} ({note})").format(text=text, note=note) if note else text


def titled(title: str, text: str) -> str:
    return _("{title}: {text}").format(title=title, text=text)


def items_of(text: str) -> list[str]:
    """Returns what was listed with commas of any of the languages; without what is empty."""
    return [part.strip() for part in re.split("[,،、，]", text) if part.strip()]


_STOPS = ".!?:…。！？：；؟"
_CLOSING = "”\"')）」»\u2069"


def paragraph(*sentences: str) -> str:
    """Returns sentences as the language sets them one after another.

    One without its stop gets it; an empty one is left out.
    """
    whole = (
        one if one.rstrip(_CLOSING)[-1:] in _STOPS else _("{sentence}.").format(sentence=one)
        for one in sentences
        if one
    )
    first, *others = [*whole] or [""]
    return reduce(
        lambda so_far, other: _("{text} {sentence}").format(text=so_far, sentence=other), others, first
    )


def without_stop(sentence: str) -> str:
    """Returns a sentence as the title of something."""
    return sentence.rstrip(".。")


def counted(count: float, noun: str) -> str:
    """Formats a count with one of these nouns: `1 step`, `1,797 examples`, `2.5 epochs`."""
    whole = plural_number(count)
    template = {
        "core": ngettext("{count} core", "{count} cores", whole),
        "epoch": ngettext("{count} epoch", "{count} epochs", whole),
        "evaluation": ngettext("{count} evaluation", "{count} evaluations", whole),
        "example": ngettext("{count} example", "{count} examples", whole),
        "file": ngettext("{count} file", "{count} files", whole),
        "image": ngettext("{count} image", "{count} images", whole),
        "label": ngettext("{count} label", "{count} labels", whole),
        "layer": ngettext("{count} layer", "{count} layers", whole),
        "line": ngettext("{count} line", "{count} lines", whole),
        "process": ngettext("{count} process", "{count} processes", whole),
        "row": ngettext("{count} row", "{count} rows", whole),
        "run": ngettext("{count} run", "{count} runs", whole),
        "sample": ngettext("{count} sample", "{count} samples", whole),
        "step": ngettext("{count} step", "{count} steps", whole),
        "text": ngettext("{count} text", "{count} texts", whole),
        "thread": ngettext("{count} thread", "{count} threads", whole),
        "token": ngettext("{count} token", "{count} tokens", whole),
        "training example": ngettext("{count} training example", "{count} training examples", whole),
        "word": ngettext("{count} word", "{count} words", whole),
    }[noun]
    if not isinstance(count, int):
        return template.format(count=epochs(count) if count >= 1 else f"{count:.3g}")
    return template.format(count=f"{count:,}")


def plural_number(count: float) -> int:
    """Returns the number that `ngettext` takes for a count; fractions have the form of 100, in Arabic too."""
    return int(count) if float(count).is_integer() else 100


def places(row_word: str, numbers: Sequence[int], count: int = 1) -> str:
    """Returns where `count` rows are: `row 17`, `lines 4, 17`."""
    template = {
        "image": ngettext("image {numbers}", "images {numbers}", count),
        "line": ngettext("line {numbers}", "lines {numbers}", count),
        "record": ngettext("example {numbers}", "examples {numbers}", count),
        "row": ngettext("row {numbers}", "rows {numbers}", count),
    }[row_word]
    return template.format(numbers=enumerated(f"{number:,}" for number in numbers))


def full_moment(unix_seconds: float | None) -> str:
    """Formats a local date and time to the minute."""
    if unix_seconds is None:
        return MISSING
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(unix_seconds))


def number(value: float | None) -> str:
    """Formats a loss or score in about four figures, or `not a number`."""
    if value is None:
        return MISSING
    return f"{value:.4g}" if math.isfinite(value) else not_finite(value)


def plain_number(value: float) -> str:
    """Formats a float without padding: `3`, `0.001`, `2e-5`."""
    text = f"{value:.10g}"
    mantissa, exponential, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponential else text


_MARKS = str.maketrans("٫٬．，－−", ".,.,--")


def ascii_digits(text: str) -> str:
    """Returns a number as it is typed in any script, such as ٣٫٥ or ３．５, in ASCII."""
    digits = (str(unicodedata.decimal(letter)) if letter.isdecimal() else letter for letter in text)
    return "".join(digits).translate(_MARKS)


# --- Text and tables

_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066\u2067\ufeff]|\r(?!\n)")
"""What a terminal acts on: control characters, other line ends, turns of the direction."""


def visible(text: str) -> str:
    """Returns text of data, models or names that is safe in a terminal: control characters become `\\u001b`.

    JSON stays the same value. New lines and tabs stay.
    """
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Returns columns lined up under their titles, which are put in capitals, two spaces apart."""
    shown = [tuple(map(visible, row)) for row in ([title.upper() for title in titles], *rows)]
    widths = [max(columns(row[column]) for row in shown) for column in range(len(titles))]
    lines = [
        "  ".join(cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True))
        for row in shown
    ]
    return "\n".join(line.rstrip() for line in lines)


def columns(text: str) -> int:
    """Returns how many columns of a terminal a text takes: a letter of East Asia two, a mark above another none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.category(letter) in {"Mn", "Cf"} for letter in text)


def markdown(text: str) -> str:
    """Returns text escaped for Markdown; lines stay."""
    escaped = re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", text.replace("\r\n", "\n").replace("\r", "\n"))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
