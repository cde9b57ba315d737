"""A task turns options into what Trainer needs: a model, data sets and a collator."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Prepared:
    """Everything a task hands to Trainer.

    `train` and `eval` are map-style data sets of keyword arguments for the model, `labels` included. `save_extras`
    writes beside the weights whatever using the model later takes. `processing_class` is the tokenizer, if any.
    """

    model: torch.nn.Module
    train: Any
    eval: Any | None
    collator: Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]]
    labels: tuple[str, ...]
    save_extras: Callable[[Path], None]
    processing_class: Any | None = None
