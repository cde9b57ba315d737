"""The training job: one run folder in, events, checkpoints and a model out."""

import logging
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers

from core.choices import DeepSpeed, Precision, Task
from core.ending import CANT_WRITE
from core.engine import checkpoints, process_settings
from core.engine.arguments import trainer_arguments
from core.engine.callbacks import ReportCallback, RequestCallback
from core.engine.compiling import Compilation
from core.engine.data.single_precision import collator_for
from core.engine.device_memory import DeviceMemory, process_peak
from core.engine.devices import Choice, choose_visible
from core.engine.failures import explain
from core.engine.fallback import report_fallbacks
from core.engine.first_mps_check import warn_of_wrong_numbers
from core.engine.loss_scaling import mend_loss_scaling
from core.engine.machine_facts import gather
from core.engine.models.checkpointing import check_checkpointing
from core.engine.optimizers import optimizer_class
from core.engine.reporter import Reporter
from core.engine.requests import RequestBox, StopRequested, StopWhileLoading
from core.engine.step_log import StepLog
from core.engine.tasks import Prepared
from core.engine.trainer import WatchedTrainer
from core.engine.zero_process import alone
from core.errors import UserError
from core.events import Outcome, Phase, RunFinished, split_non_finite
from core.metrics import METRIC_NAMES
from core.options import RunOptions
from core.run_folder import RunFolder

HALF = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


def train_run(run: RunFolder, options: RunOptions, reporter: Reporter) -> int:
    """Train what was asked and report into the run's folder.

    Returns:
        The exit status: 0 finished or stopped, 1 failed (the events say why, a bug's traceback is in the log),
        `CANT_WRITE` where not even that could be written.
    """
    try:
        _train(run, options, reporter)
    except (StopRequested, KeyboardInterrupt):  # while loading: there is nothing to keep yet
        reporter.write(RunFinished(state=Outcome.STOPPED))
    except Exception as error:  # noqa: BLE001 - the outer edge of this process: logged whole, shown as failed
        return _report_failure(error, options, reporter)
    return 0


def _report_failure(error: Exception, options: RunOptions, reporter: Reporter) -> int:
    if not isinstance(error, UserError):
        traceback.print_exc(file=sys.stderr)
        error = explain(error, options) or UserError(
            "Training ended with an unexpected error",
            f"{type(error).__name__}: {error}\nThe whole report is at the end of the log.",
        )
    try:
        reporter.fail(error)
    except OSError:  # the disk is full or gone: only the exit status is left to tell it
        return CANT_WRITE
    return 1


def _train(run: RunFolder, options: RunOptions, reporter: Reporter) -> None:
    _quieten_transformers()
    choice = choose_visible(gather(with_compilers=options.device.compile), options)
    process_settings.apply(choice.settled)
    with_zero = choice.settled.memory.deepspeed is not DeepSpeed.OFF
    with alone(choice.kind) if with_zero else nullcontext():
        _train_on(choice, run, reporter)


def _train_on(choice: Choice, run: RunFolder, reporter: Reporter) -> None:
    requests = RequestBox(run, reporter)
    fell_back = _listen_to_mps(reporter) if choice.kind == "mps" else []
    with StopWhileLoading(run, requests):
        prepared = _prepare(choice.settled, reporter)
        checkpoints.clean(run.checkpoints)
        trainer = _build_trainer(run, choice.settled, choice, prepared)
    trainer.fell_back = fell_back
    if choice.settled.device.compile:
        trainer.compilation = Compilation(choice.settled, choice.kind, reporter, trainer.first_batch)
    log = StepLog(reporter, DeviceMemory(choice.kind))
    trainer.add_callback(
        ReportCallback(
            reporter=reporter,
            trainer=trainer,
            choice=choice,
            log=log,
            labels=prepared.labels,
            options=choice.settled,
        )
    )
    trainer.add_callback(RequestCallback(requests))
    begun = time.perf_counter()
    try:
        trainer.train()
    except StopRequested:  # in the middle of an evaluation, after the epoch's last step
        trainer.save_checkpoint()
    finally:
        trainer.stop_workers()
    seconds = time.perf_counter() - begun
    reporter.phase(Phase.SAVING)
    _save_model(run.model, trainer, prepared)
    reporter.write(
        RunFinished(
            state=Outcome.STOPPED if requests.stop_accepted else Outcome.FINISHED,
            metrics=_metrics_at(trainer.state.global_step, trainer.state.log_history),
            samples_per_second=log.samples_per_second,
            seconds=seconds,
            steps=trainer.state.global_step,
            peak_bytes=process_peak(),
            peak_device_bytes=log.memory.peak(),
        )
    )


