"""What happens in a run, as events in the order in which any engine comes to it."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from core.base.errors import Fix, UserError
from core.base.formats import METRIC_NAMES
from core.base.language import _
from core.engine.reporter import Reporter
from core.engine.run import checkpoints
from core.engine.run.failures import Diverged
from core.engine.run.steps import Fetch, StepLog, StepOnDevice, StepParts, numbers
from core.options import RunOptions
from core.options.choices import Precision
from core.options.method_rules import steps_hint, warmup_problem
from core.runs.events import (
    CheckpointSaved,
    Evaluated,
    Phase,
    RunPlanned,
    WhatRan,
    split_non_finite,
)
from core.runs.models import Checkpoint

PROGRESS_SECONDS = 1.0
"""How often the progress of an evaluation is reported."""
NON_FINITE_STEPS = 3
"""Steps in a row with a loss of NaN or infinity that end the run."""


@dataclass(frozen=True)
class RanDifferently:
    """An option, by its path, that ran otherwise than chosen."""

    path: str
    title: str
    detail: str


class RunLog:
    """Writes a run's plan, steps, evaluations and checkpoints as events, and times what isn't a part of a step.

    Args:
        reporter: Writes the events.
        options: The run's, without automatic values.
        parts: Times the parts of a step; the engine says where they end.
        fetch: Reads figures of steps from the device.
        sample_memory: Called whenever figures were read, for the peak of the device's memory.

    Attributes:
        total: The steps of the run, once planned.
    """

    def __init__(
        self,
        reporter: Reporter,
        options: RunOptions,
        parts: StepParts,
        fetch: Fetch = numbers,
        sample_memory: Callable[[], object] = lambda: None,
    ) -> None:
        self.reporter = reporter
        self.parts = parts
        self.options = options
        self._steps = StepLog(reporter, parts, fetch, sample_memory, is_exact=options.only_measures)
        self.total = 0
        self._mark = time.perf_counter()
        self._told: float | None = None

    @property
    def samples_per_second(self) -> float | None:
        """Samples per second of the steps, without evaluation, saving and compilation; None before a step."""
        return self._steps.samples_per_second

    def plan(self, planned: RunPlanned) -> None:
        """Reports the plan, and starts the clock of the first step.

        Raises:
            UserError: The warm-up is no shorter than the run, or early stopping has nothing to evaluate.
        """
        if too_long := warmup_problem(self.options, planned.total_steps):
            raise UserError(too_long.message, fixes=too_long.fixes)
        if self.options.training.early_stopping_patience and not planned.eval_samples:
            fix = Fix(_("Don't stop early"), {"training.early_stopping_patience": 0})
            raise UserError(_("early stopping needs validation data"), fixes=(fix,))
        if too_many := steps_hint(self.options, planned.train_samples):
            self.reporter.note("many-epochs", too_many.message)
        self.total = planned.total_steps
        self.reporter.write(planned)
        self.reporter.phase(Phase.TRAINING)
        self.begin_step()

    def begin_step(self) -> None:
        """Starts the clock of the next step."""
        if self.parts.is_due:  # the device has to be idle
            self.flush()
        self.parts.begin()
        self._mark = time.perf_counter()

    def since_mark(self) -> float:
        """Returns the seconds since the step, the evaluation or the saving under way has begun."""
        return time.perf_counter() - self._mark

    def end_step(self, step: StepOnDevice) -> None:
        """Reports a step.

        Raises:
            Diverged: The loss has been NaN or infinite for several steps.
        """
        self._steps.add(step)
        if self._steps.non_finite_in_a_row >= NON_FINITE_STEPS:
            reason = _("It was NaN or infinite for {count} steps in a row, so the weights are lost.")
            in_fewer_bits = self.options.device.precision is not Precision.FP32
            raise Diverged(reason.format(count=NON_FINITE_STEPS), in_fewer_bits=in_fewer_bits)

    def state_what_ran(self, ran: WhatRan, differences: Iterable[RanDifferently]) -> None:
        """Reports what ran, after the first step, and warns of what wasn't chosen so."""
        self.flush()
        self.reporter.write(ran)
        for difference in differences:
            self.reporter.warn(f"ran-differently-{difference.path}", difference.title, difference.detail)

    def flush(self) -> None:
        """Writes the steps so far; the device ends them before: their time is no evaluation's."""
        self._steps.flush()

    def evaluating(self, done: int, batches: int) -> None:
        """Reports how many batches of an evaluation are done; call after each."""
        if self._told is None:
            self.flush()
            self._mark = time.perf_counter()
            self.reporter.phase(Phase.EVALUATING)
            self._told = time.monotonic()
        if time.monotonic() - self._told >= PROGRESS_SECONDS:
            self._told = time.monotonic()
            self.reporter.phase(Phase.EVALUATING, f"{done}/{batches}")

    def evaluated(
        self,
        step: int,
        epoch: float,
        metrics: Mapping[str, float],
        seconds: float,
        baseline: float | None = None,
    ) -> None:
        """Reports the metrics that Hone knows; NaN becomes None."""
        known = {name: split_non_finite(value)[0] for name, value in metrics.items() if name in METRIC_NAMES}
        self.reporter.write(
            Evaluated(
                step=step,
                epoch=epoch,
                metrics=known,
                seconds=seconds,
                train_loss=self._steps.take_mean_loss(),
                baseline=baseline,
            )
        )
        self._told = None
        self.go_on(step)

    def begin_saving(self) -> None:
        self.flush()
        self._mark = time.perf_counter()
        self.reporter.phase(Phase.SAVING)

    def saved(self, saved: Checkpoint, best: int | None = None) -> None:
        """Reports a checkpoint, and removes old ones except that of the best step."""
        checkpoints.keep(saved.path.parent, max(1, self.options.output.keep_checkpoints), {best})
        self.tell_saved(saved, self.since_mark())

    def tell_saved(self, saved: Checkpoint, seconds: float = 0.0) -> None:
        """Reports a checkpoint, which may have existed already."""
        path = f"{saved.path.parent.name}/{saved.path.name}"
        self.reporter.write(CheckpointSaved(step=saved.step, path=path, bytes=saved.bytes, seconds=seconds))

    def go_on(self, step: int) -> None:
        """Goes back to training after an evaluation or a checkpoint, unless `step` was the last one."""
        if step < self.total:
            self.reporter.phase(Phase.TRAINING)
        self.begin_step()
