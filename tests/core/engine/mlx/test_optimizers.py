"""On MLX, weights are updated as Trainer updates them, and a saved state goes on bit for bit."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Gemma2Config, LlamaConfig, Qwen3Config, TrainingArguments

from core.engine.training.arguments import optimizer_class, trainer_arguments
from core.engine.training.trainer import WatchedTrainer
from core.options.choices import Optimizer, Schedule
from tests.fakes.models import save_tiny_llama
from tests.fakes.training import parts_of, resolved, run_options

pytest.importorskip("mlx.core")

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model

from core.engine.mlx.optimizers import (
    ClippedOptimizer,
    decayed_names,
    decayed_parameters,
    load_state,
    optimizer_name,
    optimizer_numbers,
    rates,
    save_state,
    state_bytes,
)

STEPS = 20
KINDS = (Optimizer.ADAMW, Optimizer.ADAM, Optimizer.ADAFACTOR, Optimizer.LION, Optimizer.SGD)
NUMBERS = {"learning_rate": 1e-3, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-5, "momentum": 0.6}
DECAYED = {"layers.0.weight": (8, 6), "layers.3.weight": (3, 8)}
SHAPES = {**DECAYED, "layers.0.bias": (8,), "layers.2.weight": (8,), "layers.2.bias": (8,)}
SHAPES |= {"layers.3.bias": (3,), "layers.4.weight": (3,)}


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3), nn.RMSNorm(3)]


def torch_layers() -> torch.nn.Module:
    network = torch.nn.Module()
    layers = [torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8)]
    network.layers = torch.nn.ModuleList([*layers, torch.nn.Linear(8, 3), torch.nn.RMSNorm(3)])
    return network


def numbers(seed: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    """The same random arrays for the same seed, one for each parameter."""
    source = np.random.default_rng(seed)
    return {name: source.normal(0, scale, shape).astype(np.float32) for name, shape in SHAPES.items()}


def gradients(step: int) -> dict[str, np.ndarray]:
    """Of norms from 0.1 to 10, so that one step in two is clipped to 1."""
    return numbers(1 + step, scale=(0.01, 0.05, 0.2, 1.0)[step % 4])


def tree(arrays: dict[str, np.ndarray]) -> Any:
    return tree_unflatten({name: mx.array(array) for name, array in arrays.items()})


def options_of(**training: Any) -> Any:
    return run_options(**{"max_steps": STEPS, **NUMBERS, **training})


def started(options: Any) -> tuple[Any, ClippedOptimizer]:
    model = Layers()
    model.update(tree(numbers(0)))
    return model, ClippedOptimizer(options.training, model)


def trainer_of(options: Any, network: torch.nn.Module, folder: Any) -> WatchedTrainer:
    run = resolved(options)
    step, resuming = parts_of(run)
    trainer = WatchedTrainer(
        model=network,
        args=TrainingArguments(**trainer_arguments(run, folder, has_eval=False)),
        optimizer_cls_and_kwargs=optimizer_class(run),
        step=step,
        resuming=resuming,
        train_dataset=[{}],
    )
    trainer.create_optimizer_and_scheduler(STEPS)
    return trainer


def compiled_step(model: Any, optimizer: ClippedOptimizer) -> Any:
    """An update as mlx-lm's training loop compiles it."""
    state = [model.state, optimizer.state, mx.random.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(given: Any) -> None:
        optimizer.update(model, given)

    def run(given: Any) -> None:
        step(given)
        mx.eval(state)

    return run


@pytest.mark.parametrize("max_grad_norm", [0.0, 1.0])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_those_of_trainer(tmp_path, kind, weight_decay, max_grad_norm):
    options = options_of(optimizer=kind, weight_decay=weight_decay, max_grad_norm=max_grad_norm)
    network = torch_layers()
    network.load_state_dict({name: torch.from_numpy(array) for name, array in numbers(0).items()})
    trainer, parameters = trainer_of(options, network, tmp_path), dict(network.named_parameters())
    model, optimizer = started(options)
    step, rate = compiled_step(model, optimizer), rates(options, STEPS)
    for at in range(STEPS):
        for name, gradient in gradients(at).items():
            parameters[name].grad = torch.from_numpy(gradient)
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), max_grad_norm or torch.inf)
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
        optimizer.learning_rate = rate(at)
        step(tree(gradients(at)))
        assert optimizer.state["grad_norm"].item() == pytest.approx(norm.item(), rel=1e-6)
    found = tree_flatten(model.parameters(), destination={})
    assert found.keys() == parameters.keys()
    for name, expected in parameters.items():
        difference = np.abs(np.array(found[name]) - expected.detach().numpy()).max()
        assert difference <= 1e-6 * expected.abs().max().item(), name
    moved = {name: np.abs(np.array(array) - numbers(0)[name]).max() for name, array in found.items()}
    assert min(moved.values()) > 1e-4


