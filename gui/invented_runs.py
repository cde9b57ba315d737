"""Runs that never were, written into their folders as an engine and a keeper would have: for pictures and tests."""

import hashlib
import math
import random
import shutil
from dataclasses import dataclass

import msgspec

from core.checkpoint_files import MARKER, STATE, FileEntry
from core.event_files import EventWriter
from core.events import (
    CheckpointSaved,
    Evaluated,
    Event,
    MemoryForecast,
    MemorySampled,
    Outcome,
    Phase,
    PhaseChanged,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    WhatRan,
    split_non_finite,
)
from core.memory.forecast import Basis, Parts
from core.run_folder import ExitRecord, RunFolder
from gui.invented_devices import of_processor, parts_of

GB = 1024**3
VERSIONS = {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0", "datasets": "5.2.0"}
PROCESSOR = "AMD EPYC"
PROCESSOR_BYTES = 24 * GB
FORECAST = Parts(
    weights=45_000_000,
    gradients=45_000_000,
    optimizer=90_000_000,
    activations=1_610_000_000,
    temporary=210_000_000,
    overhead=650_000_000,
)


@dataclass(frozen=True)
class Plot:
    """How a story goes: digits in batches of 32. Times are seconds; the run starts at `start` (unix seconds).

    It has come to step `reached` of `steps`; since step `nan_from` its losses are not numbers. It learns `pace` times
    as fast as others do.
    """

    steps: int = 360
    epochs: int = 8
    reached: int = 360
    step_seconds: float = 0.21
    start: float = 1_795_230_000.0
    nan_from: int | None = None
    pace: float = 1.0
    seed: int = 7


def write_story(run: RunFolder, plot: Plot) -> float:
    """Write a run up to the step `plot.reached`; returns the unix time of its last event."""
    chance = random.Random(plot.seed)
    events = EventWriter(run.events_file)
    clock = plot.start
    for event in opening(plot):
        events.write(event)
        clock = event.time
    per_epoch = max(1, plot.steps // plot.epochs)
    for step in range(1, plot.reached + 1):
        seconds = plot.step_seconds * (8.0 if step == 1 else 1 + 0.08 * abs(chance.gauss(0, 1)))
        clock += seconds
        events.write(_step(plot, step, clock, seconds, chance))
        if step % per_epoch == 0:
            clock += 0.8
            events.write(_evaluation(plot, step, clock))
            events.write(_checkpoint(step, clock))
            keep_checkpoint(run, step)
    events.close()
    _write_machine(run, plot, clock)
    return clock


def finish(run: RunFolder, plot: Plot, clock: float) -> None:
    """Let the engine of a run that was written up to `clock` end well."""
    events = EventWriter(run.events_file)
    events.write(
        RunFinished(
            time=clock + 0.5,
            state=Outcome.FINISHED,
            metrics=_evaluation(plot, plot.reached, clock).metrics,
            samples_per_second=148.7,
            seconds=clock - plot.start,
            steps=plot.reached,
            peak_bytes=int(2.6 * GB),
        )
    )
    events.close()
    run.record_exit(ExitRecord(time=clock + 0.8, code=0))


def pause(run: RunFolder, plot: Plot, clock: float) -> None:
    """Let the engine of a run that was written up to `clock` save where it is, and end."""
    events = EventWriter(run.events_file)
    events.write(_checkpoint(plot.reached, clock + 0.4))
    keep_checkpoint(run, plot.reached)
    events.write(RunFinished(time=clock + 0.5, state=Outcome.PAUSED, steps=plot.reached))
    events.close()
    run.record_exit(ExitRecord(time=clock + 0.8, code=0))


def keep_checkpoint(run: RunFolder, step: int) -> None:
    """Leave what counts as the complete checkpoint of a step, and the only one; nothing could be loaded from it."""
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    folder = run.checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / STATE).write_bytes(b"{}")
    entries = {STATE: FileEntry(bytes=2, sha256=hashlib.sha256(b"{}").hexdigest())}
    (folder / MARKER).write_bytes(msgspec.json.encode(entries))


def break_off(run: RunFolder, clock: float) -> None:
    """Let the system end the engine of a run that was written up to `clock`."""
    reason = "The system ended it."
    run.record_exit(
        ExitRecord(time=clock + 0.8, code=-9, signal="SIGKILL", reason=reason, out_of_memory=True)
    )


def opening(plot: Plot) -> list[Event]:
    """What happens before the first step."""
    at = plot.start
    return [
        RunStarted(time=at, pid=0, versions=VERSIONS),
        PhaseChanged(time=at + 1, phase=Phase.LOADING_DATA, detail="builtin:digits"),
        PhaseChanged(time=at + 2, phase=Phase.LOADING_MODEL, detail="torchvision:resnet18"),
        RunPlanned(
            time=at + 3,
            total_steps=plot.steps,
            epochs=float(plot.epochs),
            train_samples=1437,
            eval_samples=360,
            effective_batch=32,
            labels=tuple("0123456789"),
            device="cpu",
        ),
        WhatRan(
            time=at + 3.2,
            device="cpu",
            device_name=PROCESSOR,
            parameter_dtype="float32",
            autocast_dtype="bfloat16",
            optimizer="AdamW (fused)",
            optimizer_state_bytes=89_453_136,
            trainable_parameters=11_181_642,
            total_parameters=11_181_642,
            effective_batch=32,
            reasons={"precision": "bf16: this CPU computes it in hardware"},
        ),
        MemoryForecast(time=at + 3.2, device="cpu", basis=Basis.FORMULA, parts=FORECAST),
        PhaseChanged(time=at + 3.3, phase=Phase.TRAINING),
    ]


def _step(plot: Plot, step: int, clock: float, seconds: float, chance: random.Random) -> StepFinished:
    """One step: a falling, noisy loss."""
    falling = 2.3 * math.exp(-3.2 * plot.pace * step / plot.steps) + 0.04
    loss = falling * (1 + 0.18 * chance.gauss(0, 1))
    if plot.nan_from is not None and step >= plot.nan_from:
        loss = math.nan
    value, non_finite = split_non_finite(loss)
    return StepFinished(
        time=clock,
        step=step,
        epoch=plot.epochs * step / plot.steps,
        seconds=seconds,
        learning_rate=1e-3 * 0.5 * (1 + math.cos(math.pi * step / plot.steps)),
        samples=32,
        loss=value,
        grad_norm=1.2 * falling * (1 + 0.3 * chance.random()),
        non_finite=non_finite,
        **parts_of(seconds, chance),
    )


def _evaluation(plot: Plot, step: int, clock: float) -> Evaluated:
    """Held-out metrics that get better."""
    share = step / plot.steps
    accuracy = 0.982 - 0.5 * math.exp(-6 * plot.pace * share)
    metrics: dict[str, float | None] = {
        "eval_loss": 2.0 * math.exp(-3.4 * plot.pace * share) + 0.08,
        "eval_accuracy": accuracy,
        "eval_f1": accuracy - 0.004,
    }
    return Evaluated(time=clock, step=step, epoch=plot.epochs * share, metrics=metrics, seconds=0.6)


def _checkpoint(step: int, clock: float) -> CheckpointSaved:
    return CheckpointSaved(
        time=clock, step=step, path=f"checkpoints/checkpoint-{step}", bytes=134_000_000, seconds=0.2
    )


def _write_machine(run: RunFolder, plot: Plot, until: float) -> None:
    """A sample of memory each second."""
    machine = EventWriter(run.machine_file)
    clock, age = plot.start - 0.2, 0
    while clock <= until:
        mine = int(GB * (0.4 + 2.2 * (1 - math.exp(-age / 4))))
        others = int(GB * (5.6 + 0.3 * math.sin(age / 9)))
        machine.write(MemorySampled(time=clock, source=Source.PROCESS, bytes=mine))
        machine.write(
            MemorySampled(time=clock, source=Source.SYSTEM, bytes=mine + others, ceiling=PROCESSOR_BYTES)
        )
        clock, age = clock + 1.0, age + 1
    for sample in of_processor(PROCESSOR, plot.start - 0.2, until - plot.start + 0.2):
        machine.write(sample)
    machine.close()
