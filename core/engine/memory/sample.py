"""The engine's job `sample`: some steps of a run, timed in a fresh process, for the benchmark."""

import math
import time
from collections.abc import Callable
from typing import Any

import msgspec
import torch

from core.benchmark.result import Sample
from core.engine.devices.choose import ResolvedRun
from core.engine.memory.weigh import CurrentMemory, WeighedRun, WeighingTrainer, synchronize, weighing
from core.engine.training.trainer import generators, remember_random_state
from core.engine.training.what_ran import what_ran
from core.options import RunOptions
from core.options.method_rules import steps_of
from core.runs.events import WhatRan, split_non_finite

Tell = Callable[[int], None]
"""Receives how many steps that count have been made, those of the warm-up included."""


def sample(options: RunOptions, *, steps: int, warm_up: int, tell: Tell = lambda _done: None) -> Sample:
    """Train a few steps of `options`, and answer what they took. Memory that ran out is an answer too.

    Where the run is shorter than that, it is made as long.

    Args:
        options: The run's.
        steps: How many optimizer steps are timed.
        warm_up: How many come before; at least one, as the first is examined.
        tell: Receives how many steps were made, those of the warm-up included.

    Raises:
        UserError: The person can fix what stopped it.
    """
    with weighing(options) as (resolved, held):
        run = Sampling(resolved, held, steps=steps, warm_up=max(1, warm_up), tell=tell)
        return run.answer(run.train())


class SampledTrainer(WeighingTrainer):
    """Trains exactly as a run does.

    `first_loss` is that of the first batch before training, dropout off; None where it is no number, and before.
    `examining_seconds` is what finding that out took. `is_random` says whether the model drew random numbers while it
    computed its first batch.
    """

    first_loss: float | None = None
    examining_seconds = 0.0
    is_random = False
    _has_examined = False

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Compute one batch; before the first, it is evaluated."""
        if self._has_examined:
            return super().training_step(model, inputs, num_items_in_batch)
        self._has_examined = True
        begun = time.perf_counter()
        self._evaluate(model, inputs)
        before = self._random_state()
        self.examining_seconds = time.perf_counter() - begun
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.is_random = self._random_state() != before
        return loss

    def _evaluate(self, model: torch.nn.Module, inputs: dict[str, Any]) -> None:
        """Evaluate the batch, and leave no trace of it: neither in the random numbers nor in what learns."""
        restore = remember_random_state(self.args.device.type)
        training = [part for part in model.modules() if part.training]
        model.eval()
        loss, _, _ = self.prediction_step(model, inputs, prediction_loss_only=True)
        for part in training:
            part.training = True
        restore()
        self.first_loss, _ = split_non_finite(None if loss is None else float(loss))
        synchronize(self.args.device.type)

    def _random_state(self) -> list[bytes]:
        kind = self.args.device.type
        return [generator.get_rng_state().numpy().tobytes() for generator in generators(kind)]


class Sampling(WeighedRun):
    """`timed` are the seconds of full steps only, as the last step of an epoch may have fewer rows.

    `losses` are those of all steps, None where one is no number. `ran` is what ran, known after the first step.
    """

    trainer_class = SampledTrainer

    def __init__(
        self, resolved: ResolvedRun, held: CurrentMemory, *, steps: int, warm_up: int, tell: Tell
    ) -> None:
        super().__init__(resolved, held)
        self._steps = steps
        self._warm_up = warm_up
        self._tell = tell
        self.timed: list[float] = []
        self.losses: list[float | None] = []
        self.ran: WhatRan | None = None

    @property
    def _full(self) -> int:
        """Rows of a full step: no more than the data has."""
        return min(self.options.effective_batch, self.rows)

    def shortened(self) -> RunOptions:
        """Those of the run, which its schedule follows, made longer where it is too short."""
        total, an_epoch = steps_of(self.options, self.rows)
        full_ones = max(1, self.rows // self.options.effective_batch)
        enough = math.ceil((self._warm_up + self._steps) / full_ones) * an_epoch
        if total >= enough:
            return self.options
        change = msgspec.structs.replace
        return change(self.options, training=change(self.options.training, max_steps=enough))

    @property
    def weighs(self) -> bool:
        return len(self.seconds) < self._warm_up

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self.seconds:  # examining the first batch is no part of its step
            self._mark += self.trainer.examining_seconds
        super().on_step_end(args, state, control, **kwargs)

    def ended(self, losses: list[torch.Tensor], control: Any) -> None:
        """Take in the figures of the step, and stop after the last."""
        loss, _ = split_non_finite(sum(torch.stack(losses).tolist()))
        self.losses.append(loss)
        if self.ran is None:
            self.ran = what_ran(self.trainer, self.resolved)
        counted = len(self.seconds)
        if counted > self._warm_up:
            if self.trainer.last_step[0] < self._full:
                return
            self.timed.append(self.seconds[-1])
            counted = self._warm_up + len(self.timed)
        if len(self.timed) == self._steps:
            control.should_training_stop = True
        self._tell(counted)

    def answer(self, out_of_memory: str) -> Sample:
        """What is known by now; `out_of_memory` as in `Sample`."""
        parts, trainer = self.parts(), self.trainer
        return Sample(
            device=self.resolved.label,
            seconds=() if out_of_memory else tuple(self.timed),
            warm_up_seconds=tuple(self.seconds[: self._warm_up]),
            compile_seconds=self.compile_seconds,
            samples_a_step=self._full,
            rows=self.rows,
            losses=tuple(self.losses),
            first_loss=trainer.first_loss if trainer else None,
            is_random=trainer.is_random if trainer else False,
            parts=parts,
            peak=parts.total,
            base=self.held.base,
            ran=self.ran,
            out_of_memory=out_of_memory,
        )
