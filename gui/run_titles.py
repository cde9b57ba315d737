"""Telling runs apart that bear the same title, wherever several stand beside each other."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gui import numbers

STAMP = "%Y-%m-%d-%H%M"
"""How the names of run folders begin, as `core.runs` makes them."""

STAMP_LETTERS = len("2026-01-31-2359")


def told_apart(runs: Sequence[tuple[Path, str]]) -> list[str]:
    """The titles of runs, in their order; titles that several of them bear go on with when each was made.

    Args:
        runs: Their folders and titles. No file is read: a folder's name tells when it was made.
    """
    counts = Counter(title for _, title in runs)
    dated = [f"{title} · {made(path)}" if counts[title] > 1 else title for path, title in runs]
    counts = Counter(dated)
    return [
        f"{title} · {path.name}" if counts[words] > 1 else words
        for (path, title), words in zip(runs, dated, strict=True)
    ]


def made(path: Path) -> str:
    """When a run was made, as its folder's name says; else that name."""
    try:
        then = time.mktime(time.strptime(path.name[:STAMP_LETTERS], STAMP))
    except (ValueError, OverflowError):
        return path.name
    return numbers.moment(then)
