"""Training on from the model of a past run: whole, or LoRA matrices; and what is left when that run is deleted."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from core.base.errors import ModelError
from core.engine.models import past_runs
from core.engine.models.check import check_model
from core.engine.models.past_runs import weights_in
from core.options import RunOptions
from core.options.choices import Method, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, ModelOptions, OutputOptions, TrainingOptions
from tests.fakes.models import save_tiny_bert, save_tiny_llama, write_text
from tests.fakes.training import TinyRun, reviews, train, write_reviews

ONE_THREAD = DeviceOptions(name="cpu", precision=Precision.FP32, threads=1)
ROWS = torch.tensor([[3, 7, 11, 20, 42, 8]])


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    (tmp_path / "runs").mkdir()
    return tmp_path


def options_of(home: Path, source: Path | str, **model: Any) -> dict[str, Any]:
    text = home / "text.txt"
    if not text.exists():
        write_text(text)
    return {
        "task": Task.CAUSAL_LM,
        "model": ModelOptions(source=str(source), **model),
        "data": DataOptions(train=str(text), max_length=16, eval_fraction=0.0),
        "training": TrainingOptions(max_steps=1, learning_rate=0.05),
        "output": OutputOptions(predictions=0, keep_checkpoints=0),
        "device": ONE_THREAD,
    }


def write(home: Path, name: str, source: Path | str, **model: Any) -> TinyRun:
    """A run of one step among the others; its run file is that of its options."""
    return _run(home, name, options_of(home, source, **model))


def _run(home: Path, name: str, sections: dict[str, Any]) -> TinyRun:
    found = train(home / "runs" / name, **sections)
    found.run.options_file.write_text(f'task = "{sections["task"]}"\n')
    return found


def logits(folder: Path | str) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(folder).eval()(input_ids=ROWS).logits


def first_logits(run: TinyRun) -> torch.Tensor:
    with torch.no_grad():
        return run.trainer.model.eval()(input_ids=ROWS).logits


def test_a_whole_model_is_trained_on(home):
    first = write(home, "first", save_tiny_llama(home / "llama"))
    second = write(home, "second", "run:first")
    assert second.status == 0
    assert not torch.equal(logits(second.run.model), logits(first.run.model))
    third = _run(
        home,
        "third",
        options_of(home, "run:first") | {"training": TrainingOptions(max_steps=1, learning_rate=1e-12)},
    )
    torch.testing.assert_close(logits(third.run.model), logits(first.run.model))


def test_lora_matrices_are_worked_into_the_model_they_belong_to(home):
    first = write(home, "first", save_tiny_llama(home / "llama"), method=Method.LORA, lora_rank=4)
    whole = weights_in("run:first")
    torch.testing.assert_close(logits(whole), first_logits(first))
    assert not torch.allclose(logits(whole), logits(home / "llama"))
    assert weights_in("run:first") == whole, "once"
    second = write(home, "second", "run:first")
    assert second.status == 0
    report = check_model(RunOptions(task=Task.CAUSAL_LM, model=ModelOptions(source="run:first")))
    assert report.architecture == "LlamaForCausalLM"
    assert report.max_length == 64


@pytest.mark.parametrize("first", [Method.FULL, Method.LORA])
def test_what_was_trained_outlives_the_run_it_started_from(home, first):
    write(home, "first", save_tiny_llama(home / "llama"), method=first)
    second = write(home, "second", "run:first", method=Method.LORA, lora_rank=4)
    assert second.status == 0
    expected = first_logits(second)
    shutil.rmtree(home / "runs" / "first")
    shutil.rmtree(home / "llama")
    shutil.rmtree(home / "cache")
    torch.testing.assert_close(logits(second.run.model), expected)
    torch.testing.assert_close(logits(weights_in("run:second")), expected)
    (home / "runs" / "second").rename(home / "runs" / "moved")
    shutil.rmtree(home / "cache")
    torch.testing.assert_close(logits(weights_in("run:moved")), expected)


def test_matrices_whose_model_is_gone_are_told(home):
    write(home, "first", save_tiny_llama(home / "llama"), method=Method.LORA)
    shutil.rmtree(home / "llama")
    second = write(home, "second", "run:first")
    assert second.status == 1
    assert any("is missing" in message.title for message in second.messages.values())


def test_packed_beside_a_past_run(home):
    pytest.importorskip("bitsandbytes")
    write(home, "first", save_tiny_llama(home / "llama"), method=Method.LORA)
    second = write(home, "second", "run:first", method=Method.QLORA)
    assert second.status == 0
    assert (second.run.model / "base" / "model.safetensors").is_file()


def test_a_run_that_is_not_there_ends_with_a_word(home):
    found = write(home, "first", "run:never")
    assert found.status == 1
    assert any("no run called" in message.detail for message in found.messages.values())


def test_a_classifier_is_trained_on_with_its_labels(home):
    bert = save_tiny_bert(home / "bert")
    texts = reviews(write_reviews(home / "reviews.csv"))
    sections = options_of(home, "") | {"task": Task.TEXT_CLASSIFICATION, "data": texts}
    _run(home, "first", sections | {"model": ModelOptions(source=str(bert), method=Method.LORA)})
    second = _run(home, "second", sections | {"model": ModelOptions(source="run:first")})
    assert second.status == 0
    assert not (second.run.model / "base").exists(), "all of it was trained"


def test_models_in_the_making_are_left_to_who_makes_them(home):
    cache = home / "cache" / "merged"
    for age, name in enumerate(("a", "b", "c", "new.unfinished", "old.unfinished")):
        (cache / name).mkdir(parents=True)
        past = time.time() - 60 * age - (2 * past_runs.ABANDONED_SECONDS if name.startswith("old") else 0)
        os.utime(cache / name, (past, past))
    past_runs._clean(cache)
    assert {path.name for path in cache.iterdir()} == {"a", "b", "new.unfinished"}


def test_matrices_that_are_gone_are_named(tmp_path):
    (tmp_path / "sea" / "model").mkdir(parents=True)
    (tmp_path / "sea" / "model" / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="The model of sea is incomplete") as refused:
        past_runs._key(tmp_path / "sea" / "model", "some/model")
    assert "adapter_model.safetensors" in refused.value.detail
