"""Runs on MLX learn what runs on PyTorch learn, batch for batch; they resume bit for bit, and leave the same files."""

import gc
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.engine.memory.forecast import forecast as forecast_before
from core.engine.reporter import Reporter
from core.engine.run import checkpoints
from core.engine.run.checkpoints import find_checkpoint
from core.engine.run.log import RunLog
from core.options import RunOptions, run_file
from core.options.catalogue import with_changes
from core.options.choices import Method, Optimizer, Precision, PreferenceLoss, Quantization, Schedule, Task
from core.runs.events import Action, CheckpointSaved, MemoryForecast, Outcome, Predicted, RunStarted, WhatRan
from core.runs.folder import RunFolder
from tests.core.engine.models.test_text import cut
from tests.fakes.models import (
    instructions,
    pairs,
    rated,
    save_tiny_gpt2,
    save_tiny_llama,
    save_tiny_talker,
    tiny_tokenizer,
    write_json,
    write_text,
)
from tests.fakes.trained_runs import Story, story_of
from tests.fakes.training import run_options

pytest.importorskip("mlx.core")

from core.engine.mlx import train as engine
from core.engine.mlx.trainable import why_not

# --- Runs


def attempt(folder: Path, options: RunOptions, asked: Mapping[int, Action] | None = None) -> int:
    """One attempt from the newest checkpoint on, with requests after some steps; returns its exit status."""
    folder.mkdir(exist_ok=True)
    run = RunFolder(folder)
    start = find_checkpoint(run)
    reporter = Reporter(run)
    reporter.start({}, start.step)
    end_step = RunLog.end_step

    def asking(log: RunLog, step: Any) -> None:
        end_step(log, step)
        if wanted := (asked or {}).get(step.event.step):
            run.request(wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunLog, "end_step", asking)
        patch.setenv("HONE_MLX_CPU", "1")
        chosen = with_changes(options, {"device.backend": "mlx"})
        return engine.train_run(run, chosen, reporter, start.checkpoint)


def on_mlx(folder: Path, options: RunOptions, *pauses: int) -> Story:
    for step in pauses:
        assert attempt(folder, options, {step: Action.PAUSE}) == 0
    assert attempt(folder, options) == 0, story_of(RunFolder(folder)).messages
    return story_of(RunFolder(folder))


def on_torch(folder: Path, options: RunOptions) -> Story:
    from core.engine.train import train_run

    folder.mkdir()
    reporter = Reporter(RunFolder(folder))
    reporter.start({})
    assert train_run(RunFolder(folder), options, reporter) == 0
    return story_of(RunFolder(folder))


# --- Models


SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def save(kind: str, folder: Path, **config: Any) -> Path:
    """A model of this kind of transformers, with random weights and a tokenizer."""
    import transformers

    tokenizer = tiny_tokenizer()
    end = tokenizer.eos_token_id
    ends = {"pad_token_id": end, "bos_token_id": end, "eos_token_id": end}
    made = getattr(transformers, "Gemma3TextConfig" if kind == "Gemma3" else f"{kind}Config")
    transformers.set_seed(7)
    asked = made(**{**SIZES, "vocab_size": len(tokenizer), **ends, **config})
    getattr(transformers, f"{kind}ForCausalLM")(asked).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_shifted(folder: Path) -> Path:
    """A model to whose norms mlx-lm adds 1."""
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    linear = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2}
    sizes = {"hidden_size": 64, "num_hidden_layers": 4, "head_dim": 8, "shared_expert_intermediate_size": 32}
    return save("Qwen3Next", folder, linear_num_value_heads=4, **experts, **linear, **sizes)


def quantized(folder: Path, bits: int, group: int = 64, scales: str = "float32", **more: Any) -> Path:
    """Quantizes a model in place, as mlx-lm publishes it."""
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model

    model, config = load_model(folder)
    model.set_dtype(getattr(engine.mx, scales))
    model, config = quantize_model(model, config, group, bits, **more)
    (folder / "model.safetensors").unlink()
    save_model(folder, model)
    save_config(config, folder / "config.json")
    return folder


def some_in_8_bits(path: str, _module: Any) -> Any:
    return {"bits": 8, "group_size": 32} if "down_proj" in path else True


