"""Where Hone begins, and what it says where it can't: no screen, no folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from gui.__main__ import SCREENS, has_screen
from gui.app import show_refusal

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks for a screen on Linux only")
def test_without_a_screen_it_says_so_and_what_to_do(tmp_path):
    code = """
import sys
from gui.__main__ import open_window
status = open_window()
assert not [name for name in sys.modules if name.startswith("PySide6")]
sys.exit(status)
"""
    environment = {name: value for name, value in os.environ.items() if name not in SCREENS}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONPATH": str(ROOT), "HONE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("There is no screen here")
    assert "`hone train RUN.hone`" in line


@pytest.mark.parametrize("name", SCREENS)
def test_any_of_the_names_is_taken_at_its_word(name, monkeypatch):
    for other in SCREENS:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, ":0")
    assert has_screen()


def test_a_home_that_cannot_be_used_is_told_of(qapp, capsys):
    told = []

    def read_and_close():
        box = QApplication.activeModalWidget()
        told.append((box.text(), box.informativeText()))
        box.accept()

    QTimer.singleShot(0, read_and_close)
    show_refusal(NotADirectoryError(20, "Not a directory", "/a/file/hone.log"))
    ((title, words),) = told
    assert title == "Hone can't use its own folder"
    assert "/a/file/hone.log: Not a directory" in words
    assert "HONE_HOME" in words
    assert "/a/file/hone.log" in capsys.readouterr().err
