"""Frozen weights in 16 bits: what is held so, that nothing else is rounded, and that runs come out as they should."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file

from core.engine.environment import prepare_torchvision
from core.engine.models import pretrained, text
from core.engine.models.method import apply_method
from core.engine.models.parts import frozen_dtype, frozen_layers, hold_frozen, is_quantized, loading_frozen_in
from core.engine.models.vision import find_image_model, load_image_model
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import Method, Precision, Task
from core.options.sections import DeviceOptions
from core.runs.events import WhatRan
from tests.core.engine.models.test_method import views_of
from tests.fakes.models import (
    instructions,
    pairs,
    save_tiny_bert,
    save_tiny_gpt2,
    save_tiny_llama,
    save_tiny_talker,
    save_tiny_vision,
    write_json,
    write_text,
)
from tests.fakes.trained_runs import in_attempts
from tests.fakes.training import SECTIONS, load, model, run_options, tried, write_reviews

prepare_torchvision()

BF16, FP32 = torch.bfloat16, torch.float32
SOURCES = {
    Task.TEXT_CLASSIFICATION: save_tiny_bert,
    Task.CAUSAL_LM: save_tiny_llama,
    Task.IMAGE_CLASSIFICATION: lambda folder: save_tiny_vision(folder, "resnet"),
}


def loaded(task: Task, folder: Path, **asked: Any) -> Any:
    """A model as a run loads and prepares it."""
    source = folder if folder.is_dir() else SOURCES[task](folder)
    asked = {"method": Method.LORA, "frozen_precision": "bf16", "lora_dropout": 0.0, **asked}
    options = RunOptions(task=task, model=model(source, **asked), device=DeviceOptions(name="cpu"))
    if task.reads_images:
        found = load_image_model(options, find_image_model(options), ("0", "1"))
    else:
        found = text.load_model(
            options, text.load_config(options), ("0", "1"), pretrained.load_tokenizer(str(source))
        )
    return apply_method(found.model, options, found.fresh)


@pytest.mark.parametrize(
    ("task", "method"),
    [
        (task, method)
        for task in SOURCES
        for method in (Method.LORA, Method.HEAD, Method.QLORA)
        if (task, method) not in ((Task.CAUSAL_LM, Method.HEAD), (Task.IMAGE_CLASSIFICATION, Method.QLORA))
    ],
)
def test_what_learns_is_in_fp32_and_as_saved_and_matrices_that_dont_are_in_16_bits(task, method, tmp_path):
    dora = method is Method.LORA
    live = loaded(task, tmp_path / "model", method=method, lora_dora=dora)
    learning = {name: weight for name, weight in live.named_parameters() if weight.requires_grad}
    assert learning
    assert all(weight.dtype is FP32 for weight in learning.values())
    frozen = [weight for weight in live.parameters() if not weight.requires_grad]
    assert {weight.dtype for weight in frozen if weight.ndim == 1} <= {FP32}
    matrices = [weight for weight in frozen if weight.ndim > 1 and not is_quantized(weight)]
    held = [weight for weight in matrices if weight.dtype is BF16]
    assert len(matrices) - len(held) == ("original_module" in "".join(live.state_dict()))  # of the classifier
    assert held
    if task is Task.TEXT_CLASSIFICATION:
        saved = load_file(tmp_path / "model" / "model.safetensors")
        head = next(
            weight
            for name, weight in learning.items()
            if name.endswith("classifier.weight")
            or name.endswith("classifier.modules_to_save.default.weight")
        )
        assert torch.equal(head, saved["classifier.weight"]), "not rounded on its way"


def test_the_model_is_read_in_16_bits_at_once(tmp_path):
    folder = save_tiny_llama(tmp_path / "llama")
    with loading_frozen_in(BF16):
        live = pretrained.read_pretrained(str(folder), Task.CAUSAL_LM)
    layers = frozen_layers(live)
    assert {layer.weight.dtype for layer in layers.values()} == {BF16}
    assert {weight.dtype for name, weight in live.named_parameters() if "norm" in name} == {FP32}
    assert pretrained.read_pretrained(str(folder), Task.CAUSAL_LM).get_input_embeddings().weight.dtype is FP32


@pytest.mark.skipif(sys.platform != "linux", reason="reads the mapped files from /proc")
def test_the_file_in_32_bits_leaves_memory(tmp_path):
    assert not views_of(tmp_path / "bert", loaded(Task.TEXT_CLASSIFICATION, tmp_path / "bert"))


@pytest.mark.parametrize("computed_in", [FP32, BF16, torch.float16])
@pytest.mark.parametrize("task", [*SOURCES, "gpt2"])
def test_gradients_are_those_of_rounded_weights_to_the_bit(task, computed_in, tmp_path):
    """With and without autocast, also in a format other than that of the weights."""
    found = []
    for is_held in (True, False):
        if task == "gpt2":
            live = pretrained.read_pretrained(str(save_tiny_gpt2(tmp_path / f"{is_held}")), Task.CAUSAL_LM)
        else:
            live = loaded(task, tmp_path / "model", method=Method.FULL)
        for layer in frozen_layers(live).values():
            layer.weight.data = layer.weight.data.to(BF16).float()
        if is_held:
            hold_frozen(live, BF16)
        live.eval().requires_grad_(False)
        if task is Task.IMAGE_CLASSIFICATION:
            given = {"pixel_values": torch.randn(2, 3, 32, 32, generator=torch.manual_seed(0))}
            learns = given["pixel_values"].requires_grad_()
        else:
            given = {"input_ids": torch.tensor([[5, 6, 7, 3], [8, 9, 10, 4]])}
            learns = next(
                weight for name, weight in live.named_parameters() if "norm" in name.lower() or "ln" in name
            )
            learns.requires_grad_()
        with torch.autocast("cpu", computed_in, enabled=computed_in is not FP32):
            logits = live(**given).logits
        logits.float().square().sum().backward()
        found.append((logits, learns.grad))
    (logits, gradient), (expected, expected_gradient) = found
    assert torch.equal(logits, expected)
    assert expected_gradient.any()
    assert torch.equal(gradient, expected_gradient)


@pytest.mark.parametrize(
    ("task", "method", "precision"),
    [
        (Task.CHAT, Method.LORA, Precision.FP32),
        (Task.PREFERENCE, Method.QLORA, Precision.BF16),
        (Task.TEXT_CLASSIFICATION, Method.HEAD, Precision.BF16),
    ],
)
def test_a_paused_run_goes_on_bit_for_bit_with_recomputed_activations(task, method, precision, tmp_path):
    if task is Task.TEXT_CLASSIFICATION:
        source, data = save_tiny_bert(tmp_path / "bert"), write_reviews(tmp_path / "reviews.csv", 16)
    else:
        source = save_tiny_talker(tmp_path / "talker", hidden_size=64)
        data = write_json(tmp_path / "rows.json", instructions(16) if task is Task.CHAT else pairs(16))
    options = run_options(
        task, source=source, train=data, method=method, precision=precision, frozen_precision="bf16",
        activation_checkpointing=method is not Method.HEAD, batch_size=4, max_length=128, eval_fraction=0.25,
    )  # fmt: skip
    whole = in_attempts(tmp_path / "whole", options)
    paused = in_attempts(tmp_path / "paused", options, 1)
    assert (paused.steps, paused.evaluations) == (whole.steps, whole.evaluations)
    assert whole.messages.keys() <= {"chat-template"}
    weights, others = (
        load_file(next((tmp_path / name / "model").glob("*.safetensors"))) for name in ("whole", "paused")
    )
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    is_saved_whole = method is Method.HEAD
    assert {weight.dtype for weight in weights.values()} == ({BF16, FP32} if is_saved_whole else {FP32})


def test_a_run_learns_as_with_fp32_says_what_ran_and_can_be_tried_and_trained_on(tmp_path):
    source, data = save_tiny_llama(tmp_path / "llama"), write_text(tmp_path / "text.txt")
    shared = {"task": Task.CAUSAL_LM, "train": data, "batch_size": 4, "max_length": 16, "method": Method.LORA}
    plain = in_attempts(tmp_path / "plain", run_options(source=source, frozen_precision="fp32", **shared))
    options = run_options(source=source, frozen_precision="bf16", **shared)
    run = tried(tmp_path / "run", **{name: getattr(options, name) for name in ("task", *SECTIONS)})
    ran = load(run)
    assert {layer.weight.dtype for layer in frozen_layers(ran.model).values()} >= {BF16}
    held = in_attempts(tmp_path / "held", options)
    formats = [story.of(WhatRan)[0].frozen_dtype for story in (held, plain)]
    assert formats == ["bfloat16", "float32"]
    losses, others = ([figures[0] for figures in story.steps.values()] for story in (held, plain))
    assert losses == pytest.approx(others, abs=0.01)
    again = replace(options, model=model(f"run:{run.path}", method=Method.LORA, frozen_precision="bf16"))
    assert in_attempts(tmp_path / "again", again).steps


def test_full_training_and_deepspeed_have_no_such_option(tmp_path):
    live = loaded(Task.TEXT_CLASSIFICATION, tmp_path / "bert", method=Method.FULL)
    assert {weight.dtype for weight in live.parameters()} == {FP32}
    options = run_options(source=tmp_path / "bert", frozen_precision="bf16", method=Method.LORA)
    assert frozen_dtype(options) is BF16
    assert frozen_dtype(with_changes(options, {"memory.deepspeed": "zero-3"})) is FP32


def test_layers_that_a_model_needs_in_fp32_or_reads_directly_stay_so():
    from transformers import MambaConfig, MambaForCausalLM, T5Config, T5ForSequenceClassification

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 64}
    mamba = MambaForCausalLM(MambaConfig(**sizes))
    t5 = T5ForSequenceClassification(
        T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    )
    for one in (mamba, t5):
        hold_frozen(one, torch.bfloat16)
    held = {
        name.rpartition(".")[2]
        for name, layer in mamba.named_modules()
        if getattr(layer, "weight", None) is not None and layer.weight.dtype is torch.bfloat16
    }
    assert "in_proj" in held
    assert not {"dt_proj", "x_proj"} & held
    assert mamba(torch.arange(8)[None]).logits.isfinite().all()
    assert {layer.weight.dtype for name, layer in t5.named_modules() if name.endswith(".wo")} == {
        torch.float32
    }
