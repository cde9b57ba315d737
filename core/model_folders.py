"""What a folder needs so that a text model can be loaded from it; only its config is opened."""

import json
from enum import Enum, auto
from pathlib import Path

import msgspec

from core.errors import Fix
from core.files import is_there, read_small

RANDOM_WEIGHTS = Fix("Start with random weights", {"model.pretrained": False})

PICKLED = (".bin", ".pt", ".pth")
WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
"""Where the weights are, and what else names the files with parts of them."""
ADAPTER, MATRICES = "adapter_config.json", "adapter_model.safetensors"


class Lack(Enum):
    """What keeps a folder from being a model to start from."""

    CONFIG = auto()
    KIND = auto()
    """There is a config.json, but no model's: it names no kind of model."""
    WEIGHTS = auto()
    SAFE_WEIGHTS = auto()
    """There are weights, but in a format that can run code when opened."""
    PARTS = auto()
    """The index names a part that is missing, lies elsewhere, or is in such a format."""
    ALL_BUT_ADAPTER = auto()
    """There are LoRA matrices, but not the model they were trained beside."""


SAID = {
    Lack.CONFIG: "there is no config.json in {}; choose the folder that has config.json and model.safetensors in it",
    Lack.KIND: "config.json in {} names no kind of model (model_type); choose the folder of a model",
    Lack.WEIGHTS: "there is no model.safetensors in {}; copy the model's weights there",
    Lack.SAFE_WEIGHTS: "the weights in {} are in a format that can run code when opened; "
    "use a copy of the model with .safetensors files",
    Lack.PARTS: f"{{}}: {INDEX} names a part of the weights that isn't a .safetensors file in this folder; copy all "
    "parts there, from where the model is from",
    Lack.ALL_BUT_ADAPTER: "{} holds LoRA matrices without their model; choose the model they were trained beside",
}
"""What is missing, and what to do; for the folder."""


def what_lacks(folder: Path, *, needs_weights: bool) -> Lack | None:
    """What is missing in `folder`; None where nothing is.

    Raises:
        OSError: It can't be looked into.
    """
    endings = {path.suffix for path in folder.iterdir()}
    has_adapter, is_whole = (folder / ADAPTER).is_file(), (folder / WHOLE).is_file()
    if has_adapter and not is_whole:
        return Lack.ALL_BUT_ADAPTER
    if not (folder / "config.json").is_file():
        return Lack.CONFIG
    if has_adapter and not (folder / MATRICES).is_file():
        return Lack.SAFE_WEIGHTS  # transformers would load the matrices beside the model, pickled as they are
    # A config of old names no kind; transformers may know it by the folder's name.
    if is_whole or is_there(folder / INDEX):
        is_safe = is_whole or not needs_weights or names_safe_parts(folder / INDEX, folder)
        return None if is_safe else Lack.PARTS
    if not _names_kind(folder / "config.json"):
        return Lack.KIND
    lack = Lack.WEIGHTS if endings.isdisjoint(PICKLED) else Lack.SAFE_WEIGHTS
    return lack if needs_weights else None


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def names_safe_parts(index: Path, folder: Path | None = None) -> bool:
    """Whether an index names .safetensors files beside it and nothing else; all of them there, where `folder` is given.

    transformers loads whatever an index names: pickled files, and files of other folders.
    """
    try:
        names = set(msgspec.json.decode(read_small(index), type=_Index).weight_map.values())
    except (OSError, ValueError, RecursionError):
        return False
    return all(
        name.endswith(".safetensors")
        and not {"/", "\\"} & set(name)
        and (folder is None or (folder / name).is_file())
        for name in names
    )


def _names_kind(config: Path) -> bool:
    """Whether a config.json says what kind of model it is of, as all do that transformers writes.

    Of a damaged one that can't be told: whoever loads it says what is wrong with it.
    """
    try:
        content = json.loads(read_small(config))
    except (ValueError, RecursionError):
        return True
    return isinstance(content, dict) and bool(content.get("model_type"))
