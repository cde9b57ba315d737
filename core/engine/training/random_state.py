"""Random states: those that Trainer leaves out of a checkpoint, and of a moment that is gone back to."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

MPS_STATE = "rng_state_mps.pth"
ORDER_STATE = "rng_state_order.pth"


def save_random_state(folder: Path, kind: str, order: torch.Tensor | None) -> None:
    """Saves the random states that Trainer leaves out of a checkpoint.

    `order` is the CPU's when the epoch's order was drawn from it, if it was.
    """
    if kind == "mps":
        torch.save(torch.mps.get_rng_state(), folder / MPS_STATE)
    if order is not None:
        torch.save(order, folder / ORDER_STATE)


def restore_random_state(folder: Path, kind: str) -> None:
    """Restores MPS's random state from a checkpoint; Trainer restores the others."""
    path = folder / MPS_STATE
    if kind == "mps" and path.is_file():
        torch.mps.set_rng_state(torch.load(path, weights_only=True))


def generators(kind: str) -> tuple[Any, ...]:
    """Returns torch's modules with a random state that a model on this kind of device uses."""
    return (torch,) if kind == "cpu" else (torch, torch.get_device_module(kind))


def remember_random_state(kind: str) -> Callable[[], None]:
    """Returns a function that restores all random states of this moment."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    of_torch = [(module, module.get_rng_state()) for module in generators(kind)]

    def restore() -> None:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        for module, state in of_torch:
            module.set_rng_state(state)

    return restore