def _listen_to_mps(reporter: Reporter) -> list[str]:
    """Tell what is known of this Mac's GPU, and from now on which operators the CPU computes in its place."""
    warn_of_wrong_numbers(reporter)
    return report_fallbacks(reporter)


def _quieten_transformers() -> None:
    """Leave out of the log what frightens and doesn't help: redrawn bars, and the table of weights of the new head."""
    transformers.utils.logging.disable_progress_bar()
    loading = logging.getLogger("transformers.modeling_utils")
    loading.addFilter(lambda record: "LOAD REPORT" not in record.getMessage())


def _prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load what the task needs; each task's libraries are imported only for it."""
    match options.task:
        case Task.TEXT_CLASSIFICATION:
            from core.engine.tasks import text_classification as task
        case Task.IMAGE_CLASSIFICATION:
            from core.engine.tasks import image_classification as task  # type: ignore[no-redef]
    return task.prepare(options, reporter)


def _build_trainer(run: RunFolder, options: RunOptions, choice: Choice, prepared: Prepared) -> WatchedTrainer:
    from transformers import PrinterCallback, TrainingArguments

    from core.engine.metrics import classification_metrics

    if options.memory.activation_checkpointing:
        check_checkpointing(prepared.model)
    has_eval = prepared.eval is not None and len(prepared.eval) > 0
    arguments = trainer_arguments(choice, run.checkpoints, has_eval=has_eval)
    trainer = WatchedTrainer(
        model=prepared.model,
        args=TrainingArguments(**arguments),
        train_dataset=prepared.train,
        eval_dataset=prepared.eval if has_eval else None,
        data_collator=collator_for(choice.kind, prepared.collator),
        processing_class=prepared.processing_class,
        compute_metrics=classification_metrics,
        optimizer_cls_and_kwargs=optimizer_class(choice),
    )
    trainer.remove_callback(PrinterCallback)  # it prints dictionaries where no progress bar is shown
    if options.memory.gradient_accumulation_steps > 1:
        batch = trainer.data_collator([prepared.train[0]])
        batch = {name: value.to(trainer.args.device) for name, value in batch.items()}
        with _autocast(choice):  # FlashAttention computes in 16 bits only
            mended = mend_loss_scaling(trainer.model, batch)
        if mended:
            trainer.model_accepts_loss_kwargs = False
    return trainer


def _autocast(choice: Choice) -> torch.autocast:
    """What a batch is computed in; asked of torch itself, because DeepSpeed brings it in only once it trains."""
    dtype = HALF.get(choice.precision)
    return torch.autocast(choice.kind, dtype=dtype, enabled=dtype is not None)


def _save_model(folder: Path, trainer: WatchedTrainer, prepared: Prepared) -> None:
    trainer.save_model(str(folder))
    checkpoints.drop_pickle(folder)
    prepared.save_extras(folder)


def _metrics_at(step: int, history: list[dict[str, Any]]) -> dict[str, float | None]:
    """What the evaluation after `step` gave; empty where there was none: an older one tells of another model."""
    for entry in history:
        if entry["step"] == step and METRIC_NAMES[0] in entry:
            return {name: split_non_finite(entry[name])[0] for name in METRIC_NAMES if name in entry}
    return {}
