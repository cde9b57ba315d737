"""The order of samples and the batches of steps, as the other engine has them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import torch
from accelerate.data_loader import SeedableRandomSampler
from transformers.trainer_pt_utils import LengthGroupedSampler

from core.engine.data.batches import Collator
from core.engine.data.tables import lengths_of
from core.options import RunOptions
from core.options.choices import Toggle
from core.options.method_rules import steps_of

Batch = dict[str, torch.Tensor]
Item = TypeVar("Item")


def in_groups(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yields so many items at a time, at the end fewer."""
    remaining = iter(items)
    while group := [*islice(remaining, size)]:
        yield group


@dataclass(frozen=True)
class Batches:
    """The batches of a run.

    Attributes:
        rows: The training samples.
        per_epoch: Steps of an epoch, of which the last may have fewer batches.
        total: Steps of the run.
    """

    options: RunOptions
    rows: Any
    collator: Collator

    @property
    def per_epoch(self) -> int:
        return steps_of(self.options, len(self.rows))[1]

    @property
    def total(self) -> int:
        return 0 if self.options.only_evaluates else steps_of(self.options, len(self.rows))[0]

    @property
    def is_grouped(self) -> bool:
        return self.options.data.group_by_length is Toggle.ON

    def epoch_after(self, step: int) -> float:
        """Returns the epochs done after a step."""
        epochs, rest = divmod(step, self.per_epoch)
        batches = math.ceil(len(self.rows) / self.options.memory.batch_size)
        return epochs + rest * self.options.memory.gradient_accumulation_steps / batches

    def after(self, step: int) -> Iterator[list[Batch]]:
        """Yields the batches of each step after `step`, without end."""
        for batches in self.places_after(step):
            yield [self.collator([self.rows[place] for place in places]) for places in batches]

    def places_after(self, step: int) -> Iterator[list[list[int]]]:
        """Yields the places in `rows` of each batch of each step after `step`, without end."""
        memory = self.options.memory
        epoch, done = divmod(step, self.per_epoch)
        while True:
            order = self._order(epoch)
            groups = in_groups(in_groups(order, memory.batch_size), memory.gradient_accumulation_steps)
            yield from islice(groups, done, None)
            epoch, done = epoch + 1, 0

    def _order(self, epoch: int) -> Sequence[int]:
        """Returns the samples of an epoch in the order of Trainer, whose order by lengths depends on dropout."""
        seed = self.options.training.seed
        if self.is_grouped and (lengths := lengths_of(self.rows)) is not None:
            size = self.options.memory.batch_size * self.options.memory.gradient_accumulation_steps
            return [
                *LengthGroupedSampler(
                    size, lengths=lengths, generator=torch.Generator().manual_seed(seed + epoch)
                )
            ]
        order = SeedableRandomSampler(self.rows, data_seed=seed)
        order.set_epoch(epoch)
        return [*order]
