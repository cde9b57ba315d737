"""Training on from the model of a past run, whole or LoRA; and what is left when that run is deleted."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from core.base.errors import ModelError
from core.engine.backend import model_problems
from core.engine.memory.model_check import check_model
from core.engine.models import past_runs
from core.engine.models.past_runs import weights_in
from core.options import RunOptions
from core.options.choices import Backend, Method, Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, OutputOptions, TrainingOptions
from tests.fakes.models import edit_config, save_tiny_bert, save_tiny_llama, write_text
from tests.fakes.training import ENGINES, TinyRun, model, reviews, train, write_reviews

TOKENS = torch.tensor([[3, 7, 11, 20, 42, 8]])


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    (tmp_path / "runs").mkdir()
    return tmp_path


def run_of(
    home: Path,
    name: str,
    source: Path | str,
    *,
    rate: float = 0.05,
    backend: Backend = Backend.TORCH,
    **options: Any,
) -> TinyRun:
    """A run of one step that is called `name`; of running text unless a `task` and its `data` are given."""
    task = options.pop("task", Task.CAUSAL_LM)
    data = options.pop("data", None)
    if data is None:
        data = DataOptions(train=str(write_text(home / "text.txt")), max_length=16, eval_fraction=0.0)
    done = train(
        home / "runs" / name,
        task=task,
        model=model(source, **options),
        data=data,
        training=TrainingOptions(max_steps=1, learning_rate=rate),
        output=OutputOptions(predictions=0, keep_checkpoints=0),
        device=DeviceOptions(name="cpu", precision=Precision.FP32, threads=1, backend=backend),
    )
    done.run.options_file.write_text(f'task = "{task}"\n')
    return done


def logits(of: Path | str | TinyRun) -> torch.Tensor:
    """Of the model in a folder, or of the one that has just been trained."""
    from transformers import AutoModelForCausalLM

    network = of.trainer.model if isinstance(of, TinyRun) else AutoModelForCausalLM.from_pretrained(of)
    with torch.no_grad():
        return network.eval()(input_ids=TOKENS).logits


@pytest.mark.parametrize("pretrained", [True, False])
def test_a_whole_model_is_trained_on_even_if_the_first_run_began_at_random(home, pretrained):
    first = run_of(home, "first", save_tiny_llama(home / "llama"))
    second = run_of(home, "second", "run:first", rate=1e-12, pretrained=pretrained)
    assert second.status == 0
    assert not torch.allclose(logits(first.run.model), logits(home / "llama"))
    torch.testing.assert_close(logits(second.run.model), logits(first.run.model))


@pytest.mark.parametrize("first_method", [Method.FULL, Method.LORA])
def test_what_was_trained_outlives_the_run_it_started_from(home, first_method):
    first = run_of(home, "first", save_tiny_llama(home / "llama"), method=first_method)
    merged = weights_in("run:first")
    torch.testing.assert_close(logits(merged), logits(first))
    assert weights_in("run:first") == merged, "merged once"
    report = check_model(RunOptions(task=Task.CAUSAL_LM, model=model("run:first")))
    assert (report.architecture, report.max_length) == ("LlamaForCausalLM", 64)

    second = run_of(home, "second", "run:first", method=Method.LORA, lora_rank=4)
    expected = logits(second)
    for gone in (home / "runs" / "first", home / "llama"):
        shutil.rmtree(gone)
    shutil.rmtree(home / "cache")
    torch.testing.assert_close(logits(second.run.model), expected)
    (home / "runs" / "second").rename(home / "runs" / "moved")
    torch.testing.assert_close(logits(weights_in("run:moved")), expected)


def test_a_past_run_can_be_quantized(home):
    pytest.importorskip("bitsandbytes")
    wide = save_tiny_llama(home / "llama", hidden_size=64, intermediate_size=128)
    run_of(home, "first", wide, method=Method.LORA)
    second = run_of(home, "second", "run:first", method=Method.QLORA)
    assert second.status == 0
    assert (second.run.model / "base" / "model.safetensors").is_file()


def test_a_classifier_is_trained_on_with_its_labels(home):
    texts = {"task": Task.TEXT_CLASSIFICATION, "data": reviews(write_reviews(home / "reviews.csv"))}
    run_of(home, "first", save_tiny_bert(home / "bert"), method=Method.LORA, **texts)
    second = run_of(home, "second", "run:first", **texts)
    assert second.status == 0
    assert not (second.run.model / "base").exists(), "all of it was trained"


@pytest.mark.parametrize("backend", ENGINES)
def test_a_model_that_is_gone_or_another_ends_the_run_with_a_remedy(home, backend):
    run_of(home, "first", save_tiny_llama(home / "llama"), method=Method.LORA)
    shutil.rmtree(home / "llama")
    gone = run_of(home, "second", "run:first", backend=backend)
    never = run_of(home, "third", "run:never", backend=backend)
    save_tiny_llama(home / "llama", hidden_size=32)
    other = run_of(home, "fourth", "run:first", backend=backend)
    for done, words in ((gone, "is missing"), (never, "no run called"), (other, "belongs to another model")):
        message = done.messages["failed"]
        assert (done.status, done.steps) == (1, [])
        assert words in f"{message.title} {message.detail}"
        assert message.fixes or done is never
    assert str(home / "llama") in message.detail


def test_an_adapter_without_its_matrices_is_named(tmp_path):
    folder = tmp_path / "sea" / "model"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.bin").write_text("pickled weights are never opened")
    for refuse in (
        lambda: past_runs._key(folder, "some/model"),
        lambda: past_runs.with_adapter(None, folder),
    ):
        with pytest.raises(ModelError, match="The model of sea is incomplete") as refused:
            refuse()
        assert "adapter_model.safetensors" in refused.value.detail


def test_weights_of_mlx_are_not_merged_into(home):
    run_of(home, "first", save_tiny_llama(home / "llama"), method=Method.LORA)
    edit_config(home / "llama", quantization={"group_size": 64, "bits": 8})
    options = RunOptions(task=Task.CAUSAL_LM, model=model("run:first", method=Method.LORA))
    (problem,) = model_problems(options)
    assert "into 8-bit weights" in problem.message
    with pytest.raises(ModelError, match="llama is quantized for MLX"):
        weights_in("run:first")


def test_the_cache_keeps_two_models_and_what_another_process_may_be_writing(home):
    cache = home / "cache" / "merged"
    for age, name in enumerate(("a", "b", "c", "new.unfinished", "old.unfinished")):
        (cache / name).mkdir(parents=True)
        past = time.time() - 60 * age - (2 * past_runs.ABANDONED_SECONDS if name.startswith("old") else 0)
        os.utime(cache / name, (past, past))
    past_runs._clean(cache)
    assert {path.name for path in cache.iterdir()} == {"a", "b", "new.unfinished"}


def test_a_run_on_an_adapter_begins_with_the_same_numbers_whether_it_is_merged_already(home):
    """Merging draws random numbers, which once changed those of the new matrices."""
    run_of(home, "first", save_tiny_llama(home / "llama"), method=Method.LORA)
    runs = [
        run_of(home, name, "run:first", method=Method.LORA, lora_dropout=0.5) for name in ("second", "third")
    ]
    assert [step.loss for step in runs[0].steps] == [step.loss for step in runs[1].steps]
