"""Why a text model can't be used, in words a person can act on: what is looked at before, what libraries raise."""

from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from core.errors import Fix, ModelError
from core.model_folders import RANDOM_WEIGHTS, Lack, what_lacks

LOADING_ERRORS = (OSError, ValueError, KeyError, ImportError, StrictDataclassError, SafetensorError)
"""What transformers raises for a model that is missing, damaged or foreign. Hub and network errors are OSErrors."""


class NotFetched(ModelError):  # noqa: N818 - nothing is wrong with it
    """A model on the Hub can't be had: not there, not open to all, or not in the cache while offline."""


def check_folder(folder: Path, *, needs_weights: bool) -> None:
    """Look at the files before any of them is read.

    Raises:
        ModelError: It can't be looked into, or there is no config.json, or no weights that can be opened safely.
    """
    try:
        lack = what_lacks(folder, needs_weights=needs_weights)
    except OSError as error:
        raise ModelError(f"{folder.name} can't be looked into", f"{folder}: {error.strerror}") from error
    if lack is Lack.CONFIG:
        inside = ", ".join(sorted(path.name for path in folder.iterdir())[:6]) or "nothing"
        raise ModelError(
            f"{folder.name} is not a model folder",
            f"There is no config.json in {folder}. It holds: {inside}. Choose the folder that has config.json and "
            "model.safetensors in it.",
        )
    if lack is Lack.KIND:
        raise ModelError(
            f"{folder.name} is not a model folder",
            f"config.json in {folder} names no kind of model (model_type). Choose the folder of a model.",
        )
    if lack is Lack.ALL_BUT_ADAPTER:
        raise ModelError(
            f"{folder.name} holds LoRA matrices without their model",
            f"adapter_config.json in {folder} names the model they were trained beside; choose that.",
        )
    if lack is Lack.SAFE_WEIGHTS:
        raise only_pickled_weights(folder.name, str(folder))
    if lack is Lack.WEIGHTS:
        raise ModelError(
            f"{folder.name} has no weights",
            f"There is a config.json in {folder}, but no .safetensors file. Copy the model's weights there too.",
            (RANDOM_WEIGHTS,),
        )


def only_pickled_weights(name: str, where: str) -> ModelError:
    """The error for weights that nobody should open."""
    return ModelError(
        f"{name} has only pickled weights",
        f"The weights in {where} are in a format that can run code when opened, so Hone doesn't open them. "
        "Use a copy of the model with .safetensors files.",
        (RANDOM_WEIGHTS,),
    )


def check_classifies(source: str, config: Any) -> None:
    """Stop where transformers has no classifier of texts for this kind of model.

    Raises:
        ModelError: It has none: an image model, a speech model, ...
    """
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

    if type(config) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        raise ModelError(
            f"{short_name(source)} can't classify texts",
            f"{source} is a model of the kind “{config.model_type}”, which has no form for text classification.",
            (Fix("Choose a text model, such as bert-base-cased"),),
        )


def check_tokenizer(source: str, tokenizer: Any) -> None:
    """Stop where there is a tokenizer in name only: without its files, it comes out with special tokens alone.

    Raises:
        ModelError: It knows no words.
    """
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ModelError(
            f"{short_name(source)} has no tokenizer",
            f"{source} doesn't say how texts become tokens: tokenizer.json (or vocab.txt, or tokenizer.model) is "
            "missing or empty. Copy it from where the model is from.",
        )


def check_loaded(source: str, model: Any, info: dict[str, Any]) -> None:
    """Stop where nearly nothing of the weights found its place: the model would be random without saying so.

    Args:
        source: Where the model is from.
        model: As loaded.
        info: transformers' `output_loading_info`: names of weights that were missing or of another shape.

    Raises:
        ModelError: More than half of the model's body has no weights.
    """
    body = _body(model)
    missing = fresh_weights(model, info)
    if len(missing) > len(body) / 2:
        raise ModelError(
            f"The weights of {short_name(source)} belong to another model",
            f"{source}: {len(missing)} of {len(body)} weights that config.json asks for are missing or have another "
            f"shape; the first is {missing[0]}.",
            (RANDOM_WEIGHTS,),
        )


def fresh_weights(model: Any, info: dict[str, Any]) -> list[str]:
    """Names of the weights of the model's body that came out random; `info` as in `check_loaded`."""
    fresh = {*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])}
    return [name for name in _body(model) if name in fresh]


def _body(model: Any) -> list[str]:
    return [name for name, _ in model.named_parameters() if name.startswith(f"{model.base_model_prefix}.")]


def not_loaded(source: str, error: Exception, part: str = "model") -> ModelError:
    """The error for what a library raised while it read the model, or its tokenizer, at `source`."""
    words, why = str(error), _in_short(error)
    if "trust_remote_code" in words:
        return ModelError(
            f"{short_name(source)} needs its own code to run",
            f"Hone doesn't run code that comes with a model ({source}).",
            (Fix("Choose another model"),),
        )
    if isinstance(error, ImportError):
        return ModelError(
            f"{short_name(source)} needs a library that Hone doesn't have",
            f"{source}: {why}",
            (Fix("Choose another model, or the same one with plain weights"),),
        )
    if Path(source).is_dir():
        what = "is damaged" if isinstance(error, SafetensorError) else "can't be loaded"
        return ModelError(f"The {part} in {short_name(source)} {what}", f"{source}: {why}")
    if "does not appear to have a file named model.safetensors" in words:
        return only_pickled_weights(source, f"{source} on the Hugging Face Hub")
    return NotFetched(
        f"{source} can't be had from the Hugging Face Hub",
        "Either there is no such model there, it needs a login, or this computer is offline. A model used before "
        f"works offline; so does a folder with a model in it. (The library says: {why})",
    )


def _in_short(error: Exception) -> str:
    """The first two lines of what a library says; its kind too, where that is a bare word."""
    said = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
    return said if " " in said else f"{type(error).__name__} {said}".strip()


def short_name(source: str) -> str:
    """What a model is called: its folder's name, or its id on the Hub."""
    return Path(source).name if Path(source).is_dir() else source
