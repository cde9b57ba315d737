"""Showing a folder or a file in the file manager."""

import subprocess
from types import SimpleNamespace

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu

from gui.base import files
from gui.base.files import add_file_actions, reveal, show_in_folder


@pytest.mark.parametrize(
    ("folder", "answers", "title"),
    [
        ("", True, None),
        ("", False, "can't be opened"),
        ("gone", True, "“gone” does not exist"),
    ],
)
def test_a_folder_is_opened_or_named(tmp_path, monkeypatch, folder, answers, title):
    opened = []
    desktop = SimpleNamespace(openUrl=lambda url: (opened.append(url.toLocalFile()), answers)[1])
    monkeypatch.setattr(files, "QDesktopServices", desktop)
    error = reveal(tmp_path / folder)
    assert opened == ([] if folder else [tmp_path.as_posix()])
    assert title in error.title if title else error is None
    assert error is None or str(tmp_path / folder) in error.detail


@pytest.mark.parametrize(
    ("platform", "program", "status", "selected"),
    [
        ("darwin", "open", 0, True),
        ("darwin", "open", 1, False),
        ("win32", "explorer", 1, True),  # it answers 1 where it opened a window
        ("linux", "dbus-send", 0, True),
        ("linux", "dbus-send", 1, False),
        ("linux", "", 0, False),
    ],
)
def test_a_file_is_selected_or_its_folder_opened(
    tmp_path, monkeypatch, *, platform, program, status, selected
):
    file, commands, opened = tmp_path / "a b,ü.jpg", [], []
    file.touch()

    def run(command, **_options):
        if not program:
            raise FileNotFoundError(command[0])
        commands.append(command)
        return SimpleNamespace(returncode=status)

    monkeypatch.setattr(files, "sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr(
        files, "subprocess", SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
    )
    desktop = SimpleNamespace(openUrl=lambda url: (opened.append(url.toLocalFile()), True)[1])
    monkeypatch.setattr(files, "QDesktopServices", desktop)
    assert show_in_folder(file) is None
    assert opened == ([] if selected else [tmp_path.as_posix()])
    assert [command[0] for command in commands] == ([program] if program else [])
    if platform == "linux" and program:  # a comma would begin another file of the list
        assert "a%20b%2C%C3%BC.jpg" in commands[0][-2]


def test_a_file_that_is_gone_can_only_be_named(qtbot, tmp_path):
    menu, told = QMenu(), []
    add_file_actions(menu, tmp_path / "gone.jpg", told.append)
    assert [action.isEnabled() for action in menu.actions()] == [False, False, True]
    menu.actions()[2].trigger()
    assert QGuiApplication.clipboard().text() == str(tmp_path / "gone.jpg")
    assert show_in_folder(tmp_path / "gone.jpg").title == "“gone.jpg” does not exist"
