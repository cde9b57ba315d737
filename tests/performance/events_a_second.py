"""How many events of a run are read and folded into its state a second, beside `json.loads` of the same lines.

Writes a run that is over and follows it from its beginning as the window does, in fresh processes by turns with one
that only parses each line of the same two files. The goal of 10,000 a second is 100 times what a run of 100 steps a
second writes.
"""

import argparse
import json
import time
from multiprocessing.connection import Connection
from pathlib import Path

from core.runs.event_log import RunFollower
from core.runs.folder import RunFolder
from tests.performance.figures import (
    Figure,
    apart,
    at_least,
    compared,
    figure,
    main,
    own_home,
    ratio_at_least,
)
from tests.performance.synthetic_run import write_long_run


def measure(arguments: argparse.Namespace) -> list[Figure]:
    with own_home() as folder:
        path = write_long_run(folder, arguments.steps).path
        rounds = [(apart(follow, path), apart(parse, path)) for _ in range(arguments.rounds)]
    return [
        compared("events followed a second", rounds, goal=ratio_at_least(1.0)),
        figure("the slowest round", min(hone for hone, _ in rounds), goal=at_least(10_000.0)),
    ]


def follow(path: Path, to: Connection) -> None:
    """As the window and the terminal do: read, put in order, folded into the run's state."""
    follower, count, begun = RunFollower(RunFolder(path)), 0, time.perf_counter()
    while not follower.is_caught_up:
        count += len(follower.poll())
    to.send(count / (time.perf_counter() - begun))


def parse(path: Path, to: Connection) -> None:
    """Nothing but `json.loads` of each line."""
    run = RunFolder(path)
    count, begun = 0, time.perf_counter()
    for file in (run.events_file, run.machine_file):
        with file.open("rb") as lines:
            for line in lines:
                json.loads(line)
                count += 1
    to.send(count / (time.perf_counter() - begun))


if __name__ == "__main__":
    main(__doc__, measure, {"steps": 200_000, "rounds": 5})
