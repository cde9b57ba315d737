"""What Hone adds to Trainer's loop: reports of steps, evaluations and checkpoints."""

import math
import time
from typing import Any

from transformers import TrainerCallback

from core.checkpoint_files import Checkpoint
from core.engine import checkpoints
from core.engine.asked_and_ran import differences
from core.engine.best import best_step
from core.engine.devices import Choice
from core.engine.lost_weights import lost_weights
from core.engine.reporter import Reporter
from core.engine.step_log import StepLog
from core.engine.step_parts import Part
from core.engine.trainer import WatchedTrainer
from core.engine.what_ran import what_ran
from core.errors import UserError
from core.events import CheckpointSaved, Evaluated, Phase, RunPlanned, split_non_finite
from core.extent import steps_hint, warmup_problem
from core.metrics import METRIC_NAMES
from core.options import RunOptions

NON_FINITE_STEPS = 3
"""So many steps in a row with a loss that is no number end the run: the weights are lost by then."""


class ReportCallback(TrainerCallback):
    """Writes each step, evaluation and checkpoint as an event."""

    def __init__(
        self,
        *,
        reporter: Reporter,
        trainer: WatchedTrainer,
        choice: Choice,
        log: StepLog,
        labels: tuple[str, ...],
        options: RunOptions,
    ) -> None:
        self._reporter = reporter
        self._trainer = trainer
        self._choice = choice
        self._log = log
        self._labels = labels
        self._options = options
        self._mark = time.perf_counter()
        self._learning_rate = 0.0
        self._evaluating = False
        self._told_what_ran = False
        trainer.when_saving = self._begin_saving

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Say what is planned, as Trainer has counted it, and start the clock of the first step.

        Raises:
            UserError: The warm-up is no shorter than the run, which only now is known to be so short.
        """
        too_long = warmup_problem(self._options, state.max_steps)
        if too_long:
            raise UserError("The warm-up is longer than the run", f"{too_long.message}.", too_long.fixes)
        samples, evaluation = len(self._trainer.train_dataset), self._trainer.eval_dataset
        if too_many := steps_hint(self._options, samples):
            self._reporter.note(
                "many-epochs", "The run is longer than it needs to be", f"{too_many.message}."
            )
        self._reporter.write(
            RunPlanned(
                total_steps=state.max_steps,
                epochs=self._planned_epochs(state.max_steps, len(kwargs["train_dataloader"])),
                train_samples=samples,
                eval_samples=0 if evaluation is None else len(evaluation),
                effective_batch=self._options.effective_batch,
                labels=self._labels,
                device=self._choice.label,
            )
        )
        self._reporter.phase(Phase.TRAINING)
        self._begin_step()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the clock anew: what was done between two epochs is no part of a step."""
        self._back_to_training(state)

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, optimizer: Any, **kwargs: Any
    ) -> None:
        """Note the learning rate of this step, before the schedule moves it on."""
        self._learning_rate = float(optimizer.param_groups[0]["lr"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the step; its time runs from the end of the one before, waiting for data included."""
        self._trainer.parts.lap(Part.OPTIMIZER)
        now = time.perf_counter()
        self._log.add(self._trainer, now - self._mark, self._learning_rate)
        if not self._told_what_ran:
            self._told_what_ran = True
            self._log.flush()
            self._tell_what_ran()
        if self._log.non_finite_in_a_row >= NON_FINITE_STEPS:
            raise lost_weights(
                self._trainer.args,
                f"It was NaN or infinite for {NON_FINITE_STEPS} steps in a row, so the weights are lost.",
            )
        self._begin_step()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Let the steps be done before the device evaluates: the wait for that would be counted as theirs."""
        if control.should_evaluate:
            self._log.flush()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Say once that evaluation has begun."""
        if not self._evaluating:
            self._evaluating = True
            self._log.flush()
            self._mark = time.perf_counter()
            self._reporter.phase(Phase.EVALUATING)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any
    ) -> None:
        """Report the metrics; NaN becomes None."""
        kept = {name: split_non_finite(value)[0] for name, value in metrics.items() if name in METRIC_NAMES}
        seconds = metrics.get("eval_runtime", 0.0)
        self._reporter.write(
            Evaluated(step=state.global_step, epoch=state.epoch or 0.0, metrics=kept, seconds=seconds)
        )
        self._evaluating = False
        self._back_to_training(state)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the checkpoint that was just written, and remove those that are kept no longer."""
        saved = self._trainer.last_saved
        if saved is None or not self._trainer.saved_anew:
            return
        output = self._options.output
        best = {best_step(state.log_history)} if output.keep_best else ()
        checkpoints.keep(saved.path.parent, max(1, output.keep_checkpoints), best)
        self._reporter.write(told(saved, time.perf_counter() - self._mark))
        self._back_to_training(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the last steps."""
        self._log.flush()

    def _begin_saving(self) -> None:
        """Tell the steps so far, and that what follows is none."""
        self._log.flush()
        self._mark = time.perf_counter()
        self._reporter.phase(Phase.SAVING)

    def _tell_what_ran(self) -> None:
        ran = what_ran(self._trainer, self._choice)
        self._reporter.write(ran)
        for found in differences(self._options, ran):
            self._reporter.warn(found.message_id, found.title, found.detail)

    def _planned_epochs(self, steps: int, batches: int) -> float:
        if self._options.training.max_steps is None:
            return self._options.training.epochs
        return epochs_of(steps, batches, self._options.memory.gradient_accumulation_steps)

    def _back_to_training(self, state: Any) -> None:
        if state.global_step < state.max_steps:
            self._reporter.phase(Phase.TRAINING)
        self._begin_step()

    def _begin_step(self) -> None:
        """Start the clock of the next step; where it is to be taken apart, the device is idle first."""
        if self._trainer.parts.is_due:
            self._log.flush()
        self._trainer.parts.begin()
        self._mark = time.perf_counter()


def told(saved: Checkpoint, seconds: float) -> CheckpointSaved:
    """What is said of a checkpoint that took so long to write."""
    path = f"{saved.path.parent.name}/{saved.path.name}"
    return CheckpointSaved(step=saved.step, path=path, bytes=saved.bytes, seconds=seconds)


def epochs_of(steps: int, batches: int, batches_a_step: int) -> float:
    """How often so many steps go through data of so many batches; the last step of a pass may have fewer of them."""
    passes, rest = divmod(steps, max(1, math.ceil(batches / batches_a_step)))
    return passes + rest * batches_a_step / max(1, batches)
