"""Callbacks of Trainer: what its loop comes to is handed on to the run's log, its requests, and its best model."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from transformers import TrainerCallback
from transformers import TrainerControl as Control
from transformers import TrainerState as State
from transformers import TrainingArguments as Arguments
from typing_extensions import override

from core.engine.devices.choose import ResolvedRun
from core.engine.launch import rank
from core.engine.reporter import Reporter
from core.engine.run.best import best_kept, best_to_load, stops_early
from core.engine.run.log import RunLog
from core.engine.run.predictions import Predictions, keep_mistakes
from core.engine.run.requests import RequestBox
from core.engine.run.steps import StepOnDevice, StepPart
from core.engine.tasks import Prepared
from core.engine.tasks.metrics import confusion_of, constant_baseline, first_of
from core.engine.training.differences import differences
from core.engine.training.ranks import agreed, summed, world_size
from core.engine.training.resuming import Resuming
from core.engine.training.samplers import batch_sampler_of, step_size
from core.engine.training.step import StepFigures
from core.options import RunOptions
from core.options.choices import BestMetric
from core.options.sections import TrainingOptions
from core.runs.events import ConfusionCounted, RunPlanned, StepFinished, Validation, WhatRan
from core.runs.folder import RunFolder

# --- The best model


def best_so_far(args: Arguments, state: State, by: BestMetric) -> int | None:
    """Returns the step of the best evaluation whose weights are there, by Trainer's log.

    Every checkpoint has that log, so that a resumed run, whose last evaluation may have been undone, counts as one that
    never stopped.
    """
    return best_kept(state.log_history, state.global_step, Path(str(args.output_dir)), by)


class BestCallback(TrainerCallback):
    """Saves a checkpoint after each evaluation that was the best so far, and stops early."""

    def __init__(self, training: TrainingOptions) -> None:
        self._training = training

    @override
    def on_epoch_begin(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        self._stop_early(state, control)  # it may have been killed between its last checkpoint and its end

    @override
    def on_evaluate(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        if agreed(best_so_far(args, state, self._training.metric_for_best_model)) == state.global_step:
            control.should_save = True
        self._stop_early(state, control)

    def _stop_early(self, state: State, control: Control) -> None:
        if stops_early(state.log_history, self._training):
            control.should_training_stop = control.should_save = True


def load_best(trainer: Any, training: TrainingOptions, reporter: Reporter) -> int:
    """Loads the weights of the best evaluation.

    Returns:
        Their step: the last, if that was the best or the best is damaged.
    """
    last, folder = int(trainer.state.global_step), Path(str(trainer.args.output_dir))
    best = None
    if rank() == 0:
        best = best_to_load(trainer.state.log_history, last, folder, training, reporter)
    best = agreed(best)
    if best is None:
        return last
    if rank() == 0 or trainer.is_divided:
        trainer.load_weights(trainer.checkpoint_at(best))
    return best


# --- Predictions


class PredictionCallback(TrainerCallback):
    """Predicts before training and at each evaluation, or at the end of each epoch where nothing is evaluated.

    Add it before the callback that times the steps.
    """

    def __init__(self, predictions: Predictions, *, has_eval: bool) -> None:
        self._predictions = predictions
        self._has_eval = has_eval

    @override
    def on_train_begin(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        self._predictions.begin()
        is_done = state.global_step and self._has_eval  # before the pause
        if not is_done and state.max_steps:  # a test predicts when it evaluates
            self._tell(state)

    @override
    def on_evaluate(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        self._tell(state)

    @override
    def on_epoch_end(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        if not self._has_eval:  # there may be the person's own prompts
            self._tell(state)

    def _tell(self, state: State) -> None:
        self._predictions.tell(state.global_step, state.epoch or 0.0)


Judge = Callable[[Any, Any, list[int], Prepared, Path], Validation]
"""Finds the worst mistakes: of logits, true labels, the place of each in the validation data, what the task gave."""


class ValidationCallback(TrainerCallback):
    """Is the trainer's `compute_metrics`, which gets all predictions, to report what is more than a metric.

    That is what a constant prediction reaches, the confusion matrix, and examples of a classifier's mistakes: those of
    the newest evaluation, or of the best where the best model is kept.
    """

    def __init__(
        self, prepared: Prepared, run: RunFolder, options: RunOptions, reporter: Reporter, judge: Judge
    ) -> None:
        self._prepared, self._run, self._options = prepared, run, options
        self._reporter, self._judge = reporter, judge
        self._loader: Any = None
        self._confusion: ConfusionCounted | None = None
        self._validation: Validation | None = None

    def __call__(self, prediction: Any) -> dict[str, float]:
        assert self._prepared.metrics is not None, "without metrics there is nothing to add to"
        if rank():
            return {}  # rank 0's are given to all
        if labels := self._prepared.labels:
            self._confusion = confusion_of(prediction, labels)
        if labels and np.ndim(prediction.label_ids) == 1:
            logits, truth = first_of(prediction.predictions), np.asarray(prediction.label_ids)
            order = list(batch_sampler_of(self._loader).sampler)
            with suppress(OSError):  # a full disk is met, and reported, where checkpoints are saved
                self._validation = self._judge(logits, truth, order, self._prepared, self._run.path)
        baseline = constant_baseline(prediction)
        return self._prepared.metrics(prediction) | ({} if baseline is None else {"baseline": baseline})

    @override
    def on_prediction_step(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        self._loader = kwargs["eval_dataloader"]

    @override
    def on_evaluate(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        by = self._options.training.metric_for_best_model
        is_kept = not self._options.keeps_best or best_so_far(args, state, by) == state.global_step
        confusion, validation, change = self._confusion, self._validation, msgspec.structs.replace
        if confusion is not None:
            confusion = change(confusion, step=state.global_step, is_kept=is_kept)
        if validation is not None:
            validation = change(validation, step=state.global_step)
        keep_mistakes(self._run, self._reporter, confusion, validation, is_kept=is_kept)
        self._confusion = self._validation = None


# --- Steps, evaluations and checkpoints


def over_ranks(
    losses: list[torch.Tensor], tokens: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Returns the mean losses of all ranks' batches, and the sums of their tokens."""
    if world_size() == 1:
        return losses, tokens
    device = losses[0].device
    figures = summed(torch.stack([one.to(device, torch.float64) for one in (*losses, *tokens)]))
    return [*(figures[: len(losses)] / world_size())], [*figures[len(losses) :]]


