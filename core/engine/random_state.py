"""The state of the device's random numbers, kept in checkpoints where Trainer forgets it.

Trainer 5.23 saves those of Python, numpy, the CPU and CUDA in `rng_state.pth`, and not that of MPS; without it, dropout
would go on differently after a pause.
"""

from pathlib import Path
from typing import Protocol

import torch

MPS_STATE = "rng_state_mps.pth"


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
