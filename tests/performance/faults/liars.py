"""Computers that lie, break or are silent, in place of the one that a run trains on: `tests/fakes/liar.py`.

Each run has a real keeper. It is watched for some seconds, and then "End now" is pressed.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from core.runs import start as runs_start
from core.runs.events import Action
from tests.fakes import liar
from tests.fakes.hostile import MODES, There, wrong_with
from tests.performance.faults.case import Case

KINDS = ("liars", "silent")
WATCHED_SECONDS, LONGEST_SECONDS = 4.0, 10.0
TOLD_SECONDS = 90.0
MOST_MB = 300.0
SILENT = [mode for mode in MODES if mode.startswith(("silent", "stops", "drips")) or "that drips" in mode]
POLL_SECONDS = 0.05


class Watched:
    """A run on such a computer, with the peak of its keeper's memory in MB."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.mode, self.there = mode, There(folder / "there", mode)
        self.run = self.there.run(folder)
        self.own = {self.run.options_file: self.run.options_file.read_bytes()}
        path, self.peak, self.told = os.environ["PATH"], 0.0, ""
        os.environ["PATH"] = f"{folder / 'there'}{os.pathsep}{path}"
        if mode in liar.FOLLOWING:
            runs_start.follow_again(self.run)
        else:
            runs_start.start(self.run)
        os.environ["PATH"] = path
        record = self.run.keeper_record()
        self.keeper = psutil.Process(record.pid if record else 0)

    def is_over(self) -> bool:
        """Whether the keeper has ended; looks at its memory, and at what it tells."""
        try:
            for line in Path(f"/proc/{self.keeper.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    self.peak = max(self.peak, int(line.split()[1]) / 1e3)
        except OSError:
            return True
        connection = self.run.connection()
        self.told = self.told or (connection.problem if connection else "")
        return not self.keeper.is_running() or self.keeper.status() == psutil.STATUS_ZOMBIE

    def until_over(self, seconds: float) -> float:
        """Wait for its end; returns the seconds that took."""
        begun = time.monotonic()
        while not self.is_over() and time.monotonic() < begun + seconds:
            time.sleep(POLL_SECONDS)
        return time.monotonic() - begun

    def end_now(self) -> tuple[str, float]:
        """Press "End now"; returns how it ended, and how many seconds that took."""
        if self.is_over():
            return "ended itself", 0.0
        self.run.request(Action.KILL)
        return "ended now", self.until_over(3 * LONGEST_SECONDS)

    def case(self, kind: str, honest: float, more: str = "") -> Case:
        outcome, took = self.end_now()
        grown = self.peak - honest
        wrong = wrong_with(self.run, self.own, self.mode)
        if took > LONGEST_SECONDS:
            wrong.append(f"it ended after {took:.1f} s")
            self.keeper.kill()
        if honest and grown > MOST_MB:
            wrong.append(f"it grew by {grown:.0f} MB")
        size = sum(path.stat().st_size for path in self.run.path.rglob("*") if path.is_file()) / 1e6
        reason = record.reason.splitlines()[0] if (record := self.run.exit_record()) else ""
        words = (
            f"{self.mode}: {took:.1f} s, {self.peak:.0f} MB, {size:.1f} MB on the disk{more}; {reason[:90]}"
        )
        return Case(kind, outcome, wrong, words)


def campaign(folder: Path, count: int, seed: int) -> Iterator[Case]:
    """The first `count` of the modes, then silence at each question until it is told."""
    honest = Watched(folder / "honest", "is honest")
    honest.until_over(WATCHED_SECONDS)
    yield honest.case("liars", 0.0)
    for number, mode in enumerate([*MODES][:count]):
        watched = Watched(folder / f"liar-{number}", mode)
        watched.until_over(WATCHED_SECONDS)
        yield watched.case("liars", honest.peak)
    silent = [Watched(folder / f"silent-{number}", mode) for number, mode in enumerate(SILENT[:count])]
    begun, told = time.monotonic(), dict.fromkeys(SILENT, 0.0)
    while time.monotonic() < begun + TOLD_SECONDS:
        for watched in silent:
            watched.is_over()
            if watched.told and not told[watched.mode]:
                told[watched.mode] = time.monotonic() - begun
        time.sleep(POLL_SECONDS)
    for watched in silent:
        after = told[watched.mode]
        yield watched.case(
            "silent", honest.peak, f", told after {after:.0f} s" if after else ", not told yet"
        )
