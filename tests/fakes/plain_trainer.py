"""What a person would write by hand with transformers: what Hone's runs are held against."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.engine.environment import prepare_torchvision

Encode = Callable[[Any, dict[str, str]], dict[str, Any]]
"""Makes a sample with its label of a tokenizer and a row of the data."""


def train_plainly(
    model: Path,
    data: Path,
    encode: Encode,
    folder: Path,
    *,
    batch_size: int,
    epochs: int,
    learning_rate: float,
) -> list[dict[str, float]]:
    """Train a classifier of two labels on the CPU; returns what Trainer logged of each step."""
    prepare_torchvision()
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
        samples = [encode(tokenizer, row) for row in csv.DictReader(file)]
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
        train_dataset=samples,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()
    return [entry for entry in trainer.state.log_history if "loss" in entry]
