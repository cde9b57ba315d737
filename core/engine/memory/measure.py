"""The dry run: a few real steps in a fresh process, on the longest batch of the real data first.

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

from core.engine.data.token_cache import lengths_of
from core.engine.devices.choose import ResolvedRun
from core.engine.memory.weigh import WeighedRun, WeighingCallback, WeighingTrainer, weighed
from core.engine.reporter import Reporter
from core.memory.model import Measurement
from core.options import RunOptions
from core.options.method_rules import steps_of

# --- Which rows a dry run trains on: the longest of the real data first


LONGEST_STEPS = 2
"""Two on the longest batch: only at the backward of the second is the optimizer's state there beside all else."""

ORDINARY_STEPS = 3
"""Then as many on ordinary ones. The longest take the longest, so that their time would promise too late an end; these
stand for a third of the run's steps each, the shortest, the middle and the longest third."""


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
    by_length = list(order) if lengths is None else sorted(order, key=lambda row: -lengths[row])
    drawn = [list(order[start : start + step]) for start in range(0, len(order) - step + 1, step)]
    if lengths is not None:
        drawn.sort(key=lambda found: _padded(found, lengths, size))
    repeats = min(LONGEST_STEPS, total)
    return DryBatches(
        longest=list(islice(cycle(by_length), step)),
        ordinary=_spread(drawn, min(ORDINARY_STEPS, total - repeats)),
        repeats=repeats,
    )


def _padded(rows: Sequence[int], lengths: Sequence[int], size: int) -> int:
    """Tokens of a step, each batch of it padded to its longest row."""
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    return sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)


def _spread(steps: Sequence[list[int]], count: int) -> list[list[int]]:
    """So many of `steps`, evenly spread over them; some twice where there are fewer."""
    if not steps:
        return []
    return [steps[len(steps) * (2 * index + 1) // (2 * count)] for index in range(count)]


# --- The trainer of a dry run: that of a real run, fed other rows


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


# --- The dry run: a few real steps in a fresh process


def measure(options: RunOptions) -> Measurement:
    """Train a few steps of what `options` ask for and answer what they took. Memory that ran out is an answer too.

    Raises:
        UserError: The person can mend what stopped it.
    """
    return weighed(options, _DryRun)


class _DryRun(WeighedRun[Measurement]):
    """Trains on the longest rows first."""

    _trainer: DryTrainer | None
    _watch: DryCallback | None

    def shortened(self) -> RunOptions:
        """The options for a trainer that is fed the rows of a few steps, as one epoch."""
        size, accumulated = fitted(self.options, self.rows)
        change, options = msgspec.structs.replace, self.options
        return change(
            options,
            memory=change(options.memory, batch_size=size, gradient_accumulation_steps=accumulated),
            training=change(options.training, epochs=1.0, max_steps=None),
        )

    def trained_by(self) -> type[WeighingTrainer]:
        """That of the longest rows."""
        return DryTrainer

    def watched(self, trainer: WeighingTrainer, resolved: ResolvedRun, reporter: Reporter) -> DryCallback:
        """What times its steps."""
        assert isinstance(trainer, DryTrainer)
        trainer.options = self.options
        return DryCallback(trainer, resolved.kind)

    def answer(self, out_of_memory: str = "") -> Measurement:
        """What is known by now; `out_of_memory` as in `Measurement`."""
        parts, trainer, watch = self.parts(), self._trainer, self._watch
        compiling = self.compile_seconds()
        ordinary = watch.ordinary_seconds if watch else []
        steps = steps_of(self.options, self.rows)[0] if self.rows else None
        return Measurement(
            device=self.resolved.label,
            parts=parts,
            peak=parts.total,
            base=self.held.base,
            longest=trainer.longest if trainer else None,
            longest_text=trainer.longest_text if trainer else None,
            longest_step_seconds=watch.longest_seconds if watch else None,
            step_seconds=statistics.fmean(ordinary) if ordinary else None,
            compile_seconds=compiling,
            train_samples=self.rows or None,
            total_steps=steps,
            run_seconds=compiling + steps * statistics.fmean(ordinary) if ordinary and steps else None,
            out_of_memory=out_of_memory,
        )
