"""Hone's callbacks of Trainer: events for steps, evaluations, predictions and checkpoints; requests; the best model."""

import math
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
from transformers import TrainerCallback

from core.base.errors import UserError
from core.base.formats import METRIC_NAMES, METRICS
from core.base.language import _
from core.engine.devices.choose import ResolvedRun
from core.engine.devices.memory import DeviceMemory
from core.engine.generate.predict import Predictor
from core.engine.reporter import Reporter
from core.engine.tasks.metrics import confusion_of
from core.engine.training import checkpoints
from core.engine.training.failures import diverged_error
from core.engine.training.observe import Part, StepTimes
from core.engine.training.requests import EndRequested, RequestBox
from core.engine.training.trainer import WatchedTrainer
from core.engine.training.what_ran import differences, what_ran
from core.options.method_rules import steps_hint, warmup_problem
from core.runs.events import (
    CheckpointSaved,
    ConfusionCounted,
    Evaluated,
    ExamplesChosen,
    Outcome,
    Phase,
    Predicted,
    RunPlanned,
    StepFinished,
    split_non_finite,
)
from core.runs.models import Checkpoint, is_undamaged


class BestCallback(TrainerCallback):
    """Has a checkpoint saved after each evaluation that was better than all before."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if best_step(state.log_history) == state.global_step:
            control.should_save = True


def best_step(history: list[dict[str, Any]]) -> int | None:
    """The step of the best evaluation in Trainer's log, the first of equals; None where there was none.

    The log is in each checkpoint, so that the best is known when a run goes on. Evaluations are compared by the first
    metric that a run is judged by and that the first of them had as a number.
    """
    evaluations = [entry for entry in history if "eval_loss" in entry]
    metric = next(
        (one for one in METRICS for entry in evaluations[:1] if _is_number(entry.get(one.name))), None
    )
    if metric is None:
        return None
    judged = [entry for entry in evaluations if _is_number(entry.get(metric.name))]
    best = metric.best([entry[metric.name] for entry in judged])
    return next(int(entry["step"]) for entry in judged if entry[metric.name] == best)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def load_best(trainer: Any, reporter: Reporter) -> int:
    """Give the model the weights that were best at an evaluation.

    Returns:
        The step they are of: the last, where that was the best or the best is gone.
    """
    last: int = trainer.state.global_step
    best = best_step(trainer.state.log_history)
    if best is None or best == last:
        return last
    folder = trainer.checkpoint_at(best)
    if not is_undamaged(folder):
        reporter.warn(
            "best-gone",
            _("The best checkpoint is gone: the model is the last one"),
            _("{name} was the best, and is missing or damaged.").format(name=folder.name),
        )
        return last
    trainer.load_weights(folder)
    reporter.note(
        "best-kept",
        _("The model is that of step {best:,}, which was the best").format(best=best),
        f"Training went on to step {last:,}; no evaluation after step {best:,} was better.",
    )
    return best


class PredictionCallback(TrainerCallback):
    """Reports predictions on the chosen examples, before training and at each evaluation.

    Add it before whatever times the steps: its own time is none of theirs. A failure is reported once, and the run goes
    on. A pause interrupts it by `EndRequested`.
    """

    def __init__(self, reporter: Reporter, trainer: Any, predictor: Predictor, requests: RequestBox) -> None:
        self._reporter = reporter
        self._trainer = trainer
        self._predictor = predictor
        self._requests = requests
        self._has_failed = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._reporter.write(ExamplesChosen(examples=self._predictor.examples))
        if not state.global_step or self._trainer.eval_dataset is None:  # else it was asked before the pause
            self._ask(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._ask(state)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._trainer.eval_dataset is None:  # there may be prompts of the person's own
            self._ask(state)

    def _ask(self, state: Any) -> None:
        if self._has_failed or self._requests.ending is not None:
            return
        self._reporter.phase(Phase.EVALUATING, "examples")
        begun = time.perf_counter()
        model = self._trainer.model
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                said = self._predictor.predict(model, self._requests.end_is_asked)
        except (
            RuntimeError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            NotImplementedError,
        ) as error:
            self._has_failed = True  # what is only looked at must not end a run
            traceback.print_exc(file=sys.stderr)
            self._reporter.warn(
                "no-predictions",
                _("The model's predictions can't be shown"),
                _("It was asked about its examples and gave {name}: {error}. Training goes on.").format(
                    name=type(error).__name__, error=error
                ),
            )
            return
        finally:
            model.train(was_training)
        if self._requests.ending is Outcome.PAUSED:  # all is asked when the run goes on
            raise EndRequested(Outcome.PAUSED)
        seconds = time.perf_counter() - begun
        self._reporter.write(
            Predicted(step=state.global_step, epoch=state.epoch or 0.0, said=said, seconds=seconds)
        )


class ConfusionCallback(TrainerCallback):
    """Wraps a classifier's `metrics`, which alone see every prediction, and reports the confusion matrix afterwards."""

    def __init__(
        self, metrics: Callable[[Any], dict[str, float]], labels: tuple[str, ...], reporter: Reporter
    ) -> None:
        self._metrics = metrics
        self._labels = labels
        self._reporter = reporter
        self._seen: ConfusionCounted | None = None

    def __call__(self, prediction: Any) -> dict[str, float]:
        self._seen = confusion_of(prediction, self._labels)
        return self._metrics(prediction)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._seen is not None:
            self._reporter.write(msgspec.structs.replace(self._seen, step=state.global_step))
        self._seen = None


