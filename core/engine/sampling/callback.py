"""Times the steps of a measurement, and ends it when there are enough."""

from collections.abc import Callable
from typing import Any

import torch

from core.engine.devices import Choice
from core.engine.memory.weighing import WeighingCallback
from core.engine.sampling.trainer import SampledTrainer
from core.engine.what_ran import what_ran
from core.events import WhatRan, split_non_finite

Tell = Callable[[int], None]
"""Hears how many steps have been made that count, those of the warm-up included."""


class SamplingCallback(WeighingCallback):
    """Follows the steps.

    `timed` are the seconds of the timed ones: full ones only, as the last step of an epoch may have fewer rows.
    `losses` are those of all steps, None where one is no number. `ran` is what ran, told after the first step.

    Args:
        trainer: Whose steps they are.
        choice: What it computes on.
        warm_up: So many steps at the beginning aren't timed.
        steps: So many are.
        full: Rows that a full step learns from.
        tell: Hears of each step that counts.
    """

    _trainer: SampledTrainer

    def __init__(
        self, trainer: SampledTrainer, choice: Choice, *, warm_up: int, steps: int, full: int, tell: Tell
    ) -> None:
        super().__init__(trainer, choice.kind)
        self._trainer = trainer
        self._choice = choice
        self._warm_up = warm_up
        self._steps = steps
        self._full = full
        self._tell = tell
        self.timed: list[float] = []
        self.losses: list[float | None] = []
        self.ran: WhatRan | None = None

    @property
    def warm_up_seconds(self) -> list[float]:
        """The steps that came before the timed ones."""
        return self.seconds[: self._warm_up]

    @property
    def weighs(self) -> bool:
        """Whether it is a step of the warm-up."""
        return len(self.seconds) < self._warm_up

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the time; that of looking at the first batch is none of its step's."""
        if not self.seconds:
            self._mark += self._trainer.looking_seconds
        super().on_step_end(args, state, control, **kwargs)

    def ended(self, losses: list[torch.Tensor], control: Any) -> None:
        """Take in the figures of the step, and stop after the last."""
        loss, _ = split_non_finite(sum(torch.stack(losses).tolist()))
        self.losses.append(loss)
        if self.ran is None:
            self.ran = what_ran(self._trainer, self._choice)
        counted = len(self.seconds)
        if counted > self._warm_up:
            if self._trainer.last_step[0] < self._full:
                return
            self.timed.append(self.seconds[-1])
            counted = self._warm_up + len(self.timed)
        if len(self.timed) == self._steps:
            control.should_training_stop = True
        self._tell(counted)
