"""What a benchmark has measured so far: rows of passes, with medians and spreads; and the files that keep it."""

import platform
import re
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec
import psutil

from core.base import formats, settings
from core.base.errors import UserError
from core.base.files import read_small, write_atomically
from core.base.language import _
from core.base.settings import VERSION
from core.benchmark.plan import Kind, Plan, Variant
from core.memory.model import Parts
from core.options import Tree
from core.options.device_support import MachineReport
from core.runs.events import WhatRan
from core.runs.folder import KeeperRecord, is_same_process

# --- One measurement: what is asked of a fresh engine, and its answer


class SampleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`asked` is a run's options as plain values, folders absolute; `steps` are timed after `warm_up`."""

    asked: Tree
    steps: int
    warm_up: int = 1


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measured.

    `seconds` are the timed optimizer steps one by one, waiting for data included; `warm_up_seconds` those before them
    and `compile_seconds` the compilation, which neither includes. A step trains on `samples_a_step` rows; an epoch has
    `rows`.

    `losses` are those of all steps, warm-up first; None: not a number. `first_loss` is that of the first batch before
    training, without dropout: the same on all devices that compute the same. `is_random`: the model has dropout, so
    that later losses may differ between devices.

    `parts` add up to `peak`, which is as in `core.memory.model.Measurement`; `base` was held before data and model.
    `out_of_memory` says what was needed and what was free, where memory ran out; `seconds` are empty then.
    """

    device: str
    seconds: tuple[float, ...] = ()
    warm_up_seconds: tuple[float, ...] = ()
    compile_seconds: float = 0.0
    samples_a_step: int = 0
    rows: int = 0
    losses: tuple[float | None, ...] = ()
    first_loss: float | None = None
    is_random: bool = False
    parts: Parts = Parts()
    peak: int = 0
    base: int = 0
    ran: WhatRan | None = None
    out_of_memory: str = ""


# --- Rows of passes


SCHEMA = 1

BUSY = 0.15
"""Share of the processor's cores from which on other programs disturb a pass."""

GPU_HELD = 1 << 30
"""Bytes of a GPU held by others that are more than a desktop's windows take."""


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What else the machine did while a pass was measured; None if unknown.

    `other_load` is the share of all cores (0 to 1) that other programs took, `gpu_others` the bytes they held of the
    GPU. `throttled` are the reasons for a reduced clock. `watts` is the mean power of the device during the timed
    steps, read from `power_source`.
    """

    other_load: float | None = None
    gpu_others: int | None = None
    throttled: tuple[str, ...] = ()
    watts: float | None = None
    power_source: str = ""
    on_battery: bool | None = None

    @property
    def is_disturbed(self) -> bool:
        return bool(self.throttled) or (self.other_load is not None and self.other_load > BUSY)


class Pass(msgspec.Struct, frozen=True, kw_only=True, rename={"conditions": "surroundings"}):
    """One process: what it measured, or the `problem` that stopped it."""

    begun: float
    sample: Sample | None = None
    problem: str = ""
    conditions: Conditions = Conditions()

    @property
    def failure(self) -> str:
        """Why it has no figures; empty where it has."""
        return self.problem or (self.sample.out_of_memory if self.sample else "")


class Spread(msgspec.Struct, frozen=True):
    """A median and the quartiles."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, figures: Iterable[float]) -> "Spread | None":
        """None without figures. Fewer than four have no quartiles: the extremes stand in."""
        found = sorted(figures)
        if len(found) < 4:
            return cls(statistics.median(found), found[0], found[-1]) if found else None
        lower, middle, upper = statistics.quantiles(found, n=4, method="inclusive")
        return cls(middle, lower, upper)