# --- Steps


FLUSH_SECONDS = 0.2
"""Figures of steps are fetched together at most this often: each fetch waits for the device."""


@dataclass(frozen=True)
class _Pending:
    """A step whose figures are still on the device."""

    event: StepFinished
    losses: list[torch.Tensor]
    grad_norm: torch.Tensor | float | None
    tokens: list[torch.Tensor]

    @property
    def was_waited_for(self) -> bool:
        """Whether the device was done with it when its time was taken (on a CPU: always)."""
        return self.event.forward_seconds is not None


def _with_figures(pending: list[_Pending]) -> list[StepFinished]:
    """The steps with their figures, those of their batches added up; fetched from the device together."""
    losses = _fetched([one.losses for one in pending])
    tokens = _fetched([one.tokens for one in pending])
    events = []
    for one, of_batches, counts in zip(pending, losses, tokens, strict=True):
        loss, non_finite = split_non_finite(sum(of_batches))
        norm, _rest = split_non_finite(None if one.grad_norm is None else float(one.grad_norm))
        count = int(sum(counts)) if counts else None
        events.append(
            msgspec.structs.replace(one.event, tokens=count, loss=loss, grad_norm=norm, non_finite=non_finite)
        )
    return events


def _fetched(tensors: list[list[torch.Tensor]]) -> list[list[float]]:
    """The numbers in lists of scalars, list by list."""
    every = [tensor for some in tensors for tensor in some]
    numbers = iter(torch.stack(every).tolist() if every else ())
    return [[next(numbers) for _rest in some] for some in tensors]


class StepLog:
    """Collects steps and writes them as `step_finished` events, each with the time it really ended.

    CUDA and MPS are told of steps faster than they work them off. What is waited for them where figures are fetched
    belongs to the steps fetched, and is shared out among them.
    """

    def __init__(self, reporter: Reporter, memory: DeviceMemory) -> None:
        self.memory = memory
        self.reporter = reporter
        self._samples = 0
        self._seconds = 0.0
        self._pending: list[_Pending] = []
        self._is_asynchronous = False
        self._flushed = time.monotonic()
        self.non_finite_in_a_row = 0

    def add(self, trainer: WatchedTrainer, seconds: float, learning_rate: float) -> None:
        """Remember the step that just ended; write it, with those before, if the last write is long enough ago."""
        compiling = trainer.compilation.step_seconds if trainer.compilation else 0.0
        parts = trainer.parts.end()
        if compiling:
            parts = StepTimes()
        event = StepFinished(
            step=trainer.state.global_step,
            epoch=trainer.state.epoch or 0.0,
            seconds=seconds - compiling,
            compile_seconds=compiling,
            data_seconds=parts.data,
            forward_seconds=parts.forward,
            backward_seconds=parts.backward,
            optimizer_seconds=parts.optimizer,
            learning_rate=learning_rate,
            samples=trainer.step_samples,
        )
        self._pending.append(_Pending(event, trainer.step_losses, trainer.grad_norm, trainer.step_tokens))
        self._is_asynchronous = trainer.parts.is_asynchronous
        trainer.forget_step()
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    @property
    def samples_per_second(self) -> float | None:
        """Samples trained on for each second of steps written; evaluation, saving and steps that compiled are left out.

        None before a step.
        """
        return self._samples / self._seconds if self._seconds > 0 else None

    def flush(self) -> None:
        """Write all steps remembered."""
        events = self._read()
        for event in events:
            if not event.compile_seconds:
                self._samples += event.samples
                self._seconds += event.seconds
            self.non_finite_in_a_row = self.non_finite_in_a_row + 1 if event.non_finite else 0
        if events:
            self.reporter.write(*events)
        self.memory.sample()  # for the peak; reports come every second (see `MemoryReports`)
        self._flushed = time.monotonic()

    def _read(self) -> list[StepFinished]:
        """The steps remembered, with their figures and their share of the time they were waited for."""
        pending, self._pending = self._pending, []
        begun = time.perf_counter()
        events = _with_figures(pending)
        hurried = sum(not one.was_waited_for for one in pending)
        if not self._is_asynchronous or not hurried:
            return events
        share = (time.perf_counter() - begun) / hurried
        return [
            event if one.was_waited_for else msgspec.structs.replace(event, seconds=event.seconds + share)
            for one, event in zip(pending, events, strict=True)
        ]


