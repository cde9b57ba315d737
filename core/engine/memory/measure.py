"""The engine's job `measure`, a dry run: a few real steps in a process of their own, the longest batch first.

A run that is too large fails in the first two of them, not hours later at its longest batch.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import msgspec
import torch

from core.engine.data.tables import lengths_of
from core.engine.memory.weigh import WeighedRun, WeighingTrainer, weighing
from core.memory.model import Measurement
from core.options import RunOptions
from core.options.method_rules import steps_of

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
        options: The run's options.
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