class Row(msgspec.Struct, frozen=True, kw_only=True, rename={"variant": "rung"}):
    """A variant and its passes so far."""

    variant: Variant
    passes: tuple[Pass, ...] = ()

    @property
    def samples(self) -> tuple[Sample, ...]:
        return tuple(one.sample for one in self.passes if one.sample is not None and one.sample.seconds)

    @property
    def conditions(self) -> tuple[Conditions, ...]:
        """Of the passes that have a sample."""
        return tuple(one.conditions for one in self.passes if one.sample is not None)

    @property
    def is_measured(self) -> bool:
        return bool(self.samples)

    @property
    def reason(self) -> str:
        """Why it has no figures; empty where it has some or its turn is still to come."""
        if self.is_measured:
            return ""
        return self.variant.refusal or next((one.failure for one in self.passes if one.failure), "")

    @property
    def is_disturbed(self) -> bool:
        return any(one.is_disturbed for one in self.conditions)

    @property
    def gpu_others(self) -> int | None:
        return max((one.gpu_others for one in self.conditions if one.gpu_others is not None), default=None)

    @property
    def steps(self) -> int:
        return sum(len(sample.seconds) for sample in self.samples)

    @property
    def step_seconds(self) -> Spread | None:
        """Of all timed steps of all passes. Quartiles, as the slowest step tells about the computer's other work."""
        return Spread.of(second for sample in self.samples for second in sample.seconds)

    @property
    def samples_per_second(self) -> Spread | None:
        step = self.step_seconds
        if step is None or step.lowest <= 0:
            return None
        rows = self.samples[0].samples_a_step
        return Spread(rows / step.median, rows / step.highest, rows / step.lowest)

    @property
    def epoch_seconds(self) -> float | None:
        step = self.step_seconds
        if step is None or not self.samples[0].samples_a_step:
            return None
        return step.median * self.samples[0].rows / self.samples[0].samples_a_step

    @property
    def compile_seconds(self) -> float | None:
        found = [sample.compile_seconds for sample in self.samples]
        return statistics.median(found) or None if found else None

    @property
    def fullest(self) -> Sample | None:
        return max(self.samples, key=lambda sample: sample.peak, default=None)

    @property
    def peak(self) -> int | None:
        return self.fullest.peak if self.fullest else None

    @property
    def samples_per_joule(self) -> float | None:
        found = [
            sample.samples_a_step * len(sample.seconds) / (sum(sample.seconds) * one.conditions.watts)
            for one in self.passes
            if (sample := one.sample) is not None and sample.seconds and one.conditions.watts
        ]
        return statistics.median(found) if found else None

    def speed_against(self, other: "Row") -> float | None:
        mine, theirs = self.samples_per_second, other.samples_per_second
        return mine.median / theirs.median if mine and theirs else None

    def memory_against(self, other: "Row") -> float | None:
        return self.peak / other.peak if self.peak and other.peak else None

    def is_faster(self, other: "Row") -> bool:
        """Whether it is faster beyond the spread of both: the quartiles of their steps don't overlap."""
        mine, theirs = self.samples_per_second, other.samples_per_second
        return mine is not None and theirs is not None and mine.lowest > theirs.highest


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The computer a result was measured on."""

    title: str
    processor: str = ""
    cores: int = 0
    memory: int = 0
    accelerator: str = ""
    system: str = ""
    versions: dict[str, str] = {}


def this_machine(report: MachineReport) -> Machine:
    titles = {device.name: device.title for device in report.devices}
    processor = titles.get("cpu") or platform.processor() or platform.machine()
    found = [device for device in report.devices if device.available and device.name != "cpu"]
    accelerator = found[0].title if found else ""
    if found and found[0].memory_bytes:
        accelerator += f", {formats.memory(found[0].memory_bytes)}"
    if len(found) > 1:
        accelerator = f"{len(found)} x {accelerator}"
    memory = int(psutil.virtual_memory().total)
    mac = platform.mac_ver()[0]
    return Machine(
        title=f"{accelerator or processor}, {formats.memory(memory)}",
        processor=processor,
        cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 0,
        memory=memory,
        accelerator=accelerator,
        system=_("macOS {mac}").format(mac=mac) if mac else f"{platform.system()} {platform.release()}",
        versions={"hone": VERSION, **report.versions},
    )


class Standing(StrEnum):
    """How far a result came."""

    WHOLE = "complete"
    CANCELLED = "cancelled"
    UNDER_WAY = "running"
    BROKEN_OFF = "interrupted"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark, finished or not. `begun` and `ended` are unix seconds; `ended` is None while it runs.

    `is_whole`: every pass was made, or given up with a reason. `measured_by` is the process that runs it.
    """

    plan: Plan
    machine: Machine
    begun: float
    ended: float | None = None
    rows: tuple[Row, ...] = ()
    is_whole: bool = False
    measured_by: KeeperRecord | None = None
    schema: int = SCHEMA

    @property
    def standing(self) -> Standing:
        """How far it came; without an end it is interrupted if its process is gone."""
        if self.is_whole:
            return Standing.WHOLE
        if self.ended is not None:
            return Standing.CANCELLED
        by = self.measured_by
        is_alive = by is not None and is_same_process(by.pid, by.started, by.booted)
        return Standing.UNDER_WAY if is_alive else Standing.BROKEN_OFF

    @property
    def kind(self) -> Kind:
        return self.plan.kind

    @property
    def measured(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.is_measured)

    def baseline(self, row: Row) -> Row:
        """What a row is compared with: the first of its group."""
        return next(one for one in self.rows if one.variant.group == row.variant.group)

    def titles(self) -> dict[str, str]:
        """Each row's title as it stands alone, by name: with the one before it where it says only what is added."""
        found: dict[str, str] = {}
        before = ""
        for row in self.rows:
            title, side = row.variant.title, row.variant.side
            whole = f"{before} {title}" if title.startswith("+") and before else title
            found[row.variant.name] = f"{whole}, {side}" if side and side not in whole else whole
            before = title
        return found


