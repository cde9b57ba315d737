"""How long Hone takes from its command to the first painted window, beside `python -c "import torch"`.

Warm disk: each is started once before it counts. With HONE_QUIT_AFTER_PAINT set the program prints
`first-paint SECONDS` (the system's monotonic clock) when its window has painted, and ends.
"""

import argparse
import os
import subprocess
import sys
import time

from tests.performance.figures import ROOT, Figure, at_most, compared, figure, main, own_home, ratio_at_most


def measure(arguments: argparse.Namespace) -> list[Figure]:
    with own_home():
        rounds = [(first_paint(), import_torch()) for _ in range(arguments.repeats + 1)][1:]
    both = compared("the same against importing torch", rounds, "s", goal=ratio_at_most(1.0))
    among = [hone for hone, _ in rounds]
    return [figure("first paint", both.value, "s", peer=both.peer, among=among, goal=at_most(1.0)), both]


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
