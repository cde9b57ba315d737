"""Each optimizer trains, and is what it says: its class, its numbers and its state, read from the live object."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from core.engine.devices.choose import ResolvedRun
from core.engine.models.vision import VisionClassifier, load_vision_model
from core.engine.training.arguments import norm_parameters, optimizer_class, trainer_arguments
from core.engine.training.what_ran import state_bytes
from core.options import RunOptions
from core.options.choices import Optimizer, Task
from core.options.sections import MemoryOptions, ModelOptions, OutputOptions, TrainingOptions
from core.options.sources import VISION_MODELS
from tests.fakes.devices import CPUOffloadOptimizer
from tests.fakes.models import save_tiny_bert
from tests.fakes.training import TinyRun, model, resolved, train

LARGE_LAYERS = {"hidden_size": 96, "intermediate_size": 192}
"""bitsandbytes keeps tensors below 4,096 numbers in fp32; the layers of this Bert have 9,216 and 18,432."""

PROMISED = {
    Optimizer.ADAMW: ("AdamW, fused", "float32", (8.0, 8.1)),
    Optimizer.ADAM: ("Adam, fused", "float32", (8.0, 8.1)),
    Optimizer.ADAFACTOR: ("Adafactor", "float32", (0.03, 0.3)),
    Optimizer.ADAMW_8BIT: ("AdamW, 8-bit (bitsandbytes)", "uint8", (2.0, 3.6)),
    Optimizer.LION_8BIT: ("Lion, 8-bit (bitsandbytes)", "uint8", (1.0, 1.8)),
    Optimizer.ADEMAMIX: ("AdEMAMix (bitsandbytes)", "float32", (12.0, 12.1)),
    Optimizer.SGD: ("SGD", "float32", (4.0, 4.0)),
}
"""Name, dtype of most of the state, least and most bytes of state a weight: of all that step on any CPU."""


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert") / "model", **LARGE_LAYERS)


def run_with(bert: Path, folder: Path, **training: Any) -> TinyRun:
    run = train(
        folder,
        model=model(bert),
        training=TrainingOptions(**{"max_steps": 3, "learning_rate": 1e-3, **training}),
        output=OutputOptions(keep_checkpoints=0),
    )
    assert run.status == 0, run.messages
    return run


def chosen(kind: str = "cpu", *, offload: bool = False, **training: Any) -> ResolvedRun:
    options = RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        memory=MemoryOptions(offload_optimizer=offload),
        training=TrainingOptions(**training),
    )
    return resolved(options, kind)


def live_groups(network: torch.nn.Module, folder: Path, **training: Any) -> list[dict[str, Any]]:
    """The groups of parameters of the optimizer that Hone's trainer makes: those that decay, then the others."""
    from transformers import TrainingArguments

    from core.engine.training.trainer import WatchedTrainer

    run = chosen(**training)
    arguments = TrainingArguments(**trainer_arguments(run, folder, has_eval=False))
    trainer = WatchedTrainer(
        model=network, args=arguments, optimizer_cls_and_kwargs=optimizer_class(run), train_dataset=[{}]
    )
    groups: list[dict[str, Any]] = trainer.create_optimizer().param_groups
    return groups


NUMBERS = {"learning_rate": 3e-3, "weight_decay": 0.07}
GIVEN = {**NUMBERS, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-5, "momentum": 0.6}
READS = {
    Optimizer.ADAFACTOR: {"betas": None},  # it works its own out from the step
    Optimizer.LION_8BIT: {"betas": (0.8, 0.95)},
    Optimizer.ADEMAMIX: {"betas": (0.8, 0.95, 0.9999), "eps": 1e-5},
    Optimizer.SGD: {"momentum": 0.6},
}


@pytest.mark.parametrize("optimizer", PROMISED)
def test_an_optimizer_trains_with_its_numbers_and_holds_what_it_promises(bert, tmp_path, optimizer):
    name, dtype, (least, most) = PROMISED[optimizer]
    run = run_with(bert, tmp_path / "run", optimizer=optimizer, **GIVEN)
    ran = run.what_ran
    assert ran.optimizer == name
    assert max(ran.optimizer_state, key=lambda held: ran.optimizer_state[held]) == dtype
    assert sum(ran.optimizer_state.values()) == ran.optimizer_state_bytes
    assert least <= ran.optimizer_state_bytes / ran.trainable_parameters <= most
    assert [step.non_finite for step in run.steps] == [None] * 3
    assert {path: ran.optimizer_numbers[path] for path in NUMBERS} == pytest.approx(NUMBERS)
    assert not [message for message in run.messages if message.startswith("ran-differently")]
    decayed, others = run.trainer.optimizer.param_groups
    expected = READS.get(optimizer, {"betas": (0.8, 0.95), "eps": 1e-5})
    assert {path: decayed.get(path) for path in expected} == expected
    assert ({weight.ndim for weight in decayed["params"]}, {weight.ndim for weight in others["params"]}) == (
        {2},
        {1},
    )
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.07, 0.0)
    if ran.decayed_parameters is not None:
        assert ran.decayed_parameters == sum(weight.numel() for weight in decayed["params"])


