"""The training job with MLX: mlx-lm's own loop between a run's folder and what the engine knows of it."""

import json
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.tuner.callbacks import TrainingCallback
from mlx_lm.tuner.trainer import TrainingArgs, evaluate
from mlx_lm.tuner.trainer import train as train_mlx
from typing_extensions import override

from core.base.language import _
from core.engine.devices.check import warn_of_wrong_numbers
from core.engine.devices.choose import ResolvedRun
from core.engine.devices.memory import MemoryReports, ceiling_of, process_peak
from core.engine.generate.predict import Predictor, choose
from core.engine.memory.forecast import foretell, refuse_too_large, remember
from core.engine.mlx.batches import Batch, Batches, in_groups
from core.engine.mlx.build import MlxModel, load, resolve
from core.engine.mlx.check import CHECKS
from core.engine.mlx.generate import writer
from core.engine.mlx.losses import objective_of
from core.engine.mlx.memory import MlxMemory, explain
from core.engine.mlx.model import read
from core.engine.mlx.optimizers import KINDS, ClippedOptimizer, load_state, named, rates, save_state
from core.engine.mlx.what_ran import what_ran
from core.engine.models.past_runs import save_base_model
from core.engine.reporter import Reporter
from core.engine.run import checkpoints
from core.engine.run.attempt import attempt, finish
from core.engine.run.best import EXTENDED_TO, best_kept, best_to_load, is_evaluation, stops_early
from core.engine.run.failures import Diverged, require_disk_space, writing
from core.engine.run.log import RunLog
from core.engine.run.predictions import Predictions, ShouldStop
from core.engine.run.requests import EndRequested, RequestBox, end_while_loading, on_signals
from core.engine.run.steps import StepOnDevice, StepPart, StepParts
from core.engine.training.differences import differences
from core.engine.training.failures import reading
from core.options import RunOptions
from core.options.choices import Backend, Method, Precision
from core.runs.events import Outcome, Phase, RunPlanned, Said, StepFinished
from core.runs.folder import RunFolder
from core.runs.models import STATE, Checkpoint
from core.runs.words import AS_ASKED, ONLY_IF_IT_FITS


def train_run(
    run: RunFolder,
    options: RunOptions,
    reporter: Reporter,
    checkpoint: Checkpoint | None = None,
    why: str = AS_ASKED,
) -> int:
    """Trains and reports into the run's folder; returns the exit status, as `attempt` does."""

    def train() -> None:
        _train(run, resolve(options, why), reporter, checkpoint)

    return attempt(
        run, options, reporter, train, lambda error: explain(error, options, reporter.status.forecast)
    )


def _train(run: RunFolder, resolved: ResolvedRun, reporter: Reporter, checkpoint: Checkpoint | None) -> None:
    if resolved.kind == "mps":
        warn_of_wrong_numbers(reporter, Backend.MLX, CHECKS)
    memory = MlxMemory(
        "cpu" if mx.default_device() == mx.Device(mx.cpu) else resolved.kind, ceiling_of(resolved)
    )
    requests = RequestBox(run, reporter)
    requests.is_test = resolved.options.only_evaluates
    log = RunLog(reporter, resolved.options, FusedStep(None), sample_memory=memory.sample)
    with MemoryReports(memory, reporter) as memory_reports:
        with end_while_loading(run, requests):
            only_if_it_fits = ONLY_IF_IT_FITS in os.environ
            if only_if_it_fits:
                refuse_too_large(foretell(resolved, None, run.forecast()))
            checkpoints.clean(run.checkpoints)
            loaded = load(resolved.options, reporter)
            forecast = foretell(resolved, loaded.prepared, run.forecast())
            if forecast is not None:
                reporter.write(forecast)
            memory.limit(forecast.parts.total if forecast is not None else None)
            if only_if_it_fits:
                refuse_too_large(forecast)
            mx.eval(loaded.model.parameters())  # none was read before
            training = Training(run, resolved, log, requests, loaded, memory=memory)
            require_disk_space(run, training.saved_bytes(), training.trained(), resolved.options)
        with on_signals(requests.stop_at_signal):
            start = time.perf_counter()
            outcome = training.learn(checkpoint)
            seconds = time.perf_counter() - start
            last = model_step = training.step
            saves = resolved.options.output.save_model and not resolved.options.only_evaluates
            if saves and outcome is not Outcome.PAUSED:
                model_step = training.save_model()
            memory_reports.stop()
            finish(
                run,
                log,
                requests,
                outcome,
                training.history,
                step=last,
                model_step=model_step,
                seconds=seconds,
                peak_bytes=process_peak(),
                peak_device_bytes=memory.peak(),
            )
            if outcome is not Outcome.PAUSED:
                remember(reporter.status, resolved)


