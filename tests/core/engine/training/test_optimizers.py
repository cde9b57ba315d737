"""Each optimizer trains, and is what it says: its class, its numbers and its state, read from the live object."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import TrainingArguments

from core.engine.models.vision import VisionClassifier, load_vision_model
from core.engine.training.arguments import optimizer_class, trainer_arguments
from core.engine.training.trainer import WatchedTrainer
from core.engine.training.what_ran import state_bytes
from core.options.choices import Optimizer
from core.options.sections import ModelOptions
from core.options.sources import VISION_MODELS
from tests.fakes.devices import CPUOffloadOptimizer
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TinyRun, parts_of, resolved, run_options, train


@pytest.fixture(scope="module")
def train_with(tmp_path_factory):
    """Trains for two steps with numbers that are nobody's defaults."""
    folder = tmp_path_factory.mktemp("optimizers")
    # bitsandbytes keeps tensors below 4,096 numbers in fp32; these layers have 9,216 and 18,432
    bert = save_tiny_bert(folder / "bert", hidden_size=96, intermediate_size=192)

    def run(name: str, **training: Any) -> TinyRun:
        numbers = {"learning_rate": 3e-3, "weight_decay": 0.07, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-5}
        usual = {"max_steps": 2, "momentum": 0.6, **numbers}
        done = train(folder / name, source=bert, keep_checkpoints=0, **{**usual, **training})
        assert done.status == 0, done.messages
        return done

    return run


BETAS = {"betas": (0.8, 0.95), "eps": 1e-5}


@pytest.mark.parametrize(
    (
        "optimizer",
        "name",
        "state",
        "numbers",
    ),  # of the state: its dtype, and the least and most bytes a weight
    [
        (Optimizer.ADAMW, "AdamW, fused", ("float32", 8.0, 8.1), BETAS),
        (Optimizer.ADAM, "Adam, fused", ("float32", 8.0, 8.1), BETAS),
        (Optimizer.ADAFACTOR, "Adafactor", ("float32", 0.03, 0.3), {}),
        (Optimizer.ADAMW_8BIT, "AdamW, 8-bit (bitsandbytes)", ("uint8", 2.0, 3.6), BETAS),
        (Optimizer.LION, "Lion", ("float32", 4.0, 4.1), {"betas": (0.8, 0.95)}),
        (Optimizer.LION_8BIT, "Lion, 8-bit (bitsandbytes)", ("uint8", 1.0, 1.8), {"betas": (0.8, 0.95)}),
        (
            Optimizer.ADEMAMIX,
            "AdEMAMix (bitsandbytes)",
            ("float32", 12.0, 12.1),
            {"betas": (0.8, 0.95, 0.9999)},
        ),
        (Optimizer.SGD, "SGD", ("float32", 4.0, 4.0), {"momentum": 0.6}),
    ],
)
def test_an_optimizer_trains_with_its_numbers_and_its_state(train_with, optimizer, name, state, numbers):
    run = train_with(optimizer.value, optimizer=optimizer)
    ran, (dtype, least, most) = run.what_ran, state
    assert ran.optimizer == name
    assert max(ran.optimizer_state, key=lambda held: ran.optimizer_state[held]) == dtype
    assert sum(ran.optimizer_state.values()) == ran.optimizer_state_bytes
    assert least <= ran.optimizer_state_bytes / ran.trainable_parameters <= most
    assert all(step.loss is not None for step in run.steps)
    assert not [message for message in run.messages if message.startswith("ran-differently")]
    decayed, others = run.trainer.optimizer.param_groups
    assert {path: decayed[path] for path in numbers} == numbers
    assert ran.optimizer_numbers["learning_rate"] == pytest.approx(3e-3)
    dimensions = [{weight.ndim for weight in group["params"]} for group in (decayed, others)]
    assert dimensions == [{2}, {1}]
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.07, 0.0)
    assert ran.decayed_parameters == sum(weight.numel() for weight in decayed["params"])


def test_sgd_without_momentum_holds_no_state(train_with):
    ran = train_with("plain-sgd", optimizer=Optimizer.SGD, momentum=0.0).what_ran
    assert (ran.optimizer_state, ran.optimizer_state_bytes) == ({}, 0)


