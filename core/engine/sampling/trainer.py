"""The trainer of a measurement: that of a real run, on the rows that it draws, looked at before it learns anything."""

import time
from typing import Any

import torch

from core.engine.memory.weighing import WeighingTrainer, synchronize
from core.engine.random_state import generators, remember
from core.events import split_non_finite


class SampledTrainer(WeighingTrainer):
    """Trains exactly as a run does.

    `first_loss` is that of the first batch as an evaluation computes it, dropout off, before anything was learned; None
    where it is no number, and before. `looking_seconds` is what finding that out took. `is_random` says whether the
    model drew random numbers while it computed its first batch.
    """

    first_loss: float | None = None
    looking_seconds = 0.0
    is_random = False
    _has_looked = False

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Compute one batch; before the first, it is evaluated."""
        if self._has_looked:
            return super().training_step(model, inputs, num_items_in_batch)
        self._has_looked = True
        begun = time.perf_counter()
        self._look(model, inputs)
        before = self._random_state()
        self.looking_seconds = time.perf_counter() - begun
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.is_random = self._random_state() != before
        return loss

    def _look(self, model: torch.nn.Module, inputs: dict[str, Any]) -> None:
        """Evaluate the batch, and leave no trace of it: neither in the random numbers nor in what learns."""
        take_back = remember(self._kind)
        learning = [part for part in model.modules() if part.training]
        model.eval()
        loss, _, _ = self.prediction_step(model, inputs, prediction_loss_only=True)
        for part in learning:
            part.training = True
        take_back()
        self.first_loss, _ = split_non_finite(None if loss is None else float(loss))
        synchronize(self._kind)

    def _random_state(self) -> list[bytes]:
        return [generator.get_rng_state().numpy().tobytes() for generator in generators(self._kind)]

    @property
    def _kind(self) -> str:
        return str(self.args.device.type)
