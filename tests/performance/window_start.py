"""How long Hone takes from its command to the first painted window, beside `python -c "import torch"`.

The first page is Welcome, and then the form of a new run, with which it opens for whoever left it there.
Warm disk: each is started once before it counts. With HONE_QUIT_AFTER_PAINT set the program prints
`first-paint SECONDS` (the system's monotonic clock) when its window has painted, and ends.
"""

import argparse
import os
import subprocess
import sys
import time

from core.base import settings
from core.base.settings import Settings
from core.options import presets
from gui.app.sidebar import Place
from tests.performance.figures import ROOT, Figure, compared, main, own_home, ratio_at_most


def measure(arguments: argparse.Namespace) -> list[Figure]:
    figures = []
    with own_home():
        for page, goal in (("Welcome", 0.5), ("the form", 1.0)):
            rounds = [(first_paint(), import_torch()) for _ in range(arguments.repeats + 1)][1:]
            figures.append(compared(f"first paint of {page}", rounds, "s", goal=ratio_at_most(goal)))
            settings.save(Settings(last_page=Place.NEW_RUN.name))
            presets.keep(presets.find_example("digits").tree)
    return figures


def first_paint() -> float:
    """Seconds from starting the process to its window's first paint."""
    environment = {**os.environ, "HONE_QUIT_AFTER_PAINT": "1"}
    # Some developers set it; then 270 files would be compiled at each start.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if sys.platform == "linux":
        environment.setdefault("QT_QPA_PLATFORM", "offscreen")
    command = [sys.executable, "-m", "gui"]
    begun = time.monotonic()
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    stamps = [line.split()[1] for line in ended.stdout.splitlines() if line.startswith("first-paint ")]
    if not stamps:
        raise SystemExit(f"No first-paint was printed (status {ended.returncode})\n{ended.stderr[-3000:]}")
    return float(stamps[0]) - begun


def import_torch() -> float:
    """Seconds to start Python, import torch and end."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True, timeout=300)
    return time.monotonic() - begun


if __name__ == "__main__":
    main(__doc__, measure, {"repeats": 7})
