"""How many events of a run are read and folded into its story a second, beside `json.loads` of the same lines.

    .venv/bin/python tests/performance/events_a_second.py [--steps 200000] [--rounds 5]

Makes up a run that is over (as `long_run.py` does) and follows it from its beginning as the window does, in fresh
processes by turns with one that only parses each line of the same two files. Prints events a second of both by rounds,
and the median of the rounds' ratios. Goal: no slower than parsing alone with the standard library, and 100 times as
many as a run tells that takes 100 steps a second. The exit status is 1 where it is missed.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from long_story import write_long_run

from core.runs.event_log import RunFollower
from core.runs.folder import RunFolder
from tests.performance.suite.figures import add_json, at_least, figure, hand_over, ratio_at_least

GOAL_RATIO, GOAL_RATE = 1.0, 10_000.0


def main() -> int:
    """Measure by turns and print the table; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", nargs=2, metavar=("HOW", "RUN"), help=argparse.SUPPRESS)
    add_json(parser)
    asked = parser.parse_args()
    if asked.one:
        how, run = asked.one
        print(WAYS[how](RunFolder(Path(run))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        run = write_long_run(Path(folder), asked.steps)
        pairs = [(rate_of("follow", run), rate_of("parse", run)) for _ in range(asked.rounds)]
    ratios = [follow / parse for follow, parse in pairs]
    print(f"\n{asked.steps:,} steps, {asked.rounds} rounds by turns\n")
    print("| round | followed, events/s | json.loads, events/s | ratio |\n|---|---|---|---|")
    for number, (follow, parse) in enumerate(pairs, start=1):
        print(f"| {number} | {follow:,.0f} | {parse:,.0f} | {follow / parse:.2f} |")
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio, spread = (
        statistics.median(ratios),
        (min(ours for ours, _ in pairs), max(ours for ours, _ in pairs)),
    )
    print(f"\nratio, median of the rounds: {ratio:.2f} (goal {GOAL_RATIO:g})")
    figures = [
        figure(
            "events followed a second",
            ours,
            peer=theirs,
            ratio=ratio,
            spread=spread,
            goal=ratio_at_least(GOAL_RATIO),
        ),
        figure("the slowest round", spread[0], goal=at_least(GOAL_RATE)),
    ]
    hand_over(asked.json, figures)
    return int(any(one.reached is False for one in figures))


def rate_of(how: str, run: RunFolder) -> float:
    """Events a second of one way, in a process of its own."""
    command = [sys.executable, __file__, "--one", how, str(run.path)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def follow(run: RunFolder) -> float:
    """As the window and the terminal do: read, put in order, folded into the story."""
    follower, count, begun = RunFollower(run), 0, time.perf_counter()
    while not follower.is_caught_up:
        count += len(follower.poll())
    return count / (time.perf_counter() - begun)


def parse(run: RunFolder) -> float:
    """Nothing but `json.loads` of each line."""
    count, begun = 0, time.perf_counter()
    for path in (run.events_file, run.machine_file):
        with path.open("rb") as file:
            for line in file:
                json.loads(line)
                count += 1
    return count / (time.perf_counter() - begun)


WAYS = {"follow": follow, "parse": parse}


if __name__ == "__main__":
    sys.exit(main())
