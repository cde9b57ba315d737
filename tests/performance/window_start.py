"""How long Hone takes from its command to the first painted window, beside `python -c "import torch"`.

Warm disk: each is started once before it counts. With HONE_QUIT_AFTER_PAINT set the program prints
`first-paint SECONDS` (the system's monotonic clock) when its window has painted, and ends.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from tests.performance.figures import ROOT, Figure, at_most, figure, main, ratio_at_most


def measure(arguments: argparse.Namespace) -> list[Figure]:
    with tempfile.TemporaryDirectory() as home:
        pairs = [(first_paint(home), import_torch()) for _ in range(arguments.repeats + 1)][1:]
    windows = [window for window, _ in pairs]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    return [
        figure("first paint", ours, "s", peer=theirs, among=windows, goal=at_most(1.0)),
        figure("the same against importing torch", ours, "s", peer=theirs, goal=ratio_at_most(1.0)),
    ]


def first_paint(home: str) -> float:
    """Seconds from starting the process to its window's first paint."""
    environment = {**os.environ, "HONE_HOME": home, "HONE_QUIT_AFTER_PAINT": "1"}
    environment.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # a developer's; 270 files would be compiled at each start
    if sys.platform == "linux":
        environment.setdefault("QT_QPA_PLATFORM", "offscreen")
    begun = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "gui"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
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
