"""The engine's job `sample`: times steps of a run in a process of their own, for the benchmark."""

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

OnStep = Callable[[int], None]
"""Called with the number of full steps so far, including warm-up."""


def sample(options: RunOptions, *, steps: int, warm_up: int, tell: OnStep = lambda _done: None) -> Sample:
    """Train a few steps and return their memory and time, also if memory runs out.

    Args:
        options: The run's options; a run that is too short is extended.
        steps: Number of timed optimizer steps.
        warm_up: Number of steps before; at least one, because the first batch is also evaluated.
        tell: Called after each step.

    Raises:
        UserError: The options or the data can't be used.
    """
    with weighing(options) as (resolved, held):
        run = Sampling(resolved, held, steps=steps, warm_up=max(1, warm_up), tell=tell)
        return run.result(run.train())


class SampledTrainer(WeighingTrainer):
    """Trains exactly as in a run.

    Attributes:
        first_loss: The loss of the first batch before training, without dropout; None if NaN.
        examining_seconds: How long computing it took.
        is_random: Whether the model drew random numbers in its first training pass.
    """

    first_loss: float | None = None
    examining_seconds = 0.0
    is_random = False
    _has_examined = False

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
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
        """Compute `first_loss` without changing the random states or the model."""
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
    """Times full steps; the last step of an epoch may have fewer rows.

    Attributes:
        timed: Durations of the full steps.
        losses: Losses of all steps; None for NaN.
        ran: What ran, set by the first step.
    """

    trainer_class = SampledTrainer

    def __init__(
        self, resolved: ResolvedRun, held: CurrentMemory, *, steps: int, warm_up: int, tell: OnStep
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
        """The number of rows of a full step."""
        return min(self.options.effective_batch, self.rows)

    def shortened(self) -> RunOptions:
        """The run's options, which determine its schedule; extended if the run is too short."""
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
        if not self.seconds:  # evaluating the first batch isn't part of its step
            self._mark += self.trainer.examining_seconds
        super().on_step_end(args, state, control, **kwargs)

    def on_measured(self, losses: list[torch.Tensor], control: Any) -> None:
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

    def result(self, out_of_memory: str) -> Sample:
        """The figures so far; `out_of_memory` as in `Sample`."""
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
