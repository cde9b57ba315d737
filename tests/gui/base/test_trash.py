"""Showing a folder in the file manager, and titles that tell runs of one name apart."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.base import formats
from gui.base import trash
from gui.base.trash import distinct_titles, reveal


@pytest.mark.parametrize(
    ("folder", "answers", "title"),
    [
        ("", True, None),
        ("", False, "The folder can't be shown"),
        ("gone", True, "The folder does not exist"),
    ],
)
def test_a_folder_is_opened_or_named(tmp_path, monkeypatch, folder, answers, title):
    opened = []
    desktop = SimpleNamespace(openUrl=lambda url: (opened.append(url.toLocalFile()), answers)[1])
    monkeypatch.setattr(trash, "QDesktopServices", desktop)
    error = reveal(tmp_path / folder)
    assert opened == ([] if folder else [tmp_path.as_posix()])
    assert (error and error.title) == title
    assert error is None or str(tmp_path / folder) in error.detail


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
