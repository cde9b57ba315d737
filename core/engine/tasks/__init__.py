"""A task turns options into what Trainer needs: a model, data sets and a collator."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class TrainedBy:
    """Another trainer than Trainer itself: a `WatchedTrainer` over one of a library, and its class of arguments.

    `settings` are keyword arguments for that class beside those of `trainer_arguments`, `more` for the trainer.
    """

    trainer: type
    arguments: type
    settings: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """Everything a task hands to Trainer.

    `train` and `eval` are map-style data sets of keyword arguments for the model, `labels` included. `save_extras`
    writes beside the weights whatever using the model later takes. `processing_class` is the tokenizer, if any.
    `metrics` is what Trainer computes metrics with beside the loss, from transformers' EvalPrediction; their names are
    those of `core.base.formats` without `eval_`. `picture` makes a PNG file of an image sample, as the model sees it.
    `condense` makes of a batch's logits (and its labels) what metrics are computed of; None: the logits themselves,
    which for labels by token fill the memory. `trained_by` is the trainer where it isn't Trainer itself.
    """

    model: torch.nn.Module
    train: Any
    eval: Any | None
    collator: Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]]
    labels: tuple[str, ...]
    save_extras: Callable[[Path], None]
    processing_class: Any | None = None
    metrics: Callable[[Any], dict[str, float]] | None = None
    condense: Callable[[Any, Any], torch.Tensor] | None = None
    picture: Callable[[dict[str, Any]], bytes] | None = None
    trained_by: TrainedBy | None = None
