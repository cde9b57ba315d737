"""A run's numbers are those of a plain Trainer script with the same arguments and seed, step by step."""

import csv
from pathlib import Path
from typing import Any

import pytest

from core.options import run_file
from core.runs import library, start
from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from tests.fakes.plain_trainer import train_plainly

ROWS = 24
SENTENCE = "the quick brown fox jumps over a lazy dog near the old river bank today"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Sentence pairs of uneven length, half of them the same sentence twice."""
    path = tmp_path / "pairs.csv"
    words = SENTENCE.split()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["first", "second", "same"])
        for row in range(ROWS):
            first = " ".join(words[row % 7 : row % 7 + 3 + row % 5])
            second = first if row % 2 else " ".join(words[(row + 5) % 9 :])
            writer.writerow([first, second, row % 2])
    return path


def hone_losses(pairs: Path, model: Path, folder: Path) -> list[float | None]:
    options = run_file.read(write_run_file(pairs, model, folder / "pairs.hone"))
    run = library.create(options, folder)
    start.start(run).wait(timeout=600)
    events = EventReader(run.events_file).read_all()
    return [event.loss for event in events if isinstance(event, StepFinished)]


def write_run_file(pairs: Path, model: Path, path: Path) -> Path:
    path.write_text(
        f"""
        schema = 1
        task = "text-classification"
        [model]
        source = '{model}'
        [data]
        train = '{pairs}'
        eval_fraction = 0.0
        text_columns = ["first", "second"]
        label_column = "same"
        group_by_length = "off"
        [device]
        name = "cpu"
        precision = "fp32"
        [memory]
        batch_size = 8
        [training]
        epochs = 2
        learning_rate = 5e-5
        [output]
        keep_checkpoints = 0
        """
    )
    return path


def encode(tokenizer: Any, row: dict[str, str]) -> dict[str, Any]:
    tokens = tokenizer(row["first"], row["second"], truncation=True, max_length=128)
    return {**tokens, "labels": int(row["same"])}


@pytest.mark.long
def test_losses_equal_those_of_a_plain_script(pairs: Path, minilm: Path, tmp_path: Path) -> None:
    hone = hone_losses(pairs, minilm, tmp_path)
    plain = train_plainly(
        minilm, pairs, encode, tmp_path / "plain", batch_size=8, epochs=2, learning_rate=5e-5
    )
    assert len(plain) == 2 * ROWS // 8
    assert hone == pytest.approx([step["loss"] for step in plain], rel=1e-5)
