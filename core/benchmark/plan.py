"""A benchmark: a sweep of short runs that only measure, each of which is a row of one table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from core.base.errors import Problem
from core.base.files import read_small
from core.base.formats import count, paragraph
from core.base.language import _, ngettext
from core.options import RunOptions
from core.options.catalogue import Changes, all_options, value_of, with_changes
from core.options.device_support import (
    DeviceReport,
    MachineReport,
    caution,
    find_device,
    machine_problems,
    text_of,
)
from core.options.sections import OutputOptions
from core.options.validate import check_tree
from core.runs.compare import create_tagged
from core.runs.folder import RunFolder
from core.runs.library import TITLE_JOIN, list_runs, numbered
from core.runs.notes import asked_title


class BenchmarkKind(StrEnum):
    """What is compared: methods on one device, or devices."""

    METHODS = "methods"
    DEVICES = "devices"


class BenchmarkRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is measured, or why it can't be.

    Attributes:
        name: Stable identifier, such as `bf16` or `resnet18-4-cpu`, by which published figures are found.
        changes: The options by path that differ from the first row of its group.
        note: What has to be known to read the figures.
        refusal: Why this machine can't run it; empty if it can.
        group: Model and batch size where devices are compared; the first row of a group is its baseline.
        side: The setting that is compared within a group: `CPU`, `MPS`, `1 thread`, `bf16`. Empty for methods.
    """

    name: str
    title: str
    changes: dict[str, Any] = {}
    note: str = ""
    refusal: str = ""
    group: str = ""
    side: str = ""

    @property
    def full_title(self) -> str:
        return f"{self.title}, {self.side}" if self.side else self.title


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, as it stands in each of its runs' folders.

    Attributes:
        name: What its runs are called, with a number if there are others of that name.
        title: What is measured, in full.
        warm_up: Number of steps that are not timed, at the beginning of each attempt.
        has_published: Whether others have published figures for its rows.
    """

    kind: BenchmarkKind
    name: str
    title: str
    rows: tuple[BenchmarkRow, ...]
    warm_up: int = 1
    notes: tuple[str, ...] = ()
    has_published: bool = True


@dataclass(frozen=True)
class Plan:
    """A benchmark, and the options of the runs of its rows, by name; those that are refused have none."""

    benchmark: Benchmark
    options: Mapping[str, RunOptions]

    @property
    def amount(self) -> str:
        """How much is measured: `16 runs of 20 steps`, and how many rows are refused."""
        runs = ngettext("{count} run", "{count} runs", len(self.options)).format(count=len(self.options))
        steps = [one.training.max_steps or 0 for one in self.options.values()] or [0]
        few, most = (number - self.benchmark.warm_up for number in (min(steps), max(steps)))
        shown = count(most) if few == most else _("{few} to {most}").format(few=count(few), most=count(most))
        text = ngettext("{runs} of {count} timed step.", "{runs} of {count} timed steps.", most)
        text = text.format(runs=runs, count=shown)
        if refused := len(self.benchmark.rows) - len(self.options):
            more = ngettext(
                "One more is left out; the table says why.",
                "{count} more are left out; the table says why.",
                refused,
            )
            text = paragraph(text, more.format(count=refused))
        return text


# --- Making a plan


OUTPUT = OutputOptions(keep_checkpoints=0, save_model=False, predictions=0)


def changed(options: RunOptions, changes: Changes) -> RunOptions:
    """Changes options, and resets those that no longer apply, such as LoRA's rank, to their defaults."""
    options = with_changes(options, changes)
    unused = {option.path: option.default for option in all_options() if not option.applies_to(options)}
    return with_changes(options, unused)


def make_row(
    baseline: RunOptions,
    machine: MachineReport,
    name: str,
    title: str,
    changes: Changes,
    *,
    data: Changes | None = None,
    note: str = "",
    refusal: str = "",
    **more: Any,
) -> tuple[BenchmarkRow, RunOptions]:
    """Makes a row of a change of `baseline`, with the reason if the machine or the rules between options refuse it.

    `data` are options of the data that the method needs, which don't count as `changes`. Cautions about the device are
    appended to `note`. `more` are other fields of `BenchmarkRow`.
    """
    options = changed(baseline, {**changes, **(data or {})})
    device = find_device(machine, options.device.name)
    cautions = [caution(device, path, value_of(options, path)) for path in changes] if device else []
    reasons = dict.fromkeys(_in_full(options, problem) for problem in problems(machine, options))
    row = BenchmarkRow(
        name=name,
        title=title,
        changes=dict(changes),
        note=paragraph(note, *cautions),
        refusal=refusal or "; ".join(reasons),
        **more,
    )
    return row, options


