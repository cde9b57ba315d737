"""The engine's job `measure`, a dry run: a few real steps in a fresh process, on the longest batch of the data first.

A run that is too large for the memory finds that out here in its first two steps; by itself it might only when the
longest batch happens to come.
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
"""Two on the longest batch: only at the backward of the second is the optimizer's state there beside all else."""

ORDINARY_STEPS = 3
"""Then as many on ordinary ones: the time of the longest would predict too late an end. They stand for a third of the
run's steps each, the shortest, the middle and the longest third."""

PATIENCE_SECONDS = 60.0
"""After so long, one ordinary step has to do."""


def measure(options: RunOptions) -> Measurement:
    """Train a few steps of `options` and answer what they took. Memory that ran out is an answer too.

    Raises:
        UserError: The person can fix what stopped it.
    """
    with weighing(options) as (resolved, held):
        run = DryRun(resolved, held)
        return run.answer(run.train())


@dataclass(frozen=True)
class DryBatches:
    """Rows by their place in the data: those of the longest step, and those of each ordinary one."""

    longest: list[int]
    ordinary: list[list[int]]
    repeats: int = LONGEST_STEPS

    @property
    def order(self) -> list[int]:
        """All rows in the order they are trained on."""
        return [*self.longest * self.repeats, *(row for step in self.ordinary for row in step)]


def fitted(options: RunOptions, rows: int) -> tuple[int, int]:
    """Batch size and accumulation of a step on so many rows: a step can't have more rows than the data.

    A last batch of a step that is smaller than the others is filled up.
    """
    size = min(options.memory.batch_size, rows)
    return size, min(options.memory.gradient_accumulation_steps, -(-rows // size))


def pick(order: Sequence[int], lengths: Sequence[int] | None, options: RunOptions) -> DryBatches:
    """Choose the rows.

    Args:
        order: All rows as the run's own sampling draws them for an epoch.
        lengths: Tokens of each row; None: all are equal.
        options: Those of the real run.
    """
    total, _ = steps_of(options, len(order))
    size, accumulated = fitted(options, len(order))
    step = size * accumulated
    by_length = list(order)
    drawn = [list(order[start : start + step]) for start in range(0, len(order) - step + 1, step)]
    if lengths is not None:

        def padded(rows: list[int]) -> int:
            """Tokens of a step, each batch of it padded to its longest row."""
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

    `longest` is how many tokens a row of the first batch had, padding counted, and `longest_text` how many the longest
    text of the data has; None: no text.
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
    """Trains on the longest rows first, and stops where enough is known."""

    trainer_class = DryTrainer

    def shortened(self) -> RunOptions:
        """For a trainer that is fed the rows of a few steps, as one epoch."""
        size, accumulated = fitted(self.options, self.rows)
        change, options = msgspec.structs.replace, self.options
        return change(
            options,
            memory=change(options.memory, batch_size=size, gradient_accumulation_steps=accumulated),
            training=change(options.training, epochs=1.0, max_steps=None),
        )

    @property
    def weighs(self) -> bool:
        """Whether it is a step on the longest batch."""
        return len(self.seconds) < self.trainer.batches.repeats

    def ended(self, losses: list[torch.Tensor], control: Any) -> None:
        is_ordinary = len(self.seconds) > self.trainer.batches.repeats
        if is_ordinary and time.perf_counter() - self._begun > PATIENCE_SECONDS:
            control.should_training_stop = True

    def answer(self, out_of_memory: str) -> Measurement:
        """What is known by now; `out_of_memory` as in `Measurement`."""
        parts, trainer, seconds = self.parts(), self.trainer, self.seconds
        # of the steps on the longest batch the last, as the first does what is done only once
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
