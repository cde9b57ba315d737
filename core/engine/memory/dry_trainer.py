"""The trainer of a dry run: that of a real run, fed other rows, with an eye on what takes the memory."""

import time
from typing import Any

import torch

from core.engine.data.lengths import lengths_of
from core.engine.memory.dry_batches import DryBatches, pick
from core.engine.memory.weighing import WeighingCallback, WeighingTrainer
from core.options import RunOptions

PATIENCE_SECONDS = 60.0
"""After so long, one ordinary step has to do."""


class DryTrainer(WeighingTrainer):
    """Trains on the rows of `DryBatches`. `options` are those of the real run, to be set before training.

    `longest` is how many tokens a row of the first batch had, padding counted, and `longest_text` how many the longest
    text of the data has; None: no text.
    """

    options: RunOptions
    batches: DryBatches
    longest: int | None = None
    longest_text: int | None = None

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        own = super()._get_train_sampler(train_dataset)
        lengths = lengths_of(self.train_dataset)
        self.longest_text = max(lengths or (), default=None)
        self.batches = pick(list(own or ()), lengths, self.options)
        return self.batches.order

    def _prepare_inputs(self, inputs: Any) -> Any:
        if self.longest is None and "input_ids" in inputs:
            self.longest = int(inputs["input_ids"].shape[1])
        return super()._prepare_inputs(inputs)


class DryCallback(WeighingCallback):
    """Weighs while the longest batch is there, and stops where enough is known."""

    _trainer: DryTrainer

    def __init__(self, trainer: DryTrainer, kind: str) -> None:
        super().__init__(trainer, kind)
        self._trainer = trainer

    @property
    def weighs(self) -> bool:
        """Whether it is a step on the longest batch."""
        return len(self.seconds) < self._trainer.batches.repeats

    def ended(self, losses: list[torch.Tensor], control: Any) -> None:
        """Stop where ordinary steps take long."""
        is_ordinary = len(self.seconds) > self._trainer.batches.repeats
        if is_ordinary and time.perf_counter() - self._begun > PATIENCE_SECONDS:
            control.should_training_stop = True

    @property
    def longest_seconds(self) -> float | None:
        """A steady step on the longest batch: the last of them, as the first does what is done only once."""
        repeats = self.seconds[: self._trainer.batches.repeats] if self.seconds else []
        return repeats[-1] if repeats else None

    @property
    def ordinary_seconds(self) -> list[float]:
        """Steps as the run draws them; those on the longest batch where a run has no more."""
        return self.seconds[self._trainer.batches.repeats :] or self.seconds[-1:]
