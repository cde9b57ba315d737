"""What a benchmark has measured so far: rows of passes, with medians and spreads. Written by Hone, read years later."""

import statistics
from collections.abc import Iterable
from enum import StrEnum

import msgspec
import psutil

from core.bench.plan import Kind, Plan, Rung
from core.bench.sample import Sample
from core.run_records import is_same_process

SCHEMA = 1

BUSY = 0.15
"""Others that take this share of the processor's cores make a pass one that was measured under heavy load."""


GPU_HELD = 1 << 30
"""Bytes; so much of a GPU, held by others, is more than a desktop's windows take: something else may compute there."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine did while a pass was measured; None: nobody tells.

    `other_load` is the share of all cores (0 to 1) that other programs took, `gpu_others` the bytes they held of the
    GPU. `throttled` says why a clock was held down, in words; empty: it wasn't. `watts` is the mean power of what
    computed while the timed steps ran, its source in `power_source`; None, too, where they took less than a second or
    two. `on_battery` is as the word says.
    """

    other_load: float | None = None
    gpu_others: int | None = None
    throttled: tuple[str, ...] = ()
    watts: float | None = None
    power_source: str = ""
    on_battery: bool | None = None

    @property
    def is_disturbed(self) -> bool:
        """Whether the figures are to be marked."""
        return bool(self.throttled) or (self.other_load is not None and self.other_load > BUSY)


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """One process: what it measured, or the `problem` that stopped it, which needs no `sample`."""

    begun: float
    sample: Sample | None = None
    problem: str = ""
    surroundings: Surroundings = Surroundings()

    @property
    def failure(self) -> str:
        """Why it has no figures; empty where it has."""
        return self.problem or (self.sample.out_of_memory if self.sample else "")


class Spread(msgspec.Struct, frozen=True):
    """A figure measured several times: its median, lowest and highest."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, figures: Iterable[float]) -> "Spread | None":
        """None where there are no figures."""
        found = list(figures)
        return cls(statistics.median(found), min(found), max(found)) if found else None

    def scaled(self, factor: float) -> "Spread":
        """The same in another unit."""
        return Spread(self.median * factor, self.lowest * factor, self.highest * factor)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A rung and its passes so far."""

    rung: Rung
    passes: tuple[Pass, ...] = ()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Of the passes that have figures."""
        return tuple(one.sample for one in self.passes if one.sample is not None and one.sample.seconds)

    @property
    def is_measured(self) -> bool:
        """Whether it has figures."""
        return bool(self.samples)

    @property
    def reason(self) -> str:
        """Why it has no figures; empty where it has some, and where it waits for its turn."""
        if self.is_measured:
            return ""
        return self.rung.refusal or next((one.failure for one in self.passes if one.failure), "")

    @property
    def is_disturbed(self) -> bool:
        """Whether a pass was measured beside other work, or while heat or a power cap held the clock down."""
        return any(one.surroundings.is_disturbed for one in self.passes if one.sample is not None)

    @property
    def gpu_others(self) -> int | None:
        """The most that others held of the GPU, bytes; None: nobody tells."""
        told = (one.surroundings.gpu_others for one in self.passes if one.sample is not None)
        return max((held for held in told if held is not None), default=None)

    @property
    def step_seconds(self) -> Spread | None:
        """A step: the median of all timed steps of all passes; lowest and highest are the quartiles of them.

        Quartiles, for the slowest of a hundred steps says what the computer did beside.
        """
        found = sorted(second for sample in self.samples for second in sample.seconds)
        if len(found) < 4:
            return Spread.of(found)
        lower, middle, upper = statistics.quantiles(found, n=4, method="inclusive")
        return Spread(middle, lower, upper)

    @property
    def samples_per_second(self) -> Spread | None:
        """Rows learned from in a second; median, and the quartiles of the steps."""
        step = self.step_seconds
        if step is None or step.lowest <= 0:
            return None
        rows = self.samples[0].samples_a_step
        return Spread(rows / step.median, rows / step.highest, rows / step.lowest)

    @property
    def epoch_seconds(self) -> Spread | None:
        """What an epoch takes at that pace."""
        step = self.step_seconds
        if step is None or not self.samples[0].samples_a_step:
            return None
        first = self.samples[0]
        return step.scaled(first.rows / first.samples_a_step)

    @property
    def compile_seconds(self) -> float:
        """What compiling took, which is in no other figure; the median of the passes."""
        return statistics.median(sample.compile_seconds for sample in self.samples) if self.samples else 0.0

    @property
    def peak(self) -> int | None:
        """The most memory a pass held, bytes."""
        return max((sample.peak for sample in self.samples), default=None)

    @property
    def fullest(self) -> Sample | None:
        """The pass that held most, for its parts."""
        return max(self.samples, key=lambda sample: sample.peak, default=None)

    @property
    def samples_per_joule(self) -> float | None:
        """Rows learned from by a joule; None where no power could be read."""
        found = [
            sample.samples_a_step * len(sample.seconds) / (sum(sample.seconds) * one.surroundings.watts)
            for one in self.passes
            if (sample := one.sample) is not None and sample.seconds and one.surroundings.watts
        ]
        return statistics.median(found) if found else None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The computer a result was measured on: what it is called, how much memory it has, and what is installed."""

    title: str
    processor: str = ""
    cores: int = 0
    memory: int = 0
    accelerator: str = ""
    system: str = ""
    versions: dict[str, str] = {}


