"""What a folder needs so that a text model can be loaded from it; looked at without opening a file."""

from enum import Enum, auto
from pathlib import Path

from core.errors import Fix

RANDOM_WEIGHTS = Fix("Start with random weights", {"model.pretrained": False})

PICKLED = (".bin", ".pt", ".pth")


class Lack(Enum):
    """What keeps a folder from being a model to start from."""

    CONFIG = auto()
    WEIGHTS = auto()
    SAFE_WEIGHTS = auto()
    """There are weights, but in a format that can run code when opened."""
    ALL_BUT_ADAPTER = auto()
    """There are LoRA matrices, but not the model they were trained beside."""


def what_lacks(folder: Path, *, needs_weights: bool) -> Lack | None:
    """What is missing in `folder`; None where nothing is.

    Raises:
        OSError: It can't be looked into.
    """
    endings = {path.suffix for path in folder.iterdir()}
    if (folder / "adapter_config.json").is_file() and not (folder / "model.safetensors").is_file():
        return Lack.ALL_BUT_ADAPTER
    if not (folder / "config.json").is_file():
        return Lack.CONFIG
    if not needs_weights or ".safetensors" in endings:
        return None
    return Lack.WEIGHTS if endings.isdisjoint(PICKLED) else Lack.SAFE_WEIGHTS
