"""What the screenshots show: an invented machine, and two invented runs in folders of their own."""

import math
import os
import random
import time
from pathlib import Path

import msgspec

from core import run_file
from core.event_files import EventWriter
from core.events import (
    Evaluated,
    MemorySampled,
    Outcome,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    WhatRan,
)
from core.reports import Column, ColumnKind, DataReport, DeviceReport, InspectRequest, MachineReport, Settled
from core.run_folder import ExitRecord, RunFolder

GB = 1024**3
TOTAL_STEPS = 225
STEPS_PER_EPOCH = 45

MACHINE = MachineReport(
    devices=(
        DeviceReport(
            name="cuda:0",
            title="NVIDIA GPU",
            available=False,
            reason="No NVIDIA driver was found. With an NVIDIA card in this computer, install its driver.",
        ),
        DeviceReport(
            name="mps",
            title="Apple GPU (MPS)",
            available=False,
            reason="MPS is the GPU of Apple computers.",
        ),
        DeviceReport(
            name="cpu",
            title="AMD EPYC",
            available=True,
            memory_bytes=24 * GB,
            refusals={"device.precision": {"fp16": "needs a GPU", "tf32": "is a format of NVIDIA GPUs"}},
            automatic={"device.precision": Settled("bf16", "this CPU computes bf16 in hardware")},
        ),
    ),
    automatic="cpu",
    versions={"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0", "datasets": "5.2.0"},
)
"""A PC without a graphics card: what Hone has really been run on, so that its pictures promise nothing else."""

DIGITS = DataReport(
    source="builtin:digits",
    format="scikit-learn digits",
    rows=1797,
    labels={
        "3": 183,
        "1": 182,
        "5": 182,
        "4": 181,
        "6": 181,
        "9": 180,
        "7": 179,
        "0": 178,
        "2": 177,
        "8": 174,
    },
)

REVIEWS = DataReport(
    source="reviews.csv",
    format="CSV",
    rows=2340,
    columns=(
        Column(name="review", kind=ColumnKind.TEXT, distinct=2331, empty=0, examples=("Warm and quick.",)),
        Column(name="stars", kind=ColumnKind.NUMBER, distinct=5, empty=0, examples=("5",)),
    ),
    preview=(("Warm and quick.", "5"),),
    text_columns=("review",),
    label_column="stars",
    labels={"5": 1204, "4": 611, "3": 254, "1": 168, "2": 103},
    notes=("9 rows repeat an earlier one",),
)


class InventedJob:
    """Answers the engine's questions from the figures above."""

    def __init__(self, job: str) -> None:
        self._job = job

    def ask(self, request: bytes = b"") -> bytes:
        """The machine, or the data asked for."""
        if self._job == "devices":
            return msgspec.json.encode(MACHINE)
        source = msgspec.json.decode(request, type=InspectRequest).source
        return msgspec.json.encode(DIGITS if source == DIGITS.source else REVIEWS)

    def kill(self) -> None:
        """Nothing runs."""


def make_run(folder: Path, example: Path, reached: int) -> RunFolder:
    """Write the folder of a run that has come to step `reached`; finished where that is the last."""
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    options = run_file.read(example)
    run_file.write(options, run.options_file)
    run.log_file.write_text("loading torchvision:resnet18\n1,437 samples to train on, 360 held out\n")
    is_over = reached == TOTAL_STEPS
    start = time.time() - (86_400 if is_over else reached * 0.21 + 4)
    end = _write_events(run, start, reached)
    if is_over:
        run.model.mkdir()
        run.record_exit(ExitRecord(time=end, code=0))
    else:
        run.record_keeper(os.getpid())
    return run


def _write_events(run: RunFolder, start: float, reached: int) -> float:
    chance = random.Random(3)
    events = EventWriter(run.events_file)
    machine = EventWriter(run.machine_file)
    events.write(RunStarted(time=start, pid=0, versions=MACHINE.versions))
    events.write(_plan(start + 2))
    events.write(_what_ran(start + 3))
    now = start + 3
    for step in range(1, reached + 1):
        seconds = 0.2 * (1 + 0.1 * abs(chance.gauss(0, 1)))
        now += seconds
        events.write(_step(now, step, seconds, chance))
        if step % 3 == 0:
            held = int((1.1 + 0.9 * (1 - math.exp(-step / 20)) + 0.03 * chance.random()) * GB)
            machine.write(MemorySampled(time=now, source=Source.PROCESS, bytes=held))
            machine.write(MemorySampled(time=now, source=Source.SYSTEM, bytes=held + 3 * GB, ceiling=24 * GB))
        if step % STEPS_PER_EPOCH == 0:
            now += 0.7
            events.write(_evaluation(now, step))
    if reached == TOTAL_STEPS:
        metrics = _evaluation(now, reached).metrics
        events.write(
            RunFinished(
                time=now,
                state=Outcome.FINISHED,
                metrics=metrics,
                samples_per_second=148.0,
                seconds=now - start,
                steps=reached,
                peak_bytes=int(2.1 * GB),
            )
        )
    events.close()
    machine.close()
    return now


def _plan(at: float) -> RunPlanned:
    return RunPlanned(
        time=at,
        total_steps=TOTAL_STEPS,
        epochs=5.0,
        train_samples=1437,
        eval_samples=360,
        effective_batch=32,
        labels=tuple("0123456789"),
        device="cpu",
    )


def _what_ran(at: float) -> WhatRan:
    return WhatRan(
        time=at,
        device="cpu",
        device_name="AMD EPYC",
        parameter_dtype="float32",
        autocast_dtype="bfloat16",
        optimizer="AdamW (fused)",
        optimizer_state_bytes=89_453_136,
        trainable_parameters=11_181_642,
        total_parameters=11_181_642,
        effective_batch=32,
    )


def _step(at: float, step: int, seconds: float, chance: random.Random) -> StepFinished:
    loss = 0.06 + 2.3 * math.exp(-step / 40) * (1 + 0.12 * chance.gauss(0, 1))
    rate = 1e-3 * 0.5 * (1 + math.cos(math.pi * step / TOTAL_STEPS))
    return StepFinished(
        time=at,
        step=step,
        epoch=step / STEPS_PER_EPOCH,
        seconds=seconds,
        learning_rate=rate,
        samples=32,
        loss=abs(loss),
    )


def _evaluation(at: float, step: int) -> Evaluated:
    accuracy = 0.984 - 0.5 * math.exp(-step / 35)
    metrics: dict[str, float | None] = {
        "eval_loss": 0.08 + 1.5 * math.exp(-step / 45),
        "eval_accuracy": accuracy,
        "eval_f1": accuracy - 0.002,
    }
    return Evaluated(time=at, step=step, epoch=step / STEPS_PER_EPOCH, metrics=metrics, seconds=0.7)
