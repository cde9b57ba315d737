"""Texts whose number, or the tags of whose words, follow from their words: small models learn that in seconds."""

import csv
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.engine.devices.choose import ResolvedRun
from core.engine.environment import prepare_torchvision
from core.engine.generate.chat_job import inference_options
from core.engine.reporter import Reporter
from core.jobs.chat import Answered, Ask, FilesPart, Given, Load, TextPiece, Which, Writing
from core.options import RunOptions, run_file
from core.options.backend_rules import MLX_ON_CPU
from core.options.catalogue import all_options
from core.options.choices import Backend, Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.device_support import DeviceReport
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import (
    Event,
    Example,
    ExamplesChosen,
    MessageRaised,
    Predicted,
    Said,
    StepFinished,
    WhatRan,
)
from core.runs.folder import RunFolder
from core.runs.status import IN_BOTH
from tests.fakes.models import WORDS

if TYPE_CHECKING:
    from core.engine.generate.loading import TriedModel


# --- A run of seconds, as Hone starts it, of whatever model and options a test asks for


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
        """By id, without the one that tiny data repeat themselves."""
        raised = (event for event in self.events if isinstance(event, MessageRaised))
        return {event.id: event for event in raised if event.id != IN_BOTH}


SECTIONS = {"model": ModelOptions, "data": DataOptions, "device": DeviceOptions} | {
    "memory": MemoryOptions,
    "training": TrainingOptions,
    "output": OutputOptions,
}
SECTION_OF = {option.name: option.section for option in all_options() if option.path != "output.name"}


def options_of(task: Task = Task.TEXT_CLASSIFICATION, **changes: Any) -> RunOptions:
    """The defaults with `changes`: options by their names (`max_steps=3`), or whole sections (`training=...`)."""
    sections: dict[str, Any] = {name: changes.pop(name) for name in SECTIONS if name in changes}
    trees: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        trees.setdefault(SECTION_OF[name], {})[name] = str(value) if isinstance(value, Path) else value
    assert not trees.keys() & sections.keys(), "a section is given whole, and options of it"
    sections |= {name: SECTIONS[name](**tree) for name, tree in trees.items()}
    return RunOptions(task=task, **sections)


USUAL = {
    "train": "synthetic:16x8",
    "eval_fraction": 0.0,
    "group_by_length": Toggle.OFF,
    "max_length": 32,
    "name": "cpu",
    "precision": Precision.FP32,
    "threads": 1,
    "batch_size": 8,
    "epochs": 1.0,
    "learning_rate": 1e-2,
}


def run_options(task: Task = Task.TEXT_CLASSIFICATION, **changes: Any) -> RunOptions:
    """The same for a run of seconds in fp32 on the CPU, all of whose data is trained on."""
    usual = {name: value for name, value in USUAL.items() if SECTION_OF[name] not in changes}
    return options_of(task, **{**usual, **changes})


ENGINES = [Backend.TORCH, *([Backend.MLX] if find_spec("mlx_lm") else [])]


def train(folder: Path, **changes: Any) -> TinyRun:
    """Train with `run_options(**changes)` in the new folder `folder`; with MLX there is no trainer."""
    from core.engine import train as engine

    options = run_options(**changes)
    folder.mkdir()
    run = RunFolder(folder)
    if options.device.backend is Backend.MLX:
        from core.engine.mlx.train import train_run

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(MLX_ON_CPU, "1")
            status = train_run(run, options, Reporter(run))
        return TinyRun(status, run, EventReader(run.events_file).read_all(), None)
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


# --- A trainer as a run builds it, for tests that look at it before, while and after it trains


prepare_torchvision()


def options(task: Task, model: Any, data: DataOptions, **sections: Any) -> RunOptions:
    """A short run in fp32 on one thread, which keeps no checkpoints."""
    return RunOptions(
        **{
            "task": task,
            "model": model,
            "data": data,
            "device": DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
            "memory": MemoryOptions(batch_size=4),
            "training": TrainingOptions(epochs=1.0, learning_rate=1e-2),
            "output": OutputOptions(keep_checkpoints=0),
            **sections,
        }
    )


def resolved(options: RunOptions, device: str = "cpu", title: str = "") -> ResolvedRun:
    """A run whose options leave nothing open, on a device of this name."""
    return ResolvedRun(options, DeviceReport(name=device, title=title, available=True))


def built(asked: RunOptions, folder: Path, kind: Any = None) -> Any:
    """The trainer of a run, or of that `kind`; its checkpoints would go into `folder`."""
    from core.engine.training.build import build_trainer, chosen_device, prepare
    from core.engine.training.trainer import WatchedTrainer

    with chosen_device(asked) as run:
        prepared = prepare(run.options, Reporter(None))
        return build_trainer(folder, run, prepared, *parts_of(run), kind=kind or WatchedTrainer)


