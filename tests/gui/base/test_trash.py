"""Titles that tell runs of one name apart."""

import time
from pathlib import Path

from core.base import formats
from gui.base.titles import distinct_titles


def made_at(moment):
    return formats.moment(time.mktime(time.strptime(moment, "%Y-%m-%d-%H%M")))


def test_equal_titles_get_the_time_or_the_folder_of_their_run():
    runs = [("2026-03-01-0915-a", "a"), ("2026-03-01-0915-b", "b"), ("2026-03-02-1000-a", "a"), ("mine", "a")]
    found = distinct_titles([(Path("/runs") / folder, title) for folder, title in runs])
    assert found == [
        f"a · {made_at('2026-03-01-0915')}",
        "b",
        f"a · {made_at('2026-03-02-1000')}",
        "a · mine",
    ]
    same = [(Path("2026-03-01-0915-a"), "a"), (Path("2026-03-01-0915-a-2"), "a")]
    assert distinct_titles(same) == ["a · 2026-03-01-0915-a", "a · 2026-03-01-0915-a-2"]
