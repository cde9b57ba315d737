"""Showing a folder in the file manager, or saying where it is."""

import time
from pathlib import Path

import pytest

from core.base import formats
from gui.base import trash
from gui.base.trash import distinct_titles, reveal


class FileManager:
    """Stands in for the desktop: keeps what it was asked to open, and answers as told."""

    def __init__(self):
        self.answers = True
        self.opened = []

    def openUrl(self, url):  # noqa: N802 - Qt's name
        self.opened.append(url.toLocalFile())
        return self.answers


@pytest.fixture
def manager(monkeypatch):
    manager = FileManager()
    monkeypatch.setattr(trash, "QDesktopServices", manager)
    return manager


def test_a_folder_is_opened(manager, tmp_path):
    assert reveal(tmp_path) is None
    assert manager.opened == [tmp_path.as_posix()]


def test_where_no_file_manager_answers_the_folder_is_named(manager, tmp_path):
    manager.answers = False
    error = reveal(tmp_path)
    assert error.title == "The folder can't be shown"
    assert str(tmp_path) in error.detail


def test_a_folder_that_is_gone_is_not_asked_for(manager, tmp_path):
    error = reveal(tmp_path / "gone")
    assert error.title == "The folder does not exist"
    assert str(tmp_path / "gone") in error.detail
    assert manager.opened == []


def made_at(moment):
    return formats.moment(time.mktime(time.strptime(moment, "%Y-%m-%d-%H%M")))


def test_titles_that_several_runs_bear_say_when_each_was_made_or_their_folders():
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
