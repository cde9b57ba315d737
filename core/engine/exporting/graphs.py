"""What ONNX and Core ML share: a model as a function of tensors, and the names of what goes in and comes out."""

from typing import Any

import torch

from core.engine.exporting.rows import Row, Rows

OUTPUT = "logits"


class Logits(torch.nn.Module):
    """A model as a plain function from tensors, in a fixed order, to logits.

    Args:
        model: Takes these by name.
        names: Their names, in order.
    """

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Compute the logits."""
        logits: torch.Tensor = self.model(**dict(zip(self.names, tensors, strict=True)))["logits"]
        return logits


def names_of(rows: Rows) -> tuple[str, ...]:
    """What the model takes, in the order in which the graph does."""
    return tuple(rows.rows[0].inputs)


def sample(rows: Rows) -> tuple[torch.Tensor, ...]:
    """A batch of two to trace a graph with: of one, a tracer would take the size for a constant."""
    longest = max(rows.rows, key=_length)
    return tuple(torch.cat((value, value)) for value in longest.inputs.values())


def axes(rows: Rows) -> dict[str, dict[int, str]]:
    """Which dimensions of each input may have any size: the batch, and of texts the tokens."""
    is_text = "input_ids" in rows.rows[0].inputs
    return {name: {0: "batch", **({1: "tokens"} if is_text else {})} for name in names_of(rows)}


def _length(row: Row) -> int:
    return int(next(iter(row.inputs.values())).shape[1])
