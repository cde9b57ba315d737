"""The training job: reads a run's folder, writes its events, checkpoints and model."""

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from core.base.ceiling import READING, say
from core.base.errors import UserError
from core.base.formats import METRIC_NAMES
from core.base.language import _
from core.base.processes import CANT_WRITE
from core.engine import environment
from core.engine.data import NO_LABEL
from core.engine.devices.capabilities import BITSANDBYTES_OPTIMIZERS, gather
from core.engine.devices.check import cure_causal_attention, warn_of_wrong_numbers
from core.engine.devices.choose import ResolvedRun, resolve_run
from core.engine.devices.memory import (
    DeviceMemory,
    MemoryReports,
    ceiling_of,
    limit_memory,
    process_peak,
)
from core.engine.generate.predict import choose
from core.engine.launch import is_rank, rank
from core.engine.memory.forecast import foretell, refuse_too_large, remember
from core.engine.models.parts import COMPUTED_IN, same_random_numbers
from core.engine.models.past_runs import save_base_model
from core.engine.models.vision import check_checkpointing
from core.engine.reporter import Reporter
from core.engine.tasks import Prepared, TrainedBy
from core.engine.training import checkpoints, failures
from core.engine.training.arguments import (
    allow_zero_state,
    optimizer_class,
    trainer_arguments,
)
from core.engine.training.callbacks import (
    BestCallback,
    PredictionCallback,
    ReportCallback,
    RequestCallback,
    StepLog,
    ValidationCallback,
    load_best,
)
from core.engine.training.compile import Compilation
from core.engine.training.ranks import agreed, gathered, process_group, wait_for_all, world_size
from core.engine.training.requests import EndRequested, RequestBox, end_while_loading, on_signals
from core.engine.training.trainer import WatchedTrainer, fix_loss_scaling, loss_by_label, share_router_loss
from core.engine.training.what_ran import report_mps_fallbacks
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import DeepSpeed, Method, Task
from core.runs.events import Outcome, Phase, RunFinished, split_non_finite
from core.runs.folder import RunFolder
from core.runs.models import Checkpoint
from core.runs.words import ONLY_IF_IT_FITS

PROBED = 100
"""Samples searched for one with a label."""


@contextmanager
def chosen_device(options: RunOptions) -> Iterator[ResolvedRun]:
    """Resolve the device and everything automatic, and set this process up for it.

    Raises:
        DeviceError: This computer can't do what was chosen.
    """
    transformers.utils.logging.disable_progress_bar()  # redrawn bars fill a log
    loading = logging.getLogger("transformers.modeling_utils")  # reports that the new head has no weights
    loading.addFilter(lambda record: "LOAD REPORT" not in record.getMessage())
    alone = with_changes(options, {"device.processes": 1}) if is_rank() else options
    resolved = resolve_run(gather(with_compilers=options.device.compile), alone, sees_one_gpu=True)
    environment.apply(resolved.options)
    limit_memory(resolved)
    with_zero = resolved.options.memory.deepspeed is not DeepSpeed.OFF
    with process_group(resolved.kind) if with_zero or is_rank() else nullcontext():
        processes = {"device.processes": world_size()} if is_rank() else {}
        yield replace(resolved, options=with_changes(resolved.options, processes))


def load_libraries(options: RunOptions) -> Callable[[RunOptions, Reporter], Prepared]:
    """Import what the task and method need; returns the task's `prepare`."""
    if options.model.method in (Method.LORA, Method.QLORA):
        import peft  # noqa: F401
    if options.training.optimizer in BITSANDBYTES_OPTIMIZERS:
        import bitsandbytes  # noqa: F401
    from core.engine.tasks import images, language, text

    return {
        Task.TEXT_CLASSIFICATION: text.prepare,
        Task.TEXT_REGRESSION: text.prepare,
        Task.TOKEN_CLASSIFICATION: text.prepare,
        Task.CAUSAL_LM: language.prepare_causal_lm,
        Task.CHAT: language.prepare_chat,
        Task.PREFERENCE: language.prepare_preference,
        Task.IMAGE_CLASSIFICATION: images.prepare,
    }[options.task]


def prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load the data and the model.

    Raises:
        DataError: The data can't be used.
        ModelError: The model can't be found, loaded or trained.
    """
    return load_libraries(options)(options, reporter)


def build_trainer(
    checkpoints: Path,
    resolved: ResolvedRun,
    prepared: Prepared,
    reporter: Reporter,
    kind: type[WatchedTrainer] = WatchedTrainer,
) -> WatchedTrainer:
    """The trainer of a run; its class is `kind`, mixed into the task's own trainer.

    Raises:
        ModelError: The model doesn't support activation checkpointing, which was chosen.
    """
    say()  # from here on nothing of a stranger's is read, nor in the processes started from here
    os.environ.pop(READING, None)
    by = prepared.trained_by or TrainedBy(WatchedTrainer, transformers.TrainingArguments)
    memory = resolved.options.memory
    if memory.activation_checkpointing:
        check_checkpointing(prepared.model)
    has_eval = prepared.eval is not None and len(prepared.eval) > 0
    trainer_class = by.trainer
    if not issubclass(by.trainer, kind):
        trainer_class = type(kind.__name__, (kind, by.trainer), {})
    trainer: WatchedTrainer = trainer_class(
        model=prepared.model,
        args=by.arguments(**trainer_arguments(resolved, checkpoints, has_eval=has_eval), **by.settings),
        train_dataset=prepared.train,
        eval_dataset=prepared.eval if has_eval else None,
        data_collator=prepared.collator,
        processing_class=prepared.processing_class,
        compute_metrics=prepared.metrics,
        optimizer_cls_and_kwargs=optimizer_class(resolved),
        **by.more,
    )
    if prepared.condense is not None:  # not every trainer takes it as an argument
        trainer.preprocess_logits_for_metrics = prepared.condense
    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is not None and cure_causal_attention(model, resolved):
            trainer.evaluates_eagerly = True
    # prints dictionaries if no progress bar is shown
    trainer.remove_callback(transformers.PrinterCallback)
    if memory.activation_checkpointing and resolved.kind == "mps" and not resolved.options.device.compile:
        # in place: DPO enables it again after each reference pass, with Trainer's older name of the same dictionary
        trainer.args.activation_checkpointing_kwargs["context_fn"] = partial(
            same_random_numbers, resolved.kind
        )
    if memory.gradient_accumulation_steps * world_size() > 1 and trainer.loss_is_scaled_for_ga is None:
        _fix_loss_scale(trainer, resolved, prepared)
    if resolved.options.device.compile:
        trainer.compilation = Compilation(resolved, reporter, trainer.first_batch)
    return trainer


def _fix_loss_scale(trainer: WatchedTrainer, resolved: ResolvedRun, prepared: Prepared) -> None:
    # a prompt may fill the first sample, without a token to learn
    for index in range(min(len(prepared.train), PROBED)):
        batch = trainer.data_collator([prepared.train[index]])
        if "labels" not in batch or (batch["labels"] != NO_LABEL).any():
            break
    batch = {name: value.to(trainer.args.device) for name, value in batch.items()}
    # FlashAttention computes in 16 bits only; DeepSpeed starts its own autocast only when it trains
    dtype = COMPUTED_IN.get(resolved.precision)
    with torch.autocast(resolved.kind, dtype=dtype, enabled=dtype is not None):
        fixed = fix_loss_scaling(trainer.model, batch)
    if not fixed:
        share_router_loss(trainer.model, lambda: trainer.current_gradient_accumulation_steps)
        return
    trainer.model_accepts_loss_kwargs = False
    if resolved.options.task is Task.TOKEN_CLASSIFICATION:
        trainer.compute_loss_func = loss_by_label


def train_run(
    run: RunFolder, options: RunOptions, reporter: Reporter, checkpoint: Checkpoint | None = None
) -> int:
    """Train and report into the run's folder.

    Returns:
        The exit status: 0 finished, stopped or paused; 1 failed, which the events explain; `CANT_WRITE` if not even
        that could be written. A rank that ends before the others returns 1, whatever the outcome: the agent ends them.
    """
    with on_signals(signal.SIG_IGN if rank() else signal.default_int_handler):
        try:
            tensorboard: AbstractContextManager[Any] = nullcontext()
            if options.output.tensorboard and rank() == 0:
                from core.engine.training.tensorboard import TensorBoardFiles

                tensorboard = TensorBoardFiles(run.tensorboard, reporter)
            # before the precision is chosen: it measures how fast bf16 is
            if options.device.name in ("auto", "mps") and torch.backends.mps.is_available():
                warn_of_wrong_numbers(reporter)
            with chosen_device(options) as resolved, tensorboard:
                _train(run, resolved, reporter, checkpoint)
        except EndRequested as ended:  # while loading: there is nothing to save yet
            reporter.write(RunFinished(state=ended.outcome, steps=reporter.status.step))
            return int(is_rank())
        except KeyboardInterrupt:  # also the one that interrupts loading, if it came just afterwards
            with on_signals(signal.SIG_IGN):  # a shutdown sends a second one at once
                requests = RequestBox(run, reporter)
                outcome = requests.ending if requests.end_requested(alone=True) else None
                reporter.write(RunFinished(state=outcome or Outcome.STOPPED, steps=reporter.status.step))
            return int(is_rank())
        except Exception as error:  # noqa: BLE001 - the outer edge of this process: logged whole, shown as failed
            return _report_failure(error, run, options, reporter)
    return 0


def _report_failure(error: Exception, run: RunFolder, options: RunOptions, reporter: Reporter) -> int:
    known = True
    is_full = failures.is_disk_full(error)
    if not isinstance(error, UserError):
        if not (is_full or isinstance(error, failures.Diverged)):
            with suppress(OSError):  # the log can't be written
                traceback.print_exc(file=sys.stderr)
        if is_full and reporter.status.plan is not None:  # the events, after training has begun
            error = failures.cant_save(error, run.path)
        else:
            explained = failures.explain(error, options, reporter.status.forecast)
            known = explained is not None
            error = explained or UserError(
                _("Training ended with an unexpected error"),
                _("{name}: {error}\nThe whole report is at the end of the log.").format(
                    name=type(error).__name__, error=error
                ),
            )
    if is_full:  # space for the next event, and for the keeper's exit record
        with suppress(OSError):
            run.spare_file.unlink(missing_ok=True)
    try:
        if isinstance(error, failures.CantSave):
            reporter.pause(error)
            return int(is_rank())  # else the agent would take it for a success
        reporter.fail(error, known=known)
    except OSError:  # the disk is full or gone: the exit status alone is left
        return CANT_WRITE
    return 1


def _train(run: RunFolder, resolved: ResolvedRun, reporter: Reporter, checkpoint: Checkpoint | None) -> None:
    checkpoint = agreed(checkpoint)
    meeting = run.rendezvous()
    failures.require_processes(checkpoint, world_size(), len(meeting.names) if meeting is not None else 1)
    memory, requests = DeviceMemory(resolved.kind, ceiling_of(resolved)), RequestBox(run, reporter)
    requests.is_test = resolved.options.only_evaluates
    log = StepLog(reporter, memory, is_exact=not resolved.options.output.save_model)
    with MemoryReports(memory, reporter) as memory_reports:
        prepared, trainer = _load(run, resolved, log, requests)
        wait_for_all()  # one may download a model for longer than GPUs wait for each other
        with on_signals(signal.SIG_IGN if rank() else requests.stop_at_signal):
            start = time.perf_counter()
            outcome = _learn(trainer, requests, checkpoint)
            seconds = time.perf_counter() - start
            step = trainer.state.global_step
            waited = 0
            if outcome is Outcome.FINISHED and step < trainer.state.max_steps:
                waited = resolved.options.training.early_stopping_patience
            saves = resolved.options.output.save_model and not resolved.options.only_evaluates
            if saves and outcome is not Outcome.PAUSED:
                step = _save_model(run, resolved, reporter, prepared, trainer)
            memory_reports.stop()
            peak = sum(gathered(process_peak()))  # as the forecast counts all processes
            if rank():
                return
            if outcome is Outcome.FINISHED and not resolved.options.output.keep_checkpoints:
                checkpoints.keep(run.checkpoints, 0)  # of an earlier pause
            requests.refuse_rest()
            reporter.write(
                RunFinished(
                    state=outcome,
                    metrics=_metrics_at(step, trainer.state.log_history),
                    samples_per_second=log.samples_per_second,
                    seconds=seconds,
                    steps=trainer.state.global_step,
                    model_step=step if resolved.options.keeps_best else None,
                    waited=waited,
                    peak_bytes=peak,
                    peak_device_bytes=memory.peak(),
                )
            )
            if outcome is not Outcome.PAUSED:
                remember(reporter.status, resolved)


def _load(
    run: RunFolder, resolved: ResolvedRun, log: StepLog, requests: RequestBox
) -> tuple[Prepared, WatchedTrainer]:
    """Load the data and the model, and build a trainer with its callbacks."""
    reporter = log.reporter
    fell_back = []
    if resolved.kind == "mps":
        fell_back = report_mps_fallbacks(reporter)
    only_if_it_fits = ONLY_IF_IT_FITS in os.environ
    with end_while_loading(run, requests):
        if only_if_it_fits and rank() == 0:
            with torch.random.fork_rng(()):  # or the head's random weights would differ
                refuse_too_large(foretell(resolved, None, run.forecast()))
        prepared = prepare(resolved.options, reporter)
        if resolved.options.model.method is Method.QLORA:
            from core.engine.models.lora import note_unpacked

            note_unpacked(prepared.model, reporter)
        if rank():
            prepared = replace(prepared, picture=None)  # rank 0 writes them
        else:
            checkpoints.clean(run.checkpoints)
            forecast = foretell(resolved, prepared, run.forecast())
            if forecast is not None:
                reporter.write(forecast)
            if only_if_it_fits:
                refuse_too_large(forecast)
        trainer = build_trainer(run.checkpoints, resolved, prepared, reporter)
        if rank() == 0:
            trainer.checkpoint_bytes = failures.require_disk_space(run, trainer, resolved.options).checkpoint
    trainer.fell_back = fell_back
    trainer.save_extras = prepared.save_extras
    # the order counts: predictions are no part of a step, and requests come last
    if prepared.metrics is not None:
        validation = ValidationCallback(trainer, prepared, run, resolved.options, reporter)
        trainer.compute_metrics = validation
        trainer.add_callback(validation)
    predictor = choose(resolved.options, prepared, run.path, reporter)
    if predictor is not None:
        trainer.add_callback(PredictionCallback(reporter, trainer, predictor, requests))
    if resolved.options.keeps_best:
        trainer.add_callback(BestCallback(resolved.options.training))
    trainer.add_callback(ReportCallback(trainer, resolved, log, prepared.labels))
    trainer.add_callback(RequestCallback(requests, trainer, reporter))
    return prepared, trainer


def _learn(trainer: WatchedTrainer, requests: RequestBox, checkpoint: Checkpoint | None) -> Outcome:
    """Train until the end, or until a request ends it, and save a checkpoint then.

    Raises:
        ModelError: The checkpoint isn't a state of this run.
    """
    path = str(checkpoint.path) if checkpoint else None
    if path and trainer.is_deepspeed_enabled:
        allow_zero_state()
    try:
        trainer.train(resume_from_checkpoint=path)
        if requests.ending is None or requests.evaluates:
            trainer.evaluate_if_due(is_end=requests.evaluates)
    except EndRequested:  # in the middle of an evaluation
        trainer.undo_evaluation()
        if trainer.state.global_step:
            trainer.save_checkpoint()
    finally:
        trainer.stop_workers()
    return requests.ending or Outcome.FINISHED


def _save_model(
    run: RunFolder, resolved: ResolvedRun, reporter: Reporter, prepared: Prepared, trainer: WatchedTrainer
) -> int:
    """Save the trained model; an earlier one stays until the new one is complete.

    Returns:
        The step whose weights it has.

    Raises:
        CantSave: It can't be written.
        Diverged: A weight is NaN or infinite.
    """
    reporter.phase(Phase.SAVING)
    step: int = trainer.state.global_step
    if resolved.options.keeps_best:
        step = load_best(trainer, resolved.options.training, reporter)
    failures.check_weights_finite(trainer.model, trainer.args)
    if rank():
        trainer.save_model(str(run.model))  # gives rank 0 its part of the weights, if they are divided
        return step
    with (
        failures.writing(run.path, failures.saved_bytes(trainer.model)),
        checkpoints.replaced(run.model) as new,
    ):
        trainer.save_model(str(new))
        checkpoints.drop_pickle(new)
        prepared.save_extras(new)
    save_base_model(run.model, resolved.options.model.source)
    return step


def _metrics_at(step: int, history: list[dict[str, Any]]) -> dict[str, float | None]:
    """The metrics of the evaluation after `step`; empty if there was none."""
    for entry in history:
        if entry["step"] == step and "eval_loss" in entry:
            return {name: split_non_finite(entry[name])[0] for name in METRIC_NAMES if name in entry}
    return {}
