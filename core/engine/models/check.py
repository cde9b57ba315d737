"""Look at a model before a run: built from its config alone, on torch's meta device, which holds no numbers."""

import sys
import traceback
from collections.abc import Iterator
from typing import Any

import msgspec
import torch

from core.base.errors import Fix, ModelError, Problem
from core.base.language import _
from core.engine.memory.model_shape import shape_of
from core.engine.models import text
from core.engine.models.parts import TargetError, apply_method, count, weights_of
from core.engine.models.refusals import UNREADABLE, NotFetched, explained
from core.engine.models.vision import can_checkpoint, find_image_model, image_model_without_numbers
from core.memory.model import ModelReport, ModelShape
from core.options import RunOptions
from core.options.choices import Attention
from core.options.sections import ModelOptions
from core.options.sources import is_scratch

NO_LIMIT = 1 << 31
"""Tokenizers that know no limit say a number far beyond this."""


def check_model(options: RunOptions, labels: int = 2) -> ModelReport:
    """Answer what the model is, how much of it would learn, and what would end a run with it.

    Args:
        options: What is asked; the data is not looked at.
        labels: How many labels the data has.
    """
    try:
        model, longest = _build(options, labels)
    except NotFetched:
        return ModelReport()  # the run fetches what is missing, or says why it can't
    except ModelError as error:
        return ModelReport(problems=(_as_problem("model.source", error),))
    report = _describe(model, longest, _kind_of(options))
    problems = [
        *_unsupported(report, options.model, wants_checkpointing=options.memory.activation_checkpointing)
    ]
    try:
        with torch.device("meta"):
            model = apply_method(model, options)
    except TargetError as error:
        return msgspec.structs.replace(report, problems=(*problems, _as_problem(error.path, error)))
    weights = [weight for _rest, weight in weights_of(model)]
    return msgspec.structs.replace(
        report,
        total_parameters=sum(map(count, weights)),
        trainable_parameters=sum(count(weight) for weight in weights if weight.requires_grad),
        problems=tuple(problems),
    )


def _build(options: RunOptions, labels: int) -> tuple[torch.nn.Module, int | None]:
    """The model without numbers, and the longest text it can see as in the report."""
    source = options.model
    if options.task.reads_images:
        return image_model_without_numbers(options, find_image_model(options), labels), None
    config = text.load_config(options)
    longest = _longest_text(config, source.source)
    text.set_labels(config, options.task, tuple(map(str, range(labels))))
    with explained(source.source, builds=True), torch.device("meta"):
        eager = {"attn_implementation": "eager"} if source.attention is Attention.EAGER else {}
        model = text.random_model(config, options.task, **eager)
    return model, longest if longest is not None and longest < NO_LIMIT else None


def _longest_text(config: Any, source: str) -> int | None:
    """The most tokens the model can see; None where only its config has been fetched so far."""
    if is_scratch(source):
        return int(config.max_position_embeddings)
    tokenizer = text.tokenizer_at_hand(source)
    return None if tokenizer is None else text.longest_text(config, tokenizer)


def _kind_of(options: RunOptions) -> str:
    """The kind of device it would compute on, without making CUDA's context."""
    name = options.device.name
    if name != "auto":
        return name.partition(":")[0]
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _describe(model: Any, longest: int | None, kind: str) -> ModelReport:
    config = getattr(model, "config", None)
    inner = model if config is not None else model.network
    weights = list(model.parameters())
    parts = list(model.modules())
    computing = [part for part in parts if isinstance(part, torch.nn.Linear | torch.nn.Conv2d)]
    return ModelReport(
        architecture=type(inner).__name__,
        total_parameters=sum(map(count, weights)),
        trainable_parameters=sum(map(count, weights)),
        layers=getattr(config, "num_hidden_layers", None) or len(computing),
        activation_checkpointing=can_checkpoint(model),
        attention=() if config is None else tuple(_attention(model)),
        max_length=longest,
        normalises_batch=any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in parts),
        shape=_shape(model, kind),
    )


def _shape(model: Any, kind: str) -> ModelShape | None:
    """What its memory is forecast from; None for a model of an unknown build, which can be trained all the same."""
    try:
        return shape_of(model, kind)
    except (ValueError, *UNREADABLE):
        traceback.print_exc(file=sys.stderr)
        return None


def _attention(model: Any) -> Iterator[Attention]:
    """The implementations this architecture has, by the flags its transformers class carries."""
    yield Attention.EAGER
    if model._supports_sdpa:
        yield Attention.SDPA
    if model._supports_flash_attn:
        yield Attention.FLASH_2
        yield Attention.FLASH_3


def _unsupported(report: ModelReport, asked: ModelOptions, *, wants_checkpointing: bool) -> Iterator[Problem]:
    if wants_checkpointing and not report.activation_checkpointing:
        yield Problem(
            "memory.activation_checkpointing",
            _("{architecture} can't compute its activations again").format(architecture=report.architecture),
            (Fix(_("Keep them"), {"memory.activation_checkpointing": False}),),
        )
    is_default = asked.attention is Attention.SDPA  # where a model lacks it, its own is taken
    if report.attention and not is_default and asked.attention not in report.attention:
        yield Problem(
            "model.attention",
            _("{architecture} has no {attention}").format(
                architecture=report.architecture, attention=asked.attention
            ),
            (Fix(_("Use sdpa"), {"model.attention": "sdpa"}),),
        )


def _as_problem(path: str, error: ModelError) -> Problem:
    return Problem(path, f"{error.title}. {error.detail}", error.fixes)
