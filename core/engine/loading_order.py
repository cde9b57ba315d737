"""Orders of texts grouped by length, such that an epoch can be gone on with in the middle."""

from collections.abc import Iterator
from typing import Any

import torch
from transformers.trainer_pt_utils import LengthGroupedSampler


class OrderedByLength(LengthGroupedSampler):
    """Trainer's own order, drawn from the same random numbers.

    They are those that dropout uses, too, so that the order of an epoch depends on all steps before it. `begun_with` is
    where they stood when the order under way was drawn; whoever sets `begin_with` has the next one drawn from there.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.begun_with: torch.Tensor | None = None
        self.begin_with: torch.Tensor | None = None

    def __iter__(self) -> Iterator[int]:
        if self.begin_with is not None:
            torch.set_rng_state(self.begin_with)
            self.begin_with = None
        self.begun_with = torch.get_rng_state()
        yield from super().__iter__()


class SameEachTime(LengthGroupedSampler):
    """Trainer's own order for what is evaluated: the same in every evaluation, also where one loader serves them all.

    In another order the batches would be others, and with them the last digits of the loss.
    """

    def __init__(self, *args: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(*args, generator=torch.Generator(), **kwargs)
        self._seed = seed

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self._seed)
        yield from super().__iter__()
