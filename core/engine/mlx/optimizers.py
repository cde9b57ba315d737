"""Trainer's optimizers, weight decay, clipping and schedules for MLX."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import mlx.core as mx
import torch
from mlx import nn, optimizers
from mlx.utils import tree_flatten, tree_unflatten
from transformers import TrainingArguments, get_scheduler
from typing_extensions import override

from core.engine.mlx.names import Arrays
from core.options import RunOptions
from core.options.choices import Optimizer
from core.options.sections import TrainingOptions
from core.options.trainer_args import schedule_name

State = dict[str, Any]


class Adam(optimizers.Adam):
    """PyTorch's Adam: weight decay is added to the gradient."""

    def __init__(self, learning_rate: float, *, weight_decay: float, **numbers: Any) -> None:
        super().__init__(learning_rate, **numbers)
        self.weight_decay = weight_decay

    @override
    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        return super().apply_single(gradient + self.weight_decay * parameter, parameter, state)


class SGD(optimizers.SGD):
    """PyTorch's SGD: it holds no state without momentum."""

    @override
    def init_single(self, parameter: mx.array, state: State) -> None:
        if self.momentum:
            super().init_single(parameter, state)


class Muon(optimizers.Muon):
    """Muon with the learning rates and the weight decay of AdamW.

    A step is rate * 0.2 * root(max(rows, columns)) times the orthogonal matrix: its root mean square is 0.2 of the
    rate, which is usual for AdamW, whatever the sides (Liu et al. 2025, arXiv 2502.16982, 2.2; `match_rms_adamw` of
    `torch.optim.Muon`). MLX's own is rate * root(max(1, rows / columns)), and adds weight decay to the gradient, where
    its size is lost.
    """

    @override
    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        step = super().apply_single(gradient, mx.zeros_like(parameter), state)
        kept: mx.array = (1 - self.learning_rate * self.weight_decay) * parameter
        return kept + 0.2 * parameter.shape[1] ** 0.5 * step


class ParameterGroup(NamedTuple):
    """An optimizer of MLX, the name of its state in a checkpoint, and the names of the parameters that it updates."""

    name: str
    optimizer: Any
    parameters: list[str]


class ClippedOptimizer:
    """An optimizer as Trainer sets it up: gradients are clipped by their norm, and biases and norms don't decay.

    Attributes:
        groups: The parameters by how they are updated, those of the optimizer that was chosen first.
        initial_rate: The learning rate that schedules multiply.
        state: The states of the groups, and "grad_norm", the last norm before clipping. Compiled steps hold on to its
            dictionaries, so they are updated in place.
    """

    def __init__(self, training: TrainingOptions, model: nn.Module) -> None:
        self.max_grad_norm = training.max_grad_norm
        self.initial_rate = training.learning_rate
        parameters = tree_flatten(model.trainable_parameters(), destination={})
        self.groups = [*_groups(training, model, list(parameters))]
        self.state: State = {"grad_norm": mx.array(0.0)}
        for group in self.groups:
            group.optimizer.init({name: parameters[name] for name in group.parameters})
            self.state[group.name] = group.optimizer.state

    @property
    def learning_rate(self) -> mx.array:
        """The rate of the next update."""
        return self.groups[0].optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for group in self.groups:
            group.optimizer.learning_rate = rate

    def update(self, model: nn.Module, gradients: dict[str, Any]) -> None:
        """Updates a model's parameters by the tree of their gradients."""
        clipped, self.state["grad_norm"] = optimizers.clip_grad_norm(gradients, self.max_grad_norm)
        flat: Arrays = tree_flatten(clipped if self.max_grad_norm else gradients, destination={})
        parameters = tree_flatten(model.trainable_parameters(), destination={})
        updated: Arrays = {}
        for _name, optimizer, names in self.groups:
            updated |= optimizer.apply_gradients({name: flat[name] for name in names}, parameters)
        model.update(tree_unflatten(updated))


def _groups(training: TrainingOptions, model: nn.Module, names: list[str]) -> Iterator[ParameterGroup]:
    """Yields the groups of the parameters `names`; Muon updates matrices of blocks, and AdamW all else."""
    kind, decay, decayed = training.optimizer, training.weight_decay, decayed_names(model)
    if kind is Optimizer.MUON:
        matrices = hidden_matrices(model) & decayed
        yield ParameterGroup(
            "matrices", _make(training, kind, decay), [name for name in names if name in matrices]
        )
        kind, names = Optimizer.ADAMW, [name for name in names if name not in matrices]
    yield ParameterGroup("decayed", _make(training, kind, decay), [name for name in names if name in decayed])
    yield ParameterGroup(
        "others", _make(training, kind, 0.0), [name for name in names if name not in decayed]
    )


KINDS: dict[Optimizer, Callable[..., optimizers.Optimizer]] = {
    Optimizer.ADAMW: optimizers.AdamW,
    Optimizer.ADAM: Adam,
    Optimizer.ADAFACTOR: optimizers.Adafactor,
    Optimizer.LION: optimizers.Lion,
    Optimizer.SGD: SGD,
    Optimizer.MUON: Muon,
}


