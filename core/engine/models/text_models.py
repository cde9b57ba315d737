"""Text models and tokenizers: from a folder or the Hub, safetensors only, no code of theirs executed."""

from pathlib import Path
from typing import Any

import torch

from core.engine.models.refusals import (
    LOADING_ERRORS,
    check_classifies,
    check_folder,
    check_loaded,
    check_tokenizer,
    not_loaded,
)
from core.options import ModelOptions


def load_config(options: ModelOptions) -> Any:
    """Read a model's config.

    Raises:
        ModelError: The folder holds no model of texts, or the Hub has none or can't be reached.
    """
    from transformers import AutoConfig

    if Path(options.source).is_dir():
        check_folder(Path(options.source), needs_weights=options.pretrained)
    try:
        config = AutoConfig.from_pretrained(options.source, trust_remote_code=False)
    except LOADING_ERRORS as error:
        raise not_loaded(options.source, error) from error
    check_classifies(options.source, config)
    return config


def load_tokenizer(source: str) -> Any:
    """Read a model's tokenizer.

    Raises:
        ModelError: There is none, or it can't be read.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except LOADING_ERRORS as error:
        raise not_loaded(source, error, "tokenizer") from error
    check_tokenizer(source, tokenizer)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def longest_text(config: Any, tokenizer: Any) -> int:
    """The most tokens the model can see; a huge number where nothing limits it."""
    positions = getattr(config, "max_position_embeddings", None) or 0
    limit: int = tokenizer.model_max_length
    return min(limit, positions) if positions > 0 else limit  # XLNet says -1


def load_classifier(
    options: ModelOptions, config: Any, labels: tuple[str, ...], tokenizer: Any, seed: int
) -> torch.nn.Module:
    """Load the model with a classification head for `labels`, its weights in fp32.

    Raises:
        ModelError: There are no safe weights, they are damaged, or they don't fit.
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
            # Said outright: left to itself, transformers would ask on the terminal whether to run a model's own code.
            random: torch.nn.Module = AutoModelForSequenceClassification.from_config(
                config, dtype=torch.float32, trust_remote_code=False
            )
            return random
        model, info = AutoModelForSequenceClassification.from_pretrained(
            options.source,
            config=config,
            dtype=torch.float32,  # "auto" would train a half-precision checkpoint in half precision
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # a checkpoint with a head for other labels gets a fresh one
            output_loading_info=True,
        )
    except LOADING_ERRORS as error:
        raise not_loaded(options.source, error) from error
    check_loaded(options.source, model, info)
    loaded: torch.nn.Module = model
    return loaded