# --- Results as JSON files in Hone's home, readable without Hone


class CantRead(UserError):  # noqa: N818 - said as the window says it
    """A file is not a result that this Hone can read."""


@dataclass(frozen=True)
class Saved:
    """A file of the folder: its result, or the `problem` that keeps it from being read."""

    path: Path
    result: Result | None = None
    problem: str = ""

    @property
    def title(self) -> str:
        return self.result.plan.title if self.result is not None else self.path.name


def folder() -> Path:
    return settings.home() / "benchmarks"


def path_of(result: Result) -> Path:
    """The file of a result: its date and time, its kind and its model."""
    begun = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(result.begun))
    model = re.sub(r"[^a-z0-9.]+", "-", result.plan.model.lower()).strip("-.")[:40]
    return folder() / f"{'-'.join(filter(None, (begun, result.kind.value, model)))}.json"


def save(result: Result) -> Path:
    """Write a result over what was saved of it before; returns its file.

    Raises:
        OSError: It can't be written.
    """
    path = path_of(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return path


def load(path: Path) -> Result:
    """Read a result.

    Raises:
        CantRead: It isn't one, or is damaged.
    """
    try:
        return msgspec.json.decode(read_small(path), type=Result)
    except OSError as error:
        raise CantRead(
            _("{name} can't be read").format(name=path.name), f"{path}: {error.strerror or error}."
        ) from error
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, other fields, or no UTF-8
        raise CantRead(
            _("{name} is damaged").format(name=path.name),
            _("It isn't the result of a benchmark: {error}.").format(error=error),
        ) from error


def saved() -> list[Saved]:
    """All files of the folder, newest first; those that can't be read come last."""
    try:
        paths = [path for path in folder().iterdir() if path.suffix == ".json" and path.name[0] != "."]
    except OSError:
        return []
    found = []
    for path in paths:
        try:
            found.append(Saved(path, load(path)))
        except CantRead as error:
            problem = f"{error.title}. {error.detail}".removeprefix(f"{path.name} ")
            found.append(Saved(path, problem=problem))
    return sorted(
        found, key=lambda one: (one.result.begun if one.result else 0.0, one.path.name), reverse=True
    )
