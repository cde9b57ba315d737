"""The engine's job `sample`: some steps of a run, timed in a fresh process, on the rows as the run draws them."""

import math
from functools import partial

import msgspec

from core.bench.sample import Sample
from core.engine.devices import Choice
from core.engine.fallback import report_fallbacks
from core.engine.memory.held import HeldMemory
from core.engine.memory.weighed_run import WeighedRun, weighed
from core.engine.memory.weighing import WeighingTrainer
from core.engine.reporter import Reporter
from core.engine.sampling.callback import SamplingCallback, Tell
from core.engine.sampling.trainer import SampledTrainer
from core.extent import steps_of
from core.options import RunOptions


def sample(options: RunOptions, *, steps: int, warm_up: int, tell: Tell = lambda _done: None) -> Sample:
    """Train a few steps of what `options` ask for, and answer what they took. Memory that ran out is an answer too.

    Where the run is shorter than that, it is made as long.

    Args:
        options: What is asked.
        steps: How many optimizer steps are timed.
        warm_up: How many come before. One does in any case: the first is looked at from close by.
        tell: Hears how many steps were made, those of the warm-up included.

    Raises:
        UserError: The person can mend what stopped it.
    """
    return weighed(options, partial(_Sampling, steps=steps, warm_up=max(1, warm_up), tell=tell))


class _Sampling(WeighedRun[Sample]):
    """Trains as the run does."""

    _trainer: SampledTrainer | None
    _watch: SamplingCallback | None

    def __init__(self, choice: Choice, held: HeldMemory, *, steps: int, warm_up: int, tell: Tell) -> None:
        super().__init__(choice, held)
        self._steps = steps
        self._warm_up = warm_up
        self._tell = tell

    @property
    def _full(self) -> int:
        """Rows of a full step: no more than the data has."""
        return min(self.options.effective_batch, self.rows)

    def shortened(self) -> RunOptions:
        """The options for the trainer: those of the run, which its schedule follows, made longer where it is too short.

        Of an epoch, only the full steps are timed.
        """
        total, an_epoch = steps_of(self.options, self.rows)
        full_ones = max(1, self.rows // self.options.effective_batch)
        enough = math.ceil((self._warm_up + self._steps) / full_ones) * an_epoch
        if total >= enough:
            return self.options
        change = msgspec.structs.replace
        return change(self.options, training=change(self.options.training, max_steps=enough))

    def trained_by(self) -> type[WeighingTrainer]:
        """That of the run, which looks at its first batch."""
        return SampledTrainer

    def watched(self, trainer: WeighingTrainer, choice: Choice, reporter: Reporter) -> SamplingCallback:
        """What times its steps."""
        assert isinstance(trainer, SampledTrainer)
        if choice.kind == "mps":
            trainer.fell_back = report_fallbacks(reporter)
        return SamplingCallback(
            trainer, choice, warm_up=self._warm_up, steps=self._steps, full=self._full, tell=self._tell
        )

    def answer(self, out_of_memory: str = "") -> Sample:
        """What is known by now; `out_of_memory` as in `Sample`."""
        parts, trainer, watch = self.parts(), self._trainer, self._watch
        return Sample(
            device=self.choice.label,
            seconds=tuple(watch.timed) if watch and not out_of_memory else (),
            warm_up_seconds=tuple(watch.warm_up_seconds) if watch else (),
            compile_seconds=self.compile_seconds(),
            samples_a_step=self._full,
            rows=self.rows,
            losses=tuple(watch.losses) if watch else (),
            first_loss=trainer.first_loss if trainer else None,
            is_random=trainer.is_random if trainer else False,
            parts=parts,
            peak=parts.total,
            base=self.held.base,
            ran=watch.ran if watch else None,
            out_of_memory=out_of_memory,
        )
