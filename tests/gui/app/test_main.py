"""Where Hone begins, and what it says where it can't: no screen, no folder of its own."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.base.settings import Settings
from gui.__main__ import SCREENS, has_screen
from gui.app import application
from gui.app.application import open_home

ROOT = Path(__file__).resolve().parents[3]


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


def test_a_home_that_is_a_file_ends_nothing(tmp_path, monkeypatch):
    place = tmp_path / "file"
    place.write_text("")
    monkeypatch.setenv("HONE_HOME", str(place))
    chosen, trouble, _ = open_home()
    assert chosen == Settings()
    assert isinstance(trouble, FileExistsError)


def test_settings_that_cannot_be_read_are_the_defaults(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.setattr(application, "open_log", lambda path: None)
    (tmp_path / "settings.json").mkdir()
    chosen, trouble, _ = open_home()
    assert chosen == Settings()
    assert isinstance(trouble, OSError)
    assert trouble.filename == str(tmp_path / "settings.json")


def test_damaged_settings_are_told_of_in_the_window_and_the_log(tmp_path):
    (tmp_path / "settings.json").write_text('{"runs_folder": 7, "appearance": "pink"}')
    code = """
from PySide6.QtWidgets import QApplication, QLabel
from gui.app import application as app
def look():
    (window,) = [one for one in QApplication.topLevelWidgets() if isinstance(one, app.MainWindow)]
    print(*[label.text() for label in window.found.strip.trouble.findChildren(QLabel) if label.isVisible()])
    QApplication.quit()
app._report_paint = look
app.run_app(["hone"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HONE_HOME": str(tmp_path),
            "HONE_QUIT_AFTER_PAINT": "1",
            "QT_QPA_PLATFORM": "offscreen",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for told in (done.stdout, (tmp_path / "hone.log").read_text(encoding="utf-8")):
        assert "Your settings were damaged, so the defaults are in force" in told
        assert str(tmp_path / "settings.damaged.json") in told


def test_the_window_opens_where_nothing_can_be_kept(tmp_path):
    place = tmp_path / "file"
    place.write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "gui"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HONE_HOME": str(place),
            "HONE_QUIT_AFTER_PAINT": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("first-paint ")
    assert "Hone's folder can't be used" in done.stderr
    assert place.is_file()


@pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
def test_the_window_opens_for_a_file_whose_name_is_no_text(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "gui", b"\xff.csv"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HONE_HOME": str(tmp_path), "HONE_QUIT_AFTER_PAINT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout[:12]) == (0, "first-paint "), done.stderr


def test_what_hone_does_not_understand_is_said_in_plain_words_where_nobody_reads_along(tmp_path):
    """Such as what was dropped on its icon."""
    environment = {name: value for name, value in os.environ.items() if name not in SCREENS}
    done = subprocess.run(
        [sys.executable, "-m", "gui", "nonsense"],
        env={**environment, "PYTHONPATH": str(ROOT), "HONE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("Hone doesn't understand “nonsense”.")


def test_garbage_is_looked_for_again_once_the_window_has_settled():
    gc.disable()
    try:
        application.collect_garbage()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