def _make(training: TrainingOptions, kind: Optimizer, weight_decay: float) -> Any:
    betas = [training.beta1, training.beta2]
    adam: dict[str, Any] = {"betas": betas, "eps": training.epsilon, "bias_correction": True}
    numbers: dict[Optimizer, dict[str, Any]] = {
        Optimizer.ADAMW: adam,
        Optimizer.ADAM: adam,
        Optimizer.ADAFACTOR: {"scale_parameter": False, "relative_step": False},
        Optimizer.LION: {"betas": betas},
        Optimizer.SGD: {"momentum": training.momentum},
    }
    return KINDS[kind](training.learning_rate, weight_decay=weight_decay, **numbers.get(kind, {}))


def decayed_names(model: nn.Module) -> set[str]:
    """Returns the names of a model's parameters, without biases and those of norms."""
    norms = {place for place, layer in model.named_modules() if "norm" in type(layer).__name__.lower()}
    return {
        name
        for name in tree_flatten(model.parameters(), destination={})
        if "bias" not in name and name.rpartition(".")[0] not in norms
    }


def hidden_matrices(model: nn.Module) -> set[str]:
    """Returns names of the matrices in a model's blocks, also of LoRA's; experts are stacked, and not among them."""
    blocks = [name for name, part in model.named_modules() if any(part is block for block in model.layers)]
    return {
        name
        for name, array in tree_flatten(model.parameters())
        if array.ndim == 2 and name.startswith(tuple(f"{block}." for block in blocks))
    }


def rates(options: RunOptions, total_steps: int) -> Callable[[int], float]:
    """Returns the function of Trainer's schedule from a step, counted from 0, to its learning rate."""
    training = options.training
    arguments = TrainingArguments(
        use_cpu=True, lr_scheduler_type=schedule_name(training), warmup_steps=training.warmup
    )
    schedule: Any = get_scheduler(
        arguments.lr_scheduler_type,
        torch.optim.SGD([torch.empty(0)], lr=training.learning_rate),
        num_warmup_steps=arguments.get_warmup_steps(total_steps),
        num_training_steps=total_steps,
    )
    (factor,) = schedule.lr_lambdas
    return lambda step: training.learning_rate * factor(step)


# --- Checkpoints


def save_state(optimizer: ClippedOptimizer) -> Arrays:
    """Returns the whole state by name, such as `decayed.layers.0.weight.m`."""
    return tree_flatten(optimizer.state, destination={})


def load_state(optimizer: ClippedOptimizer, arrays: Mapping[str, mx.array]) -> None:
    """Restores what `save_state` returned: the next updates are those of an uninterrupted run, bit for bit.

    Raises:
        KeyError: An array is missing: they are of another optimizer or model.
    """
    _fill(optimizer.state, arrays, "")


def _fill(state: State, arrays: Mapping[str, mx.array], prefix: str) -> None:
    for key, value in state.items():
        if isinstance(value, dict):
            _fill(value, arrays, f"{prefix}{key}.")
        else:
            state[key] = arrays[f"{prefix}{key}"]


# --- What ran


def optimizer_name(optimizer: ClippedOptimizer) -> str:
    """Returns what `WhatRan` calls an optimizer, by the class of its first group."""
    return named(type(optimizer.groups[0].optimizer))


def named(kind: Callable[..., optimizers.Optimizer]) -> str:
    """Returns what `WhatRan` calls a class, such as "AdamW (mlx)"."""
    return f"{kind.__name__} (mlx)"


def optimizer_numbers(optimizer: ClippedOptimizer) -> dict[str, float]:
    """Returns an optimizer's hyperparameters by `TrainingOptions`' names, each of the first group that has it."""
    found: dict[str, float] = {"learning_rate": optimizer.initial_rate}
    for live in (group.optimizer for group in optimizer.groups):
        numbers = {
            **dict(zip(("beta1", "beta2"), getattr(live, "betas", ()), strict=False)),
            "epsilon": getattr(live, "eps", None),
            "momentum": getattr(live, "momentum", None),
            "weight_decay": live.weight_decay,
        }
        found = {name: one for name, one in numbers.items() if isinstance(one, float)} | found
    return found


def state_bytes(optimizer: ClippedOptimizer) -> dict[str, int]:
    """Returns the bytes of the states of all parameters by dtype, such as `{"float32": 4096}`."""
    sizes: dict[str, int] = {}
    for _name, one, names in optimizer.groups:
        for array in tree_flatten([one.state[name] for name in names], destination={}).values():
            dtype = str(array.dtype).removeprefix("mlx.core.")
            sizes[dtype] = sizes.get(dtype, 0) + array.nbytes
    return sizes


def decayed_parameters(optimizer: ClippedOptimizer, model: nn.Module) -> int:
    """Returns the number of a model's parameters that weight decay applies to."""
    parameters = tree_flatten(model.trainable_parameters(), destination={})
    groups = (group for group in optimizer.groups if group.optimizer.weight_decay)
    return sum(parameters[name].size for group in groups for name in group.parameters)
