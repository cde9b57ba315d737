"""Text models and tokenizers: from a folder or the Hub, safetensors only, no code of theirs executed."""

from pathlib import Path
from typing import Any

import torch

from core.errors import Fix, ModelError
from core.options import ModelOptions


def load_config(options: ModelOptions) -> Any:
    """Read a model's config.

    Raises:
        ModelError: The folder holds no model, or the Hub has none or can't be reached.
    """
    from transformers import AutoConfig

    if Path(options.source).is_dir():
        _check_folder(Path(options.source), needs_weights=options.pretrained)
    try:
        return AutoConfig.from_pretrained(options.source, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise _not_loaded(options.source, error) from error


def load_tokenizer(source: str) -> Any:
    """Read a model's tokenizer.

    Raises:
        ModelError: There is none, or it can't be read.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise _not_loaded(source, error) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_classifier(
    options: ModelOptions, config: Any, labels: tuple[str, ...], tokenizer: Any, seed: int
) -> torch.nn.Module:
    """Load the model with a classification head for `labels`, its weights in fp32.

    Raises:
        ModelError: There are no safe weights, or they don't fit.
    """
    from transformers import AutoModelForSequenceClassification, set_seed

    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id
    set_seed(seed)  # the head's random weights
    try:
        if not options.pretrained:
            return AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
        return AutoModelForSequenceClassification.from_pretrained(
            options.source,
            config=config,
            dtype=torch.float32,  # "auto" would train a half-precision checkpoint in half precision
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # a checkpoint with a head for other labels gets a fresh one
        )
    except (OSError, ValueError, KeyError) as error:
        raise _not_loaded(options.source, error) from error


def _check_folder(folder: Path, *, needs_weights: bool) -> None:
    if not (folder / "config.json").is_file():
        inside = ", ".join(sorted(path.name for path in folder.iterdir())[:6]) or "nothing"
        raise ModelError(
            f"{folder.name} is not a model folder",
            f"There is no config.json in {folder}. It holds: {inside}. Choose the folder that has config.json and "
            "model.safetensors in it.",
        )
    if not needs_weights or any(folder.glob("*.safetensors")):
        return
    random_weights = Fix("Start with random weights", {"model.pretrained": False})
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")) or any(folder.glob("*.pth")):
        raise ModelError(
            f"{folder.name} has only pickled weights",
            f"The weights in {folder} are in a format that can run code when opened, so Hone doesn't open them. "
            "Use a copy of the model with .safetensors files.",
            (random_weights,),
        )
    raise ModelError(
        f"{folder.name} has no weights",
        f"There is a config.json in {folder}, but no .safetensors file. Copy the model's weights there too.",
        (random_weights,),
    )


def _not_loaded(source: str, error: Exception) -> ModelError:
    first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if Path(source).is_dir():
        return ModelError(f"The model in {Path(source).name} can't be loaded", f"{source}: {first_line}")
    if "trust_remote_code" in str(error):
        return ModelError(
            f"{source} needs its own code to run", "Hone doesn't run code from the Hub. Choose another model."
        )
    return ModelError(
        f"{source} can't be had from the Hugging Face Hub",
        "Either there is no such model there, it needs a login, or this computer is offline. A model used before "
        f"works offline; so does a folder with a model in it. (The library says: {first_line})",
    )
