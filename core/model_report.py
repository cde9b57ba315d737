"""The engine's answer to "what is this model, and what of it would learn?", given without reading its weights."""

import msgspec

from core.errors import Problem
from core.memory.shape import ModelShape
from core.options import RunOptions, Tree


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The question, best made by `model_request`.

    `asked` is a run's options as plain values, folders absolute; the data is not looked at. `labels` is how many labels
    the data has; 2 where that isn't known yet.
    """

    asked: Tree
    labels: int = 2


def model_request(options: RunOptions, labels: int = 2) -> ModelRequest:
    """The question about the model of `options`; `labels` as in `ModelRequest`."""
    return ModelRequest(asked=msgspec.to_builtins(options), labels=labels)


class ModelReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model before its weights are read.

    `architecture` is the name of its class, such as `BertForSequenceClassification`. `total_parameters` and
    `trainable_parameters` count weights with those LoRA adds, under the method asked for. `layers` counts a
    transformer's blocks, or a vision model's linear layers and convolutions. `attention` holds the values of
    `model.attention` its architecture has (none for vision models), `max_length` the most tokens it can see; None:
    nothing limits it. `normalises_batch` tells that it has batch norm, so that accumulated small batches differ from a
    large one. `shape` is what its memory is forecast from, whatever is trained of it. `problems` are
    what would end a run with this model, each at its option; where it can't be read at all, they are all there is, and
    without any, nothing is known: it isn't on this computer yet.
    """

    architecture: str = ""
    total_parameters: int = 0
    trainable_parameters: int = 0
    layers: int = 0
    activation_checkpointing: bool = False
    attention: tuple[str, ...] = ()
    max_length: int | None = None
    normalises_batch: bool = False
    shape: ModelShape | None = None
    problems: tuple[Problem, ...] = ()
