"""Titles of runs, as lists and questions name them."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from core.base import formats
from core.base.language import isolated


def distinct_titles(runs: Sequence[tuple[Path, str]]) -> list[str]:
    """Return the titles of runs; titles that occur more than once are extended by when each run was made.

    Args:
        runs: Their folders, whose names say when they were made, and titles.
    """
    counts = Counter(title for _, title in runs)
    dated = [f"{isolated(title)} · {made(path)}" if counts[title] > 1 else title for path, title in runs]
    counts = Counter(dated)
    return [
        f"{title} · {path.name}" if counts[text] > 1 else text
        for (path, title), text in zip(runs, dated, strict=True)
    ]


def made(path: Path) -> str:
    """Return when a run was made, by its folder's name; that name if it doesn't say."""
    try:
        then = time.mktime(time.strptime(path.name[: len("2026-01-31-2359")], "%Y-%m-%d-%H%M"))
    except (ValueError, OverflowError):
        return path.name
    return formats.moment(then)