def make_plan(benchmark: Benchmark, options: Mapping[str, RunOptions], computer: str) -> Plan:
    """Makes the plan of a benchmark whose runs train on another computer; empty: on this one."""
    allowed = {row.name: options[row.name] for row in benchmark.rows if not row.refusal}
    at = f"@{computer}" if computer else ""
    return Plan(
        benchmark,
        {name: with_changes(one, {"device.name": f"{one.device.name}{at}"}) for name, one in allowed.items()},
    )


def problems(machine: MachineReport, options: RunOptions) -> tuple[Problem, ...]:
    """Returns what is wrong with options on a machine: limits, rules between options, and what the machine can't do."""
    return (*check_tree(msgspec.to_builtins(options))[1], *machine_problems(machine, options))


def _in_full(options: RunOptions, problem: Problem) -> str:
    """Returns the message of a problem, preceded by the value if a form would show it next to the value."""
    if problem.message.startswith(("is ", "moves ")):
        return f"{text_of(value_of(options, problem.path))} {problem.message}"
    return problem.message


def there(machine: MachineReport, computer: str) -> MachineReport:
    """Returns what another computer supports, with its devices named as on it; empty: what this one supports."""
    if not computer:
        return machine
    place, rename = f"@{computer}", msgspec.structs.replace
    devices = tuple(
        rename(device, name=device.name.removesuffix(place))
        for device in machine.devices
        if device.name.endswith(place)
    )
    found = [device.name for device in devices if device.available]
    best = next((name for name in found if name != "cpu"), next(iter(found), "auto"))
    return rename(machine, devices=devices, automatic=best, choices={})


def cores_of(device: DeviceReport) -> int:
    """Returns the default number of threads of a CPU; 1 if unknown."""
    threads = device.automatic.get("device.threads")
    return int(threads.value) if threads is not None else 1


# --- The runs of a benchmark


FILE = "benchmark.json"


class Membership(msgspec.Struct, frozen=True):
    """Which row of which benchmark a run is."""

    row: str
    benchmark: Benchmark


@dataclass(frozen=True)
class Measured:
    """A benchmark and those of its runs that are there, by row."""

    benchmark: Benchmark
    runs: Mapping[str, RunFolder]


def create(plan: Plan, runs_folder: Path) -> Measured:
    """Makes the folders of a plan's runs, which get a tag of their own, such as `methods-1`.

    Raises:
        UserError: A folder can't be made; then none is left.
        OSError: A file can't be written; then none is left.
    """
    names = [row.name for row in plan.benchmark.rows if row.name in plan.options]
    named = with_changes(plan.options[names[0]], {"output.name": plan.benchmark.name})
    name = asked_title(numbered(named, runs_folder))
    benchmark = msgspec.structs.replace(plan.benchmark, name=name)
    titles = {row.name: f"{name}{TITLE_JOIN}{row.full_title}" for row in benchmark.rows}
    options = [with_changes(plan.options[row], {"output.name": titles[row]}) for row in names]
    files = [{FILE: msgspec.json.encode(Membership(row, benchmark))} for row in names]
    runs = create_tagged(options, benchmark.kind.value, runs_folder, files)
    return Measured(benchmark, dict(zip(names, runs, strict=True)))


def part_of(run: RunFolder) -> Membership | None:
    """Returns which row of which benchmark a run is; None for any other run."""
    try:
        return msgspec.json.decode(read_small(run.path / FILE), type=Membership)
    except (OSError, ValueError, RecursionError):  # ValueError: no JSON, other fields, or no UTF-8
        return None


def shared_benchmark(runs: Sequence[RunFolder]) -> Measured | None:
    """Returns the benchmark that all of these runs are rows of, with all its runs; None if there is none."""
    parts = [part_of(run) for run in runs]
    names = {part.benchmark.name for part in parts if part is not None}
    if len(names) != 1 or None in parts:
        return None
    found = list_benchmarks(runs[0].path.parent)
    return next((one for one in found if one.benchmark.name in names), None)


def list_benchmarks(runs_folder: Path) -> list[Measured]:
    """Returns all benchmarks with runs in a folder, the newest first."""
    found: dict[str, Measured] = {}
    for run in list_runs(runs_folder):
        if (part := part_of(run)) is not None:
            known = found.get(part.benchmark.name, Measured(part.benchmark, {}))
            found[part.benchmark.name] = Measured(known.benchmark, {part.row: run, **known.runs})
    return list(found.values())
