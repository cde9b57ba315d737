"""Checkpoints of uncommon kinds train like any other: half precision, mixture of experts."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from core.options.sections import MemoryOptions
from core.runs.events import Outcome, RunFinished
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_training import model, reviews, train, write_reviews


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return save_tiny_bert(tmp_path / "bert", hidden_size=32, intermediate_size=64, num_hidden_layers=2)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_reviews(tmp_path / "reviews.csv")


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], names: list[str]) -> list[bool]:
    return [torch.equal(first[name], second[name]) for name in names]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_checkpoint_trains_in_full(dtype: torch.dtype, bert: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    half = shutil.copytree(bert, tmp_path / "half")
    AutoModelForSequenceClassification.from_pretrained(bert, dtype=dtype).save_pretrained(half)
    assert {weight.dtype for weight in load_file(half / "model.safetensors").values()} == {dtype}
    tiny = train(tmp_path / "run", model=model(half))
    assert tiny.what_ran.parameter_dtype == "float32"
    assert {weight.dtype for weight in load_file(tiny.run.model / "model.safetensors").values()} == {
        torch.float32
    }


def test_mixture_of_experts_trains_like_any_other(bert: Path, texts: Path, tmp_path: Path) -> None:
    from transformers import MixtralConfig, MixtralForSequenceClassification

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MixtralConfig(
        **sizes, vocab_size=15, num_key_value_heads=2, num_local_experts=4, pad_token_id=0, num_labels=2
    )
    mixtral = shutil.copytree(bert, tmp_path / "mixtral")
    MixtralForSequenceClassification(config).save_pretrained(mixtral)
    tiny = train(
        tmp_path / "run",
        model=model(mixtral),
        data=reviews(texts, eval_fraction=0.25),
        memory=MemoryOptions(batch_size=4, gradient_accumulation_steps=2),
    )
    assert tiny.status == 0
    finished = tiny.events[-1]
    assert isinstance(finished, RunFinished)
    assert finished.state is Outcome.FINISHED
    before, after = (load_file(folder / "model.safetensors") for folder in (mixtral, tiny.run.model))
    assert set(after) == set(before)
    for layer in ("layers.0.", "layers.1."):
        experts = [name for name in before if layer in name and "experts" in name]
        assert len(experts) == 4 * 3
        assert not all(same(before, after, experts))  # one that no text is sent to stays
    assert tiny.what_ran.trainable_parameters == tiny.what_ran.total_parameters
