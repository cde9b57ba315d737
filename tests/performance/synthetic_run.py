"""A long synthetic run for `events_a_second.py` and `long_run.py`, in the files of a real one.

A step takes 10 ms and has every figure that a step can have; the machine is sampled each second.
"""

import math
import random
from collections.abc import Iterator
from pathlib import Path

from core.options import run_file
from core.runs import library
from core.runs.events import (
    CheckpointSaved,
    DeviceSampled,
    Evaluated,
    Event,
    MemorySampled,
    Outcome,
    Phase,
    PhaseChanged,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    encode,
)
from core.runs.folder import ExitRecord, RunFolder
from tests.performance.figures import DIGITS

START = 1_790_000_000.0
STEP_SECONDS = 0.01
STEPS_PER_EPOCH = 10_000
SPIKE, NEWEST = 64.0, 32.0
"""Losses of one step in the middle and of the last one, exact in every format; all others are below 4."""

GB = 1 << 30


def write_long_run(folder: Path, steps: int) -> RunFolder:
    """Make a run with `steps` steps that is over."""
    run = library.create(run_file.read(DIGITS), folder)
    chance = random.Random(3)
    with run.events_file.open("wb") as file:
        file.writelines(map(encode, training_events(steps, chance)))
    with run.machine_file.open("wb") as file:
        for second in range(int(steps * STEP_SECONDS)):
            file.writelines(map(encode, machine_samples(START + second, chance)))
    run.record_exit(ExitRecord(time=time_of(steps) + 2, code=0))
    return run


def training_events(steps: int, chance: random.Random) -> Iterator[Event]:
    yield RunStarted(time=START)
    yield RunPlanned(
        time=START + 1,
        total_steps=steps,
        epochs=steps / STEPS_PER_EPOCH,
        train_samples=32 * STEPS_PER_EPOCH,
        eval_samples=320,
        effective_batch=32,
        device="cpu",
    )
    yield PhaseChanged(time=START + 2, phase=Phase.TRAINING)
    for number in range(1, steps + 1):
        yield step(number, steps, chance)
        if number % STEPS_PER_EPOCH == 0:
            share, time, epoch = math.exp(-number / 300_000), time_of(number), number / STEPS_PER_EPOCH
            metrics: dict[str, float | None] = {"eval_loss": 3 * share, "eval_accuracy": 1 - share / 2}
            yield Evaluated(time=time, step=number, epoch=epoch, metrics=metrics, seconds=0.5)
            yield CheckpointSaved(time=time, step=number, path="checkpoints/c", bytes=GB, seconds=0.1)
    yield RunFinished(time=time_of(steps) + 1, state=Outcome.FINISHED, steps=steps)


def time_of(number: int) -> float:
    """When a step ends, in unix seconds."""
    return START + 3 + number * STEP_SECONDS


def spike_at(steps: int) -> int:
    """The step with the spike."""
    return steps * 2 // 3


def step(number: int, steps: int, chance: random.Random) -> StepFinished:
    """Step `number` of `steps`."""
    loss = 3 * math.exp(-3 * number / steps) * (1 + 0.05 * chance.random())
    return StepFinished(
        time=time_of(number),
        step=number,
        epoch=number / STEPS_PER_EPOCH,
        seconds=STEP_SECONDS * (1 + 0.2 * chance.random()),
        learning_rate=1e-3 * (1 - number / (2 * steps)),
        samples=32,
        tokens=4096,
        data_seconds=0.001,
        forward_seconds=0.003,
        backward_seconds=0.004 + 0.001 * chance.random(),
        optimizer_seconds=0.001,
        loss={spike_at(steps): SPIKE, steps: NEWEST}.get(number, loss),
        grad_norm=1 + chance.random(),
    )


def machine_samples(time: float, chance: random.Random) -> Iterator[Event]:
    """The samples of one second."""
    yield MemorySampled(time=time, source=Source.PROCESS, bytes=2 * GB)
    yield MemorySampled(time=time, source=Source.SYSTEM, bytes=9 * GB + chance.randrange(GB), ceiling=16 * GB)
    yield DeviceSampled(time=time, source=Source.SYSTEM, name="CPU", busy=chance.random())
