"""Callbacks of Trainer: events for steps, evaluations, predictions and checkpoints; requests; the best model."""

import math
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from transformers import TrainerCallback

from core.base.errors import Fix, UserError
from core.base.files import write_atomically
from core.base.formats import METRIC_NAMES
from core.base.language import _
from core.engine.devices.choose import ResolvedRun
from core.engine.devices.memory import DeviceMemory
from core.engine.generate.predict import Predictor, ShouldStop, judge
from core.engine.launch import rank
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared
from core.engine.tasks.metrics import confusion_of, constant_baseline, first_of
from core.engine.training import checkpoints
from core.engine.training.failures import Diverged
from core.engine.training.observe import Part
from core.engine.training.ranks import agreed, summed, world_size
from core.engine.training.requests import EndRequested, RequestBox
from core.engine.training.trainer import EXTENDED_TO, WatchedTrainer
from core.engine.training.what_ran import differences, what_ran
from core.options import RunOptions
from core.options.choices import BestMetric
from core.options.method_rules import steps_hint, warmup_problem
from core.options.sections import TrainingOptions
from core.runs.events import (
    SAMPLE_PREDICTIONS,
    CheckpointSaved,
    ConfusionCounted,
    Evaluated,
    ExamplesChosen,
    Outcome,
    Phase,
    Predicted,
    RunPlanned,
    Said,
    StepFinished,
    Validation,
    split_non_finite,
)
from core.runs.folder import RunFolder
from core.runs.models import Checkpoint, is_undamaged, step_of
from core.runs.verdict import best_evaluation, judged_by

# --- The best model


class BestCallback(TrainerCallback):
    """Saves a checkpoint after each evaluation that was the best so far, and stops early.

    Early stopping is that of transformers' `EarlyStoppingCallback`. It counts in Trainer's log, which every checkpoint
    has, so that a resumed run, whose last evaluation may have been undone, counts as one that never stopped.
    """

    def __init__(self, training: TrainingOptions) -> None:
        self._training = training

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._stop_early(state, control)  # it may have been killed between its last checkpoint and its end

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if agreed(best_kept(args, state, self._training.metric_for_best_model)) == state.global_step:
            control.should_save = True
        self._stop_early(state, control)

    def _stop_early(self, state: Any, control: Any) -> None:
        patience = self._training.early_stopping_patience
        if patience and patience <= evaluations_without_improvement(state.log_history, self._training):
            control.should_training_stop = control.should_save = True


def best_step(history: list[dict[str, Any]], by: BestMetric = BestMetric.AUTO) -> int | None:
    """The step of the best evaluation in Trainer's log, the first of equals; None if there was none."""
    place = best_evaluation(history, by)
    return None if place is None else int(history[place]["step"])


def best_kept(args: Any, state: Any, by: BestMetric) -> int | None:
    """`best_step` among the evaluations whose weights are there: the current ones, and those of the checkpoints.

    A run that keeps the best only since it was extended has no weights of most evaluations before.
    """
    steps = {state.global_step, *map(step_of, Path(args.output_dir).glob("checkpoint-*"))}
    return best_step([entry for entry in state.log_history if entry["step"] in steps], by)


def evaluations_without_improvement(history: list[dict[str, Any]], training: TrainingOptions) -> int:
    """The last evaluations in Trainer's log that were no improvement, counted anew where the run was extended.

    As in `EarlyStoppingCallback`, the first evaluation is one, and a later one is compared with the best so far, even
    if that was too small an improvement to count.
    """
    metric = judged_by(history, training.metric_for_best_model)
    waited, best, is_first = 0, -math.inf, True
    if metric is None:
        return 0
    for entry in history:
        if EXTENDED_TO in entry:
            waited = 0
        elif "eval_loss" in entry:
            value = entry.get(metric.name, math.nan)
            score = -value if metric.less_is_better else value
            is_better = score > best and score - best > training.early_stopping_threshold
            waited = 0 if is_first or is_better else waited + 1
            best, is_first = score if score > best else best, False
    return waited


def load_best(trainer: Any, training: TrainingOptions, reporter: Reporter) -> int:
    """Load the weights of the best evaluation.

    Returns:
        Their step: the last, if that was the best or the best is damaged.
    """
    last = int(trainer.state.global_step)
    best = agreed(best_kept(trainer.args, trainer.state, training.metric_for_best_model))
    if best is None or best == last:
        return last
    folder = trainer.checkpoint_at(best)
    if not agreed(is_undamaged(folder)):
        reporter.warn(
            "best-gone",
            _("The best checkpoint is damaged: the model has the last weights"),
            _("{name} was the best. Its files have changed since.").format(name=folder.name),
        )
        return last
    if rank() == 0 or trainer.is_divided:
        trainer.load_weights(folder)
    return best


