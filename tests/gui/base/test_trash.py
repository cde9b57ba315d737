"""Showing a folder in the file manager, or saying where it is."""

import pytest

from gui.base import trash
from gui.base.trash import reveal


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
    assert error.title == "The folder is not there"
    assert str(tmp_path / "gone") in error.detail
    assert manager.opened == []
