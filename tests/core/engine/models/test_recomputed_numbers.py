"""Dropout in recomputed activations on MPS, whose random state torch doesn't keep: imitated on the CPU."""

from functools import partial

import pytest
import torch
from torch.utils import checkpoint as of_torch

from core.engine.devices import check
from core.engine.devices.computing import same_random_numbers
from core.engine.models.method import apply_method
from core.engine.models.vision import VisionClassifier
from core.engine.reporter import Reporter
from core.engine.training.build import build_trainer, prepare
from core.options.choices import Method, Task
from tests.fakes.models import pairs, save_tiny_bert, save_tiny_llama, save_tiny_talker, write_json
from tests.fakes.training import parts_of, resolved, run_options, write_reviews


@pytest.fixture
def as_on_mps(monkeypatch):
    """Torch keeps no random state, and `torch.mps` has that of the CPU."""
    import torch._dynamo

    preserved = of_torch._checkpoint_without_reentrant_generator

    def forgetful(function, _preserve, *args, **kwargs):
        return preserved(function, False, *args, **kwargs)

    monkeypatch.setattr(of_torch, "_checkpoint_without_reentrant_generator", forgetful)
    monkeypatch.setattr("torch.mps.get_rng_state", torch.get_rng_state)
    monkeypatch.setattr("torch.mps.set_rng_state", torch.set_rng_state)


def llama(folder):
    from transformers import AutoModelForCausalLM

    options = run_options(Task.CAUSAL_LM, method=Method.LORA, lora_dropout=0.05)
    model = apply_method(AutoModelForCausalLM.from_pretrained(save_tiny_llama(folder)), options)
    for name, weight in model.named_parameters():  # at the start LoRA's B is 0, and so is the gradient of A
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    tokens = torch.arange(48).reshape(4, 12)
    return model, {"input_ids": tokens, "labels": tokens}


def bert(folder):
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(
        save_tiny_bert(folder, hidden_dropout_prob=0.1)
    )
    return model, {
        "input_ids": torch.arange(40).reshape(4, 10) % 12 + 2,
        "labels": torch.tensor([0, 1, 0, 1]),
    }


class Network(torch.nn.Module):
    """Three blocks in the row that torchvision's networks have."""

    def __init__(self):
        super().__init__()
        blocks = [[torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Dropout(0.1)] for _block in range(3)]
        self.features = torch.nn.Sequential(*(torch.nn.Sequential(*block) for block in blocks))

    def forward(self, pixels):
        return self.features(pixels)


def images(_folder):
    return VisionClassifier(Network()), {"pixel_values": torch.rand(8, 1, 1, 16), "labels": None}


def gradients(model, batch):
    """The gradients of a step, in one row."""
    model.train()
    model.zero_grad()
    torch.manual_seed(1)
    result = model(**batch)
    (result["logits"].square().mean() if batch["labels"] is None else result["loss"]).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


@pytest.mark.usefixtures("as_on_mps")
@pytest.mark.parametrize("build", [llama, bert, images])
def test_gradients_are_right_only_with_the_same_random_numbers(build, tmp_path, monkeypatch):
    torch.manual_seed(0)
    model, batch = build(tmp_path / "tiny")
    plain = gradients(model, batch)
    if build is images:
        monkeypatch.setattr(
            "core.engine.models.vision.same_random_numbers", lambda _kind: same_random_numbers("cpu")
        )
    model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    wrong = gradients(model, batch)
    assert torch.linalg.norm(wrong - plain) > 0.01 * torch.linalg.norm(plain)
    if build is images:
        monkeypatch.setattr(
            "core.engine.models.vision.same_random_numbers", lambda _kind: same_random_numbers("mps")
        )
    same = {"use_reentrant": False, "context_fn": partial(same_random_numbers, "mps")}
    model.activation_checkpointing_enable(activation_checkpointing_kwargs=same)
    assert torch.equal(gradients(model, batch), plain)


def probe(side):
    """The worst error of the probe of recomputed activations on a side."""
    return check.worst_difference(
        check.Side("cpu", "", 1, is_reference=True).compute(zeros), side.compute(check.recomputed_activations)
    )[0]


def zeros(side):
    return {name: torch.zeros_like(value) for name, value in check.recomputed_activations(side).items()}


def test_the_device_check_finds_a_device_that_draws_other_numbers(monkeypatch, request):
    side = check.Side("cpu", "", 1)
    assert probe(side) == 0
    request.getfixturevalue("as_on_mps")
    assert probe(side) > 0.01
    monkeypatch.setattr(check, "same_random_numbers", lambda _kind: same_random_numbers("mps"))
    assert probe(side) == 0


@pytest.mark.parametrize(("device", "keeps"), [("mps", True), ("cpu", False)])
def test_a_run_keeps_the_random_numbers_on_mps_only(device, keeps, tmp_path):
    source, train = save_tiny_bert(tmp_path / "bert"), write_reviews(tmp_path / "reviews.csv")
    options = run_options(source=source, train=train, activation_checkpointing=True)
    prepared, run = prepare(options, Reporter(None)), resolved(options, device)
    trainer = build_trainer(tmp_path, run, prepared, *parts_of(run))
    assert ("context_fn" in trainer.args.activation_checkpointing_kwargs) is keeps
    assert trainer.args.activation_checkpointing_kwargs["use_reentrant"] is False


@pytest.mark.usefixtures("as_on_mps")
def test_preferences_keep_them_after_the_reference_pass(tmp_path):
    source, train = save_tiny_talker(tmp_path / "writer"), write_json(tmp_path / "pairs.json", pairs(8))
    options = run_options(
        Task.PREFERENCE,
        source=source,
        train=train,
        max_length=128,
        method=Method.LORA,
        activation_checkpointing=True,
        max_steps=2,
        keep_checkpoints=0,
    )
    prepared, run = prepare(options, Reporter(None)), resolved(options, "mps")
    trainer = build_trainer(tmp_path, run, prepared, *parts_of(run))
    trainer.train()
    functions = [
        part._gradient_checkpointing_func
        for part in trainer.model.modules()
        if hasattr(part, "_gradient_checkpointing_func")
    ]
    assert functions
    assert all("context_fn" in function.keywords for function in functions)
