"""A report on a model before a run, from its config alone: it is built on torch's meta device, without weights."""

import sys
import traceback
from collections.abc import Iterator
from typing import Any

import msgspec
import torch

from core.base.errors import ModelError, Problem
from core.base.formats import paragraph
from core.engine.memory.model_shape import shape_of
from core.engine.models import text
from core.engine.models.method import apply_method
from core.engine.models.parts import LoraTargetError, count, weights_of
from core.engine.models.refusals import UNREADABLE, NotFetched, explained
from core.engine.models.vision import (
    can_checkpoint,
    check_checkpointing,
    find_image_model,
    image_model_on_meta,
)
from core.memory.model import ModelReport, ModelShape
from core.options import RunOptions
from core.options.choices import Attention
from core.options.sources import is_scratch

NO_LIMIT = 1 << 31
"""Tokenizers without a limit have a number far beyond this."""


def check_model(options: RunOptions, labels: int = 2) -> ModelReport:
    """Reports what the model is, how many parameters are trained, and what would end a run with it; reads no data."""
    try:
        model, longest = _build(options, labels)
    except NotFetched:
        return ModelReport()  # the run downloads what is missing, or says why it can't
    except ModelError as error:
        return ModelReport(problems=(_as_problem("model.source", error),))
    report = _describe(model, longest, _device_kind(options))
    problems = tuple(_unsupported(model, options))
    try:
        with torch.device("meta"):
            model = apply_method(model, options)
    except LoraTargetError as error:
        return msgspec.structs.replace(report, problems=(*problems, _as_problem(error.path, error)))
    weights = [weight for _rest, weight in weights_of(model)]
    return msgspec.structs.replace(
        report,
        total_parameters=sum(map(count, weights)),
        trainable_parameters=sum(count(weight) for weight in weights if weight.requires_grad),
        problems=problems,
    )


def _build(options: RunOptions, labels: int) -> tuple[torch.nn.Module, int | None]:
    """Returns the model without weights, and the most tokens it can see; None if unlimited or not known yet."""
    source = options.model.source
    if options.task.reads_images:
        return image_model_on_meta(options, find_image_model(options), labels), None
    config = text.load_config(options)
    longest: int | None = None  # of a model from scratch: as long as the options say
    if not is_scratch(source) and (tokenizer := text.tokenizer_at_hand(source)) is not None:
        longest = text.longest_text(config, tokenizer)
    text.set_labels(config, options.task, tuple(map(str, range(labels))))
    with explained(source, builds=True), torch.device("meta"):
        eager = {"attn_implementation": "eager"} if options.model.attention is Attention.EAGER else {}
        model = text.random_model(config, options.task, **eager)
    if packed := getattr(config, "quantization", None):
        model.config.quantization = packed  # that of the part for texts has no such key
    return model, longest if longest is not None and longest < NO_LIMIT else None


def _device_kind(options: RunOptions) -> str:
    """Returns the kind of device the run would use, without creating a CUDA context."""
    name = options.device.name
    if name != "auto":
        return name.partition(":")[0]
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _describe(model: Any, longest: int | None, kind: str) -> ModelReport:
    config = getattr(model, "config", None)
    attention: tuple[Attention, ...] = ()
    if config is not None:
        attention = (Attention.EAGER,)
        attention += (Attention.SDPA,) if model._supports_sdpa else ()
        attention += (Attention.FLASH_2, Attention.FLASH_3) if model._supports_flash_attn else ()
    parameters = sum(map(count, model.parameters()))
    parts = list(model.modules())
    return ModelReport(
        architecture=type(model if config is not None else model.network).__name__,
        total_parameters=parameters,
        trainable_parameters=parameters,
        layers=getattr(config and config.get_text_config(), "num_hidden_layers", None)
        or sum(isinstance(part, torch.nn.Linear | torch.nn.Conv2d) for part in parts),
        activation_checkpointing=can_checkpoint(model),
        attention=attention,
        max_length=longest,
        normalises_batch=any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in parts),
        shape=_shape(model, kind),
    )


def _shape(model: Any, kind: str) -> ModelShape | None:
    """Returns what the memory forecast needs; None for an unknown architecture, which can be trained all the same."""
    try:
        return shape_of(model, kind)
    except (ValueError, *UNREADABLE):
        traceback.print_exc(file=sys.stderr)
        return None


def _unsupported(model: Any, options: RunOptions) -> Iterator[Problem]:
    try:
        if options.memory.activation_checkpointing:
            check_checkpointing(model)
    except ModelError as error:
        yield _as_problem("memory.activation_checkpointing", error)
    try:
        if hasattr(model, "config"):
            text.attention_for(options, model.config)
    except ModelError as error:
        yield _as_problem("model.attention", error)


def _as_problem(path: str, error: ModelError) -> Problem:
    return Problem(path, paragraph(error.title, error.detail), error.fixes)
