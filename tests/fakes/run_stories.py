"""Run folders with made-up stories in them, as an engine and a keeper would have written them."""

import math
import os
import random
from dataclasses import dataclass
from pathlib import Path

from core import run_file
from core.choices import Task
from core.errors import Fix
from core.event_files import EventWriter
from core.events import (
    CheckpointSaved,
    Evaluated,
    Event,
    Level,
    MemorySampled,
    MessageRaised,
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
from core.options import DataOptions, MemoryOptions, ModelOptions, OutputOptions, RunOptions, TrainingOptions
from core.run_folder import ExitRecord, RunFolder

GB = 1024**3

SMALLER_BATCH = Fix("Use batch size 8", {"memory.batch_size": 8})

MEMORY_LOW = MessageRaised(
    id="memory-low",
    level=Level.WARNING,
    title="Memory is nearly used up",
    detail="14.9 of 16 GB are in use. The computer starts to page, and steps become many times slower.",
    fixes=(SMALLER_BATCH,),
)

OPTIONS = RunOptions(
    task=Task.IMAGE_CLASSIFICATION,
    model=ModelOptions(source="torchvision:resnet18", pretrained=False),
    data=DataOptions(train="builtin:digits", eval_fraction=0.2, image_size=32),
    memory=MemoryOptions(batch_size=32),
    training=TrainingOptions(epochs=8.0, learning_rate=1e-3),
    output=OutputOptions(name="Handwritten digits"),
)


@dataclass(frozen=True)
class Plot:
    """How a story goes. Times are seconds; the run starts at `start` (unix seconds)."""

    steps: int = 360
    reached: int = 360
    step_seconds: float = 0.21
    start: float = 1_795_230_000.0
    nan_from: int | None = None
    warning: bool = False


def make_folder(path: Path, options: RunOptions = OPTIONS) -> RunFolder:
    """A folder in which nothing has happened yet."""
    path.mkdir(parents=True)
    run = RunFolder(path)
    run_file.write(options, run.options_file)
    return run


def write_story(run: RunFolder, plot: Plot) -> float:
    """Write a run up to the step `plot.reached`; returns the unix time of its last event."""
    chance = random.Random(7)
    events = EventWriter(run.events_file)
    clock = plot.start
    for event in opening(plot):
        events.write(event)
        clock = event.time
    per_epoch = max(1, plot.steps // 8)
    for step in range(1, plot.reached + 1):
        seconds = plot.step_seconds * (8.0 if step == 1 else 1 + 0.08 * abs(chance.gauss(0, 1)))
        clock += seconds
        events.write(step_event(plot, step, clock, seconds, chance))
        if step % per_epoch == 0:
            clock += 0.8
            events.write(evaluation(plot, step, clock))
            events.write(
                CheckpointSaved(
                    time=clock,
                    step=step,
                    path=f"checkpoints/checkpoint-{step}",
                    bytes=134_000_000,
                    seconds=0.2,
                )
            )
    if plot.warning:
        events.write(MEMORY_LOW)
    events.close()
    write_machine(run, plot, clock)
    return clock


def opening(plot: Plot) -> list[Event]:
    """What happens before the first step."""
    at = plot.start
    return [
        RunStarted(time=at, pid=0, versions={"torch": "2.13.0", "transformers": "5.23.0"}),
        PhaseChanged(time=at + 1, phase=Phase.LOADING_DATA, detail="builtin:digits"),
        PhaseChanged(time=at + 2, phase=Phase.LOADING_MODEL, detail="torchvision:resnet18"),
        RunPlanned(
            time=at + 3,
            total_steps=plot.steps,
            epochs=8.0,
            train_samples=1437,
            eval_samples=360,
            effective_batch=32,
            labels=tuple("0123456789"),
            device="cpu",
        ),
        WhatRan(
            time=at + 3.2,
            device="cpu",
            device_name="16-core processor",
            parameter_dtype="float32",
            autocast_dtype="bfloat16",
            optimizer="AdamW (fused)",
            optimizer_state_bytes=89_400_000,
            trainable_parameters=11_181_642,
            total_parameters=11_181_642,
            effective_batch=32,
            reasons={"precision": "bf16: this processor computes it in hardware"},
        ),
        PhaseChanged(time=at + 3.3, phase=Phase.TRAINING),
    ]


def step_event(plot: Plot, step: int, clock: float, seconds: float, chance: random.Random) -> StepFinished:
    """One step: a falling, noisy loss."""
    falling = 2.3 * math.exp(-3.2 * step / plot.steps) + 0.04
    loss = falling * (1 + 0.18 * chance.gauss(0, 1))
    if plot.nan_from is not None and step >= plot.nan_from:
        loss = math.nan
    value, non_finite = split_non_finite(loss)
    return StepFinished(
        time=clock,
        step=step,
        epoch=8.0 * step / plot.steps,
        seconds=seconds,
        learning_rate=1e-3,
        samples=32,
        loss=value,
        non_finite=non_finite,
    )


def evaluation(plot: Plot, step: int, clock: float) -> Evaluated:
    """Held-out metrics that get better."""
    share = step / plot.steps
    accuracy = 0.982 - 0.5 * math.exp(-6 * share)
    metrics = {
        "eval_loss": 2.0 * math.exp(-3.4 * share) + 0.08,
        "eval_accuracy": accuracy,
        "eval_f1": accuracy - 0.004,
    }
    return Evaluated(time=clock, step=step, epoch=8.0 * share, metrics=metrics, seconds=0.6)


def write_machine(run: RunFolder, plot: Plot, until: float) -> None:
    """A sample of memory each second."""
    machine = EventWriter(run.machine_file)
    clock, age = plot.start - 0.2, 0
    while clock <= until:
        mine = int(GB * (0.4 + 2.2 * (1 - math.exp(-age / 4))))
        others = int(GB * (5.6 + 0.3 * math.sin(age / 9)))
        machine.write(MemorySampled(time=clock, source=Source.PROCESS, bytes=mine))
        machine.write(MemorySampled(time=clock, source=Source.SYSTEM, bytes=mine + others, ceiling=16 * GB))
        clock, age = clock + 1.0, age + 1
    machine.close()


def finish(run: RunFolder, plot: Plot, clock: float) -> None:
    """The engine ends well."""
    events = EventWriter(run.events_file)
    last = evaluation(plot, plot.reached, clock)
    events.write(
        RunFinished(
            time=clock + 0.5,
            state=Outcome.FINISHED,
            metrics=last.metrics,
            samples_per_second=148.7,
            seconds=clock - plot.start,
            steps=plot.reached,
            peak_bytes=int(2.6 * GB),
        )
    )
    events.close()
    run.record_exit(ExitRecord(time=clock + 0.8, code=0))


def crash(run: RunFolder, clock: float) -> None:
    """The engine is killed."""
    tail = "Loading builtin:digits\nTraining on cpu\n"
    run.log_file.write_text(tail)
    run.record_exit(
        ExitRecord(
            time=clock + 0.2,
            code=-9,
            signal="SIGKILL",
            reason="It was killed from outside. Often the operating system does this when memory runs out: "
            "try a smaller batch size.",
            log_tail=tail,
        )
    )


def keep_alive(run: RunFolder) -> None:
    """Let the run count as live: this very process is its keeper."""
    run.record_keeper(os.getpid())
