"""The engine's jobs `measure` and `sample`: a few real steps in a process of their own.

`measure` is a dry run with the longest batch first: a run that is too large fails in the first two steps, not hours
later. `sample` times steps for the benchmark.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import msgspec
import torch

from core.benchmark.result import Sample
from core.engine.data.tables import lengths_of
from core.engine.devices.choose import ResolvedRun
from core.engine.memory.weigh import CurrentMemory, WeighedRun, WeighingTrainer, synchronize, weighing
from core.engine.training.trainer import generators, remember_random_state
from core.engine.training.what_ran import what_ran
from core.memory.model import Measurement
from core.options import RunOptions
from core.options.method_rules import steps_of
from core.runs.events import WhatRan, split_non_finite

# --- sample


OnStep = Callable[[int], None]
"""Called with the number of full steps so far, including warm-up."""


def sample(options: RunOptions, *, steps: int, warm_up: int, tell: OnStep = lambda _done: None) -> Sample:
    """Train a few steps and return their memory and time, also if memory runs out.

    Args:
        options: The run's options; a run that is too short is extended.
        warm_up: Number of steps before; at least one, because the first batch is also evaluated.

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


# --- measure


LONGEST_STEPS = 2
"""Only in the backward pass of the second step does the optimizer's state exist besides everything else."""

ORDINARY_STEPS = 3
"""Steps from the shortest, middle and longest third of the run's batches, for the mean time."""

PATIENCE_SECONDS = 60.0
"""After this time, a single ordinary step is measured."""


def measure(options: RunOptions) -> Measurement:
    """Train a few steps and return their memory and time, also if memory runs out.

    Raises:
        UserError: The options or the data can't be used.
    """
    with weighing(options) as (resolved, held):
        run = DryRun(resolved, held)
        return run.result(run.train())


@dataclass(frozen=True)
class DryBatches:
    """Indices of the rows of the longest step, which is done `repeats` times, and of each ordinary step."""

    longest: list[int]
    ordinary: list[list[int]]
    repeats: int = LONGEST_STEPS

    @property
    def order(self) -> list[int]:
        return [*self.longest * self.repeats, *(row for step in self.ordinary for row in step)]


def fitted(options: RunOptions, rows: int) -> tuple[int, int]:
    """Batch size and accumulation steps, limited to `rows`; the last batch of a step is filled up."""
    size = min(options.memory.batch_size, rows)
    return size, min(options.memory.gradient_accumulation_steps, -(-rows // size))


def pick(order: Sequence[int], lengths: Sequence[int] | None, options: RunOptions) -> DryBatches:
    """Choose the rows.

    Args:
        order: All rows in the order of the run's sampler.
        lengths: The number of tokens of each row; None if all are equal.
    """
    total, _ = steps_of(options, len(order))
    size, accumulated = fitted(options, len(order))
    step = size * accumulated
    by_length = list(order)
    drawn = [list(order[start : start + step]) for start in range(0, len(order) - step + 1, step)]
    if lengths is not None:

        def padded(rows: list[int]) -> int:
            """The number of tokens of a step whose batches are padded to their longest row."""
            batches = [rows[start : start + size] for start in range(0, len(rows), size)]
            return sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)

        by_length.sort(key=lambda row: -lengths[row])
        drawn.sort(key=padded)
    repeats = min(LONGEST_STEPS, total)
    count = min(ORDINARY_STEPS, total - repeats) if drawn else 0
    spread = [drawn[len(drawn) * (2 * index + 1) // (2 * count)] for index in range(count)]
    return DryBatches(list(islice(cycle(by_length), step)), spread, repeats)


class DryTrainer(WeighingTrainer):
    """Trains on the rows of `batches`.

    Attributes:
        longest: Padded length of the first batch in tokens; None without texts.
        longest_text: Length of the longest text in tokens; None without texts.
    """

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


class DryRun(WeighedRun):
    """The dry run of a run."""

    trainer_class = DryTrainer

    def shortened(self) -> RunOptions:
        """One epoch of the selected rows."""
        size, accumulated = fitted(self.options, self.rows)
        change, options = msgspec.structs.replace, self.options
        return change(
            options,
            memory=change(options.memory, batch_size=size, gradient_accumulation_steps=accumulated),
            training=change(options.training, epochs=1.0, max_steps=None),
        )

    @property
    def weighs(self) -> bool:
        return len(self.seconds) < self.trainer.batches.repeats

    def on_measured(self, losses: list[torch.Tensor], control: Any) -> None:
        is_ordinary = len(self.seconds) > self.trainer.batches.repeats
        if is_ordinary and time.perf_counter() - self._begun > PATIENCE_SECONDS:
            control.should_training_stop = True

    def result(self, out_of_memory: str) -> Measurement:
        """The figures so far; `out_of_memory` as in `Measurement`."""
        parts, trainer, seconds = self.parts(), self.trainer, self.seconds
        # the last step on the longest batch: the first includes one-time work
        longest = seconds[: trainer.batches.repeats][-1] if seconds else None
        ordinary = (seconds[trainer.batches.repeats :] or seconds[-1:]) if seconds else []
        mean = statistics.fmean(ordinary) if ordinary else None
        steps = steps_of(self.options, self.rows)[0] if self.rows else None
        return Measurement(
            device=self.resolved.label,
            parts=parts,
            peak=parts.total,
            base=self.held.base,
            longest=trainer.longest if trainer else None,
            longest_text=trainer.longest_text if trainer else None,
            longest_step_seconds=longest,
            step_seconds=mean,
            compile_seconds=self.compile_seconds,
            train_samples=self.rows or None,
            total_steps=steps,
            run_seconds=self.compile_seconds + steps * mean if mean is not None and steps else None,
            out_of_memory=out_of_memory,
        )
