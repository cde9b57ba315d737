"""Keeps float64 from devices that don't have it: moving such a tensor to MPS raises a TypeError."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Collator = Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]]

WITHOUT_FLOAT64 = ("mps",)
"""Kinds of devices that have no float64."""


@dataclass(frozen=True)
class SinglePrecision:
    """A collator whose batches hold float32 where the samples held float64; it can be sent to spawned workers."""

    collate: Collator

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate, still on the CPU, and cast; everything but float64 is left as it is."""
        batch = self.collate(samples)
        for name, value in list(batch.items()):
            if isinstance(value, torch.Tensor) and value.dtype == torch.float64:
                batch[name] = value.float()
        return batch


def collator_for(kind: str, collator: Collator) -> Collator:
    """`collator` as a device of this kind (`cuda`, `mps`, `cpu`) needs it."""
    return SinglePrecision(collator) if kind in WITHOUT_FLOAT64 else collator