KINDS: dict[str, Callable[[Path], Path]] = {
    "llama": save_tiny_llama,
    "untied": lambda folder: save_tiny_llama(folder, tied=False, num_key_value_heads=1),
    "qwen3": lambda folder: save("Qwen3", folder, head_dim=8),
    "gemma3": lambda folder: save("Gemma3", folder, head_dim=8, query_pre_attn_scalar=8, num_hidden_layers=7),
    "phi3": lambda folder: save("Phi3", folder),
    "gpt2": save_tiny_gpt2,
    "mixtral": lambda folder: save("Mixtral", folder, num_local_experts=4, num_experts_per_tok=2),
}

WRITES = {
    "max_length": 16,
    "max_train_samples": 33,  # an epoch ends in the midst of a step
    "max_steps": 6,
    "batch_size": 3,
    "gradient_accumulation_steps": 2,
    "eval_fraction": 0.2,
    "eval_steps": 3.0,
    "predictions": 0,
    "weight_decay": 0.01,
    "warmup": 2.0,
    "schedule": Schedule.COSINE,
    "lora_dropout": 0.0,
}


def same(found: Story, expected: Story, tolerance: float = 1e-4) -> None:
    """Loss, gradient norm, learning rate, samples and epoch of each step, and the metrics of each evaluation."""
    assert found.steps.keys() == expected.steps.keys()
    for step, (loss, norm, *told) in expected.steps.items():
        assert found.steps[step] == (
            pytest.approx(loss, abs=tolerance),
            pytest.approx(norm, rel=1e-2, abs=tolerance),
            *told,
        )
    assert found.evaluations.keys() == expected.evaluations.keys()
    for step, metrics in expected.evaluations.items():
        assert found.evaluations[step] == pytest.approx(metrics, rel=1e-4, abs=tolerance)


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
@pytest.mark.parametrize("kind", KINDS)
def test_each_step_has_the_loss_that_it_has_with_torch_and_transformers_and_peft_load_the_model(
    kind, method, tmp_path, monkeypatch
):
    import mlx.core as mx
    import numpy as np
    from peft import AutoPeftModelForCausalLM

    source, text = KINDS[kind](tmp_path / "model"), write_text(tmp_path / "text.txt")
    options = run_options(Task.CAUSAL_LM, source=source, method=method, train=text, **WRITES)
    kept: list[Any] = []
    load = engine.load
    monkeypatch.setattr(engine, "load", lambda *args: kept.append(load(*args)) or kept[-1])
    same(on_mlx(tmp_path / "mlx", options), on_torch(tmp_path / "torch", options))
    folder = tmp_path / "mlx" / "model"
    reader = AutoPeftModelForCausalLM if method is Method.LORA else AutoModelForCausalLM
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]])
    with torch.no_grad():
        expected = reader.from_pretrained(folder).eval()(input_ids=ids).logits.numpy()
    kept[0].model.eval()
    assert np.abs(np.array(kept[0].model(mx.array(ids.numpy()))) - expected).max() < 1e-4
    assert AutoTokenizer.from_pretrained(folder).eos_token == AutoTokenizer.from_pretrained(source).eos_token


def test_a_model_from_scratch_begins_with_the_weights_that_it_has_with_torch(tmp_path):
    text = write_text(tmp_path / "text.txt")
    options = run_options(
        Task.CAUSAL_LM, source="scratch:llama-small", vocabulary=300, train=text, **{**WRITES, "max_steps": 3}
    )
    same(on_mlx(tmp_path / "mlx", options), on_torch(tmp_path / "torch", options))


@pytest.mark.parametrize(
    ("task", "method", "more"),
    [
        (Task.CHAT, Method.FULL, {}),
        (Task.CHAT, Method.LORA, {"lora_dora": True, "lora_rslora": True}),
        (Task.CHAT, Method.LORA, {"lora_layers": 1}),
        (Task.PREFERENCE, Method.LORA, {}),
        (Task.PREFERENCE, Method.FULL, {}),
        (Task.PREFERENCE, Method.LORA, {"preference_loss": PreferenceLoss.KTO}),
        (Task.PREFERENCE, Method.FULL, {"preference_loss": PreferenceLoss.ORPO}),
    ],
)
def test_conversations_and_preferences_are_learned_as_with_torch(task, method, more, tmp_path):
    rows = (
        instructions(20)
        if task is Task.CHAT
        else rated()
        if more.get("preference_loss") == "kto"
        else pairs(15)
    )
    source, file = save_tiny_talker(tmp_path / "talker"), write_json(tmp_path / "rows.json", rows)
    asked = {**WRITES, "max_length": 96, "max_steps": 8, "eval_steps": 4.0, **more}
    options = run_options(task, source=source, method=method, train=file, **asked)
    found = on_mlx(tmp_path / "mlx", options)
    same(found, on_torch(tmp_path / "torch", options))
    assert "no chat template of its own. If it was" in found.messages["chat-template"].detail


