"""A run in small accumulated batches, as Hone starts it, takes the steps of a plain script in large ones."""

import csv
from pathlib import Path
from typing import Any

import pytest

from core.engine.environment import prepare_torchvision
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from core.runs.folder import RunFolder
from tests.fakes.plain_trainer import train_plainly
from tests.fakes.tiny_bert import WORDS, save_tiny_bert

prepare_torchvision()

ROWS, LARGE, SMALL = 24, 8, 2
LEARNING_RATE = 1e-3


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_tiny_bert(tmp_path / "model")


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Texts of uneven length, so that batches are padded differently."""
    path = tmp_path / "reviews.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for row in range(ROWS):
            writer.writerow([" ".join(WORDS[row % 5 : row % 5 + 2 + row % 4]), ("no", "yes")[row % 3 > 0]])
    return path


def hone_steps(model: Path, reviews: Path, folder: Path) -> list[StepFinished]:
    from core.engine.training.train import train_run

    folder.mkdir()
    run = RunFolder(folder)
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source=str(model)),
        data=DataOptions(train=str(reviews), eval_fraction=0.0, group_by_length=Toggle.OFF),
        device=DeviceOptions(name="cpu", precision=Precision.FP32),
        memory=MemoryOptions(batch_size=SMALL, gradient_accumulation_steps=LARGE // SMALL),
        training=TrainingOptions(epochs=1.0, learning_rate=LEARNING_RATE),
        output=OutputOptions(keep_checkpoints=0),
    )
    assert train_run(run, options, Reporter(run)) == 0
    return [event for event in EventReader(run.events_file).read_all() if isinstance(event, StepFinished)]


def encode(tokenizer: Any, row: dict[str, str]) -> dict[str, Any]:
    return {**tokenizer(row["text"]), "labels": int(row["label"] == "yes")}


def test_accumulated_steps_are_those_of_a_plain_script(model: Path, reviews: Path, tmp_path: Path) -> None:
    hone = hone_steps(model, reviews, tmp_path / "run")
    plain = train_plainly(
        model, reviews, encode, tmp_path / "plain", batch_size=LARGE, epochs=1, learning_rate=LEARNING_RATE
    )
    assert [step.samples for step in hone] == [LARGE] * (ROWS // LARGE)
    assert hone[0].loss == pytest.approx(plain[0]["loss"], rel=1e-4)
    assert hone[0].grad_norm == pytest.approx(plain[0]["grad_norm"], rel=1e-4)
    assert [step.loss for step in hone] == pytest.approx([step["loss"] for step in plain], rel=1e-3)
