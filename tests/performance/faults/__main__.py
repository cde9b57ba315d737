"""How Hone stands faults that are made on purpose, in counts.

- `mutations` (1,000): damaged run files, event files and run folders, read by all that reads a run, in the terminal and
  in the window. Goal: each is opened or refused with a reason; no crash, no hang, no traceback.
- `kills` (100): the engine of a real run is killed while it loads, steps, evaluates and saves. Goal: each time the run
  reads as crashed, goes on, and in the end has the losses and the weights of one that was left alone; no event is lost.
- `windows` (50): the window is killed while a run trains. Goal: the run goes on, and the next window shows all of it.
- `disk` (20): the disk is full, or no file may grow. Goal: nothing is damaged, and the run goes on once there is room.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.performance.faults import disk, kills, mutations, windows
from tests.performance.figures import Figure, at_most, figure, main, progress
from tests.performance.windows import guarded

CAMPAIGNS = {
    "mutations": (mutations, 1000, "neither opened nor refused with a reason"),
    "kills": (kills, 100, "runs that ended otherwise than the one left alone"),
    "windows": (windows, 50, "the run ended, or wasn't shown whole"),
    "disk": (disk, 20, "damaged, or not resumed"),
}


def measure(arguments: argparse.Namespace) -> list[Figure]:
    campaign, usual, wrong = CAMPAIGNS[arguments.campaign]
    count, seed, name = arguments.count or usual, arguments.seed, arguments.campaign
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory(prefix="hone-faults-", ignore_cleanup_errors=True) as folder:
        os.environ["HONE_HOME"] = str(Path(folder) / "home")
        with guarded(Path(folder)), guarded(Path(folder) / "home/runs"):
            if campaign is mutations:
                found = mutations.campaign(count, seed, say_if_wrong, every=arguments.every)
            else:
                found = campaign.campaign(Path(folder), count, seed, progress)
    print(campaign.table(found))
    more = []
    if campaign is kills:
        made = [kill for run in found for kill in run.kills]
        more = [
            figure("kills", len(made)),
            figure("not read as crashed, or not resumed", count_wrong(made), goal=at_most(0)),
            figure("lines of events lost", sum(run.lost for run in found), goal=at_most(0)),
        ]
    return [figure(name, len(found)), figure(wrong, count_wrong(found), goal=at_most(0)), *more]


def count_wrong(found: list) -> int:
    return sum(bool(one.wrong) for one in found)


def say_if_wrong(one: mutations.Finding) -> None:
    if one.wrong:
        progress(one)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("--count", type=int, help="how many faults; default: as above")
    parser.add_argument("--every", type=int, default=1, help="the window reads one in so many mutations")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["read", *numbers]:  # the readers' process of `mutations`
            sys.exit(mutations.read_mutations(*map(int, numbers)))
        case ["window", run, *start]:  # a window's process of `windows`
            sys.exit(windows.show(Path(run), starts=bool(start)))
    main(__doc__, measure, {"seed": 1}, add_arguments)
