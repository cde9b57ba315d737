"""A run of seconds, as Hone starts it, of whatever model and options a test asks for."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.engine.environment import prepare_torchvision
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import Event, MessageRaised, StepFinished, WhatRan
from core.runs.folder import RunFolder
from tests.fakes.tiny_bert import WORDS

prepare_torchvision()


def write_reviews(path: Path, rows: int = 24) -> Path:
    """Texts of uneven length with two labels, as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for row in range(rows):
            writer.writerow([" ".join(WORDS[row % 5 : row % 5 + 2 + row % 4]), ("no", "yes")[row % 3 > 0]])
    return path


@dataclass(frozen=True)
class TinyRun:
    """What came of a run: its exit status, its folder, its events, and the trainer that was alive in it."""

    status: int
    run: RunFolder
    events: list[Event]
    trainer: Any

    @property
    def what_ran(self) -> WhatRan:
        return next(event for event in self.events if isinstance(event, WhatRan))

    @property
    def steps(self) -> list[StepFinished]:
        return [event for event in self.events if isinstance(event, StepFinished)]

    @property
    def messages(self) -> dict[str, MessageRaised]:
        return {event.id: event for event in self.events if isinstance(event, MessageRaised)}


def train(folder: Path, **sections: Any) -> TinyRun:
    """Train in a new folder `folder`; sections not given are those of a short run in fp32 on the CPU."""
    from core.engine.training import train as engine

    options = RunOptions(
        **{
            "task": Task.TEXT_CLASSIFICATION,
            "data": DataOptions(train="synthetic:16x8"),
            "device": DeviceOptions(name="cpu", precision=Precision.FP32),
            "memory": MemoryOptions(batch_size=8),
            "training": TrainingOptions(epochs=1.0, learning_rate=1e-2),
            **sections,
        }
    )
    folder.mkdir()
    run = RunFolder(folder)
    built: list[Any] = []
    build = engine.build_trainer

    def keep(*args: Any) -> Any:
        built.append(build(*args))
        return built[-1]

    engine.build_trainer = keep
    try:
        status = engine.train_run(run, options, Reporter(run))
    finally:
        engine.build_trainer = build
    events = EventReader(run.events_file).read_all()
    return TinyRun(status, run, events, built[-1] if built else None)


def reviews(path: Path, **options: Any) -> DataOptions:
    """The texts of `write_reviews`, in the order of the seed, none held out unless asked."""
    return DataOptions(
        **{
            "train": str(path),
            "eval_fraction": 0.0,
            "group_by_length": Toggle.OFF,
            "max_length": 32,
            **options,
        }
    )


def model(source: Path | str, **options: Any) -> ModelOptions:
    return ModelOptions(source=str(source), **options)