def test_sgd_without_momentum_holds_nothing(bert, tmp_path):
    ran = run_with(bert, tmp_path / "run", optimizer=Optimizer.SGD, momentum=0.0).what_ran
    assert (ran.optimizer_state, ran.optimizer_state_bytes) == ({}, 0)


def test_flags_and_numbers_that_were_dropped_are_told(bert, tmp_path, monkeypatch):
    from core.engine.training.trainer import WatchedTrainer

    make = WatchedTrainer.create_optimizer

    def make_another(self: WatchedTrainer, *args: Any) -> torch.optim.Optimizer:
        made = make(self, *args)
        for group in made.param_groups:
            group.update(fused=False, amsgrad=True, betas=(0.9, 0.95))
        return made

    monkeypatch.setattr(WatchedTrainer, "create_optimizer", make_another)
    run = run_with(bert, tmp_path / "run")
    told = {path: message for path, message in run.messages.items() if path.startswith("ran-differently")}
    assert set(told) == {"ran-differently-training.optimizer", "ran-differently-training.beta2"}
    assert run.what_ran.optimizer == "AdamW, amsgrad"


@pytest.mark.parametrize("name", VISION_MODELS)
def test_weight_decay_leaves_biases_and_norms_of_vision_models_alone(name):
    from core.engine.training.trainer import WatchedTrainer

    with torch.device("meta"):
        source = ModelOptions(source=f"torchvision:{name}", pretrained=False)
        network = load_vision_model(source, classes=3, seed=1)
    trainer = WatchedTrainer.__new__(WatchedTrainer)  # nothing of it but how it divides parameters
    decayed = set(trainer.get_decay_parameter_names(network))
    layers = torch.nn.Conv2d | torch.nn.Linear
    expected = {f"{place}.weight" for place, at in network.named_modules() if isinstance(at, layers)}
    assert decayed == expected


def test_norms_are_known_by_what_they_are():
    class OddRMSNorm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = torch.nn.Parameter(torch.ones(4))

    network = torch.nn.ModuleDict(
        {"a": torch.nn.GroupNorm(2, 4), "b": OddRMSNorm(), "c": torch.nn.Linear(4, 4)}
    )
    assert norm_parameters(network) == {"a.weight", "a.bias", "b.gain"}


@pytest.fixture
def torchao(monkeypatch):
    module = ModuleType("torchao.optim")
    module.CPUOffloadOptimizer = CPUOffloadOptimizer
    monkeypatch.setitem(sys.modules, "torchao", ModuleType("torchao"))
    monkeypatch.setitem(sys.modules, "torchao.optim", module)


@pytest.mark.usefixtures("torchao")
def test_an_optimizer_in_main_memory_gets_adamw_its_numbers_and_its_groups(tmp_path):
    network = VisionClassifier(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64)))
    groups = live_groups(network, tmp_path, offload=True, beta1=0.8, weight_decay=0.1, learning_rate=2e-3)
    by_size = {weight.numel(): group for group in groups for weight in group["params"]}
    assert by_size[64 * 64]["weight_decay"] == 0.1
    assert by_size[64]["weight_decay"] == 0.0
    assert {(group["betas"], group["lr"], group["fused"]) for group in groups} == {((0.8, 0.999), 2e-3, True)}


def test_an_optimizer_made_of_optimizers_is_counted_whole():
    weights = [torch.nn.Parameter(torch.ones(64, 64)), torch.nn.Parameter(torch.ones(3))]
    optimizer = CPUOffloadOptimizer([{"params": weights}], torch.optim.AdamW, lr=0.1)
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    steps = 2 * 4  # one fp32 count a tensor
    assert state_bytes(optimizer) == {"float32": 2 * 4 * (64 * 64 + 3) + steps}


class PackedState(torch.Tensor):
    """A tensor that says it is fp32 and consists of codes and scales, as torchao's are."""

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


def test_a_state_that_only_says_it_is_fp32_is_counted_by_what_it_holds():
    weight = torch.nn.Parameter(torch.ones(4, 256))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.state[weight]["exp_avg"] = PackedState(torch.zeros(4, 256, dtype=torch.uint8), torch.zeros(4))
    assert state_bytes(optimizer) == {"uint8": 1024, "float32": 16}


def test_a_table_that_weights_share_is_counted_once():
    weights = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    table = torch.zeros(256)
    for weight in weights:
        optimizer.state[weight]["qmap1"] = table
    assert state_bytes(optimizer) == {"float32": 1024}
