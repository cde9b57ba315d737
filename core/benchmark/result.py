"""The result of a benchmark: its rows, their figures, and the JSON files it is saved in."""

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
from core.memory.model import BUSY, Parts
from core.options import Tree
from core.options.device_support import MachineReport
from core.runs.events import WhatRan
from core.runs.folder import KeeperRecord, is_same_process

SCHEMA = 1

GPU_HELD = 1 << 30
"""GPU memory of other programs, in bytes, that is more than the windows of a desktop use."""


class SampleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of the engine's job `sample`.

    Attributes:
        asked: The options of a run as builtins, with absolute paths.
    """

    asked: Tree
    steps: int
    warm_up: int = 1


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measured.

    Attributes:
        seconds: Duration of each timed optimizer step, including waiting for data, excluding compilation.
        warm_up_seconds: Likewise, of the steps before.
        samples_a_step: Rows per step.
        rows: Rows per epoch.
        losses: The loss of each step, including warm-up; None for NaN.
        first_loss: The loss of the first batch before training, without dropout, which is equal on correct devices.
        is_random: Whether the model has dropout, so that later losses may differ.
        parts: Memory by source, in bytes; adds up to `peak`.
        peak: As in `core.memory.model.Measurement`.
        base: Memory in use before data and model were loaded.
        out_of_memory: What was needed and what was free if memory ran out; `seconds` is empty then.
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


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a measurement; None if unknown.

    Attributes:
        other_load: The fraction of all cores (0 to 1) that other programs used.
        gpu_others: GPU memory used by other programs, in bytes.
        throttled: The reasons for a reduced clock.
    """

    other_load: float | None = None
    gpu_others: int | None = None
    throttled: tuple[str, ...] = ()
    on_battery: bool | None = None

    @property
    def is_disturbed(self) -> bool:
        return bool(self.throttled) or (self.other_load is not None and self.other_load > BUSY)


class Pass(msgspec.Struct, frozen=True, kw_only=True, rename={"conditions": "surroundings"}):
    """One measurement of a variant in a process of its own: a sample, or the `problem` that prevented it."""

    begun: float
    sample: Sample | None = None
    problem: str = ""
    conditions: Conditions = Conditions()

    @property
    def failure(self) -> str:
        """Why there are no figures; empty if there are."""
        return self.problem or (self.sample.out_of_memory if self.sample else "")


