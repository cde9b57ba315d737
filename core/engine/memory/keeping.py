"""What autograd keeps of a forward pass, counted on torch's meta device: nothing is allocated and nothing computed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

NUMBER_BYTES = 4
"""A kept number is one of fp32; what takes more, such as an index of 8 bytes, counts for as many as its bytes hold."""


class Kept:
    """Counts the numbers of the tensors that autograd saves while `listening`: each storage once, weights not at all.

    `place` may be set meanwhile: what is saved from then on is counted there.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.place: object = None
        self._weights = {_storage(weight) for weight in model.parameters()}
        self._saved: dict[int, tuple[object, float]] = {}
        self._alive: list[torch.Tensor] = []  # else the mark of a storage would be given to the next one

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Count while the block runs."""
        with torch.autograd.graph.saved_tensors_hooks(self._save, lambda tensor: tensor):
            yield

    def by_place(self) -> dict[object, float]:
        """Numbers saved at each place."""
        found: dict[object, float] = {}
        for place, numbers in self._saved.values():
            found[place] = found.get(place, 0.0) + numbers
        return found

    def beside(self, output: torch.Tensor) -> float:
        """All numbers saved, but for those of `output`: whatever comes next keeps them anyway."""
        return sum(numbers for storage, (_, numbers) in self._saved.items() if storage != _storage(output))

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = _storage(tensor)
        if storage not in self._weights and storage not in self._saved:
            self._alive.append(tensor)
            self._saved[storage] = (self.place, tensor.untyped_storage().nbytes() / NUMBER_BYTES)
        return tensor


def kept_for_each(layer: Any, width: int) -> float:
    """Numbers that `layer`, on the meta device, keeps for each of the `width` numbers that enter it.

    Its output is left out: whatever comes next keeps that. A layer that wants more than numbers, such as a norm with a
    condition, is taken for one that keeps what enters it.
    """
    values = torch.empty(1, 4, width, device="meta", requires_grad=True)
    kept = Kept(layer)
    try:
        with kept.listening():
            output = layer(values * 1.0)  # not the leaf itself, which no layer may write over
    except (TypeError, RuntimeError):
        return 1.0
    return kept.beside(output) / values.numel()


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
