"""Where Hone begins, on a computer without a screen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gui.__main__ import SCREENS, has_screen

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
