"""The state of random numbers, kept in checkpoints where Trainer forgets it."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

MPS_STATE = "rng_state_mps.pth"
ORDER_STATE = "rng_state_order.pth"


class RandomDevice(Protocol):
    """What `torch.mps` offers: its state is a tensor of bytes on the CPU."""

    def get_rng_state(self) -> torch.Tensor:
        """The state of its generator."""

    def set_rng_state(self, new_state: torch.Tensor) -> None:
        """Continue from a state."""


def save_random_state(folder: Path, kind: str, device: RandomDevice = torch.mps) -> None:
    """Write into a checkpoint what Trainer left out; call it before the checkpoint is sealed.

    Args:
        folder: The checkpoint.
        kind: What the run computes on: `cuda`, `mps` or `cpu`.
        device: Torch's module for MPS.
    """
    if kind == "mps":
        torch.save(device.get_rng_state(), folder / MPS_STATE)


def restore_random_state(folder: Path, kind: str, device: RandomDevice = torch.mps) -> bool:
    """Continue the device's random numbers from a checkpoint, once Trainer has restored the others.

    Returns:
        Whether there was a state: none is written where Trainer's own file holds everything.
    """
    path = folder / MPS_STATE
    if kind != "mps" or not path.is_file():
        return False
    device.set_rng_state(torch.load(path, weights_only=True))
    return True


def save_order(folder: Path, state: torch.Tensor | None) -> None:
    """Write into a checkpoint the CPU's random numbers as they were when the epoch's order was drawn from them."""
    if state is not None:
        torch.save(state, folder / ORDER_STATE)


def load_order(folder: Path) -> torch.Tensor | None:
    """What `save_order` wrote; None where the order wasn't drawn so."""
    path = folder / ORDER_STATE
    if not path.is_file():
        return None
    state: torch.Tensor = torch.load(path, weights_only=True)
    return state


def generators(kind: str) -> tuple[Any, ...]:
    """Torch's modules that draw random numbers where a model computes on a device of this kind."""
    return (torch,) if kind == "cpu" else (torch, torch.get_device_module(kind))


def remember(kind: str, device: RandomDevice = torch.mps) -> Callable[[], None]:
    """Note where all random numbers stand; returns what takes them back there."""
    of_python, of_numpy, of_cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    of_cuda = torch.cuda.get_rng_state() if kind == "cuda" else None
    of_mps = device.get_rng_state() if kind == "mps" else None

    def restore() -> None:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        torch.set_rng_state(of_cpu)
        if of_cuda is not None:
            torch.cuda.set_rng_state(of_cuda)
        if of_mps is not None:
            device.set_rng_state(of_mps)

    return restore
