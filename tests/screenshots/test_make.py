"""The script that draws the pages."""

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
