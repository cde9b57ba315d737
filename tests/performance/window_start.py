"""How long Hone takes from its command to the first painted window, beside `python -c "import torch"`.

    .venv/bin/python tests/performance/window_start.py [--repeats 7]

Warm disk: each is started once before it counts. With HONE_QUIT_AFTER_PAINT set the program prints
`first-paint SECONDS` (the system's monotonic clock) when its window has painted, and ends. Prints a table: median
milliseconds, and the ratio. Goal: 1.0 s or less, and less than importing torch.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.performance.suite.figures import add_json, at_most, figure, hand_over, ratio_at_most

ROOT = Path(__file__).resolve().parents[2]
HONE = [sys.executable, "-m", "gui"]
TORCH = [sys.executable, "-c", "import torch"]
GOAL_SECONDS = 1.0


def main() -> int:
    """Measure both in turn and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    add_json(parser)
    asked = parser.parse_args()
    repeats = asked.repeats
    with tempfile.TemporaryDirectory() as home:
        window, torch = [], []
        for number in range(repeats + 1):
            both = first_paint(home), import_torch()
            if number:
                window.append(both[0])
                torch.append(both[1])
    print_table(statistics.median(window), statistics.median(torch), repeats)
    spread = (min(window), max(window))
    ours, theirs = statistics.median(window), statistics.median(torch)
    hand_over(
        asked.json,
        [
            figure("first paint", ours, "s", peer=theirs, spread=spread, goal=at_most(GOAL_SECONDS)),
            figure("the same against importing torch", ours, "s", peer=theirs, goal=ratio_at_most(1.0)),
        ],
    )
    return 0


def environment(home: str) -> dict[str, str]:
    """A home of its own, and no screen needed on Linux."""
    made = {**os.environ, "HONE_HOME": home, "HONE_QUIT_AFTER_PAINT": "1", "PYTHONPATH": str(ROOT)}
    made.pop("PYTHONDONTWRITEBYTECODE", None)  # a developer's; 270 files would be compiled anew at each start
    if sys.platform == "linux":
        made.setdefault("QT_QPA_PLATFORM", "offscreen")
    return made


def first_paint(home: str) -> float:
    """Seconds from starting the process to its window's first paint."""
    begun = time.monotonic()
    ended = subprocess.run(
        HONE, capture_output=True, text=True, check=False, timeout=120, env=environment(home)
    )
    stamps = [line.split()[1] for line in ended.stdout.splitlines() if line.startswith("first-paint ")]
    if not stamps:
        raise SystemExit(
            f"The window never said first-paint (status {ended.returncode})\n{ended.stderr[-3000:]}"
        )
    return float(stamps[0]) - begun


def import_torch() -> float:
    """Seconds to start Python, import torch and end."""
    begun = time.monotonic()
    subprocess.run(TORCH, check=True, timeout=300)
    return time.monotonic() - begun


def print_table(window: float, torch: float, repeats: int) -> None:
    print(f"\nFrom the command to the first painted window, warm, median of {repeats}\n")
    print("| started | ms |\n|---|---|")
    print(f"| Hone's window | {1000 * window:.0f} |")
    print(f'| python -c "import torch" | {1000 * torch:.0f} |')
    print(f"\nHone takes {window / torch:.2f} of the time of importing torch")
    reached = window <= GOAL_SECONDS and window < torch
    print(f"goal (<= {GOAL_SECONDS:.1f} s, and less than torch): {'reached' if reached else 'missed'}")


if __name__ == "__main__":
    sys.exit(main())
