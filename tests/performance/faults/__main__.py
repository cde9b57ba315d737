"""Faults that are made on purpose, in counts.

- `mutations` (1,000): damaged run files, event files and run folders, read by everything that reads a run, in the
  terminal and in the window. Goal: each is opened or refused with a reason; no crash, no hang, no traceback.
- `kills` (100): the engine of a real run is killed while it loads, steps, evaluates and saves. Goal: each time the run
  reads as crashed and resumes, and in the end has the losses and the weights of an undisturbed one; no event is lost.
- `windows` (50): the window is killed while a run trains. Goal: the run goes on, and the next window shows all of it.
- `liars` (80): the computer that a run trains on lies, breaks or is silent, each time otherwise. Goal: nothing that is
  here is lost, nothing grows without end, and "End now" ends the run within 10 s.
- `disk` (20): the disk is full, or no file may grow. Goal: nothing is damaged, and the run resumes once there is space.
"""

import argparse
import os
import sys
from pathlib import Path

from tests.performance.faults import disk, kills, liars, mutations, windows
from tests.performance.faults.case import table
from tests.performance.figures import Figure, at_most, figure, main, own_home, progress
from tests.performance.windows import guarded

CAMPAIGNS = {
    "mutations": (mutations, 1000, "neither opened nor refused with a reason"),
    "kills": (kills, 100, "not resumed, or otherwise than the undisturbed run"),
    "windows": (windows, 50, "the run ended, or wasn't shown whole"),
    "liars": (liars, 80, "something lost, grown, or not ended in time"),
    "disk": (disk, 20, "damaged, or not resumed"),
}


def measure(arguments: argparse.Namespace) -> list[Figure]:
    campaign, usual, wrong = CAMPAIGNS[arguments.campaign]
    os.environ["HF_HUB_OFFLINE"] = "1"
    cases = []
    with own_home() as folder, guarded(folder), guarded(folder / "runs"):
        count = arguments.count or usual
        more = {"every": arguments.every} if campaign is mutations else {}
        more |= {"with_mlx": arguments.with_mlx} if campaign is kills else {}
        for case in campaign.campaign(folder, count, arguments.seed, **more):
            cases.append(case)
            if case.wrong or campaign is not mutations:
                progress(case)
    print(table(cases, campaign.KINDS))
    failed = sum(bool(case.wrong) for case in cases)
    return [figure(arguments.campaign, len(cases)), figure(wrong, failed, goal=at_most(0))]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("--count", type=int, help="how many faults; default: as above")
    parser.add_argument("--every", type=int, default=1, help="the window reads one in so many mutations")
    parser.add_argument("--with-mlx", action="store_true", help="kills of a run on MLX; here, on its CPU")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["read", *numbers]:  # the readers' process of `mutations`
            sys.exit(mutations.read_mutations(*map(int, numbers)))
        case ["window", run, *start]:  # a window's process of `windows`
            sys.exit(windows.show(Path(run), starts=bool(start)))
    main(__doc__, measure, {"seed": 1}, add_arguments)
