"""Activation checkpointing: which models can compute their activations again, and how a vision model does it.

transformers' models bring it along. torchvision's get it here: a long row of layers is cut into segments of about its
square root, as `torch.utils.checkpoint.checkpoint_sequential` advises, and only what enters a segment is kept.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from core.engine.models.parts import base_of
from core.errors import Fix, ModelError

ENABLE = "activation_checkpointing_enable"
"""The method Trainer 5.23 calls."""


def can_checkpoint(model: Any) -> bool:
    """Whether activations can be computed again: transformers' models say so, others have the method or not."""
    told = getattr(model, "supports_gradient_checkpointing", None)
    return bool(told) if told is not None else hasattr(model, ENABLE)


def check_checkpointing(model: Any) -> None:
    """Stop before training where a model keeps all its activations, whatever it is asked.

    Raises:
        ModelError: It does.
    """
    base = base_of(model)
    if not can_checkpoint(base):
        raise ModelError(
            "This model can't compute its activations again",
            f"transformers has no activation checkpointing for {type(base).__name__}.",
            (Fix("Keep the activations", {"memory.activation_checkpointing": False}),),
        )


class CheckpointedRow(torch.nn.Sequential):
    """A row of layers that keeps only what enters each of its segments while it trains. Names stay as they were."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Apply the layers one after the other."""
        if not self.training:
            return super().forward(values)
        for segment in segments(list(self)):
            values = _recomputed(segment, values)
        return values


def segments(layers: list[torch.nn.Module]) -> Iterator[list[torch.nn.Module]]:
    """Cut a row of layers where no layer follows that writes over what enters it: that has to be kept as it was."""
    length = max(1, math.isqrt(len(layers)))
    segment: list[torch.nn.Module] = []
    for layer in layers:
        if len(segment) >= length and not _writes_over_its_input(layer):
            yield segment
            segment = []
        segment.append(layer)
    if segment:
        yield segment


def _writes_over_its_input(layer: torch.nn.Module) -> bool:
    first = next(part for part in layer.modules() if not any(True for _ in part.children()))
    return bool(getattr(first, "inplace", False))


def checkpoint_rows(network: torch.nn.Module) -> int:
    """Have the feature extractor of a torchvision network compute its activations again.

    Its rows are the layers directly inside the network that are rows of layers themselves; what classifies is left as
    it is: there is nothing after it to make room for.

    Returns:
        How many rows there are.
    """
    rows = [
        (name, part)
        for name, part in network.named_children()
        if isinstance(part, torch.nn.Sequential) and name != "classifier"
    ]
    for name, row in rows:
        checkpointed = CheckpointedRow()
        for place, layer in row.named_children():
            checkpointed.add_module(place, layer)
        setattr(network, name, checkpointed.train(row.training))
    return len(rows)


def _recomputed(layers: list[torch.nn.Module], values: torch.Tensor) -> torch.Tensor:
    def run(entering: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            entering = layer(entering)
        return entering

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _statistics_kept(layers)

    if torch.compiler.is_compiling():  # a compiled graph changes statistics once, however often it computes
        found: torch.Tensor = checkpoint(run, values, use_reentrant=False)
    else:
        found = checkpoint(run, values, use_reentrant=False, context_fn=contexts)
    return found


@contextmanager
def _statistics_kept(layers: list[torch.nn.Module]) -> Iterator[None]:
    """Leave the running statistics of batch norms alone: the first pass has already counted this batch.

    With a momentum of 0 they stay what they are to the bit. Without the buffers altogether, autograd would save fewer
    tensors than in the first pass, and torch refuses that.
    """
    norms: list[Any] = [
        part
        for layer in layers
        for part in layer.modules()
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)
    ]
    before = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, momentum, batches in before:
            norm.momentum, norm.num_batches_tracked = momentum, batches
