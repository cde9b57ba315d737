"""Causal models with a head: what they predict for a text doesn't depend on the texts it shares a batch with."""

from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.options.choices import Method, Task
from core.options.data import DataOptions
from core.options.sections import OutputOptions
from tests.fakes.models import save_tiny_gpt2, save_tiny_llama
from tests.fakes.training import TinyRun, model, reviews, train, write_data, write_reviews

prepare_torchvision()

from transformers import AutoModelForSequenceClassification  # noqa: E402 - torchvision must be prepared first


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def trained(folder: Path, source: Path, task: Task, data: DataOptions, **options: Any) -> TinyRun:
    output = OutputOptions(keep_checkpoints=0, predictions=0)
    done = train(folder / "run", task=task, model=model(source, **options), data=data, output=output)
    assert done.status == 0, done.messages
    return done


def logits(network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    with torch.no_grad():
        result: torch.Tensor = network.eval()(**inputs)["logits"]
    return result


@pytest.mark.parametrize(
    ("save", "method"), [(save_tiny_llama, Method.FULL), (save_tiny_gpt2, Method.LORA)], ids=["llama", "gpt2"]
)
def test_texts_are_read_to_their_own_end(save, method, tmp_path):
    data = reviews(write_reviews(tmp_path / "reviews.csv"))
    done = trained(tmp_path, save(tmp_path / "model"), Task.TEXT_CLASSIFICATION, data, method=method)
    network, rows, collate = done.trainer.model, done.trainer.train_dataset, done.trainer.data_collator
    samples = [rows[row] for row in range(8)]
    assert len({len(sample["input_ids"]) for sample in samples}) > 1
    alone = torch.cat([logits(network, collate([sample])) for sample in samples])
    torch.testing.assert_close(logits(network, collate(samples)), alone, rtol=1e-4, atol=1e-5)


def test_padding_is_saved_with_the_model(tmp_path):
    data = reviews(Path(write_data(tmp_path, Task.TEXT_REGRESSION)))
    done = trained(tmp_path, save_tiny_llama(tmp_path / "model"), Task.TEXT_REGRESSION, data)
    loaded = AutoModelForSequenceClassification.from_pretrained(done.run.model)
    assert loaded.config.pad_token_id == 0
    batch = done.trainer.data_collator([done.trainer.train_dataset[row] for row in range(4)])
    torch.testing.assert_close(logits(loaded, batch), logits(done.trainer.model, batch))
