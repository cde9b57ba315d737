"""Figures in plain text, as the command line prints them (the window has its own, translated, in `gui.numbers`)."""

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.metrics import METRIC_TITLES

MISSING = "-"

_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]|\r(?!\n)")
"""What a terminal acts on in place of showing it: control characters, other line ends, turns of the direction."""


def visible(text: str) -> str:
    """Text of data, models or names as a terminal may have it: what it would act on stands there as `\\u001b`.

    JSON stays the JSON it is. New lines and tabs stay.
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def size(count: float | None) -> str:
    """Bytes with their unit, 1 GB being 1024^3 bytes as computers are sold: `912 MB`, `9.6 GB`."""
    if count is None:
        return MISSING
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{count:.0f} {unit}" if count >= 9.95 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def megabytes(count: float) -> str:
    """Bytes in whole MB of 1024 x 1024, for figures that are compared: `1,177 MB`."""
    return f"{count / (1 << 20):,.0f} MB"


def counted(count: float, noun: str) -> str:
    """A count with its noun: `1 step`, `1,797 samples`, `2.5 epochs`."""
    shown = f"{count:,}" if isinstance(count, int) else f"{count:.3g}"
    return f"{shown} {noun}" if count == 1 else f"{shown} {noun}s"


def duration(seconds: float | None) -> str:
    """A length of time: `8 s`, `2 min 05 s`, `1 h 20 min`."""
    if seconds is None:
        return MISSING
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def moment(unix_seconds: float | None) -> str:
    """A local date and time to the minute."""
    if unix_seconds is None:
        return MISSING
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(unix_seconds))


def number(value: float | None) -> str:
    """A loss or score in about four figures; says so when it is not a number any more."""
    if value is None:
        return MISSING
    return f"{value:.4g}" if math.isfinite(value) else "not a number" if math.isnan(value) else "infinite"


def metric(name: str, value: float | None) -> str:
    """A metric with its title, such as `accuracy 0.9611`."""
    return f"{METRIC_TITLES.get(name, name.removeprefix('eval_'))} {number(value)}"


def metrics(values: dict[str, float | None]) -> str:
    """The metrics that have a title, in their usual order, then other scores."""
    known = [name for name in METRIC_TITLES if name in values]
    others = sorted(name for name in values if name not in METRIC_TITLES)
    return ", ".join(metric(name, values[name]) for name in (*known, *others))


def table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Columns lined up under their titles, two spaces apart."""
    shown = [tuple(map(visible, row)) for row in (titles, *rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(titles))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in shown]
    return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True)
class Table:
    """Rows under their titles. `numbers` are the columns that are lined up on the right."""

    titles: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: frozenset[int] = frozenset()


def markdown_lines(table: Table) -> Iterator[str]:
    """A table as lines of Markdown, an empty one behind it."""
    yield f"| {' | '.join(map(markdown, table.titles))} |"
    yield (
        "|"
        + "|".join(" ---: " if place in table.numbers else " --- " for place in range(len(table.titles)))
        + "|"
    )
    for row in table.rows:
        yield f"| {' | '.join(markdown(cell).replace(chr(10), '<br>') for cell in row)} |"
    yield ""


def markdown(text: str) -> str:
    """A text of which Markdown makes nothing else, on as many lines as it has."""
    marked = re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", text.replace("\r\n", "\n").replace("\r", "\n"))
    return marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
