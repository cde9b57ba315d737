"""A long run that never was, for `long_run.py` and `window_flood.py`, written into its folder as a real one is.

A step takes 10 ms and tells everything a step can tell; each second the machine is sampled.
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
from core.runs.folder import (
    ExitRecord,
    RunFolder,
)
from tests.performance.figures import DIGITS

START = 1_790_000_000.0
STEP_SECONDS = 0.01
STEPS_PER_EPOCH = 10_000
SPIKE, NEWEST = 64.0, 32.0
"""Losses of one step in the middle and of the last one, exact in every format; all others are below 4."""

GB = 1 << 30


def write_long_run(folder: Path, steps: int, *, is_over: bool = True) -> RunFolder:
    """Make a run that has come to step `steps`. One that isn't over is left for a writer to go on with."""
    run = library.create(run_file.read(DIGITS), folder)
    chance = random.Random(3)
    with run.events_file.open("wb") as file:
        for event in _opening(steps if is_over else 2 * steps):
            file.write(encode(event))
        for number in range(1, steps + 1):
            file.write(encode(step(number, steps, chance)))
            if number % STEPS_PER_EPOCH == 0:
                for event in _end_of_epoch(number):
                    file.write(encode(event))
        if is_over:
            file.write(encode(RunFinished(time=at(steps) + 1, state=Outcome.FINISHED, steps=steps)))
    with run.machine_file.open("wb") as file:
        for second in range(int(steps * STEP_SECONDS)):
            for event in samples(START + second, chance):
                file.write(encode(event))
    if is_over:
        run.record_exit(ExitRecord(time=at(steps) + 2, code=0))
    return run


def at(number: int) -> float:
    """When a step ends, in unix seconds."""
    return START + 3 + number * STEP_SECONDS


def spike_at(steps: int) -> int:
    """The step with the spike."""
    return steps * 2 // 3


def step(number: int, steps: int, chance: random.Random) -> StepFinished:
    """One step of a story that was to have so many."""
    loss = 3 * math.exp(-3 * number / steps) * (1 + 0.05 * chance.random())
    loss = {spike_at(steps): SPIKE, steps: NEWEST}.get(number, loss)
    return StepFinished(
        time=at(number),
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
        loss=loss,
        grad_norm=1 + chance.random(),
    )


def samples(time: float, chance: random.Random) -> Iterator[Event]:
    """What the machine tells in a second."""
    yield MemorySampled(time=time, source=Source.PROCESS, bytes=2 * GB)
    yield MemorySampled(time=time, source=Source.SYSTEM, bytes=9 * GB + chance.randrange(GB), ceiling=16 * GB)
    yield DeviceSampled(time=time, source=Source.SYSTEM, name="CPU", busy=chance.random())


def _opening(steps: int) -> Iterator[Event]:
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


def _end_of_epoch(number: int) -> Iterator[Event]:
    share = math.exp(-number / 300_000)
    metrics: dict[str, float | None] = {"eval_loss": 3 * share, "eval_accuracy": 1 - share / 2}
    yield Evaluated(
        time=at(number), step=number, epoch=number / STEPS_PER_EPOCH, metrics=metrics, seconds=0.5
    )
    yield CheckpointSaved(time=at(number), step=number, path="checkpoints/c", bytes=GB, seconds=0.1)