@pytest.mark.parametrize("kind", ["untied", "gemma3", "gpt2"])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_the_reference_of_full_training_is_the_model_as_it_begins(kind, precision, tmp_path):
    source, rows = KINDS[kind](tmp_path / "model"), write_json(tmp_path / "rows.json", pairs(15))
    asked = {**WRITES, "max_length": 64, "max_steps": 1, "eval_steps": 0.0, "precision": precision}
    story = on_mlx(tmp_path / "run", run_options(Task.PREFERENCE, source=source, train=rows, **asked))
    assert story.steps[1][0] == pytest.approx(math.log(2), abs=1e-6)


@pytest.mark.parametrize("rate", [0.1, 0.0])
def test_dropout_that_a_model_has_with_torch_only_is_told(rate, tmp_path):
    source, text = (
        save_tiny_llama(tmp_path / "model", attention_dropout=rate),
        write_text(tmp_path / "text.txt"),
    )
    options = run_options(Task.CAUSAL_LM, source=source, train=text, **{**WRITES, "max_steps": 1})
    assert ("no-dropout" in on_mlx(tmp_path / "run", options).messages) is bool(rate)


def test_padding_to_few_lengths_changes_no_loss(tmp_path):
    rows = write_json(tmp_path / "rows.json", instructions(20))
    source = save_tiny_talker(tmp_path / "talker")
    asked = {**WRITES, "max_length": 96, "max_steps": 4, "eval_steps": 4.0}
    padded = run_options(Task.CHAT, source=source, method=Method.FULL, train=rows, **asked)
    plain = with_changes(padded, {"data.pad_to_multiple_of": 1})
    found = on_mlx(tmp_path / "padded", padded)
    same(found, on_mlx(tmp_path / "plain", plain), 1e-5)
    assert "32" in found.of(WhatRan)[0].padded_to


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model.method": "lora"},
        {"model.method": "lora", "model.lora_layers": 1},
        {"memory.gradient_accumulation_steps": 2},
        {"training.optimizer": "lion"},
        {"training.optimizer": "muon"},
    ],
)
def test_the_forecast_comes_to_what_mlx_counts(changes, tmp_path):
    """Within a third: models this small are hardly worth a formula."""
    source = save("Llama", tmp_path / "model", hidden_size=128, intermediate_size=512, vocab_size=2000)
    text = write_text(tmp_path / "text.txt")
    asked = {**WRITES, "max_length": 64, "batch_size": 8, "gradient_accumulation_steps": 1, "max_steps": 2}
    options = run_options(Task.CAUSAL_LM, source=source, method=Method.FULL, train=text, **asked)
    story, peak = measured(tmp_path / "run", with_changes(options, changes))
    [forecast] = story.of(MemoryForecast)
    assert forecast.parts.total - forecast.parts.overhead == pytest.approx(peak, rel=0.33)


def measured(folder: Path, options: RunOptions) -> tuple[Story, int]:
    """A run, and the peak that MLX counts."""
    gc.collect()  # what earlier tests left would be freed while it runs
    engine.mx.clear_cache()
    engine.mx.reset_peak_memory()
    before = engine.mx.get_active_memory()
    story = on_mlx(folder, options)
    return story, engine.mx.get_peak_memory() - before