# --- Computed by themselves, in 64 bits


class Blocks(nn.Module):
    """Blocks between a table of tokens and an output layer, with an expert whose matrices are stacked."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens, self.norm, self.lm_head = (
            nn.Embedding(9, 6),
            nn.RMSNorm(6),
            nn.Linear(6, 9, bias=False),
        )
        self.layers = [Layers(), Layers()]
        self.layers[0].experts = mx.zeros((2, 4, 6))


def orthogonal(matrix: np.ndarray) -> np.ndarray:
    """Five steps of Keller Jordan's iteration: all singular values become about 1."""
    x = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = x / np.linalg.norm(x)
    for _step in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


def adamw(weight: Any, gradient: Any, state: dict[str, Any], rate: float, step: int) -> Any:
    state["m"] = 0.8 * state.get("m", 0.0) + 0.2 * gradient
    state["v"] = 0.95 * state.get("v", 0.0) + 0.05 * gradient**2
    mean, square = state["m"] / (1 - 0.8**step), state["v"] / (1 - 0.95**step)
    return weight - rate * mean / (np.sqrt(square) + 1e-5)


def lion(weight: Any, gradient: Any, state: dict[str, Any], rate: float, _step: int) -> Any:
    before = state.get("m", 0.0)
    state["m"] = 0.95 * before + 0.05 * gradient
    return weight - rate * np.sign(0.8 * before + 0.2 * gradient)


def muon(weight: Any, gradient: Any, state: dict[str, Any], rate: float, step: int) -> Any:
    """AdamW except for the matrices of blocks, of which none is a table, an output layer or a stack of experts."""
    if weight.shape not in {(8, 6), (3, 8)}:
        return adamw(weight, gradient, state, rate, step)
    state["m"] = 0.95 * state.get("m", 0.0) + 0.05 * gradient
    direction = orthogonal(0.95 * state["m"] + 0.05 * gradient)
    return weight - rate * 0.2 * np.sqrt(max(weight.shape)) * direction


@pytest.mark.parametrize(("kind", "update"), [(Optimizer.LION, lion), (Optimizer.MUON, muon)])
def test_updates_are_those_of_the_papers(kind, update):
    """Five steps with decay, clipping and a warm-up."""
    options = options_of(
        optimizer=kind, weight_decay=0.1, schedule=Schedule.COSINE, warmup=2.0, max_grad_norm=1.0
    )
    source, model = np.random.default_rng(1), Blocks()
    shapes = {name: array.shape for name, array in tree_flatten(model.parameters())}
    weights = {name: source.normal(0, 1, shape) for name, shape in shapes.items()}
    model.update(tree({name: weight.astype(np.float32) for name, weight in weights.items()}))
    optimizer = ClippedOptimizer(options.training, model)
    step, rate = compiled_step(model, optimizer), rates(options, 5)
    states: dict[str, dict[str, Any]] = {name: {} for name in shapes}
    for at in range(5):
        given = {name: source.normal(0, (0.01, 1.0)[at % 2], shape) for name, shape in shapes.items()}
        optimizer.learning_rate = rate(at)
        step(tree({name: gradient.astype(np.float32) for name, gradient in given.items()}))
        norm = np.sqrt(sum((gradient**2).sum() for gradient in given.values()))
        for name, weight in weights.items():
            decay = 0.1 if weight.ndim > 1 else 0.0
            gradient = given[name] * min(1.0, 1.0 / norm)
            weights[name] = update((1 - rate(at) * decay) * weight, gradient, states[name], rate(at), at + 1)
    for name, found in tree_flatten(model.parameters()):
        assert np.abs(np.array(found) - weights[name]).max() < 1e-6, name


