"""The training job: one run folder in, events, checkpoints and a model out."""

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from core.base.ceiling import end_reading
from core.base.errors import UserError
from core.base.formats import METRIC_NAMES
from core.base.processes import CANT_WRITE
from core.engine import environment
from core.engine.data.batches import collator_for
from core.engine.data.token_cache import NO_LABEL
from core.engine.devices.capabilities import BITSANDBYTES_OPTIMIZERS, gather
from core.engine.devices.check import warn_of_wrong_numbers
from core.engine.devices.choose import ResolvedRun, resolve_run
from core.engine.devices.memory import DeviceMemory, MemoryReports, process_peak
from core.engine.generate.predict import choose
from core.engine.memory.forecast import foretell, refuse_too_large, remember
from core.engine.models.past_runs import keep_base
from core.engine.models.vision import check_checkpointing
from core.engine.reporter import Reporter, StepLog
from core.engine.tasks import Prepared, TrainedBy
from core.engine.training import checkpoints
from core.engine.training.arguments import alone, optimizer_class, trainer_arguments
from core.engine.training.callbacks import (
    BestCallback,
    ConfusionCallback,
    EndRequested,
    EndWhileLoading,
    PredictionCallback,
    ReportCallback,
    RequestBox,
    RequestCallback,
    take_best,
)
from core.engine.training.compile import Compilation
from core.engine.training.failures import (
    CantSave,
    cant_save,
    explain,
    full_place,
    is_disk_full,
    refuse_lost_weights,
    require_room,
    saved_bytes,
    writing,
)
from core.engine.training.loading import on_signals
from core.engine.training.trainer import WatchedTrainer, loss_by_label, mend_loss_scaling, share_router_loss
from core.engine.training.what_ran import report_fallbacks
from core.options import RunOptions
from core.options.choices import DeepSpeed, Method, Precision, Task
from core.runs.events import Outcome, Phase, RunFinished, split_non_finite
from core.runs.folder import RunFolder
from core.runs.models import Checkpoint
from core.runs.words import ONLY_IF_IT_FITS

PROBED = 100
"""Samples looked through for one with a label."""
HALF = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


@contextmanager
def chosen_device(options: RunOptions) -> Iterator[ResolvedRun]:
    """Settle where `options` are computed and set this process up for it, for as long as training lasts.

    Raises:
        DeviceError: Something that was asked for is not to be had here.
    """
    transformers.utils.logging.disable_progress_bar()  # redrawn bars fill a log
    loading = logging.getLogger("transformers.modeling_utils")  # says that the new head's weights are missing
    loading.addFilter(lambda record: "LOAD REPORT" not in record.getMessage())
    resolved = resolve_run(gather(with_compilers=options.device.compile), options, sees_one_gpu=True)
    environment.apply(resolved.options)
    with_zero = resolved.options.memory.deepspeed is not DeepSpeed.OFF
    with alone(resolved.kind) if with_zero else nullcontext():
        yield resolved


