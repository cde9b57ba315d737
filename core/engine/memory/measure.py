"""The dry run: a few real steps in a fresh process, on the longest batch of the real data first.

A run that is too large for the memory finds that out here in its first two steps; by itself it might only when the
longest batch happens to come.
"""

import statistics

import msgspec

from core.engine.devices import Choice
from core.engine.memory.dry_batches import fitted
from core.engine.memory.dry_trainer import DryCallback, DryTrainer
from core.engine.memory.weighed_run import WeighedRun, weighed
from core.engine.memory.weighing import WeighingTrainer
from core.engine.reporter import Reporter
from core.extent import steps_of
from core.memory.forecast import Measurement
from core.options import RunOptions


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

    def watched(self, trainer: WeighingTrainer, choice: Choice, reporter: Reporter) -> DryCallback:
        """What times its steps."""
        assert isinstance(trainer, DryTrainer)
        trainer.options = self.options
        return DryCallback(trainer, choice.kind)

    def answer(self, out_of_memory: str = "") -> Measurement:
        """What is known by now; `out_of_memory` as in `Measurement`."""
        parts, trainer, watch = self.parts(), self._trainer, self._watch
        compiling = self.compile_seconds()
        ordinary = watch.ordinary_seconds if watch else []
        steps = steps_of(self.options, self.rows)[0] if self.rows else None
        return Measurement(
            device=self.choice.label,
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