def fetched(lists: Sequence[Sequence[torch.Tensor]]) -> list[list[float]]:
    """Returns the numbers of lists of scalars, read from the device at once."""
    scalars = [tensor for tensors in lists for tensor in tensors]
    numbers = iter(torch.stack(scalars).tolist() if scalars else ())
    return [[next(numbers) for _tensor in tensors] for tensors in lists]


class ReportCallback(TrainerCallback):
    """Hands each step, evaluation and checkpoint on to the run's log.

    `what_ran` is asked after the first step.
    """

    def __init__(
        self,
        log: RunLog,
        step: StepFigures,
        resuming: Resuming,
        resolved: ResolvedRun,
        prepared: Prepared,
        *,
        what_ran: Callable[[], WhatRan],
    ) -> None:
        self._log, self._step, self._resuming = log, step, resuming
        self._device, self._options = resolved.label, resolved.options
        self._prepared = prepared
        self._what_ran: Callable[[], WhatRan] | None = what_ran
        self._learning_rate = 0.0
        self._evaluated_batches = 0

    @override
    def on_train_begin(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        """Reports the plan, as Trainer has computed it.

        Raises:
            UserError: The warm-up is no shorter than the run, or early stopping has nothing to evaluate.
        """
        epochs = self._options.training.epochs
        if self._options.training.max_steps is not None:
            accumulated = self._options.memory.gradient_accumulation_steps
            epochs = epochs_of(state.max_steps, len(kwargs["train_dataloader"]), accumulated)
        self._log.plan(
            RunPlanned(
                total_steps=state.max_steps,
                epochs=epochs,
                train_samples=len(self._prepared.train),
                eval_samples=len(self._prepared.eval or ()),
                effective_batch=step_size(args),
                labels=self._prepared.labels,
                device=self._device,
            )
        )

    @override
    def on_epoch_begin(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        self._log.go_on(state.global_step)

    @override
    def on_pre_optimizer_step(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        """Remembers the learning rate of this step, before the schedule changes it."""
        self._learning_rate = float(kwargs["optimizer"].param_groups[0]["lr"])

    @override
    def on_step_end(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        """Reports the step; its time includes waiting for data.

        Raises:
            Diverged: The loss has been NaN or infinite for several steps.
        """
        figures = self._step
        figures.parts.lap(StepPart.OPTIMIZER)
        event = StepFinished(
            step=state.global_step,
            epoch=state.epoch or 0.0,
            seconds=self._log.since_mark(),
            compile_seconds=figures.compile_seconds,
            learning_rate=self._learning_rate,
            samples=figures.samples * world_size(),
        )
        step = StepOnDevice(event, *over_ranks(figures.losses, figures.tokens), figures.grad_norm)
        figures.forget()
        self._log.end_step(step)
        if self._what_ran is not None:
            ran, self._what_ran = self._what_ran(), None
            self._log.state_what_ran(ran, differences(self._options, ran))
        if control.should_evaluate:
            self._log.flush()
        self._log.begin_step()

    @override
    def on_epoch_end(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        if control.should_evaluate:
            self._log.flush()

    @override
    def on_prediction_step(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        self._evaluated_batches += 1
        self._log.evaluating(self._evaluated_batches, len(kwargs["eval_dataloader"]))

    @override
    def on_evaluate(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        metrics = kwargs["metrics"]
        seconds, baseline = metrics.get("eval_runtime", 0.0), metrics.get("eval_baseline")
        self._evaluated_batches = 0
        self._log.evaluated(state.global_step, state.epoch or 0.0, metrics, seconds, baseline)

    @override
    def on_save(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        """Reports the checkpoint that was just written, and removes old ones."""
        saved = self._resuming.saved
        if saved is None or not self._resuming.is_new or rank():
            return
        by = self._options.training.metric_for_best_model
        self._log.saved(saved, best_so_far(args, state, by) if self._options.keeps_best else None)
        if not control.should_training_stop:  # it would seem to finish another step before it pauses
            self._log.go_on(state.global_step)

    @override
    def on_train_end(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        self._log.flush()


def epochs_of(steps: int, batches: int, accumulated: int) -> float:
    """Converts steps to epochs of `batches`; an epoch's last step may have fewer than `accumulated`."""
    epochs, rest = divmod(steps, max(1, math.ceil(batches / accumulated)))
    return epochs + rest * accumulated / max(1, batches)


# --- Requests


class RequestCallback(TrainerCallback):
    """Ends training or saves a checkpoint on request."""

    def __init__(self, requests: RequestBox, resuming: Resuming, log: RunLog) -> None:
        self._requests = requests
        self._resuming = resuming
        self._log = log
        self._owes_checkpoint = False

    @override
    def on_step_end(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        """Ends after this step with a checkpoint, or only saves one; an evaluation, if any, comes after it."""
        self._requests.can_save = True
        if self._requests.end_requested():
            control.should_training_stop = True
            control.should_evaluate = False
        elif self._is_to_save():
            control.should_save = True

    @override
    def on_epoch_end(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        if self._requests.ending is not None:
            control.should_evaluate = False
            control.should_save = True

    @override
    def on_prediction_step(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        """Interrupts an evaluation.

        Raises:
            EndRequested: A pause was requested, or a stop without an evaluation.
        """
        if self._requests.cuts_short():
            self._requests.raise_if_ending()

    @override
    def on_evaluate(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        """Acts on requests made during the evaluation at once."""
        if self._requests.end_requested():
            control.should_training_stop = True
            control.should_save = True
        elif self._is_to_save():
            control.should_save = True

    @override
    def on_save(self, args: Arguments, state: State, control: Control, **kwargs: Any) -> None:
        """Reports a requested checkpoint that existed already."""
        saved = self._resuming.saved
        if self._owes_checkpoint and saved is not None and not self._resuming.is_new:
            self._log.tell_saved(saved)
        self._owes_checkpoint = False

    def _is_to_save(self) -> bool:
        """Returns whether a requested checkpoint isn't saved yet; Trainer resets `should_save` when a step begins."""
        self._owes_checkpoint = self._requests.save_requested() or self._owes_checkpoint
        return self._owes_checkpoint
