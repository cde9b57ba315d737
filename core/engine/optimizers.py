"""The optimizer that was asked for, as Trainer takes it: by Trainer's own name, or as a class with its arguments.

Sources: `transformers.trainer_optimizer` 5.23 (names and what each reads), torch 2.13's list of devices with fused
kernels, torchao's README on `CPUOffloadOptimizer`.
"""

from typing import Any

import torch

from core.choices import Optimizer
from core.engine.devices import Choice
from core.trainer_names import OPTIMIZER_NAMES

OptimizerClass = tuple[type[torch.optim.Optimizer], dict[str, Any]]


def optimizer_arguments(choice: Choice) -> dict[str, Any]:
    """The arguments of `transformers.TrainingArguments` that choose the optimizer and set its numbers."""
    training = choice.settled.training
    found = {
        "optim": OPTIMIZER_NAMES[training.optimizer],
        "adam_beta1": training.beta1,
        "adam_beta2": training.beta2,
        "adam_epsilon": training.epsilon,
        "weight_decay": training.weight_decay,
    }
    if training.optimizer is Optimizer.SGD:
        found["optim_args"] = f"momentum={training.momentum!r}"
    return found


def optimizer_class(choice: Choice) -> OptimizerClass | None:
    """For Trainer's `optimizer_cls_and_kwargs`: what it has no name for; None where it has.

    Weight decay is not among the arguments: Trainer sets it for each group of parameters.
    """
    training = choice.settled.training
    numbers = {
        "lr": training.learning_rate,
        "betas": (training.beta1, training.beta2),
        "eps": training.epsilon,
    }
    if choice.settled.memory.offload_optimizer:
        return _in_main_memory(), {"optimizer_class": torch.optim.AdamW, "fused": True, **numbers}
    if training.optimizer is Optimizer.ADAM:
        return torch.optim.Adam, {"fused": True, **numbers}
    return None


def _in_main_memory() -> type[torch.optim.Optimizer]:
    """The optimizer of torchao's that keeps state in the computer's memory and steps there; CUDA only, not tried here.

    It copies each gradient as soon as it is there, so neither clipping nor fp16's loss scale reaches the copy; both are
    refused beforehand (`core.method_rules`, `core.engine.capabilities`).
    """
    from torchao.optim import CPUOffloadOptimizer

    found: type[torch.optim.Optimizer] = CPUOffloadOptimizer
    return found


def norm_parameters(model: torch.nn.Module) -> set[str]:
    """Names of the parameters of all normalising layers, which weight decay must not pull towards zero.

    Trainer knows LayerNorm by its type and others by their place's name only: the batch norms of torchvision's models,
    called `bn1` or `0.1`, escape it.
    """
    return {
        f"{place}.{name}"
        for place, layer in model.named_modules()
        if "norm" in type(layer).__name__.lower()
        for name, _ in layer.named_parameters(recurse=False)
    }