@pytest.fixture
def untaught(tmp_path, monkeypatch):
    """A home without earlier runs, by which forecasts would be corrected, and MLX on a CPU."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HONE_MLX_CPU", "1")


@pytest.mark.usefixtures("untaught")
@pytest.mark.parametrize(
    ("method", "kind", "precision", "how"),
    [
        (Method.LORA, "Llama", Precision.FP32, {"bits": 4, "scales": "bfloat16"}),
        (Method.LORA, "Llama", Precision.BF16, {"bits": 4, "scales": "float16"}),
        (Method.QLORA, "Llama", Precision.BF16, {"bits": 4, "scales": "bfloat16"}),
        (Method.LORA, "Llama", Precision.BF16, {"bits": 8, "scales": "bfloat16"}),
        (Method.QLORA, "Llama", Precision.FP32, {"bits": 8}),
        (Method.LORA, "Llama", Precision.BF16, {"bits": 4, "quant_predicate": some_in_8_bits}),
        (Method.QLORA, "Llama", Precision.BF16, {"bits": 4, "group": 32, "mode": "mxfp4"}),
        (Method.LORA, "Mixtral", Precision.BF16, {"bits": 8}),
    ],
)
def test_the_forecast_counts_the_weights_as_the_files_hold_them(method, kind, precision, how, tmp_path):
    """Small batches: the weights take most of the memory."""
    sizes = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 1, "vocab_size": 2000}
    source = save(kind, tmp_path / "model", **sizes)
    quantized(source, **how)
    size = (source / "model.safetensors").stat().st_size
    text = write_text(tmp_path / "text.txt")
    small = {"batch_size": 1, "gradient_accumulation_steps": 1, "lora_rank": 4, "max_steps": 2}
    asked = {**WRITES, **small, "eval_fraction": 0.0, "predictions": 0, "precision": precision}
    options = run_options(Task.CAUSAL_LM, source=source, method=method, train=text, **asked)
    story, peak = measured(tmp_path / "run", options)
    [forecast] = story.of(MemoryForecast)
    assert forecast.parts.total - forecast.parts.overhead == pytest.approx(peak, rel=0.15)
    assert forecast.parts.weights == pytest.approx(size, rel=0.2)
    [ran] = story.of(WhatRan)
    assert ran.autocast_dtype == (None if precision is Precision.FP32 else "bfloat16")
    before = forecast_before(with_changes(options, {"device.backend": "mlx"}), 2)
    assert before.parts.weights == forecast.parts.weights


# --- Pauses, requests and the end


def chats(folder: Path, **more: Any) -> RunOptions:
    """Dropout of the adapter draws random numbers at each step."""
    rows = write_json(folder / "rows.json", instructions(20))
    asked = {**WRITES, "max_length": 96, "max_steps": 10, "eval_steps": 4.0, "lora_dropout": 0.2, **more}
    return run_options(
        Task.CHAT, source=save_tiny_talker(folder / "talker"), method=Method.LORA, train=rows, **asked
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(next((folder / "model").glob("*.safetensors")))


def test_a_paused_run_comes_out_as_one_that_never_stopped(tmp_path):
    options = chats(tmp_path, predictions=1)
    whole, pauses = on_mlx(tmp_path / "whole", options), sorted(Random(3).sample(range(1, 10), 5))
    run = on_mlx(tmp_path / "run", options, *pauses)
    assert [event.from_step for event in run.of(RunStarted)] == [0, *pauses]
    assert run.steps == whole.steps
    assert run.evaluations == whole.evaluations
    found, expected = weights(tmp_path / "run"), weights(tmp_path / "whole")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    changes = {"model.lora_dropout": 0.0, "training.max_steps": 1}
    still = on_mlx(tmp_path / "still", with_changes(options, changes))
    assert still.steps[1] != whole.steps[1]


WIDE = {"wide": lambda folder: save_tiny_llama(folder, hidden_size=64, intermediate_size=64)}
"""Wide enough to be quantized."""


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        *((kind, {"method": Method.FULL}) for kind in ("llama", "gpt2", "gemma3", "mixtral")),
        ("gpt2", {"method": Method.FULL, "optimizer": Optimizer.SGD}),
        ("gpt2", {"method": Method.LORA}),
        ("mixtral", {"method": Method.LORA, "lora_dora": True}),
        ("wide", {"method": Method.QLORA}),
    ],
)
def test_a_checkpoint_is_the_model_and_training_goes_on_from_it_bit_for_bit(kind, more, tmp_path):
    source, text = (KINDS | WIDE)[kind](tmp_path / "source"), write_text(tmp_path / "text.txt")
    asked = {**WRITES, "max_steps": 4, "eval_fraction": 0.0, "lora_dropout": 0.1}
    options = run_options(Task.CAUSAL_LM, source=source, train=text, **asked, **more)
    whole, run = on_mlx(tmp_path / "whole", options), on_mlx(tmp_path / "run", options, 2)
    assert [event.from_step for event in run.of(RunStarted)] == [0, 2]
    assert run.steps == whole.steps
    model = {path.name for path in (tmp_path / "run" / "model").iterdir()}
    checkpoint = tmp_path / "run" / "checkpoints" / "checkpoint-4"
    assert model < {path.name for path in checkpoint.iterdir()}
    assert checkpoint / "tokenizer.json" in checkpoint.iterdir()
    file = next(name for name in model if name.endswith(".safetensors"))
    expected = load_file(tmp_path / "whole" / "model" / file)
    for folder in (tmp_path / "run" / "model", checkpoint):
        found = load_file(folder / file)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in found)


@pytest.mark.parametrize(
    "changes", [{"model.lora_rank": 2}, {"model.lora_targets": ("q_proj",)}, {"model.method": "full"}]
)
def test_a_checkpoint_of_other_weights_is_refused(changes, tmp_path):
    options = chats(tmp_path, max_steps=3)
    assert attempt(tmp_path / "run", options, {2: Action.PAUSE}) == 0
    assert attempt(tmp_path / "run", with_changes(options, changes)) == 1
    message = story_of(RunFolder(tmp_path / "run")).messages["failed"]
    assert message.title == "checkpoint-2 can't be resumed from"
    assert message.fixes
    assert attempt(tmp_path / "run", options) == 0


def test_a_damaged_adapter_in_a_sealed_checkpoint_is_refused(tmp_path):
    options, folder = chats(tmp_path, max_steps=2), tmp_path / "run" / "checkpoints" / "checkpoint-1"
    assert attempt(tmp_path / "run", options, {1: Action.PAUSE}) == 0
    cut(-100, "adapter_model.safetensors")(folder)
    checkpoints.seal(folder)  # else it is set aside
    assert attempt(tmp_path / "run", options) == 1
    message = story_of(RunFolder(tmp_path / "run")).messages["failed"]
    assert message.title == "checkpoint-1 can't be resumed from"


def test_a_stop_evaluates_and_saves_the_model_and_a_request_saves_a_checkpoint(tmp_path):
    options = chats(tmp_path, save_steps=100)
    assert attempt(tmp_path / "run", options, {2: Action.SAVE, 5: Action.STOP}) == 0
    story = story_of(RunFolder(tmp_path / "run"))
    assert story.ended == (Outcome.STOPPED, 5)
    assert story.evaluations.keys() == {4, 5}
    assert [event.step for event in story.of(CheckpointSaved)] == [2, 5]
    assert weights(tmp_path / "run")


def test_a_run_that_gets_worse_stops_early_with_the_best_model(tmp_path):
    asked = {"learning_rate": 3.0, "max_steps": 40, "eval_steps": 2.0, "early_stopping_patience": 2}
    options = chats(tmp_path, schedule=Schedule.CONSTANT, **{**asked, "warmup": 0.0})
    story = on_mlx(tmp_path / "run", with_changes(options, {"model.method": "full"}))
    losses = {step: told["eval_loss"] for step, told in story.evaluations.items()}
    best = min(losses, key=losses.__getitem__)
    assert story.last.model_step == best < story.last.steps < 40
    assert story.last.waited == 2


def test_a_run_without_training_measures_as_torch_does(tmp_path):
    options = with_changes(chats(tmp_path), {"training.max_steps": None, "training.epochs": 0.0})
    found, expected = on_mlx(tmp_path / "mlx", options), on_torch(tmp_path / "torch", options)
    assert found.evaluations.keys() == expected.evaluations.keys() == {0}
    assert found.evaluations[0] == pytest.approx(expected.evaluations[0], rel=1e-4)
    assert found.ended == (Outcome.FINISHED, 0)
    assert not (tmp_path / "mlx" / "model").exists()


def test_without_validation_data_samples_are_written_after_each_epoch(tmp_path):
    options = chats(tmp_path, eval_fraction=0.0, max_steps=8, predictions=2, prompts=("Count to 2, please.",))
    story = on_mlx(tmp_path / "run", options)
    assert [event.step for event in story.of(Predicted)] == [0, 4, 8]
    assert not story.evaluations


def test_a_finished_run_can_be_made_longer(tmp_path):
    constant = {"schedule": Schedule.CONSTANT, "warmup": 0.0}
    longer = chats(tmp_path, max_steps=6, **constant)
    whole = on_mlx(tmp_path / "whole", longer)
    on_mlx(tmp_path / "run", chats(tmp_path, max_steps=4, **constant))
    run = on_mlx(tmp_path / "run", longer)
    assert run.steps == whole.steps


def test_samples_are_written_while_it_trains_and_what_ran_is_told(tmp_path):
    story = on_mlx(tmp_path / "run", chats(tmp_path, predictions=2))
    assert [event.step for event in story.of(Predicted)] == [0, 4, 8, 10]
    assert all(said.text is not None for event in story.of(Predicted) for said in event.said)
    (ran,) = story.of(WhatRan)
    assert ran.engine.startswith("MLX 0.")
    assert ran.adapter == "LoRA, rank 16 on 14 layers"
    last = on_mlx(tmp_path / "last", chats(tmp_path, max_steps=1, lora_layers=1, optimizer=Optimizer.MUON))
    assert [last.of(WhatRan)[0].adapter, last.of(WhatRan)[0].optimizer] == [
        "LoRA, rank 16 on 7 layers",
        "Muon (mlx)",
    ]
    assert not [name for name in last.messages if name.startswith("ran-differently")]
    assert ran.optimizer == "AdamW (mlx)"
    assert ran.parameter_dtype == "float32"
    assert (ran.batches_per_step, ran.effective_batch) == (2, 6)
    assert not [name for name in story.messages if name.startswith("ran-differently")]


@pytest.mark.parametrize(("quantization", "bits"), [(Quantization.AUTO, 4), (Quantization.AFFINE8, 8)])
def test_an_adapter_learns_on_quantized_weights(quantization, bits, tmp_path):
    source = save_tiny_talker(tmp_path / "talker", hidden_size=64)
    asked = {**WRITES, "max_length": 96, "max_steps": 6, "eval_steps": 3.0, "learning_rate": 1e-2}
    rows = write_json(tmp_path / "rows.json", instructions(20))
    options = run_options(
        Task.CHAT, source=source, method=Method.QLORA, quantization=quantization, train=rows, **asked
    )
    story = on_mlx(tmp_path / "run", options, 2)
    (ran,) = story.of(WhatRan)[-1:]
    assert ran.adapter == f"QLoRA (affine{bits}, groups of 64), rank 16 on 14 layers"
    assert ran.packed_parameters > 0.9 * (ran.total_parameters - ran.trainable_parameters)
    whole = on_mlx(tmp_path / "whole", with_changes(options, {"model.method": "lora"}))
    assert story.steps[6][0] == pytest.approx(whole.steps[6][0], rel=0.02)
    assert story.steps[6][0] < story.steps[1][0]


def test_where_no_weight_is_packed_qlora_is_told_to_be_lora(tmp_path):
    """Rows of 32 weights fill no group."""
    narrow = str(save_tiny_talker(tmp_path / "narrow", intermediate_size=32))
    changes = {"model.method": "qlora", "model.source": narrow}
    story = on_mlx(tmp_path / "run", with_changes(chats(tmp_path, max_steps=1), changes))
    assert story.messages["ran-differently-model.quantization"].title == "No weights are quantized"


@pytest.mark.parametrize("method", [Method.LORA, Method.QLORA])
def test_a_model_that_is_quantized_already_is_trained_as_it_is(method, tmp_path):
    source = quantized(save_tiny_talker(tmp_path / "talker", hidden_size=64), 8, 32)
    rows = write_json(tmp_path / "rows.json", instructions(20))
    asked = {**WRITES, "max_length": 96, "max_steps": 4, "learning_rate": 1e-2}
    options = run_options(Task.CHAT, source=source, method=method, train=rows, **asked)
    story = on_mlx(tmp_path / "run", options)
    (ran,) = story.of(WhatRan)
    assert ran.adapter == "QLoRA (affine8, groups of 32), rank 16 on 14 layers"
    assert not [name for name in story.messages if name.startswith("ran-differently")]
    assert story.steps[4][0] < story.steps[1][0]
    assert attempt(tmp_path / "whole", with_changes(options, {"model.method": "full"})) == 1
    refused = story_of(RunFolder(tmp_path / "whole")).messages["failed"]
    assert [fix.changes for fix in refused.fixes] == [{"model.method": "lora"}]


def test_weights_that_mlx_lm_changes_take_an_adapter_only(tmp_path):
    source = save_shifted(tmp_path / "model")
    asked = {**WRITES, "max_steps": 2, "lora_targets": ("q_proj", "v_proj")}
    text = write_text(tmp_path / "text.txt")
    options = run_options(Task.CAUSAL_LM, source=source, method=Method.LORA, train=text, **asked)
    story, expected = on_mlx(tmp_path / "run", options), on_torch(tmp_path / "torch", options)
    assert story.steps[1][0] == pytest.approx(expected.steps[1][0], abs=1e-4)
    whole = with_changes(options, {"model.method": "full"})
    assert why_not(whole) == "Hone can't undo what mlx-lm does to the weights of this qwen3_next model"


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
def test_bf16_comes_out_near_fp32_and_near_bf16_with_torch(method, tmp_path):
    asked = {"lora_dropout": 0.0, "learning_rate": 1e-2, "eval_fraction": 0.0}
    options = with_changes(chats(tmp_path, **asked), {"model.method": method})
    exact = on_mlx(tmp_path / "exact", options)
    half = on_mlx(tmp_path / "half", with_changes(options, {"device.precision": "bf16"}))
    other = on_torch(tmp_path / "torch", with_changes(options, {"device.precision": "bf16"}))
    assert half.steps[10][0] == pytest.approx(exact.steps[10][0], rel=0.02)
    assert half.steps[10][0] == pytest.approx(other.steps[10][0], rel=0.02)
    assert half.steps[10][0] != exact.steps[10][0]
    (ran,) = half.of(WhatRan)
    assert (ran.parameter_dtype, ran.frozen_dtype) == ("float32", "" if method is Method.FULL else "bfloat16")
    assert ran.autocast_dtype == "bfloat16"
    assert exact.of(WhatRan)[0].autocast_dtype is None


@pytest.mark.parametrize(("every", "count"), [(0, 0), (2, 2)])
def test_the_cache_is_emptied_every_so_many_steps(every, count, tmp_path, monkeypatch):
    resolve, cleared = engine.resolve, []
    asked = {"memory.empty_cache_steps": every}  # refused on a CPU

    def resolved(*args: Any) -> Any:
        found = resolve(*args)
        return replace(found, options=with_changes(found.options, asked))

    monkeypatch.setattr(engine, "resolve", resolved)
    monkeypatch.setattr(engine.mx, "clear_cache", lambda: cleared.append(None))
    on_mlx(tmp_path / "run", chats(tmp_path, max_steps=5, eval_fraction=0.0))
    assert len(cleared) == count


def test_what_is_said_to_compute_is_what_computes(tmp_path, monkeypatch):
    """Here fp32, although bf16 was asked for."""
    load, options = engine.load, chats(tmp_path, max_steps=1, precision=Precision.BF16)
    exact = with_changes(options, {"device.precision": "fp32"})
    monkeypatch.setattr(engine, "load", lambda _options, *more: load(exact, *more))
    story = on_mlx(tmp_path / "run", options)
    assert story.of(WhatRan)[0].autocast_dtype is None
    assert "ran-differently-device.precision" in story.messages


def test_recomputed_activations_change_no_loss(tmp_path):
    options = chats(tmp_path, max_steps=4, lora_dropout=0.0)
    plain = on_mlx(tmp_path / "plain", options)
    again = on_mlx(tmp_path / "again", with_changes(options, {"memory.activation_checkpointing": True}))
    for step, told in plain.steps.items():
        assert again.steps[step][0] == pytest.approx(told[0], rel=1e-5)
    assert again.of(WhatRan)[0].recomputed == 2
    assert not plain.of(WhatRan)[0].recomputed


# --- What is left behind


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
@pytest.mark.parametrize("first_engine", [on_mlx, on_torch])
def test_either_engine_goes_on_with_what_the_other_trained(method, first_engine, tmp_path):
    source, text = save_tiny_llama(tmp_path / "model"), write_text(tmp_path / "text.txt")
    first = run_options(
        Task.CAUSAL_LM, source=source, method=method, train=text, **{**WRITES, "max_steps": 4}
    )
    first_engine(tmp_path / "first", first)
    run_file.write(first, tmp_path / "first" / "run.toml")
    again = run_options(
        Task.CAUSAL_LM, source=f"run:{tmp_path / 'first'}", train=text, **{**WRITES, "max_steps": 3}
    )
    same(on_mlx(tmp_path / "mlx", again), on_torch(tmp_path / "torch", again))
