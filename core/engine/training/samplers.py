"""The order of samples, and the loaders that batches come from."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from accelerate.data_loader import SeedableRandomSampler
from torch.utils.data import BatchSampler, DataLoader, Sampler
from transformers import TrainingArguments
from transformers.trainer_pt_utils import LengthGroupedSampler
from typing_extensions import override

from core.engine.data.image_files import ImageSet
from core.engine.launch import rank
from core.engine.training.ranks import agreed, world_size


class OrderedByLength(LengthGroupedSampler):
    """Trainer's sampler, which draws from the global random numbers.

    Dropout draws from them too, so the order of an epoch depends on all steps before it.

    Attributes:
        begun_with: The random state when the current order was drawn.
        begin_with: The random state to draw the next order from, when an epoch is resumed.
    """

    begun_with: torch.Tensor | None = None
    begin_with: torch.Tensor | None = None

    @override
    def __iter__(self) -> Iterator[int]:
        yield from agreed(self._drawn() if rank() == 0 else [])

    def _drawn(self) -> list[int]:
        if self.begin_with is not None:
            torch.set_rng_state(self.begin_with)
            self.begin_with = None
        self.begun_with = torch.get_rng_state()
        return [*super().__iter__()]


class WithEpochs(Sampler[tuple[int, int]]):
    """Yields (epoch, index): persistent workers have no other way to learn the epoch."""

    def __init__(self, samples: ImageSet) -> None:
        self._order = SeedableRandomSampler(samples)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((self._order.epoch, index) for index in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def set_epoch(self, epoch: int) -> None:
        self._order.set_epoch(epoch)


class SameEachTime(LengthGroupedSampler):
    """The same order in every evaluation: other batches would change the last digits of the loss."""

    def __init__(self, batch_size: int, lengths: list[int], seed: int) -> None:
        super().__init__(batch_size, lengths=lengths, generator=torch.Generator())
        self._seed = seed

    @override
    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self._seed)
        yield from super().__iter__()


def one_batch_each(batches: BatchSampler, number: int, count: int) -> Iterator[list[int]]:
    """Yields an evaluation's batches of rank `number` of `count`; all get as many, so the last may come again."""
    remaining = iter(batches)
    while together := [*islice(remaining, count)]:
        yield together[min(number, len(together) - 1)]


def live_loader(loader: Any) -> DataLoader:
    """Returns the torch DataLoader inside accelerate's: its iterator holds the workers."""
    return getattr(loader, "base_dataloader", loader)


def use_own_generator(loader: Any) -> None:
    """Lets a loader start its workers without drawing from the global random numbers.

    torch draws a number when workers start. They live from epoch to epoch, so that a run draws it once: a resumed run
    must not draw it again.
    """
    live_loader(loader).generator = loader.generator = torch.Generator()


def batch_sampler_of(loader: Any) -> Any:
    """Returns the batch sampler inside accelerate's wrappers: of several ranks, and of an epoch that was resumed."""
    found = live_loader(loader).batch_sampler
    while hasattr(found, "batch_sampler"):
        found = found.batch_sampler
    return found


def step_size(args: TrainingArguments) -> int:
    """Returns samples of an optimizer step, of all ranks."""
    return int(args.train_batch_size * args.gradient_accumulation_steps * world_size())