class FusedStep(StepParts):
    """The parts of a compiled step: only the time for its batches can be told."""

    @override
    def end(self) -> dict[str, float | None]:
        found = super().end()
        return {**dict.fromkeys(found), StepPart.DATA.value: found[StepPart.DATA.value]}


class Ended(Exception):  # noqa: N818 - the way out of mlx-lm's loop
    """Leaves the loop; `outcome` is how the run ended."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class Training(TrainingCallback):
    """A run in mlx-lm's loop, which asks `batches` for what comes next, and tells of each batch that was computed.

    Attributes:
        step: Steps done.
        history: As in `core.engine.run.best`.
    """

    def __init__(
        self,
        run: RunFolder,
        resolved: ResolvedRun,
        log: RunLog,
        requests: RequestBox,
        loaded: MlxModel,
        *,
        memory: MlxMemory,
    ) -> None:
        self._run, self._resolved, self._loaded = run, resolved, loaded
        self._log, self._requests, self._memory = log, requests, memory
        options = self._options = resolved.options
        prepared = loaded.prepared
        self._model = loaded.model
        self._has_eval = bool(prepared.eval)
        self._objective = objective_of(options, prepared.weights, loaded.reference)
        self._batches = Batches(options, prepared.train, prepared.collator)
        self._optimizer = ClippedOptimizer(options.training, loaded.model)
        self._rate = rates(options, self._batches.total)
        is_full = options.model.method is Method.FULL
        is_half = options.device.precision is Precision.BF16
        self._cast = mx.bfloat16 if is_full and is_half else mx.float32
        predictor = choose(options, prepared, run.path, log.reporter, writer(loaded.model))
        self._predictions = None
        if predictor is not None:
            predict = partial(self._predict, predictor)
            self._predictions = Predictions(log.reporter, requests, predictor.examples, predict)
        self._filler = prepared.collator([prepared.train[0]])
        self._losses: list[float] = []
        self._has_told = False
        self.step, self.history = 0, list[dict[str, Any]]()
        mx.random.seed(options.training.seed)

    def saved_bytes(self) -> int:
        return _bytes(self._model.trainable_parameters() if self._loaded.layers else self._model.parameters())

    def trained(self) -> int:
        """Returns the number of weights that learn."""
        return sum(weight.size for _name, weight in tree_flatten(self._model.trainable_parameters()))

    # The loop

    def learn(self, checkpoint: Checkpoint | None) -> Outcome:
        """Trains until the end, or until a request ends it."""
        if checkpoint is not None:
            self._resume(checkpoint.path)
        self._plan()
        accumulated = self._options.memory.gradient_accumulation_steps
        arguments = TrainingArgs(
            iters=sys.maxsize,
            steps_per_report=1,
            steps_per_save=sys.maxsize,
            grad_accumulation_steps=accumulated,
            clear_cache_threshold=sys.maxsize,
        )
        try:
            with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):  # a line for each batch
                train_mlx(
                    self._model,
                    self._optimizer,
                    None,
                    args=arguments,
                    loss=self._loss,
                    iterate_batches=self._iterate,
                    training_callback=self,
                )
        except Ended as ended:
            return ended.outcome
        except EndRequested as ended:  # in the middle of an evaluation
            self._save()
            return ended.outcome
        raise AssertionError("the loop is left by Ended")

    def _plan(self) -> None:
        prepared, batches, training = self._loaded.prepared, self._batches, self._options.training
        self._log.plan(
            RunPlanned(
                total_steps=batches.total,
                epochs=batches.epoch_after(batches.total) if training.max_steps else training.epochs,
                train_samples=len(prepared.train),
                eval_samples=len(prepared.eval or ()),
                effective_batch=self._options.effective_batch,
                device=self._resolved.label,
            )
        )
        if self._predictions is not None:
            self._predictions.begin()
        if batches.total and not (self.step and self._has_eval):
            self._tell_predictions()
        self._requests.can_save = True

    def _iterate(self, **_more: Any) -> Iterator[tuple[mx.array, ...]]:
        """Yields the batches of each step; between steps, does what is due."""
        steps = self._batches.after(self.step)
        accumulated = self._options.memory.gradient_accumulation_steps
        self._memory.limit_wired()
        self._model.train()
        while True:
            self._do_what_is_due()
            self._log.begin_step()
            self._optimizer.learning_rate = self._rate(self.step)
            batches = next(steps)
            arrays = [self._objective.arrays(batch) for batch in batches]
            self._log.parts.lap(StepPart.DATA)
            for part, weight in zip(arrays, self._weights(batches), strict=True):
                yield (*part, mx.array(weight))
            for _missing in range(accumulated - len(batches)):  # at the end of an epoch
                yield (*self._objective.arrays(self._filler), mx.array(0.0))
            self._end_step(batches)

    def _weights(self, batches: list[Batch]) -> list[float]:
        """Returns the weight of each batch in the loss of its step, which mlx-lm divides by the batches of a step."""
        accumulated = self._options.memory.gradient_accumulation_steps
        counts = [self._objective.count(batch) for batch in batches]
        if self._objective.is_mean_of_step:
            return [accumulated / max(1, sum(counts))] * len(batches)
        return [accumulated / len(batches) / max(1, count) for count in counts]

    @override
    def on_train_loss_report(self, train_info: dict[str, Any]) -> None:
        self._losses.append(train_info["train_loss"])

    def _loss(self, model: Any, *arrays: mx.array) -> tuple[mx.array, mx.array]:
        """Returns a batch's part of the loss of its step; the last array is its weight in it."""
        *batch, weight = arrays
        with computing_in(self._cast, model):
            total, _figures = self._objective.total(model, *batch)
        return total * weight, mx.array(1)

    def _end_step(self, batches: list[Batch]) -> None:
        self.step += 1
        accumulated = self._options.memory.gradient_accumulation_steps
        event = StepFinished(
            step=self.step,
            epoch=self._batches.epoch_after(self.step),
            seconds=self._log.since_mark(),
            learning_rate=self._rate(self.step - 1),
            samples=sum(map(self._objective.rows, batches)),
        )
        losses, self._losses = [loss / accumulated for loss in self._losses], []
        tokens = [int(batch.get("attention_mask", batch["input_ids"] >= 0).sum()) for batch in batches]
        norm = self._optimizer.state["grad_norm"].item()
        self._log.end_step(StepOnDevice(event, losses, tokens, norm))
        if not self._has_told:
            self._has_told = True
            self._tell_what_ran()
        every = self._options.memory.empty_cache_steps
        if every and self.step % every == 0:
            mx.clear_cache()

    def _tell_what_ran(self) -> None:
        self._model.eval()  # training would draw random numbers
        with computing_in(self._cast, self._model):
            computed_in = self._model(mx.array([[0]])).dtype  # known without computing it
        self._model.train()
        ran = what_ran(self._loaded, self._optimizer, self._batches, computed_in, self._resolved)
        optimizers = {kind: named(one) for kind, one in KINDS.items()}
        self._log.state_what_ran(ran, differences(self._options, ran, optimizers))

    # Between steps

    def _do_what_is_due(self) -> None:
        """Evaluates and saves, and ends the run.

        Raises:
            Ended: The run ends here.
            EndRequested: A pause was requested during an evaluation.
        """
        requests = self._requests
        is_best = not requests.end_requested() and self._is_evaluation_due() and self._evaluate()
        if not self._has_eval and self._has_told and self.step % self._batches.per_epoch == 0:
            self._tell_predictions()
        ends = requests.end_requested()
        if ends and requests.evaluates and self.step and not self._is_evaluated():
            is_best = self._evaluate()
        if ends or is_best or requests.save_requested() or self._is_checkpoint_due():
            self._save()
        if ends:
            raise Ended(requests.ending or Outcome.STOPPED)
        if self.step >= self._batches.total or stops_early(self.history, self._options.training):
            if self._options.output.keep_checkpoints:
                self._save()  # it can be extended
            raise Ended(Outcome.FINISHED)

    def _is_evaluation_due(self) -> bool:
        if not self._has_eval or self._is_evaluated():
            return False
        every, total = self._options.training.eval_steps, self._batches.total
        every = every if every >= 1 else math.ceil(every * total) or self._batches.per_epoch
        return self.step >= total or bool(self.step and self.step % every == 0)

    def _is_evaluated(self) -> bool:
        return any(is_evaluation(entry, self.step) for entry in self.history) or not self._has_eval

    def _evaluate(self) -> bool:
        """Evaluates, and returns whether it was the best evaluation so far and its weights are kept."""
        prepared, objective, done = self._loaded.prepared, self._objective, 0
        size = self._options.memory.batch_size
        rows: Any = prepared.eval
        groups = [*in_groups(range(len(rows)), size)]
        sums: dict[str, float] = defaultdict(float)
        counted = 0

        def batches(**_more: Any) -> Iterator[tuple[Any, ...]]:
            nonlocal counted
            for group in groups:
                batch = prepared.collator([rows[index] for index in group])
                counted += objective.count(batch)
                yield (*objective.arrays(batch), mx.array(objective.count(batch)))

        def measured(model: Any, *arrays: mx.array) -> tuple[mx.array, mx.array]:
            *batch, count = arrays
            with computing_in(self._cast, model):
                total, figures = objective.total(model, *batch)
            for name, figure in figures.items():
                sums[name] += float(np.array(figure))
            return total / mx.maximum(count, 1), count

        def progress() -> None:
            nonlocal done
            done += 1
            self._log.evaluating(done, len(groups))
            if self._requests.cuts_short():
                self._requests.raise_if_ending()

        epoch = self._batches.epoch_after(self.step)
        loss = evaluate(
            self._model, None, size, -1, loss=measured, iterate_batches=batches, progress_callback=progress
        )
        self._model.train()
        seconds = self._log.since_mark()
        means = {"loss": loss, **{name: value / counted for name, value in sums.items()}} if counted else {}
        metrics = {
            f"eval_{name}": value for name, value in objective.metrics(means, prepared.held_out).items()
        }
        self._tell_predictions()
        self.history.append({"step": self.step, **metrics})
        self._log.evaluated(self.step, epoch, metrics, seconds, metrics.get("eval_baseline"))
        return self._options.keeps_best and self._best() == self.step

    def _tell_predictions(self) -> None:
        if self._predictions is not None:
            self._predictions.tell(self.step, self._batches.epoch_after(self.step))

    def _predict(self, predictor: Predictor, should_stop: ShouldStop) -> tuple[Said, ...]:
        self._model.eval()
        try:
            with computing_in(self._cast, self._model):
                return predictor.predict(self._loaded.prepared.model, should_stop)
        finally:
            self._model.train()

    # Checkpoints

    def _best(self) -> int | None:
        by = self._options.training.metric_for_best_model
        return best_kept(self.history, self.step, self._run.checkpoints, by)

    def _is_checkpoint_due(self) -> bool:
        output = self._options.output
        every = output.save_steps or self._batches.per_epoch
        return bool(output.keep_checkpoints and self.step and self.step % every == 0)

    def _save(self) -> None:
        """Saves a checkpoint, unless there is one of this step.

        Raises:
            CantSave: It can't be written.
            Diverged: A weight is NaN or infinite.
        """
        path = self._run.checkpoints / f"checkpoint-{self.step}"
        if not self.step or path.is_dir():
            return
        self._log.begin_saving()
        self._check_finite()
        state = save_state(self._optimizer)
        random: Any = mx.random.state
        high, low = random[0].tolist()  # `seed` takes both as one number
        with (
            writing(self._run.checkpoints),
            checkpoints.staged(self._run.checkpoints, self.step) as folder,
        ):
            self._loaded.save(folder)
            mx.save_safetensors(str(folder / checkpoints.MLX_OPTIMIZER), state)
            about = {
                "global_step": self.step,
                "max_steps": self._batches.total,
                "log_history": self.history,
                "random": high << 32 | low,
            }
            (folder / STATE).write_text(json.dumps(about), encoding="utf-8")
        size = sum(file.stat().st_size for file in path.iterdir())
        self._log.saved(Checkpoint(self.step, path, size), self._best() if self._options.keeps_best else None)
        if self._requests.ending is None:
            self._log.go_on(self.step)

    def _check_finite(self) -> None:
        for name, weight in tree_flatten(self._model.trainable_parameters()):
            if not mx.isfinite(weight).all().item():
                noticed = _("The weights {name} are NaN or infinite, so nothing was saved.").format(name=name)
                in_fewer_bits = self._options.device.precision is not Precision.FP32
                raise Diverged(noticed, in_fewer_bits=in_fewer_bits)

    def _resume(self, folder: Path) -> None:
        """Restores weights, optimizer, random state and history.

        Raises:
            ModelError: The checkpoint isn't a state of this run.
        """
        with reading(str(folder)):
            self._loaded.take(folder)
            load_state(self._optimizer, read(folder / checkpoints.MLX_OPTIMIZER))
            about = json.loads((folder / STATE).read_text(encoding="utf-8"))
            self.step, self.history = about["global_step"], about["log_history"]
            mx.random.seed(about["random"])
        if self._batches.total > about["max_steps"]:
            self.history.append({"step": self.step, EXTENDED_TO: self._batches.total})

    def save_model(self) -> int:
        """Saves the trained model, as transformers and PEFT do; an earlier one stays until the new one is complete.

        Returns:
            The step whose weights it has.

        Raises:
            CantSave: It can't be written.
            Diverged: A weight is NaN or infinite.
        """
        self._log.reporter.phase(Phase.SAVING)
        step = self.step
        if self._options.keeps_best:
            best = best_to_load(
                self.history, self.step, self._run.checkpoints, self._options.training, self._log.reporter
            )
            if best is not None:
                self._loaded.take(self._run.checkpoints / f"checkpoint-{best}")
                step = best
        self._check_finite()
        with writing(self._run.path, self.saved_bytes()), checkpoints.replaced(self._run.model) as folder:
            self._loaded.save(folder)
        save_base_model(self._run.model, self._options.model.source)
        return step


@contextmanager
def computing_in(dtype: mx.Dtype, model: Any) -> Iterator[None]:
    """Computes with copies of the weights that learn in `dtype`; gradients are those of the weights themselves."""
    trained = model.trainable_parameters()
    is_cast = getattr(model, "cast_predicate", lambda _name: True)
    model.update(
        tree_map_with_path(lambda name, weight: weight.astype(dtype) if is_cast(name) else weight, trained)
    )
    try:
        yield
    finally:
        model.update(trained)


def _bytes(tree: Any) -> int:
    return sum(array.nbytes for _name, array in tree_flatten(tree))
