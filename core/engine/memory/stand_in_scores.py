"""What TRL's trainers hold to score tokens, without its kernels, which know no fake tensors.

TRL 1.16 multiplies so many tokens with so many words of the vocabulary at a time, folds each tile into sums, and makes
it again for the gradients (`trl.kernels.chunked_logprob`). On CUDA a kernel folds; elsewhere torch does, step by step.
"""

from typing import Any

import torch

from core.engine.models.parts import base_of
from core.memory.activations import FOLDS_BACKWARD, FOLDS_FORWARD, tile_of


class _Scores(torch.autograd.Function):
    """Holds what scoring holds: `hidden` is [tokens, width], `weight` [words, width]; gives a number a token."""

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(hidden, weight)
        _fold(hidden, weight, FOLDS_FORWARD)
        return hidden.new_zeros(len(hidden), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *_gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        shapes = (hidden.shape, weight.shape)
        found = [
            hidden.new_zeros(shape, dtype=torch.float32) if needed else None
            for shape, needed in zip(shapes, ctx.needs_input_grad, strict=True)
        ]
        _fold(hidden, weight, FOLDS_BACKWARD)
        return tuple(found)


def _fold(hidden: torch.Tensor, weight: torch.Tensor, folds: int) -> None:
    """Make one tile, and what torch makes of it in fp32; they are gone with the function's end."""
    kind = hidden.device.type
    half = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind) if half else hidden.dtype
    rows, columns = tile_of(kind, len(hidden), len(weight))
    tiles = [hidden.new_empty(rows, columns, dtype=dtype)]
    tiles += [
        hidden.new_empty(rows, columns, dtype=torch.float32) for _ in range(0 if kind == "cuda" else folds)
    ]
    del tiles


def scored(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """A number for each token of a batch, held as the logarithms of their probabilities are."""
    inner = base_of(model)
    given = {name: value for name, value in batch.items() if name != "labels"}
    hidden = inner.base_model(**given, use_cache=False).last_hidden_state[:, :-1]
    weight = inner.get_output_embeddings().weight
    found: torch.Tensor = _Scores.apply(hidden.reshape(-1, hidden.shape[-1]), weight)
    return found
