"""Runs of one title beside each other."""

import time
from pathlib import Path

from core.base import formats
from gui.base.trash import told_apart


def at(moment):
    return formats.moment(time.mktime(time.strptime(moment, "%Y-%m-%d-%H%M")))


def test_titles_that_several_runs_bear_say_when_each_was_made():
    runs = [("2026-03-01-0915-a", "a"), ("2026-03-01-0915-b", "b"), ("2026-03-02-1000-a", "a"), ("mine", "a")]
    found = told_apart([(Path("/runs") / folder, title) for folder, title in runs])
    assert found == [f"a · {at('2026-03-01-0915')}", "b", f"a · {at('2026-03-02-1000')}", "a · mine"]


def test_runs_of_one_minute_say_their_folders():
    runs = [(Path("2026-03-01-0915-a"), "a"), (Path("2026-03-01-0915-a-2"), "a")]
    assert told_apart(runs) == ["a · 2026-03-01-0915-a", "a · 2026-03-01-0915-a-2"]