def parts_of(run: ResolvedRun) -> tuple[Any, Any]:
    """What a trainer is built with: the figures of its steps, and its checkpoints."""
    from core.engine.training.resuming import Resuming
    from core.engine.training.step import StepFigures

    return StepFigures(run, Reporter(None)), Resuming(run.kind)


def inputs_of(trainer: Any) -> list[dict[str, Any]]:
    """What the model is given from now on, batch by batch."""
    seen: list[dict[str, Any]] = []
    trainer.model.register_forward_pre_hook(lambda _model, _args, given: seen.append(given), with_kwargs=True)
    return seen


# --- Texts whose number, or the tags of whose words, follow from their words


TAGS = ("O", "B-GOOD", "I-GOOD")


def words_of(row: int) -> list[str]:
    """The words of a row; rows differ in length."""
    return [WORDS[(row + place) % 5] for place in range(2 + row % 5)]


def write_data(folder: Path, task: Task, rows: int = 24) -> str:
    """Write them as JSON lines; the path."""
    path = folder / "data.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row in range(rows):
            words = words_of(row)
            tags = [TAGS[(word == "good") + 2 * (word == "bad")] for word in words]
            made = {"tokens": words, "tags": tags} if task is Task.TOKEN_CLASSIFICATION else {}
            made = made or {"text": " ".join(words), "score": words.count("good") + len(words) / 4}
            file.write(f"{json.dumps(made)}\n")
    return str(path)


# --- What a person would write by hand with transformers: what Hone's runs are held against


def train_plainly(
    model: Path, data: Path, folder: Path, *, batch_size: int, epochs: int, learning_rate: float
) -> list[dict[str, float]]:
    """Train a classifier on the texts of `write_reviews`; returns what Trainer logged of each step."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    set_seed(42)
    tokenizer = AutoTokenizer.from_pretrained(model)
    with data.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        per_device_train_batch_size=batch_size,
        num_train_epochs=epochs,
        learning_rate=learning_rate,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=42,
    )
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(model, num_labels=2),
        args=arguments,
        train_dataset=[{**tokenizer(row["text"]), "labels": int(row["label"] == "yes")} for row in rows],
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()
    return [entry for entry in trainer.state.log_history if "loss" in entry]


# --- Tiny runs that are over and can be tried: trained in this process


def tried(folder: Path, **sections: Any) -> RunFolder:
    """Train in the new folder `folder` and write what was asked beside it."""
    asked = {
        "device": DeviceOptions(name="cpu", precision=Precision.FP32),
        "memory": MemoryOptions(batch_size=8),
        "training": TrainingOptions(epochs=1.0, learning_rate=1e-2),
        "output": OutputOptions(predictions=4),
        **sections,
    }
    run = train(folder, **asked)
    assert run.status == 0, run.messages
    run_file.write(RunOptions(**asked), run.run.options_file)
    return run.run


def examples(run: RunFolder) -> tuple[Example, ...]:
    return next(event for event in _events(run) if isinstance(event, ExamplesChosen)).examples


def first_and_last(run: RunFolder) -> tuple[tuple[Said, ...], tuple[Said, ...]]:
    """What was said before training, and at last."""
    told = [event for event in _events(run) if isinstance(event, Predicted)]
    return told[0].said, told[-1].said


def _events(run: RunFolder) -> list[Any]:
    return EventReader(run.events_file).read_all()


def load(run: RunFolder, which: Which = Which.TRAINED) -> "TriedModel":
    from core.engine.generate.loading import load_model

    return load_model(run, inference_options(run.options(), Load(run=str(run.path), which=which)), which)


class Received:
    """Collects pieces of text and progress, and stops the answer after so many pieces; None: never."""

    def __init__(self, pieces: int | None = None) -> None:
        self.pieces: list[str] = []
        self.parts: list[FilesPart] = []
        self._most = pieces

    def should_stop(self) -> bool:
        return self._most is not None and len(self.pieces) >= self._most

    def add(self, told: Any) -> None:
        if isinstance(told, FilesPart):
            self.parts.append(told)
        else:
            assert isinstance(told, TextPiece)
            self.pieces.append(told.text)


def ask(
    model: "TriedModel",
    given: Given,
    received: Received | None = None,
    *,
    before: bool = False,
    **writing: Any,
) -> Answered:
    from core.engine.generate.chat_job import answer

    received = received or Received()
    asked = Ask(id=1, given=given, writing=Writing(**writing), before=before)
    return answer(model, asked, received.add, received.should_stop)
