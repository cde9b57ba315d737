"""Causal models with a head: what they say of a text doesn't depend on the texts it shares a batch with."""

from pathlib import Path
from typing import Any

import pytest
import torch

from core.engine.environment import prepare_torchvision
from core.options.choices import Method, Task
from core.options.sections import ModelOptions, OutputOptions
from tests.fakes.models import tiny_tokenizer
from tests.fakes.training import TinyRun, reviews, train, write_data, write_reviews

prepare_torchvision()

from transformers import (  # noqa: E402 - torchvision must be prepared first
    AutoModelForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)


def save_llama(folder: Path) -> Path:
    """A causal model whose config and tokenizer name no padding."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = LlamaConfig(vocab_size=400, **sizes, num_key_value_heads=2, max_position_embeddings=64)
    LlamaForCausalLM(config).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def save_gpt2(folder: Path) -> Path:
    """The same of the kind whose linear layers are turned."""
    config = GPT2Config(vocab_size=400, n_embd=16, n_layer=1, n_head=2, n_positions=64)
    config.bos_token_id = config.eos_token_id = 0
    GPT2LMHeadModel(config).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def trained(folder: Path, model: ModelOptions, task: Task, data: str) -> TinyRun:
    kept = OutputOptions(keep_checkpoints=0, predictions=0)
    done = train(folder / "run", task=task, model=model, data=reviews(Path(data)), output=kept)
    assert done.status == 0, done.messages
    return done


def logits(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    batch = {name: value for name, value in batch.items() if name != "labels"}
    with torch.no_grad():
        found: torch.Tensor = model.eval()(**batch)["logits"]
    return found


@pytest.mark.parametrize(
    ("save", "method"), [(save_llama, Method.FULL), (save_gpt2, Method.LORA)], ids=["llama", "gpt2"]
)
def test_texts_are_read_to_their_own_end(save, method, tmp_path):
    source = ModelOptions(source=str(save(tmp_path / "model")), method=method)
    data = str(write_reviews(tmp_path / "reviews.csv"))
    trainer = trained(tmp_path, source, Task.TEXT_CLASSIFICATION, data).trainer
    samples = sorted((trainer.train_dataset[row] for row in range(8)), key=lambda one: len(one["input_ids"]))
    assert len(samples[0]["input_ids"]) < len(samples[-1]["input_ids"])
    alone = torch.cat([logits(trainer.model, trainer.data_collator([sample])) for sample in samples])
    torch.testing.assert_close(
        logits(trainer.model, trainer.data_collator(samples)), alone, rtol=1e-4, atol=1e-5
    )


def test_padding_is_saved_with_the_model(tmp_path):
    source = ModelOptions(source=str(save_llama(tmp_path / "model")))
    done = trained(tmp_path, source, Task.TEXT_REGRESSION, write_data(tmp_path, Task.TEXT_REGRESSION))
    loaded = AutoModelForSequenceClassification.from_pretrained(done.run.model)
    assert loaded.config.pad_token_id == 0
    batch = done.trainer.data_collator([done.trainer.train_dataset[row] for row in range(4)])
    torch.testing.assert_close(logits(loaded, batch), logits(done.trainer.model, batch))


def test_words_are_labelled_by_a_causal_model(tmp_path):
    source = ModelOptions(source=str(save_llama(tmp_path / "model")))
    done = trained(
        tmp_path, source, Task.TOKEN_CLASSIFICATION, write_data(tmp_path, Task.TOKEN_CLASSIFICATION)
    )
    assert done.trainer.model.config.num_labels == 3
    assert all(step.loss is not None for step in done.steps)