class Spread(msgspec.Struct, frozen=True):
    """A median and the quartiles below and above it; of fewer than four values, the minimum and maximum."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread | None":
        ordered = sorted(values)
        if len(ordered) < 4:
            return cls(statistics.median(ordered), ordered[0], ordered[-1]) if ordered else None
        lower, middle, upper = statistics.quantiles(ordered, n=4, method="inclusive")
        return cls(middle, lower, upper)


class Row(msgspec.Struct, frozen=True, kw_only=True, rename={"variant": "rung"}):
    """A variant and its passes so far. Figures are None before it has been measured."""

    variant: Variant
    passes: tuple[Pass, ...] = ()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples with timed steps."""
        return tuple(one.sample for one in self.passes if one.sample is not None and one.sample.seconds)

    @property
    def conditions(self) -> tuple[Conditions, ...]:
        """The conditions of the passes with a sample."""
        return tuple(one.conditions for one in self.passes if one.sample is not None)

    @property
    def is_measured(self) -> bool:
        return bool(self.samples)

    @property
    def reason(self) -> str:
        """Why there are no figures; empty if there are some, or if it is still to be measured."""
        if self.is_measured:
            return ""
        return self.variant.refusal or next((one.failure for one in self.passes if one.failure), "")

    @property
    def is_disturbed(self) -> bool:
        return any(conditions.is_disturbed for conditions in self.conditions)

    @property
    def gpu_others(self) -> int | None:
        held = [conditions.gpu_others for conditions in self.conditions]
        return max((size for size in held if size is not None), default=None)

    @property
    def steps(self) -> int:
        return sum(len(sample.seconds) for sample in self.samples)

    @property
    def step_seconds(self) -> Spread | None:
        """Of all timed steps. Quartiles, because the slowest step depends on what else the computer did."""
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
        """The median; None without compilation."""
        seconds = [sample.compile_seconds for sample in self.samples]
        return statistics.median(seconds) or None if seconds else None

    @property
    def fullest(self) -> Sample | None:
        return max(self.samples, key=lambda sample: sample.peak, default=None)

    @property
    def peak(self) -> int | None:
        return self.fullest.peak if self.fullest else None

    def speed_against(self, other: "Row") -> float | None:
        mine, theirs = self.samples_per_second, other.samples_per_second
        return mine.median / theirs.median if mine and theirs else None

    def memory_against(self, other: "Row") -> float | None:
        return self.peak / other.peak if self.peak and other.peak else None

    def is_faster(self, other: "Row") -> bool:
        """Whether it is faster and the interquartile ranges of both don't overlap."""
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
    gpus = [device for device in report.devices if device.available and device.name != "cpu"]
    accelerator = gpus[0].title if gpus else ""
    if gpus and gpus[0].memory_bytes:
        accelerator += f", {formats.memory(gpus[0].memory_bytes)}"
    if len(gpus) > 1:
        accelerator = f"{len(gpus)} x {accelerator}"
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
    """The state of a result."""

    WHOLE = "complete"
    CANCELLED = "cancelled"
    UNDER_WAY = "running"
    BROKEN_OFF = "interrupted"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark, finished or not.

    Attributes:
        begun: Unix time.
        ended: Unix time; None while it runs.
        is_whole: Whether every pass was made, or given up for a reason.
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
        """The state; a benchmark that hasn't ended is interrupted if its process is gone."""
        if self.is_whole:
            return Standing.WHOLE
        if self.ended is not None:
            return Standing.CANCELLED
        process = self.measured_by
        is_alive = process is not None and is_same_process(process.pid, process.started, process.booted)
        return Standing.UNDER_WAY if is_alive else Standing.BROKEN_OFF

    @property
    def kind(self) -> Kind:
        return self.plan.kind

    @property
    def measured(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.is_measured)

    def baseline(self, row: Row) -> Row:
        """The first row of a row's group."""
        return next(first for first in self.rows if first.variant.group == row.variant.group)

    def titles(self) -> dict[str, str]:
        """Complete titles by the names of variants: a title that begins with + follows the one before it."""
        titles: dict[str, str] = {}
        before = ""
        for row in self.rows:
            title, side = row.variant.title, row.variant.side
            whole = f"{before} {title}" if title.startswith("+") and before else title
            titles[row.variant.name] = f"{whole}, {side}" if side and side not in whole else whole
            before = title
        return titles


# --- Files


class CantRead(UserError):  # noqa: N818 - worded as in the window
    """A file is not a result, or can't be read."""


@dataclass(frozen=True)
class Saved:
    """A saved result, or the `problem` that prevents reading it."""

    path: Path
    result: Result | None = None
    problem: str = ""

    @property
    def title(self) -> str:
        return self.result.plan.title if self.result is not None else self.path.name


def folder() -> Path:
    return settings.home() / "benchmarks"


def path_of(result: Result) -> Path:
    """The file of a result, named after its time, kind and model."""
    begun = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(result.begun))
    model = re.sub(r"[^a-z0-9.]+", "-", result.plan.model.lower()).strip("-.")[:40]
    return folder() / f"{'-'.join(filter(None, (begun, result.kind.value, model)))}.json"


def save(result: Result) -> Path:
    """Save a result, replacing its earlier file, and return the path.

    Raises:
        OSError: It can't be written.
    """
    path = path_of(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return path


def load(path: Path) -> Result:
    """Load a result.

    Raises:
        CantRead: The file isn't a result, is damaged, or can't be opened.
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
    """All saved results, newest first, then the files that can't be read."""
    try:
        paths = [path for path in folder().iterdir() if path.suffix == ".json" and path.name[0] != "."]
    except OSError:
        return []
    files = []
    for path in paths:
        try:
            files.append(Saved(path, load(path)))
        except CantRead as error:
            problem = f"{error.title}. {error.detail}".removeprefix(f"{path.name} ")
            files.append(Saved(path, problem=problem))
    files.sort(key=lambda file: (file.result.begun if file.result else 0.0, file.path.name), reverse=True)
    return files
