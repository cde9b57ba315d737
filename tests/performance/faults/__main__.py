"""How Hone stands faults that are made on purpose, in counts.

    .venv/bin/python tests/performance/faults mutations|kills|windows|disk [--count N] [--seed S]

- `mutations` (1,000): damaged run files, event files and run folders, read by all that reads a run, in the terminal and
  in the window. Goal: each is opened or refused with a reason; no crash, no hang, no traceback.
- `kills` (100): the engine of a real run is killed while it loads, steps, evaluates and saves. Goal: each time the run
  reads as crashed, goes on, and in the end has the losses and the weights of one that was left alone; no event is lost.
- `windows` (50): the window is killed while a run trains. Goal: the run goes on, and the next window shows all of it.
- `disk` (20): the disk is full, or no file may grow. Goal: nothing is damaged, and the run goes on once there is room.

Prints a table. The exit status is 1 where a goal is missed.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tests.performance.faults import disk, kills, mutations, windows  # noqa: E402 - the checkout is on the path only now
from tests.performance.suite.figures import add_json, at_most, figure, hand_over  # noqa: E402 - as above
from tests.performance.window_guard import guarded  # noqa: E402 - as above


def main(arguments: list[str]) -> int:
    """Run one campaign."""
    match arguments:
        case ["read", *numbers]:  # the readers' process of `mutations`
            return mutations.read_mutations(*map(int, numbers))
        case ["window", run, *start]:  # a window's process of `windows`
            return windows.show(Path(run), starts=bool(start))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="the window reads one in so many mutations")
    add_json(parser)
    asked = parser.parse_args(arguments)
    return CAMPAIGNS[asked.campaign](asked)


def mutate(asked: argparse.Namespace) -> int:
    """Damaged files and folders."""
    found = mutations.campaign(
        asked.count or 1000, asked.seed, lambda one: _say(one.wrong, one), every=asked.every
    )
    print(mutations.table(found))
    return _judged(
        asked, "mutations", len(found), {"neither opened nor refused with a reason": _wrong(found)}
    )


def kill(asked: argparse.Namespace) -> int:
    """Killed engines."""
    found = _in_folder(
        lambda folder: kills.campaign(folder, asked.count or 100, asked.seed, lambda one: _say(True, one))
    )
    print(kills.table(found))
    made = [kill for run in found for kill in run.kills]
    counts = {
        "not read as crashed, or not gone on with": _wrong(made),
        "runs that ended otherwise than the one left alone": _wrong(found),
        "lines of events lost": sum(run.lost for run in found),
    }
    return _judged(asked, "kills", len(made), counts)


def kill_windows(asked: argparse.Namespace) -> int:
    """Killed windows."""
    found = _in_folder(
        lambda folder: windows.campaign(folder, asked.count or 50, asked.seed, lambda one: _say(True, one))
    )
    print(windows.table(found))
    return _judged(asked, "kills", len(found), {"the run ended, or wasn't shown whole": _wrong(found)})


def fill_disk(asked: argparse.Namespace) -> int:
    """Full disks."""
    found = _in_folder(
        lambda folder: disk.campaign(folder, asked.count or 20, asked.seed, lambda one: _say(True, one))
    )
    print(disk.table(found))
    return _judged(asked, "points without room", len(found), {"damaged, or not gone on with": _wrong(found)})


def _wrong(found: list) -> int:
    return sum(bool(one.wrong) for one in found)


def _judged(asked: argparse.Namespace, what: str, made: int, wrong: dict[str, int]) -> int:
    """Hand the counts over; the exit status: none of what is `wrong` may have happened."""
    counted = [figure(name, count, goal=at_most(0)) for name, count in wrong.items()]
    hand_over(asked.json, [figure(what, made), *counted])
    return int(any(wrong.values()))


def _in_folder(work: Callable[[Path], list]) -> list:
    """Work in a folder and a home that are gone afterwards, offline."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory(prefix="hone-faults-", ignore_cleanup_errors=True) as folder:
        os.environ["HONE_HOME"] = str(Path(folder) / "home")
        with guarded(Path(folder)), guarded(Path(folder) / "home/runs"):
            return work(Path(folder))


def _say(worth: object, what: object) -> None:
    if worth:
        print(what, file=sys.stderr, flush=True)


CAMPAIGNS = {"mutations": mutate, "kills": kill, "windows": kill_windows, "disk": fill_disk}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
