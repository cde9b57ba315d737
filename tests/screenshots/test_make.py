"""The script that draws the pages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("PySide6")
MAKE = Path(__file__).with_name("make.py")


def test_the_pictures_of_the_readme_are_drawn(tmp_path):
    command = [sys.executable, str(MAKE), str(tmp_path), "--readme"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"new-run-light.png", "run-live-light.png"}


WHOLE = ("welcome", "compare", "try-chat", "export", "settings", "--cut")
"""Pages without a text that has no room in English."""


@pytest.mark.parametrize("language", ["ko", "zh_CN", "ar"])
def test_translated_texts_have_room_where_the_english_ones_have(language, tmp_path):
    drawn(language, str(MAKE), str(tmp_path), *WHOLE)
    assert json.loads((tmp_path / "cut.json").read_text("utf-8")) == {}


def test_the_window_opens_in_a_language_that_is_longer_and_mirrored(tmp_path):
    drawn("en", "-m", "tests.pseudo", "tests.screenshots.make", str(tmp_path), "settings", "--cut")
    assert (tmp_path / "cut.json").is_file()


def drawn(language, *command):
    environment = {**os.environ, "HONE_LANGUAGE": language, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
        cwd=MAKE.parents[2],
    )
    assert done.returncode == 0, done.stderr
