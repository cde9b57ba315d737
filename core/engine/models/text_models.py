"""Text models and tokenizers: from a folder or the Hub, safetensors only, no code of theirs executed."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from core import hub
from core.choices import Method
from core.engine.models.attention import implementation_for
from core.engine.models.packing import packing_arguments
from core.engine.models.parts import head_names, owners
from core.engine.models.refusals import (
    LOADING_ERRORS,
    check_classifies,
    check_folder,
    check_loaded,
    check_tokenizer,
    fresh_weights,
    not_loaded,
)
from core.errors import ModelError
from core.options import ModelOptions, RunOptions


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


def tokenizer_at_hand(source: str) -> Any | None:
    """The model's tokenizer; None where less of a model on the Hub has been fetched so far.

    That is looked for among the files: from a config alone, transformers makes a tokenizer that knows no words.

    Raises:
        ModelError: A folder has none, or one that can't be read.
    """
    if Path(source).is_dir():
        return load_tokenizer(source)
    if not hub.cached_files(source) - {hub.CONFIG}:
        return None
    try:
        return load_tokenizer(source)
    except ModelError:
        return None


def longest_text(config: Any, tokenizer: Any) -> int:
    """The most tokens the model can see; a huge number where nothing limits it."""
    positions = getattr(config, "max_position_embeddings", None) or 0
    limit: int = tokenizer.model_max_length
    return min(limit, positions) if positions > 0 else limit  # XLNet says -1


@dataclass(frozen=True)
class LoadedModel:
    """A text model with a classifier. `fresh` names the modules of its body that the checkpoint has no weights for."""

    model: torch.nn.Module
    fresh: tuple[str, ...] = ()


def set_labels(config: Any, labels: tuple[str, ...]) -> None:
    """Give the model's config the labels its classifier is to tell apart."""
    config.num_labels = len(labels)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}


def load_classifier(options: RunOptions, config: Any, labels: tuple[str, ...], tokenizer: Any) -> LoadedModel:
    """Load the model with a classification head for `labels`, its weights in fp32, or packed for QLoRA.

    Raises:
        ModelError: There are no safe weights, they are damaged, or they don't fit; or it lacks the attention asked for.
    """
    from transformers import set_seed

    set_labels(config, labels)
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id
    attention = implementation_for(options.model, config)
    set_seed(options.training.seed)  # the head's random weights
    try:
        if not options.model.pretrained:
            return LoadedModel(random_classifier(config, attn_implementation=attention))
        if options.model.method is Method.QLORA:
            return _load_packed(options, config, attn_implementation=attention)
        return _load(options, config, attn_implementation=attention)
    except LOADING_ERRORS as error:
        raise not_loaded(options.model.source, error) from error


def random_classifier(config: Any, **more: Any) -> torch.nn.Module:
    """Build the model with random weights; under `torch.device("meta")` with none at all, in milliseconds.

    Args:
        config: Its config.
        more: Arguments for transformers' `from_config`.
    """
    from transformers import AutoModelForSequenceClassification

    # Said outright: left to itself, transformers would ask on the terminal whether to run a model's own code.
    model: torch.nn.Module = AutoModelForSequenceClassification.from_config(
        config, dtype=torch.float32, trust_remote_code=False, **more
    )
    return model


def _load(options: RunOptions, config: Any, **more: Any) -> LoadedModel:
    from transformers import AutoModelForSequenceClassification

    source = options.model.source
    model, info = AutoModelForSequenceClassification.from_pretrained(
        source,
        config=config,
        dtype=torch.float32,  # "auto" would train a half-precision checkpoint in half precision
        use_safetensors=True,
        trust_remote_code=False,
        ignore_mismatched_sizes=True,  # a checkpoint with a head for other labels gets a fresh one
        output_loading_info=True,
        **more,
    )
    check_loaded(source, model, info)
    return LoadedModel(model, owners(fresh_weights(model, info)))


def _load_packed(options: RunOptions, config: Any, **more: Any) -> LoadedModel:
    """Load with packed weights, but for the classifier and for what has none in the checkpoint: these learn."""
    with torch.device("meta"):
        heads = head_names(random_classifier(copy.deepcopy(config)))
    loaded = _load(options, copy.deepcopy(config), **packing_arguments(options, heads), **more)
    if loaded.fresh:
        loaded = _load(options, config, **packing_arguments(options, (*heads, *loaded.fresh)), **more)
    return loaded