def test_muon_s_steps_are_as_large_as_adamw_s():
    """So that one learning rate suits both, for matrices of any sides, and LoRA's."""
    options = options_of(optimizer=Optimizer.MUON, learning_rate=1.0)
    for rows, columns in ((64, 64), (256, 16), (16, 256), (8, 512)):
        model = Layers()
        model.layers = [nn.Linear(columns, rows, bias=False)]
        model.update(tree({"layers.0.weight": np.zeros((rows, columns), np.float32)}))
        optimizer = ClippedOptimizer(options.training, model)
        gradient = np.random.default_rng(0).normal(0, 1e-3, (rows, columns)).astype(np.float32)
        compiled_step(model, optimizer)(tree({"layers.0.weight": gradient}))
        size = np.sqrt(np.square(np.array(model.layers[0].weight)).mean())
        assert size == pytest.approx(0.2, rel=0.25)


# --- Which parameters decay


SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 1}


def torch_names(network: torch.nn.Module) -> set[str]:
    trainer = WatchedTrainer.__new__(WatchedTrainer)  # nothing of it but how it divides parameters
    names, trained = trainer.get_decay_parameter_names(network), dict(network.named_parameters())
    return {name for name in names if name in trained and trained[name].requires_grad}


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
        Qwen3Config(**SIZES, head_dim=8),
        Gemma2Config(**SIZES, head_dim=8),
    ],
    ids=lambda config: config.model_type,
)
def test_biases_and_norms_of_language_models_do_not_decay(tmp_path, config):
    network = AutoModelForCausalLM.from_config(config)
    network.save_pretrained(tmp_path)
    model, _config = load_model(tmp_path)
    assert decayed_names(model) == torch_names(network)
    assert {name for name, array in tree_flatten(model.parameters()) if array.ndim > 1} == decayed_names(
        model
    )


def test_the_magnitude_of_dora_decays_as_peft_s_does(tmp_path):
    folder = save_tiny_llama(tmp_path / "model")
    targets = ["q_proj", "down_proj"]
    adapted = get_peft_model(
        AutoModelForCausalLM.from_pretrained(folder), LoraConfig(r=4, target_modules=targets, use_dora=True)
    )
    trained = {name: weight for name, weight in adapted.named_parameters() if weight.requires_grad}
    assert torch_names(adapted) == trained.keys()
    model, _config = load_model(folder)
    model.freeze()
    keys = ["self_attn.q_proj", "mlp.down_proj"]
    linear_to_lora_layers(model, 2, {"rank": 4, "scale": 1.0, "dropout": 0.0, "keys": keys}, use_dora=True)
    names = tree_flatten(model.trainable_parameters(), destination={}).keys()
    assert {name.rpartition(".")[2] for name in names} == {"lora_a", "lora_b", "m"}
    assert names <= decayed_names(model)
    optimizer = ClippedOptimizer(options_of(weight_decay=0.1).training, model)
    assert decayed_parameters(optimizer, model) == sum(weight.numel() for weight in trained.values())


# --- Learning rates


@pytest.mark.parametrize("warmup", [0.0, 5.0, 0.1])
@pytest.mark.parametrize("schedule", Schedule)
def test_learning_rates_are_trainer_s(tmp_path, schedule, warmup):
    options = options_of(schedule=schedule, warmup=warmup, optimizer=Optimizer.SGD)
    trainer, rate = trainer_of(options, torch_layers(), tmp_path), rates(options, STEPS)
    for step in range(STEPS):
        assert rate(step) == trainer.lr_scheduler.get_last_lr()[0]
        trainer.optimizer.step()
        trainer.lr_scheduler.step()


