"""A run's numbers are those of a plain Trainer script with the same arguments and seed, step by step."""

import csv
from pathlib import Path
from typing import Any

import pytest

from core.options import run_file
from core.options.sections import MemoryOptions, OutputOptions, TrainingOptions
from core.runs import library, start
from core.runs.event_log import EventReader
from core.runs.events import StepFinished
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import model, reviews, train, train_plainly, write_reviews

SENTENCE = "the quick brown fox jumps over a lazy dog near the old river bank today"


def encode_review(tokenizer: Any, row: dict[str, str]) -> dict[str, Any]:
    return {**tokenizer(row["text"]), "labels": int(row["label"] == "yes")}


@pytest.mark.parametrize(("batch_size", "accumulated"), [(8, 1), (2, 4)])
def test_steps_are_those_of_a_plain_script(batch_size, accumulated, tmp_path):
    bert, data = save_tiny_bert(tmp_path / "bert"), write_reviews(tmp_path / "reviews.csv", 24)
    run = train(
        tmp_path / "run",
        model=model(bert),
        data=reviews(data),
        memory=MemoryOptions(batch_size=batch_size, gradient_accumulation_steps=accumulated),
        training=TrainingOptions(epochs=2.0, learning_rate=1e-3),
        output=OutputOptions(keep_checkpoints=0),
    )
    plain = train_plainly(
        bert, data, encode_review, tmp_path / "plain", batch_size=8, epochs=2, learning_rate=1e-3
    )
    assert [step.samples for step in run.steps] == [8] * 6
    for name, found in (
        ("loss", [step.loss for step in run.steps]),
        ("grad_norm", [step.grad_norm for step in run.steps]),
    ):
        expected = [step[name] for step in plain]
        assert found == (expected if accumulated == 1 else pytest.approx(expected, rel=2e-3))


def write_pairs(path: Path, rows: int = 24) -> Path:
    """Sentence pairs of uneven length, half of them the same sentence twice."""
    words = SENTENCE.split()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["first", "second", "same"])
        for row in range(rows):
            first = " ".join(words[row % 7 : row % 7 + 3 + row % 5])
            writer.writerow([first, first if row % 2 else " ".join(words[(row + 5) % 9 :]), row % 2])
    return path


def encode_pair(tokenizer: Any, row: dict[str, str]) -> dict[str, Any]:
    tokens = tokenizer(row["first"], row["second"], truncation=True, max_length=128)
    return {**tokens, "labels": int(row["same"])}


@pytest.mark.long
def test_losses_of_a_real_model_in_its_own_process_are_those_of_a_plain_script(minilm, tmp_path):
    pairs, file = write_pairs(tmp_path / "pairs.csv"), tmp_path / "pairs.hone"
    file.write_text(
        f"""
        schema = 1
        task = "text-classification"
        model.source = '{minilm}'
        device = {{ name = "cpu", precision = "fp32" }}
        memory.batch_size = 8
        training = {{ epochs = 2, learning_rate = 5e-5 }}
        output.keep_checkpoints = 0
        [data]
        train = '{pairs}'
        eval_fraction = 0.0
        text_columns = ["first", "second"]
        label_column = "same"
        group_by_length = "off"
        """
    )
    run = library.create(run_file.read(file), tmp_path)
    start.start(run).wait(timeout=600)
    losses = [
        event.loss for event in EventReader(run.events_file).read_all() if isinstance(event, StepFinished)
    ]
    plain = train_plainly(
        minilm, pairs, encode_pair, tmp_path / "plain", batch_size=8, epochs=2, learning_rate=5e-5
    )
    assert len(plain) == 6
    assert losses == pytest.approx([step["loss"] for step in plain], rel=1e-5)
