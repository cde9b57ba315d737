"""The script that draws the pages: one picture in both schemes and sizes."""

import subprocess
import sys
from pathlib import Path

MAKE = Path(__file__).with_name("make.py")


def test_a_picture_is_drawn_light_and_dark_in_both_sizes(tmp_path):
    command = [sys.executable, str(MAKE), str(tmp_path), "bench-methods"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    names = {f"bench-methods-{scheme}-{width}.png" for scheme in ("light", "dark") for width in (1280, 1024)}
    assert {path.name for path in tmp_path.iterdir()} == names