class Measurer(msgspec.Struct, frozen=True, kw_only=True):
    """The process that makes a result: its number, its start and that of its computer, in unix seconds."""

    pid: int
    started: float
    booted: float

    @classmethod
    def of_this_process(cls) -> "Measurer":
        """This process."""
        own = psutil.Process()
        return cls(pid=own.pid, started=own.create_time(), booted=psutil.boot_time())

    @property
    def is_alive(self) -> bool:
        """Whether it still runs on this computer."""
        return is_same_process(self.pid, self.started, self.booted)


class Standing(StrEnum):
    """How far a result came, in words."""

    WHOLE = "whole"
    CANCELLED = "cancelled"
    UNDER_WAY = "under way"
    BROKEN_OFF = "broken off"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark, finished or not. `begun` and `ended` are unix seconds; `ended` is None while it goes on.

    `is_whole` says whether every pass was made, or given up with a reason; a cancelled one is kept without.
    `measured_by` is who makes it, None where it is over.
    """

    plan: Plan
    machine: Machine
    begun: float
    ended: float | None = None
    rows: tuple[Row, ...] = ()
    is_whole: bool = False
    measured_by: Measurer | None = None
    schema: int = SCHEMA

    @property
    def standing(self) -> Standing:
        """How far it came; a result without an end is broken off where nobody is left who measures on."""
        if self.is_whole:
            return Standing.WHOLE
        if self.ended is not None:
            return Standing.CANCELLED
        is_alive = self.measured_by is not None and self.measured_by.is_alive
        return Standing.UNDER_WAY if is_alive else Standing.BROKEN_OFF

    @property
    def kind(self) -> Kind:
        """Which table it is."""
        return self.plan.kind

    @property
    def plain(self) -> Row | None:
        """The row the others are held against: the first."""
        return self.rows[0] if self.rows else None

    def groups(self) -> dict[str, tuple[Row, ...]]:
        """The rows that stand beside each other, by their group, in order."""
        found: dict[str, tuple[Row, ...]] = {}
        for row in self.rows:
            found[row.rung.group] = (*found.get(row.rung.group, ()), row)
        return found


def speed_against(row: Row, other: Row) -> float | None:
    """How many times as fast as another row, by samples a second; None where one of them has no figures."""
    mine, theirs = row.samples_per_second, other.samples_per_second
    return mine.median / theirs.median if mine and theirs else None


def memory_against(row: Row, other: Row) -> float | None:
    """What share of another row's memory it takes at its peak; None where one of them has no figures."""
    return row.peak / other.peak if row.peak and other.peak else None
