"""Tasks: each makes of a run's options what Trainer needs: a model, data sets and a collator."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from core.base.errors import DataError
from core.base.language import _
from core.engine.tasks.metrics import ValidationSize
from core.options import RunOptions
from core.runs.events import Example

SHOWN_CHARACTERS = 2000
"""Characters of an example's text in a message."""
MOST_LABELS = 10
"""Labels in a message."""


@dataclass(frozen=True)
class Prepared:
    """What a task gives to Trainer.

    Attributes:
        train: A map-style data set of keyword arguments for the model, `labels` included.
        eval: Likewise, the validation split.
        labels: The classes, if any.
        save_extras: Saves what using the model takes besides the weights.
        processing_class: The tokenizer, if any.
        metrics: Trainer's `compute_metrics`; names are those of `core.base.formats` without `eval_`.
        condense: Trainer's `preprocess_logits_for_metrics`: the logits of token classifiers would fill the memory.
        picture: Makes a PNG file of an image sample, as the model sees it.
        origin: Returns where a validation sample is from, by its index: an example with texts, but without an answer.
        held_out: The size of the validation text, of running text.
        reference: The model that preferences are compared with, if it isn't the model without its adapter.
        weights: The weights of liked and of other answers in KTO's loss.
    """

    model: torch.nn.Module
    train: Any
    eval: Any | None
    collator: Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]]
    save_extras: Callable[[Path], None]
    labels: tuple[str, ...] = ()
    processing_class: Any | None = None
    metrics: Callable[[Any], dict[str, float]] | None = None
    condense: Callable[[Any, Any], torch.Tensor] | None = None
    picture: Callable[[dict[str, Any]], bytes] | None = None
    origin: Callable[[int], Example] = lambda _index: Example()
    held_out: ValidationSize | None = None
    reference: torch.nn.Module | None = None
    weights: tuple[float, float] = (1.0, 1.0)


def refuse_other_labels(labels: tuple[str, ...], of_model: Iterable[str], options: RunOptions) -> None:
    """Refuses to evaluate a model on data with other labels, for which its head would be replaced by a random one.

    Raises:
        DataError: The run trains nothing, and the labels differ or are in another order.
    """
    if options.only_evaluates and (found := tuple(of_model)) != labels:
        message = _("The model has the labels {model}, the training data {data}.")
        raise DataError(
            _("The labels of the data are not those of the model"),
            message.format(model=", ".join(found[:MOST_LABELS]), data=", ".join(labels[:MOST_LABELS])),
        )


def named(labels: tuple[str, ...], options: RunOptions) -> tuple[str, ...]:
    """Returns labels by the names that `data.label_names` gives them.

    Raises:
        DataError: Two labels have one name.
    """
    names = tuple(options.data.label_names.get(label, label) for label in labels)
    if len(set(names)) < len(names):
        raise DataError(
            _("Two labels have the same name"),
            _("{names}: data.label_names must give each label a name of its own.").format(
                names=", ".join(names)
            ),
        )
    return names
