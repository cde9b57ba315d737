"""Benchmarks for tests: invented figures, and folders of runs that have measured them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from core.benchmark.figures import Figures, Result
from core.benchmark.plan import OUTPUT, Benchmark, BenchmarkKind, BenchmarkRow, Measured, Plan, create
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions
from core.options.sources import VISION_MODELS
from core.runs.events import (
    DeviceSampled,
    Event,
    Outcome,
    RunFinished,
    RunStarted,
    Source,
    StepFinished,
    Throttle,
    TurnAwaited,
)
from core.runs.folder import ExitRecord, RunFolder
from core.runs.status import State
from tests.fakes.runs import keep_alive, plan, what_ran, write_events

GB = 1 << 30
BEGUN = 1_795_000_000.0
DEVICE = "Invented M9 Max GPU (MPS)"
VERSIONS = {"hone": "0.8.0", "torch": "2.13.0", "transformers": "5.23.0"}
OPTIONS = RunOptions(
    task=Task.TEXT_CLASSIFICATION,
    model=ModelOptions(source="scratch:bert-tiny", vocabulary=30_522),
    data=DataOptions(train="synthetic:512x64", eval_fraction=0.0),
    output=OUTPUT,
)


def figures(title: str, seconds: Iterable[float] | float = (), peak: int = 1000, **more: Any) -> Figures:
    """Steps of four of 512 rows, four steps if all take as long.

    `more` are fields of `BenchmarkRow`, options by path, or fields of `Figures`.
    """
    steps = (seconds,) * 4 if isinstance(seconds, float) else tuple(seconds)
    fields = {name: more.pop(name) for name in list(more) if name in BenchmarkRow.__struct_fields__}
    row = BenchmarkRow(name=fields.pop("name", title.lower()), title=title, **fields)
    options = with_changes(OPTIONS, {path: more.pop(path) for path in list(more) if "." in path})
    known: dict[str, Any] = {
        "options": options,
        "state": State.FINISHED if steps else None,
        "begun": BEGUN,
        "device": DEVICE,
        "versions": VERSIONS,
    }
    return Figures(row, **{**known, **more}, seconds=steps, samples=4, rows=512, peak=peak if steps else None)


def result(*rows: Figures, kind: BenchmarkKind = BenchmarkKind.METHODS, **more: Any) -> Result:
    """The result of rows; `more` are fields of `Benchmark`."""
    known = {"name": "Methods, BERT-tiny", "title": "BERT-tiny, 512 examples", **more}
    return Result(Benchmark(kind=kind, rows=tuple(one.row for one in rows), **known), rows)


# --- Folders of runs


class Invented(NamedTuple):
    """What a row measures: seconds of a step, gigabytes, and seconds of compiling; or why it fails."""

    row: BenchmarkRow
    seconds: float = 0.0
    peak: float = 0.0
    compile_seconds: float = 0.0
    is_slowed: bool = False


def _row(name: str, title: str, **more: Any) -> BenchmarkRow:
    return BenchmarkRow(name=name, title=title, **more)


BF16 = {"device.precision": "bf16"}
NO_8_BIT = "needs an NVIDIA GPU; the 8-bit optimizers have no kernels for Metal."
LADDER = (
    Invented(_row("plain", "plain"), 1.29, 14.6),
    Invented(_row("accumulation", "accumulation 1 × 4"), 1.43, 8.5),
    Invented(_row("checkpointing", "accumulation 1 × 4 + checkpointing"), 1.82, 6.6),
    Invented(_row("bf16", "bf16", changes=BF16), 0.68, 12.9),
    Invented(_row("bf16-all", "bf16 + accumulation + checkpointing", changes=BF16), 0.98, 7.1),
    Invented(_row("adafactor", "Adafactor"), 1.38, 12.0, is_slowed=True),
    Invented(_row("adamw-8bit", "8-bit AdamW", refusal=NO_8_BIT)),
    Invented(_row("bf16-sdpa", "bf16 + sdpa + fused", changes=BF16), 0.625, 12.6),
    Invented(
        _row("bf16-compile", "bf16 + sdpa + compile", note="Compiling is not included in these figures."),
        *(0.58, 11.6, 47.2),
    ),
    Invented(_row("bf16-lora", "LoRA, bf16"), 0.455, 6.2),
)
EPOCHS = {
    "vgg16": ((121.0, 16.4), (133.5, 14.9)),
    "alexnet": ((24.8, 6.1), (12.7, 2.9)),
    "resnet18": ((29.6, 9.2), (41.3, 5.2)),
    "mobilenet_v2": ((96.4, 24.0), (142.0, 9.7)),
    "efficientnet_b0": ((118.7, 39.5), (171.3, 13.8)),
}
"""Seconds of 1,000 images on the invented CPU and GPU, in batches of 4 and of 64."""

DEVICES = tuple(
    Invented(
        _row(
            f"{model}-{batch}-{side.lower()}",
            f"{VISION_MODELS[model].title}, batch {batch}",
            group=f"{model}-{batch}",
            side=side,
        ),
        *(seconds * batch / 1000, 0.7 + batch / 64),
    )
    for place, batch in enumerate((4, 64))
    for model, epochs in EPOCHS.items()
    for side, seconds in zip(("CPU", "MPS"), epochs[place], strict=True)
)


def make_benchmark(
    folder: Path, kind: BenchmarkKind = BenchmarkKind.METHODS, done: int | None = None
) -> Measured:
    """Make the folders of an invented benchmark, of which the first `done` runs have finished and the others wait.

    None: all have finished.
    """
    invented = LADDER if kind is BenchmarkKind.METHODS else DEVICES
    is_methods = kind is BenchmarkKind.METHODS
    benchmark = Benchmark(
        kind=kind,
        name="Methods, BERT-large" if is_methods else "CPU against MPS",
        title="BERT-large, 512 examples of 512 tokens" if is_methods else "Five vision models, 1,000 images",
        rows=tuple(one.row for one in invented),
        notes=("The weights are random and made from the config alone.",),
    )
    options = {one.row.name: OPTIONS for one in invented if not one.row.refusal}
    measured = create(Plan(benchmark, options), folder)
    by_row: Mapping[str, Invented] = {one.row.name: one for one in invented}
    for place, (name, run) in enumerate(measured.runs.items()):
        if done is None or place < done:
            write_measured(run, by_row[name])
        else:
            keep_alive(run)
            write_events(run.machine_file, TurnAwaited(ahead=1, behind="plain"))
    return measured


def write_measured(run: RunFolder, one: Invented, steps: int = 13) -> None:
    """Write the events of a run that has measured what is invented, after one step of warm-up."""
    told: list[Event] = [
        RunStarted(time=BEGUN, versions=VERSIONS),
        plan(time=BEGUN + 1, total_steps=steps, train_samples=512, effective_batch=4),
        what_ran(time=BEGUN + 1, device="mps", device_name=DEVICE, effective_batch=4),
    ]
    for number in range(1, steps + 1):
        seconds = one.seconds * (3.0 if number == 1 else 1 + 0.01 * (number % 5))
        compiling = one.compile_seconds if number == 1 else 0.0
        told.append(
            StepFinished(
                time=BEGUN + number,
                step=number,
                epoch=number / 128,
                seconds=seconds,
                compile_seconds=compiling,
                learning_rate=1e-4,
                samples=4,
                loss=0.7,
            )
        )
    peak = int(one.peak * GB)
    told.append(RunFinished(time=BEGUN + 60, state=Outcome.FINISHED, steps=steps, peak_bytes=peak))
    write_events(run.events_file, *told)
    if one.is_slowed:
        slowed = DeviceSampled(time=BEGUN + 5, source=Source.NVML, throttled=(Throttle.THERMAL_HARDWARE,))
        write_events(run.machine_file, slowed)
    run.record_exit(ExitRecord(time=BEGUN + 61, code=0))
