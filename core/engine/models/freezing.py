"""Keeping parts of a model as they are while others learn."""

from collections.abc import Iterable
from typing import Any

import torch


def freeze_all_but(model: Any, moving: Iterable[str]) -> None:
    """Let only the weights in the modules called `moving` learn, and keep all else as it is."""
    kept = tuple(moving)
    for name, weight in model.named_parameters():
        weight.requires_grad_(any(name.startswith(f"{module}.") for module in kept))
    hold_still(model)


def hold_still(model: Any) -> None:
    """Keep frozen batch norms in evaluation mode.

    Their running mean and variance are no weights, so freezing them takes more than `requires_grad`: in training mode
    every forward pass moves them, and a backbone that isn't saved again would differ from the one that was trained on.
    """
    for part in model.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and not _learns(part):
            part.eval()
            part.train = _Still(part)  # Trainer calls model.train() before each step


def _learns(part: torch.nn.Module) -> bool:
    return any(weight.requires_grad for weight in part.parameters())


class _Still:
    """Stands in for the method `train` of a module that stays in evaluation mode."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module

    def __call__(self, mode: bool = True) -> torch.nn.Module:
        return self._module