# --- Checkpoints


@pytest.mark.parametrize("kind", [*KINDS, Optimizer.MUON])
def test_a_loaded_state_goes_on_bit_for_bit(tmp_path, kind):
    options = options_of(optimizer=kind, weight_decay=0.1)
    rate = rates(options, STEPS)

    def train(model: Any, optimizer: ClippedOptimizer, steps: range) -> None:
        step = compiled_step(model, optimizer)
        for at in steps:
            optimizer.learning_rate = rate(at)
            step(tree(gradients(at)))

    whole, optimizer = started(options)
    train(whole, optimizer, range(STEPS))
    first, begun = started(options)
    train(first, begun, range(7))
    first.save_weights(str(tmp_path / "model.safetensors"))
    mx.save_safetensors(str(tmp_path / "optimizer.safetensors"), save_state(begun))
    second, resumed = started(options)
    second.load_weights(str(tmp_path / "model.safetensors"))
    held = resumed.state
    load_state(resumed, mx.load(str(tmp_path / "optimizer.safetensors")))
    assert resumed.state is held
    train(second, resumed, range(7, STEPS))
    for trained, expected in ((second.parameters(), whole.parameters()), (resumed.state, optimizer.state)):
        found, wanted = (tree_flatten(one, destination={}) for one in (trained, expected))
        assert found.keys() == wanted.keys()
        assert [name for name in found if not mx.array_equal(found[name], wanted[name]).item()] == []


def test_the_state_of_another_optimizer_is_not_loaded():
    saved = save_state(started(options_of(optimizer=Optimizer.SGD))[1])
    with pytest.raises(KeyError, match=r"decayed.layers.0.weight.m"):
        load_state(started(options_of())[1], saved)


# --- What ran


COUNT = sum(int(np.prod(shape)) for shape in SHAPES.values())
BETAS = {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-5}
OTHERS = 8 + 8 + 8 + 3 + 3  # of which AdamW holds two numbers each
FACTORED = (8 + 6) + (3 + 8) + OTHERS


@pytest.mark.parametrize(
    ("kind", "name", "state", "own"),
    [
        (Optimizer.ADAMW, "AdamW (mlx)", 2 * COUNT, BETAS),
        (Optimizer.ADAM, "Adam (mlx)", 2 * COUNT, BETAS),
        (Optimizer.ADAFACTOR, "Adafactor (mlx)", FACTORED, {}),
        (Optimizer.LION, "Lion (mlx)", COUNT, {"beta1": 0.8, "beta2": 0.95}),
        (Optimizer.SGD, "SGD (mlx)", COUNT, {"momentum": 0.6}),
        (Optimizer.MUON, "Muon (mlx)", COUNT + OTHERS, {"momentum": 0.95, **BETAS}),
    ],
)
def test_what_ran_is_read_from_the_live_optimizer(kind, name, state, own):
    model, optimizer = started(options_of(optimizer=kind, weight_decay=0.1))
    optimizer.learning_rate = 1e-4
    compiled_step(model, optimizer)(tree(gradients(0)))
    assert optimizer_name(optimizer) == name
    assert optimizer_numbers(optimizer) == {"learning_rate": 1e-3, "weight_decay": 0.1, **own}
    assert state_bytes(optimizer) == {"float32": 4 * state}
    assert optimizer.learning_rate.item() == pytest.approx(1e-4)
    assert decayed_parameters(optimizer, model) == 8 * 6 + 3 * 8


def test_nothing_decays_and_nothing_is_held_without_decay_and_momentum():
    model, optimizer = started(options_of(optimizer=Optimizer.SGD, momentum=0.0))
    compiled_step(model, optimizer)(tree(gradients(0)))
    assert state_bytes(optimizer) == {}
    assert decayed_parameters(optimizer, model) == 0