def test_flags_and_numbers_that_trainer_dropped_are_reported(train_with, monkeypatch):
    make = WatchedTrainer.create_optimizer

    def make_another(self: WatchedTrainer, *args: Any) -> torch.optim.Optimizer:
        made = make(self, *args)
        for group in made.param_groups:
            group.update(fused=False, amsgrad=True, betas=(0.8, 0.999))
        return made

    monkeypatch.setattr(WatchedTrainer, "create_optimizer", make_another)
    run = train_with("dropped")
    different = {message for message in run.messages if message.startswith("ran-differently")}
    assert different == {"ran-differently-training.optimizer", "ran-differently-training.beta2"}
    assert run.what_ran.optimizer == "AdamW, amsgrad"


@pytest.mark.parametrize("name", VISION_MODELS)
def test_weight_decay_leaves_biases_and_norms_of_vision_models_alone(name):
    with torch.device("meta"):
        source = ModelOptions(source=f"torchvision:{name}", pretrained=False)
        network = load_vision_model(source, classes=3, seed=1)
    trainer = WatchedTrainer.__new__(WatchedTrainer)  # nothing of it but how it divides parameters
    decayed = set(trainer.get_decay_parameter_names(network))
    layers = torch.nn.Conv2d | torch.nn.Linear
    assert decayed == {f"{place}.weight" for place, at in network.named_modules() if isinstance(at, layers)}


def test_an_optimizer_in_main_memory_gets_adamw_its_numbers_and_its_groups(tmp_path, monkeypatch):
    torchao: Any = ModuleType("torchao.optim")
    torchao.CPUOffloadOptimizer = CPUOffloadOptimizer
    monkeypatch.setitem(sys.modules, "torchao", ModuleType("torchao"))
    monkeypatch.setitem(sys.modules, "torchao.optim", torchao)
    run = resolved(run_options(offload_optimizer=True, beta1=0.8, weight_decay=0.1, learning_rate=2e-3))
    step, resuming = parts_of(run)
    trainer = WatchedTrainer(
        model=VisionClassifier(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64))),
        args=TrainingArguments(**trainer_arguments(run, tmp_path, has_eval=False)),
        optimizer_cls_and_kwargs=optimizer_class(run),
        step=step,
        resuming=resuming,
        train_dataset=[{}],
    )
    groups = trainer.create_optimizer().param_groups
    decay = {weight.numel(): group["weight_decay"] for group in groups for weight in group["params"]}
    assert decay == {64 * 64: 0.1, 64: 0.0}
    assert {(group["betas"], group["lr"], group["fused"]) for group in groups} == {((0.8, 0.999), 2e-3, True)}


# --- Bytes of an optimizer's state


class PackedState(torch.Tensor):
    """A tensor that claims to be fp32 and consists of codes and scales, as torchao's are."""

    @staticmethod
    def __new__(cls, codes: torch.Tensor, scale: torch.Tensor) -> "PackedState":
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)

    def __init__(self, codes: torch.Tensor, scale: torch.Tensor) -> None:
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError("nothing is computed with it here")


def test_state_is_counted_whole_once_and_as_what_it_is():
    weights = [torch.nn.Parameter(torch.ones(64, 64)), torch.nn.Parameter(torch.ones(3))]
    of_optimizers = CPUOffloadOptimizer([{"params": weights}], torch.optim.AdamW, lr=0.1)
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    of_optimizers.step()
    steps = 2 * 4  # one fp32 count a tensor
    assert state_bytes(of_optimizers) == {"float32": 2 * 4 * (64 * 64 + 3) + steps}

    optimizer, table = torch.optim.SGD(weights, lr=0.1), torch.zeros(256)
    for weight in weights:
        optimizer.state[weight]["qmap1"] = table
    assert state_bytes(optimizer) == {"float32": 1024}
    packed = PackedState(torch.zeros(4, 256, dtype=torch.uint8), torch.zeros(4))
    optimizer.state[weights[0]]["exp_avg"] = packed
    assert state_bytes(optimizer) == {"uint8": 1024, "float32": 1024 + 16}
