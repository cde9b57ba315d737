"""The training job: one run folder in, events, checkpoints and a model out."""

import sys
import time
import traceback
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from core.ending import CANT_WRITE
from core.engine import checkpoints
from core.engine.building import build_trainer, chosen_device, prepare
from core.engine.callbacks import ReportCallback, RequestCallback
from core.engine.device_memory import DeviceMemory, MemoryReports, process_peak
from core.engine.devices import Choice
from core.engine.failures import explain
from core.engine.fallback import report_fallbacks
from core.engine.first_mps_check import warn_of_wrong_numbers
from core.engine.memory.telling import foretell, remember
from core.engine.reporter import Reporter
from core.engine.requests import RequestBox, StopRequested, StopWhileLoading
from core.engine.step_log import StepLog
from core.engine.tasks import Prepared
from core.engine.trainer import WatchedTrainer
from core.errors import UserError
from core.events import Outcome, Phase, RunFinished, split_non_finite
from core.metrics import METRIC_NAMES
from core.options import RunOptions
from core.run_folder import RunFolder


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
        error = explain(error, options, reporter.story.forecast) or UserError(
            "Training ended with an unexpected error",
            f"{type(error).__name__}: {error}\nThe whole report is at the end of the log.",
        )
    try:
        reporter.fail(error)
    except OSError:  # the disk is full or gone: only the exit status is left to tell it
        return CANT_WRITE
    return 1


def _train(run: RunFolder, options: RunOptions, reporter: Reporter) -> None:
    with (
        chosen_device(options) as choice,
        MemoryReports(DeviceMemory(choice.kind), reporter) as memory_reports,
        _tensorboard(run, options, reporter),
    ):
        _train_on(choice, run, reporter, memory_reports)


def _tensorboard(run: RunFolder, options: RunOptions, reporter: Reporter) -> AbstractContextManager[Any]:
    """TensorBoard's files for as long as training lasts, where they are asked for."""
    if not options.output.tensorboard:
        return nullcontext()
    from core.engine.tensorboard import TensorBoardFiles

    return TensorBoardFiles(run.tensorboard, reporter)


def _train_on(choice: Choice, run: RunFolder, reporter: Reporter, memory_reports: MemoryReports) -> None:
    requests = RequestBox(run, reporter)
    fell_back = _listen_to_mps(reporter) if choice.kind == "mps" else []
    with StopWhileLoading(run, requests):
        prepared = prepare(choice.settled, reporter)
        checkpoints.clean(run.checkpoints)
        told = foretell(choice, prepared, run.forecast())
        if told is not None:
            reporter.write(told)
        trainer = build_trainer(run.checkpoints, choice, prepared, reporter)
    trainer.fell_back = fell_back
    log = StepLog(reporter, memory_reports.memory)
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
    memory_reports.stop()
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
    remember(reporter.story, choice)


def _listen_to_mps(reporter: Reporter) -> list[str]:
    """Tell what is known of this Mac's GPU, and from now on which operators the CPU computes in its place."""
    warn_of_wrong_numbers(reporter)
    return report_fallbacks(reporter)


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