NON_FINITE_STEPS = 3
"""So many steps in a row with a loss that is no number end the run: the weights are lost by then."""


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
        self._evaluating = False
        self._stated_what_ran = False
        trainer.when_saving = self._begin_saving

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Say what is planned, as Trainer has counted it, and start the clock of the first step.

        Raises:
            UserError: The warm-up is no shorter than the run, which only now is known to be so short.
        """
        too_long = warmup_problem(self._options, state.max_steps)
        if too_long:
            raise UserError(_("The warm-up is longer than the run"), f"{too_long.message}.", too_long.fixes)
        epochs = self._options.training.epochs
        if self._options.training.max_steps is not None:
            accumulated = self._options.memory.gradient_accumulation_steps
            epochs = epochs_of(state.max_steps, len(kwargs["train_dataloader"]), accumulated)
        samples, evaluation = len(self._trainer.train_dataset), self._trainer.eval_dataset
        if too_many := steps_hint(self._options, samples):
            self._reporter.note(
                "many-epochs", _("The run is longer than it needs to be"), f"{too_many.message}."
            )
        self._reporter.write(
            RunPlanned(
                total_steps=state.max_steps,
                epochs=epochs,
                train_samples=samples,
                eval_samples=0 if evaluation is None else len(evaluation),
                effective_batch=self._options.effective_batch,
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
        """Note the learning rate of this step, before the schedule moves it on."""
        self._learning_rate = float(optimizer.param_groups[0]["lr"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report the step; its time runs from the end of the one before, waiting for data included."""
        self._trainer.parts.lap(Part.OPTIMIZER)
        now = time.perf_counter()
        self._log.add(self._trainer, now - self._mark, self._learning_rate)
        if not self._stated_what_ran:
            self._stated_what_ran = True
            self._log.flush()
            ran = what_ran(self._trainer, self._resolved)
            self._reporter.write(ran)
            for found in differences(self._options, ran):
                self._reporter.warn(f"ran-differently-{found.path}", found.title, found.detail)
        if self._log.non_finite_in_a_row >= NON_FINITE_STEPS:
            raise diverged_error(
                self._trainer.args,
                _(
                    "It was NaN or infinite for {non_finite_steps} steps in a row, so the weights are lost."
                ).format(non_finite_steps=NON_FINITE_STEPS),
            )
        self._begin_step()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Let the steps be done before the device evaluates: the wait for that would be counted as theirs."""
        if control.should_evaluate:
            self._log.flush()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
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
        self._reporter.write(saved_event(saved, time.perf_counter() - self._mark))
        self._back_to_training(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._log.flush()

    def _begin_saving(self) -> None:
        """Tell the steps so far, and that what follows is none."""
        self._log.flush()
        self._mark = time.perf_counter()
        self._reporter.phase(Phase.SAVING)

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


def saved_event(saved: Checkpoint, seconds: float) -> CheckpointSaved:
    """What is said of a checkpoint that took so long to write."""
    path = f"{saved.path.parent.name}/{saved.path.name}"
    return CheckpointSaved(step=saved.step, path=path, bytes=saved.bytes, seconds=seconds)


def epochs_of(steps: int, batches: int, batches_a_step: int) -> float:
    """How often so many steps go through data of so many batches; the last step of a pass may have fewer of them."""
    passes, rest = divmod(steps, max(1, math.ceil(batches / batches_a_step)))
    return passes + rest * batches_a_step / max(1, batches)


class RequestCallback(TrainerCallback):
    """Ends training where the person asked for it, or saves. A run whose keeper has died goes on: no work is lost."""

    def __init__(self, requests: RequestBox, trainer: WatchedTrainer, reporter: Reporter) -> None:
        self._requests = requests
        self._trainer = trainer
        self._reporter = reporter
        self._owes_checkpoint = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After each step: end if asked, saving a checkpoint but not evaluating first; or only save one."""
        self._requests.can_save = True
        if self._requests.end_is_asked():
            control.should_training_stop = True
        elif self._is_to_save():
            control.should_save = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A person who pressed Stop or Pause doesn't want to wait for an evaluation."""
        if self._requests.ending is not None:
            control.should_evaluate = False
            control.should_save = True

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation can only be interrupted from inside.

        Raises:
            EndRequested: A stop or a pause was asked.
        """
        self._requests.raise_if_ending()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What was asked during the evaluation is done after it, and not a step later."""
        if self._requests.end_is_asked():
            control.should_training_stop = True
            control.should_save = True
        elif self._is_to_save():
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Name a checkpoint that stood there already to whoever has asked for one, and waits to hear of it."""
        saved = self._trainer.last_saved
        if self._owes_checkpoint and saved is not None and not self._trainer.saved_anew:
            self._reporter.write(saved_event(saved, 0.0))
        self._owes_checkpoint = False

    def _is_to_save(self) -> bool:
        """Whether a checkpoint was asked for that isn't saved yet: Trainer drops what it is told before a step."""
        self._owes_checkpoint = self._requests.save_is_asked() or self._owes_checkpoint
        return self._owes_checkpoint