# --- Predictions


class PredictionCallback(TrainerCallback):
    """Reports predictions on the chosen examples, before training and at each evaluation.

    Add it before the callback that times the steps. A failure is reported once, and the run goes on; a pause interrupts
    the predictions by `EndRequested`.
    """

    def __init__(self, reporter: Reporter, trainer: Any, predictor: Predictor, requests: RequestBox) -> None:
        self._reporter = reporter
        self._trainer = trainer
        self._predictor = predictor
        self._requests = requests
        self._has_failed = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._reporter.write(ExamplesChosen(examples=self._predictor.examples))
        is_done = state.global_step and self._trainer.eval_dataset is not None  # before the pause
        if not is_done and state.max_steps:  # a test predicts when it evaluates
            self._predict(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._predict(state)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._trainer.eval_dataset is None:  # there may be the person's own prompts
            self._predict(state)

    def _predict(self, state: Any) -> None:
        if self._has_failed or self._requests.cuts_short():
            return
        self._reporter.phase(Phase.EVALUATING, SAMPLE_PREDICTIONS)
        predictions: tuple[Said, ...] = ()
        start = time.perf_counter()
        if rank() == 0 or self._trainer.is_divided:
            predictions = self._predictions(state)
        self._has_failed = agreed(self._has_failed)
        if self._requests.end_requested() and self._requests.ending is Outcome.PAUSED:
            raise EndRequested(Outcome.PAUSED)  # repeated when the run is resumed
        if not self._has_failed:
            seconds = time.perf_counter() - start
            self._reporter.write(
                Predicted(step=state.global_step, epoch=state.epoch or 0.0, said=predictions, seconds=seconds)
            )

    def _predictions(self, state: Any) -> tuple[Said, ...]:
        # before the first step there is nothing to judge: any request interrupts
        asks = self._requests.cuts_short if state.global_step else self._requests.end_requested
        ends: ShouldStop = partial(asks, alone=True)
        if self._trainer.is_divided and world_size() > 1:
            ends = bool  # all ranks have to generate as many tokens
        model = self._trainer.model
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                return self._predictor.predict(model, ends)
        except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
            self._has_failed = True
            traceback.print_exc(file=sys.stderr)
            self._reporter.warn(
                "no-predictions",
                _("The model's predictions can't be shown"),
                _("{name}: {error}. Training continues.").format(name=type(error).__name__, error=error),
            )
            return ()
        finally:
            model.train(was_training)


class ValidationCallback(TrainerCallback):
    """Wraps `compute_metrics`, which gets all predictions, to report what is more than a metric.

    That is what a constant prediction reaches, the confusion matrix, and examples of a classifier's mistakes: those of
    the newest evaluation, or of the best where the best model is kept.
    """

    def __init__(
        self,
        trainer: WatchedTrainer,
        prepared: Prepared,
        run: RunFolder,
        options: RunOptions,
        reporter: Reporter,
    ) -> None:
        self._trainer, self._prepared, self._run, self._options = trainer, prepared, run, options
        self._reporter = reporter
        self._confusion: ConfusionCounted | None = None
        self._validation: Validation | None = None

    def __call__(self, prediction: Any) -> dict[str, float]:
        assert self._prepared.metrics is not None, "without metrics there is nothing to wrap"
        if rank():
            return {}  # rank 0's are given to all
        if labels := self._prepared.labels:
            self._confusion = confusion_of(prediction, labels)
        if labels and np.ndim(prediction.label_ids) == 1:
            sampler = self._trainer._get_eval_sampler(self._trainer.eval_dataset)
            logits, truth = first_of(prediction.predictions), np.asarray(prediction.label_ids)
            order = list(range(len(truth)) if sampler is None else sampler)
            with suppress(OSError):  # a full disk is met, and reported, where checkpoints are saved
                self._validation = judge(logits, truth, order, self._prepared, self._run.path)
        baseline = constant_baseline(prediction)
        return self._prepared.metrics(prediction) | ({} if baseline is None else {"baseline": baseline})

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        by = self._options.training.metric_for_best_model
        is_kept = not self._options.keeps_best or best_kept(args, state, by) == state.global_step
        if self._validation is not None and is_kept:
            told = msgspec.structs.replace(self._validation, step=state.global_step)
            with suppress(OSError):
                write_atomically(self._run.validation_file, msgspec.json.encode(told))
        if self._validation is not None:
            self._remove_pictures()
        if self._confusion is not None:
            counted = msgspec.structs.replace(self._confusion, step=state.global_step, is_kept=is_kept)
            self._reporter.write(counted)
        self._confusion = self._validation = None

    def _remove_pictures(self) -> None:
        """Delete those that only other evaluations had."""
        kept = self._run.validation()
        named = {one.example.image for one in kept.examples} if kept is not None else set()
        with suppress(OSError):
            for file in (self._run.path / "examples").glob("validation-*.png"):
                if f"examples/{file.name}" not in named:
                    file.unlink()


# --- Steps, evaluations and checkpoints


FLUSH_SECONDS = 0.2
"""Figures of steps are read together at most this often: each time waits for the device."""
PROGRESS_SECONDS = 1.0
"""How often the progress of an evaluation is reported."""
NON_FINITE_STEPS = 3
"""Steps in a row with a loss of NaN or infinity that end the run."""


@dataclass(frozen=True)
class _Step:
    """A step whose figures are still on the device."""

    event: StepFinished
    losses: list[torch.Tensor]
    grad_norm: torch.Tensor | float | None
    tokens: list[torch.Tensor]


class StepLog:
    """Collects steps and writes them as `step_finished` events.

    CUDA and MPS compute asynchronously: the time that reading figures waits for the device is shared among the steps
    read that were not measured by waiting already. If `is_exact`, the figures of each step are read at its end.
    """

    def __init__(self, reporter: Reporter, memory: DeviceMemory, *, is_exact: bool = False) -> None:
        self.memory = memory
        self.reporter = reporter
        self._flush_seconds = 0.0 if is_exact else FLUSH_SECONDS
        self.non_finite_in_a_row = 0
        self._losses: list[float] = []
        self._samples = 0
        self._seconds = 0.0
        self._steps: list[_Step] = []
        self._is_asynchronous = False
        self._flushed = time.monotonic()

    def add(self, trainer: WatchedTrainer, seconds: float, learning_rate: float) -> None:
        """Add the step that has just ended; write all, if the last write is long enough ago."""
        compiling = trainer.compilation.step_seconds if trainer.compilation else 0.0
        parts = trainer.parts.end()
        event = StepFinished(
            step=trainer.state.global_step,
            epoch=trainer.state.epoch or 0.0,
            seconds=seconds - compiling,
            compile_seconds=compiling,
            learning_rate=learning_rate,
            samples=trainer.step_samples * world_size(),
        )
        if not compiling:
            event = msgspec.structs.replace(event, **parts)
        losses, tokens = _over_ranks(trainer.step_losses, trainer.step_tokens)
        self._steps.append(_Step(event, losses, trainer.grad_norm, tokens))
        self._is_asynchronous = trainer.parts.is_asynchronous
        trainer.forget_step()
        if time.monotonic() - self._flushed >= self._flush_seconds:
            self.flush()

    @property
    def samples_per_second(self) -> float | None:
        """Samples per second of the steps, without evaluation, saving and compilation; None before a step."""
        return self._samples / self._seconds if self._seconds > 0 else None

    def take_mean_loss(self) -> float | None:
        """The mean loss of the steps written since the last call; None if there were none."""
        losses, self._losses = self._losses, []
        return sum(losses) / len(losses) if losses else None

    def flush(self) -> None:
        events = self._read()
        for event in events:
            if not event.compile_seconds:
                self._samples += event.samples
                self._seconds += event.seconds
            self.non_finite_in_a_row = self.non_finite_in_a_row + 1 if event.non_finite else 0
            if event.loss is not None:
                self._losses.append(event.loss)
        if events:
            self.reporter.write(*events)
        self.memory.sample()  # for the peak; `MemoryReports` reports every second
        self._flushed = time.monotonic()

    def _read(self) -> list[StepFinished]:
        """The events of the steps, with their figures from the device."""
        steps, self._steps = self._steps, []
        start = time.perf_counter()
        losses = _fetched([step.losses for step in steps])
        tokens = _fetched([step.tokens for step in steps])
        norms = [None if step.grad_norm is None else float(step.grad_norm) for step in steps]
        waited = time.perf_counter() - start
        # a measured step was waited for when it ended
        unmeasured = sum(step.event.forward_seconds is None for step in steps) if self._is_asynchronous else 0
        events = []
        for step, batch_losses, batch_tokens, norm in zip(steps, losses, tokens, norms, strict=True):
            loss, non_finite = split_non_finite(sum(batch_losses))
            share = waited / unmeasured if unmeasured and step.event.forward_seconds is None else 0.0
            event = msgspec.structs.replace(
                step.event,
                seconds=step.event.seconds + share,
                tokens=int(sum(batch_tokens)) if batch_tokens else None,
                loss=loss,
                grad_norm=split_non_finite(norm)[0],
                non_finite=non_finite,
            )
            events.append(event)
        return events


def _over_ranks(
    losses: list[torch.Tensor], tokens: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The mean losses of all ranks' batches, and the sums of their tokens."""
    if world_size() == 1:
        return losses, tokens
    device = losses[0].device
    figures = summed(torch.stack([one.to(device, torch.float64) for one in (*losses, *tokens)]))
    return [*(figures[: len(losses)] / world_size())], [*figures[len(losses) :]]


def _fetched(lists: list[list[torch.Tensor]]) -> list[list[float]]:
    """The numbers of lists of scalars, read from the device at once."""
    scalars = [tensor for tensors in lists for tensor in tensors]
    numbers = iter(torch.stack(scalars).tolist() if scalars else ())
    return [[next(numbers) for _tensor in tensors] for tensors in lists]


class ReportCallback(TrainerCallback):
    """Writes each step, evaluation and checkpoint as an event."""

    def __init__(
        self, trainer: WatchedTrainer, resolved: ResolvedRun, log: StepLog, labels: tuple[str, ...]
    ) -> None:
        self._reporter = log.reporter
        self._trainer = trainer
        self._resolved = resolved
        self._log = log
        self._labels = labels
        self._options = resolved.options
        self._mark = time.perf_counter()
        self._learning_rate = 0.0
        self._evaluated_batches = 0
        self._told = 0.0
        self._stated_what_ran = False
        trainer.when_saving = self._begin_saving

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the plan, as Trainer has computed it, and start the clock of the first step.

        Raises:
            UserError: The warm-up is no shorter than the run, or early stopping has nothing to evaluate.
        """
        if too_long := warmup_problem(self._options, state.max_steps):
            raise UserError(too_long.message, fixes=too_long.fixes)
        if self._options.training.early_stopping_patience and self._trainer.eval_dataset is None:
            fix = Fix(_("Don't stop early"), {"training.early_stopping_patience": 0})
            raise UserError(_("early stopping needs validation data"), fixes=(fix,))
        epochs = self._options.training.epochs
        if self._options.training.max_steps is not None:
            accumulated = self._options.memory.gradient_accumulation_steps
            epochs = epochs_of(state.max_steps, len(kwargs["train_dataloader"]), accumulated)
        samples, evaluation = len(self._trainer.train_dataset), self._trainer.eval_dataset
        if too_many := steps_hint(self._options, samples):
            self._reporter.note("many-epochs", too_many.message)
        self._reporter.write(
            RunPlanned(
                total_steps=state.max_steps,
                epochs=epochs,
                train_samples=samples,
                eval_samples=0 if evaluation is None else len(evaluation),
                effective_batch=self._trainer.step_size,
                labels=self._labels,
                device=self._resolved.label,
            )
        )
        self._reporter.phase(Phase.TRAINING)
        self._begin_step()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._back_to_training(state)

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, optimizer: Any, **kwargs: Any
    ) -> None:
        """Remember the learning rate of this step, before the schedule changes it."""
        self._learning_rate = float(optimizer.param_groups[0]["lr"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the step; its time includes waiting for data.

        Raises:
            Diverged: The loss has been NaN or infinite for several steps.
        """
        self._trainer.parts.lap(Part.OPTIMIZER)
        now = time.perf_counter()
        self._log.add(self._trainer, now - self._mark, self._learning_rate)
        if not self._stated_what_ran:
            self._stated_what_ran = True
            self._log.flush()
            ran = what_ran(self._trainer, self._resolved)
            self._reporter.write(ran)
            for difference in differences(self._options, ran):
                self._reporter.warn(f"ran-differently-{difference.path}", difference.title, difference.detail)
        if self._log.non_finite_in_a_row >= NON_FINITE_STEPS:
            reason = _("It was NaN or infinite for {count} steps in a row, so the weights are lost.")
            raise Diverged(reason.format(count=NON_FINITE_STEPS), self._trainer.args)
        if control.should_evaluate:  # the device has to end its steps before: their time isn't evaluation
            self._log.flush()
        self._begin_step()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if control.should_evaluate:  # the device has to end its steps before: their time isn't evaluation
            self._log.flush()

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, eval_dataloader: Any, **kwargs: Any
    ) -> None:
        if not self._evaluated_batches:
            self._log.flush()
            self._mark = time.perf_counter()
            self._reporter.phase(Phase.EVALUATING)
            self._told = time.monotonic()
        self._evaluated_batches += 1
        if time.monotonic() - self._told >= PROGRESS_SECONDS:
            self._told = time.monotonic()
            self._reporter.phase(Phase.EVALUATING, f"{self._evaluated_batches}/{len(eval_dataloader)}")

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any
    ) -> None:
        """Report the metrics; NaN becomes None."""
        known = {name: split_non_finite(value)[0] for name, value in metrics.items() if name in METRIC_NAMES}
        seconds = metrics.get("eval_runtime", 0.0)
        self._reporter.write(
            Evaluated(
                step=state.global_step,
                epoch=state.epoch or 0.0,
                metrics=known,
                seconds=seconds,
                train_loss=self._log.take_mean_loss(),
                baseline=metrics.get("eval_baseline"),
            )
        )
        self._evaluated_batches = 0
        self._back_to_training(state)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the checkpoint that was just written, and remove old ones."""
        saved = self._trainer.last_saved
        if saved is None or not self._trainer.saved_anew or rank():
            return
        output = self._options.output
        metric = self._options.training.metric_for_best_model
        best = {best_kept(args, state, metric)} if self._options.keeps_best else ()
        checkpoints.keep(saved.path.parent, max(1, output.keep_checkpoints), best)
        self._reporter.write(saved_event(saved, time.perf_counter() - self._mark))
        if not control.should_training_stop:  # it would seem to finish another step before it pauses
            self._back_to_training(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._log.flush()

    def _begin_saving(self) -> None:
        self._log.flush()
        self._mark = time.perf_counter()
        self._reporter.phase(Phase.SAVING)

    def _back_to_training(self, state: Any) -> None:
        if state.global_step < state.max_steps:
            self._reporter.phase(Phase.TRAINING)
        self._begin_step()

    def _begin_step(self) -> None:
        if self._trainer.parts.is_due:  # the device has to be idle
            self._log.flush()
        self._trainer.parts.begin()
        self._mark = time.perf_counter()


def saved_event(saved: Checkpoint, seconds: float) -> CheckpointSaved:
    path = f"{saved.path.parent.name}/{saved.path.name}"
    return CheckpointSaved(step=saved.step, path=path, bytes=saved.bytes, seconds=seconds)


def epochs_of(steps: int, batches: int, accumulated: int) -> float:
    """The epochs of so many steps, with `batches` in an epoch; its last step may have fewer than `accumulated`."""
    epochs, rest = divmod(steps, max(1, math.ceil(batches / accumulated)))
    return epochs + rest * accumulated / max(1, batches)


# --- Requests


class RequestCallback(TrainerCallback):
    """Ends training or saves a checkpoint on request."""

    def __init__(self, requests: RequestBox, trainer: WatchedTrainer, reporter: Reporter) -> None:
        self._requests = requests
        self._trainer = trainer
        self._reporter = reporter
        self._owes_checkpoint = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End after this step with a checkpoint, or only save one; an evaluation, if any, comes after it."""
        self._requests.can_save = True
        if self._requests.end_requested():
            control.should_training_stop = True
            control.should_evaluate = False
        elif self._is_to_save():
            control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._requests.ending is not None:
            control.should_evaluate = False
            control.should_save = True

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Interrupt an evaluation.

        Raises:
            EndRequested: A pause was requested, or a stop without an evaluation.
        """
        if self._requests.cuts_short():
            self._requests.raise_if_ending()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Act on requests made during the evaluation at once."""
        if self._requests.end_requested():
            control.should_training_stop = True
            control.should_save = True
        elif self._is_to_save():
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report a requested checkpoint that existed already."""
        saved = self._trainer.last_saved
        if self._owes_checkpoint and saved is not None and not self._trainer.saved_anew:
            self._reporter.write(saved_event(saved, 0.0))
        self._owes_checkpoint = False

    def _is_to_save(self) -> bool:
        """Whether a requested checkpoint isn't saved yet; Trainer resets `should_save` at the begin of a step."""
        self._owes_checkpoint = self._requests.save_requested() or self._owes_checkpoint
        return self._owes_checkpoint
