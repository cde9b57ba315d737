"""What a benchmark has measured so far: rows of passes, with medians and spreads. Written by Hone, read years later."""

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

from core.base import format as figures
from core.base import settings
from core.base.errors import Fix, UserError
from core.base.files import read_small, write_atomically
from core.base.settings import VERSION
from core.benchmark.plan import Kind, Plan, Rung
from core.memory.model import Parts
from core.options import Tree
from core.options.device_support import DeviceReport, MachineReport
from core.runs import bin as the_bin
from core.runs.events import WhatRan
from core.runs.folder import is_same_process

# --- One measurement: what is asked of a fresh engine


class SampleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The wish for some timed steps.

    `asked` is a run's options as plain values, folders absolute. `steps` optimizer steps are timed, after `warm_up`
    that are not.
    """

    asked: Tree
    steps: int
    warm_up: int = 1


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measured.

    `seconds` are the timed optimizer steps one by one, from the end of the step before, waiting for data included;
    `warm_up_seconds` those before them, and `compile_seconds` what compiling took, which neither holds. A step learns
    from `samples_a_step` rows. `rows` is how many the data has: an epoch.

    `losses` are those of all steps, those of the warm-up first; None: no number. `first_loss` is that of the first
    batch before anything was learned, dropout off: the same on every device that computes the same. `is_random` says
    that the model draws random numbers while it learns (dropout), so that the losses after the first step may differ
    between devices.

    `parts` add up to `peak`, which is as in `core.memory.model.Measurement`; `base` was held before data and model.
    `ran` is what really ran. `out_of_memory` says, where memory ran out, what was asked and what there was: then
    `seconds` are empty.
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


# --- What a benchmark has measured so far: rows of passes


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


# --- Results of benchmarks as files in Hone's home, readable without Hone and for years


_NO_NAME = re.compile(r"[^a-z0-9.]+")


class CantRead(UserError):  # noqa: N818 - said as the window says it
    """A file is no result that this Hone can read."""


class _Head(msgspec.Struct):
    """All that is read of a file before it is known which Hone wrote it."""

    schema: int


@dataclass(frozen=True)
class Kept:
    """A file of the folder of results: what it holds, or the `problem` why not, to be read on after its name."""

    path: Path
    result: Result | None = None
    problem: str = ""
    changed: float = 0.0

    @property
    def begun(self) -> float:
        """When it was measured, in unix seconds; of a file that can't be read, when that was last changed."""
        return self.result.begun if self.result is not None else self.changed


def folder() -> Path:
    """Where results are kept."""
    return settings.home() / "benchmarks"


def path_of(result: Result) -> Path:
    """The file of a result: its date and time, its kind and its model."""
    begun = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(result.begun))
    model = _NO_NAME.sub("-", result.plan.model.lower()).strip("-.")[:40]
    return folder() / f"{'-'.join(filter(None, (begun, result.kind.value, model)))}.json"


def save(result: Result) -> Path:
    """Write a result whole or not at all, over what was kept of it before; returns its file.

    Raises:
        OSError: It can't be written.
    """
    path = path_of(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, written(result))
    return path


def written(result: Result) -> bytes:
    """A result as its file has it."""
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


def load(path: Path) -> Result:
    """Read a result.

    Raises:
        CantRead: It is none, is damaged, or a newer Hone wrote it.
    """
    try:
        content = read_small(path)
    except (OSError, ValueError) as error:
        said = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise CantRead(f"{path.name} can't be read", f"{path}: {said}.") from error
    try:
        head = msgspec.json.decode(content, type=_Head)
        if head.schema > SCHEMA:
            raise CantRead(
                f"{path.name} is of a newer Hone",
                f"It has layout {head.schema}; this Hone reads up to {SCHEMA}.",
                (Fix("Update Hone"),),
            )
        return msgspec.json.decode(content, type=Result)
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, other fields, or no UTF-8
        raise CantRead(
            f"{path.name} is damaged", f"It isn't the result of a benchmark, or no longer: {error}."
        ) from error


def kept() -> list[Kept]:
    """All files of the folder, the newest first; at the end those that can't be read, with the reason."""
    try:
        paths = [path for path in folder().iterdir() if path.suffix == ".json" and path.name[0] != "."]
    except OSError:
        return []
    return sorted(
        map(_looked_at, paths),
        key=lambda one: (one.result is not None, one.begun, one.path.name),
        reverse=True,
    )


def _looked_at(path: Path) -> Kept:
    try:
        return Kept(path, load(path))
    except CantRead as error:
        said = f"{error.title}. {error.detail}".removeprefix(f"{path.name} ")
        return Kept(path, problem=said, changed=_changed(path))


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def remove(path: Path, trash: the_bin.Trash | None = None) -> None:
    """Move a kept file to the system's bin.

    Raises:
        NoBinError: There is no bin for it, or the bin refused it.
    """
    the_bin.move_path(path, trash)


# --- This computer, as a result tells on what it was measured


def this_machine(report: MachineReport) -> Machine:
    """What this computer is called and has; its own name, which may be a person's, is left out.

    Args:
        report: What it can train on, the answer of the job `devices`.
    """
    processor = next((device.title for device in report.devices if device.name == "cpu"), "")
    processor = processor or platform.processor() or platform.machine()
    accelerator = _accelerator(report)
    memory = int(psutil.virtual_memory().total)
    return Machine(
        title=f"{accelerator or processor}, {figures.size(memory)}",
        processor=processor,
        cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 0,
        memory=memory,
        accelerator=accelerator,
        system=_system(),
        versions={"hone": VERSION, **report.versions},
    )


def _accelerator(report: MachineReport) -> str:
    """What trains beside the processor; several are counted. Empty: nothing."""
    found = [device for device in report.devices if device.available and device.name != "cpu"]
    if not found:
        return ""
    first = _with_memory(found[0])
    return first if len(found) == 1 else f"{len(found)} x {first}"


def _with_memory(device: DeviceReport) -> str:
    memory = f", {figures.size(device.memory_bytes)}" if device.memory_bytes else ""
    return f"{device.title}{memory}"


def _system() -> str:
    mac = platform.mac_ver()[0]
    return f"macOS {mac}" if mac else f"{platform.system()} {platform.release()}"
