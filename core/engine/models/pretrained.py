"""Loads tokenizers and whole models of transformers, without any code or pickled weights of theirs."""

from typing import Any

import torch

from core.engine.models import refusals
from core.options.choices import Backend, Method, Task
from core.options.past_runs import model_folder


def load_tokenizer(source: str) -> Any:
    """Loads the tokenizer of a model that isn't from scratch.

    Raises:
        ModelError: There is none, or it can't be read.
    """
    from transformers import AutoTokenizer

    refusals.explain_encoding()
    with refusals.explained(source, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_in(source), trust_remote_code=False)
    refusals.check_tokenizer(source, tokenizer)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def read_pretrained(source: str, task: Task, config: Any = None, **more: Any) -> Any:
    """Calls `from_pretrained` for a folder or an id on the Hub, with weights in fp32 (see `loading_frozen_in`).

    Raises:
        ModelError: There are no safe weights, or they can't be read.
    """
    from transformers import AutoConfig

    refusals.check_weights(source)
    with refusals.explained(source):
        config = config or AutoConfig.from_pretrained(source, trust_remote_code=False)
        refusals.check_quantized(source, config, Backend.TORCH, Method.FULL)
        vars(config).pop("transformers_weights", None)  # may name any file of the folder, pickled ones too
        return refusals.auto_class(task).from_pretrained(
            source,
            config=config,
            dtype=torch.float32,  # "auto" would train a half-precision checkpoint in half precision
            use_safetensors=True,
            trust_remote_code=False,
            **more,
        )


def tokenizer_in(source: str) -> str:
    """Returns where a model's tokenizer is: the model folder of a past run, otherwise `source`."""
    return str(model_folder(source) or source)