def load_libraries(options: RunOptions) -> Callable[[RunOptions, Reporter], Prepared]:
    """Import what the task and method need, and nothing else; returns what loads the data and the model."""
    if options.model.method in (Method.LORA, Method.QLORA):
        import peft  # noqa: F401
    if options.training.optimizer in BITSANDBYTES_OPTIMIZERS:
        import bitsandbytes  # noqa: F401
    from core.engine.tasks import images, language, text

    return {
        Task.TEXT_CLASSIFICATION: text.prepare_classification,
        Task.TEXT_REGRESSION: text.prepare_regression,
        Task.TOKEN_CLASSIFICATION: text.prepare_token_classification,
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
    """The trainer of a run, with the compiler where one was asked for.

    Args:
        checkpoints: Where checkpoints go.
        resolved: What it computes on.
        prepared: Its model and data.
        reporter: Hears of it while it compiles.
        kind: The class to make.

    Raises:
        ModelError: The model can't compute its activations again, and that was asked for.
    """
    end_reading()
    by = prepared.trained_by or TrainedBy(WatchedTrainer, transformers.TrainingArguments)
    if resolved.options.memory.activation_checkpointing:
        check_checkpointing(prepared.model)
    has_eval = prepared.eval is not None and len(prepared.eval) > 0
    arguments = trainer_arguments(resolved, checkpoints, has_eval=has_eval)
    # both watch: one class is put over the other
    joined = by.trainer if issubclass(by.trainer, kind) else type(kind.__name__, (kind, by.trainer), {})
    trainer: WatchedTrainer = joined(
        model=prepared.model,
        args=by.arguments(**arguments, **by.settings),
        train_dataset=prepared.train,
        eval_dataset=prepared.eval if has_eval else None,
        data_collator=collator_for(resolved.kind, prepared.collator),
        processing_class=prepared.processing_class,
        compute_metrics=prepared.metrics,
        optimizer_cls_and_kwargs=optimizer_class(resolved),
        **by.more,
    )
    if prepared.condense is not None:  # not every trainer takes it as an argument
        trainer.preprocess_logits_for_metrics = prepared.condense
    # it prints dictionaries where no progress bar is shown
    trainer.remove_callback(transformers.PrinterCallback)
    if resolved.options.memory.gradient_accumulation_steps > 1 and trainer.loss_is_scaled_for_ga is None:
        _mend_accumulation(trainer, resolved, prepared)
    if resolved.options.device.compile:
        trainer.compilation = Compilation(resolved.options, resolved.kind, reporter, trainer.first_batch)
    return trainer


def _mend_accumulation(trainer: WatchedTrainer, resolved: ResolvedRun, prepared: Prepared) -> None:
    # a prompt may fill the first sample, with no token to learn
    for number in range(min(len(prepared.train), PROBED)):
        batch = trainer.data_collator([prepared.train[number]])
        if "labels" not in batch or (batch["labels"] != NO_LABEL).any():
            break
    batch = {name: value.to(trainer.args.device) for name, value in batch.items()}
    # FlashAttention computes in 16 bits only; DeepSpeed starts its own autocast only when it trains
    dtype = HALF.get(resolved.precision)
    with torch.autocast(resolved.kind, dtype=dtype, enabled=dtype is not None):
        mended = mend_loss_scaling(trainer.model, batch)
    if mended:
        trainer.model_accepts_loss_kwargs = False
    else:
        share_router_loss(trainer.model, lambda: trainer.current_gradient_accumulation_steps)
    if mended and resolved.options.task is Task.TOKEN_CLASSIFICATION:
        trainer.compute_loss_func = loss_by_label


def train_run(
    run: RunFolder, options: RunOptions, reporter: Reporter, checkpoint: Checkpoint | None = None
) -> int:
    """Train what was asked and report into the run's folder.

    Args:
        run: The run's folder.
        options: What was asked.
        reporter: Writes its events.
        checkpoint: What it goes on from; None: it begins.

    Returns:
        The exit status: 0 finished, stopped or paused, 1 failed (the events say why, a bug's traceback is in the log),
        `CANT_WRITE` where not even that could be written.
    """
    attempt = _Attempt(run, options, reporter, checkpoint)
    with on_signals(signal.default_int_handler):
        try:
            _train(attempt)
        except EndRequested as ended:  # while loading: there is nothing new to keep yet
            reporter.write(RunFinished(state=ended.outcome, steps=reporter.story.step))
        except (
            KeyboardInterrupt
        ):  # also what interrupts loading (`EndWhileLoading`), where that was just done
            with on_signals(signal.SIG_IGN):  # a shutdown sends a second one at once
                requests = RequestBox(run, reporter)
                asked = requests.ending if requests.end_is_asked() else None
                reporter.write(RunFinished(state=asked or Outcome.STOPPED, steps=reporter.story.step))
        except Exception as error:  # noqa: BLE001 - the outer edge of this process: logged whole, shown as failed
            return _report_failure(error, attempt)
    return 0


def _report_failure(error: Exception, attempt: "_Attempt") -> int:
    reporter, is_full = attempt.reporter, is_disk_full(error)
    if not isinstance(error, UserError):
        if not is_full:
            with suppress(OSError):  # the log can't be written
                traceback.print_exc(file=sys.stderr)
        error = _explained(error, attempt)
    if is_full:  # room for what is told now; the keeper's last word finds what is left of it
        with suppress(OSError):
            attempt.run.spare_file.unlink(missing_ok=True)
    try:
        if isinstance(error, CantSave):
            reporter.pause(error)
            return 0
        reporter.fail(error)
    except OSError:  # the disk is full or gone: only the exit status is left to tell it
        return CANT_WRITE
    return 1


def _explained(error: Exception, attempt: "_Attempt") -> UserError:
    story = attempt.reporter.story
    if is_disk_full(error) and story.plan is not None:  # something else than a checkpoint: the events
        return cant_save(error, full_place(error, attempt.run.path) or attempt.run.path, "run's record")
    return explain(error, attempt.options, story.forecast) or UserError(
        "Training ended with an unexpected error",
        f"{type(error).__name__}: {error}\nThe whole report is at the end of the log.",
    )


@dataclass(frozen=True)
class _Attempt:
    """What is to be trained, and where it goes on from."""

    run: RunFolder
    options: RunOptions
    reporter: Reporter
    checkpoint: Checkpoint | None


@dataclass(frozen=True)
class _Loaded:
    """What trains: ready, and nothing trained yet."""

    prepared: Prepared
    trainer: WatchedTrainer
    log: StepLog
    requests: RequestBox


def _train(attempt: _Attempt) -> None:
    checkpoints.refuse_links(attempt.run)
    tensorboard: AbstractContextManager[Any] = nullcontext()
    if attempt.options.output.tensorboard:
        from core.engine.training.tensorboard import TensorBoardFiles

        tensorboard = TensorBoardFiles(attempt.run.tensorboard, attempt.reporter)
    with (
        chosen_device(attempt.options) as resolved,
        MemoryReports(DeviceMemory(resolved.kind), attempt.reporter) as memory_reports,
        tensorboard,
        ExitStack() as held,
    ):
        loaded = _load(attempt, resolved, memory_reports)
        held.enter_context(on_signals(loaded.requests.stop_at_signal))
        begun = time.perf_counter()
        outcome = _learn(attempt, loaded)
        seconds = time.perf_counter() - begun
        step = loaded.trainer.state.global_step
        if outcome is not Outcome.PAUSED:
            step = _keep_model(attempt, resolved, loaded)
        if outcome is Outcome.FINISHED and not resolved.options.output.keep_checkpoints:
            checkpoints.keep(attempt.run.checkpoints, 0)  # of an earlier pause
        memory_reports.stop()
        loaded.requests.refuse_rest()
        state = loaded.trainer.state
        attempt.reporter.write(
            RunFinished(
                state=outcome,
                metrics=_metrics_at(step, state.log_history),
                samples_per_second=loaded.log.samples_per_second,
                seconds=seconds,
                steps=state.global_step,
                peak_bytes=process_peak(),
                peak_device_bytes=loaded.log.memory.peak(),
            )
        )
        if outcome is not Outcome.PAUSED:
            remember(attempt.reporter.story, resolved)


def _load(attempt: _Attempt, resolved: ResolvedRun, memory_reports: MemoryReports) -> _Loaded:
    run, reporter = attempt.run, attempt.reporter
    requests = RequestBox(run, reporter)
    fell_back = []
    if resolved.kind == "mps":
        warn_of_wrong_numbers(reporter)
        fell_back = report_fallbacks(reporter)
    with EndWhileLoading(run, requests):
        only_if_it_fits = ONLY_IF_IT_FITS in os.environ
        if only_if_it_fits:
            with torch.random.fork_rng(()):  # a head is drawn from the same numbers with --yes
                refuse_too_large(foretell(resolved, None, run.forecast()))
        prepared = prepare(resolved.options, reporter)
        checkpoints.clean(run.checkpoints)
        told = foretell(resolved, prepared, run.forecast())
        if told is not None:
            reporter.write(told)
        if only_if_it_fits:
            refuse_too_large(told)
        trainer = build_trainer(run.checkpoints, resolved, prepared, reporter)
        trainer.checkpoint_bytes = require_room(run, trainer, resolved.options).checkpoint
    trainer.fell_back = fell_back
    trainer.save_extras = prepared.save_extras
    log = StepLog(reporter, memory_reports.memory)
    loaded = _Loaded(prepared, trainer, log, requests)
    _add_callbacks(attempt, resolved, loaded)
    return loaded


def _add_callbacks(attempt: _Attempt, resolved: ResolvedRun, loaded: _Loaded) -> None:
    """Their order counts: asking the model is no part of a step, and what was asked for is put into effect last."""
    prepared, trainer, reporter = loaded.prepared, loaded.trainer, attempt.reporter
    if prepared.metrics is not None and prepared.labels:
        confusion = ConfusionCallback(prepared.metrics, prepared.labels, reporter)
        trainer.compute_metrics = confusion
        trainer.add_callback(confusion)
    speaker = choose(resolved.options, prepared, attempt.run.path, reporter)
    if speaker is not None:
        trainer.add_callback(PredictionCallback(reporter, trainer, speaker, loaded.requests))
    if resolved.options.output.keep_best:
        trainer.add_callback(BestCallback())
    trainer.add_callback(
        ReportCallback(
            reporter=reporter,
            trainer=trainer,
            resolved=resolved,
            log=loaded.log,
            labels=prepared.labels,
            options=resolved.options,
        )
    )
    trainer.add_callback(RequestCallback(loaded.requests, trainer, reporter))


def _learn(attempt: _Attempt, loaded: _Loaded) -> Outcome:
    """Train until it is done or asked to end, with a checkpoint saved then."""
    trainer, requests = loaded.trainer, loaded.requests
    try:
        trainer.train(resume_from_checkpoint=str(attempt.checkpoint.path) if attempt.checkpoint else None)
        if requests.ending is None:
            trainer.evaluate_owed()
    except EndRequested:  # in the middle of an evaluation
        trainer.take_back_evaluation()
        if trainer.state.global_step:
            trainer.save_checkpoint()
    finally:
        trainer.stop_workers()
    return requests.ending or Outcome.FINISHED


def _keep_model(attempt: _Attempt, resolved: ResolvedRun, loaded: _Loaded) -> int:
    """Save the trained model; one that stands there stays until the new one is whole.

    Returns:
        The step whose weights it has.

    Raises:
        CantSave: It can't be written.
        UserError: The weights are lost.
    """
    attempt.reporter.phase(Phase.SAVING)
    trainer, folder = loaded.trainer, attempt.run.model
    step = (
        take_best(trainer, attempt.reporter)
        if resolved.options.output.keep_best
        else trainer.state.global_step
    )
    refuse_lost_weights(trainer.model, trainer.args)
    with writing(attempt.run.path, "model", saved_bytes(trainer.model)), checkpoints.replaced(folder) as new:
        trainer.save_model(str(new))
        checkpoints.drop_pickle(new)
        loaded.prepared.save_extras(new)
    keep_base(folder, resolved.options.model.source)
    return step


def _metrics_at(step: int, history: list[dict[str, Any]]) -> dict[str, float | None]:
    """What the evaluation after `step` gave; empty where there was none: an older one tells of another model."""
    for entry in history:
        if entry["step"] == step and "eval_loss" in entry:
            return {name: split_non_finite(entry[name])[0] for name in METRIC_NAMES if name in entry}
    return {}
