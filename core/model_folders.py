"""What a folder needs so that a text model can be loaded from it; only its config is opened."""

import json
from enum import Enum, auto
from pathlib import Path

from core.errors import Fix
from core.files import read_small

RANDOM_WEIGHTS = Fix("Start with random weights", {"model.pretrained": False})

PICKLED = (".bin", ".pt", ".pth")


class Lack(Enum):
    """What keeps a folder from being a model to start from."""

    CONFIG = auto()
    KIND = auto()
    """There is a config.json, but no model's: it names no kind of model."""
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
    if ".safetensors" in endings:
        return None  # a config of old names no kind; transformers may know it by the folder's name
    if not _names_kind(folder / "config.json"):
        return Lack.KIND
    if not needs_weights:
        return None
    return Lack.WEIGHTS if endings.isdisjoint(PICKLED) else Lack.SAFE_WEIGHTS


def _names_kind(config: Path) -> bool:
    """Whether a config.json says what kind of model it is of, as all do that transformers writes.

    Of a damaged one that can't be told: whoever loads it says what is wrong with it.
    """
    try:
        content = json.loads(read_small(config))
    except (ValueError, RecursionError):
        return True
    return isinstance(content, dict) and bool(content.get("model_type"))
