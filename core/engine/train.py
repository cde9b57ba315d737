"""The training job: one run folder in, events, checkpoints and a model out."""

import os
import signal
import sys
import time
import traceback
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch

from core.checkpoint_files import Checkpoint
from core.ending import CANT_WRITE
from core.engine import checkpoints
from core.engine.best import BestCallback, take_best
from core.engine.building import build_trainer, chosen_device, prepare
from core.engine.callbacks import ReportCallback
from core.engine.device_memory import DeviceMemory, MemoryReports, process_peak
from core.engine.devices import Choice
from core.engine.disk_room import (
    CantSave,
    cant_save,
    full_place,
    is_disk_full,
    require_room,
    saved_bytes,
    writing,
)
from core.engine.failures import explain
from core.engine.fallback import report_fallbacks
from core.engine.first_mps_check import warn_of_wrong_numbers
from core.engine.lost_weights import refuse_lost_weights
from core.engine.memory.telling import foretell, refuse_too_large, remember
from core.engine.models.past_runs import keep_base
from core.engine.predicting.callback import PredictionCallback
from core.engine.predicting.choosing import choose
from core.engine.predicting.mixed_up import MixedUp
from core.engine.reporter import Reporter
from core.engine.request_callback import RequestCallback
from core.engine.requests import EndRequested, EndWhileLoading, RequestBox, on_signals
from core.engine.step_log import StepLog
from core.engine.tasks import Prepared
from core.engine.trainer import WatchedTrainer
from core.errors import UserError
from core.events import Outcome, Phase, RunFinished, split_non_finite
from core.memory.shortage import ONLY_IF_IT_FITS
from core.metrics import METRIC_NAMES
from core.options import RunOptions
from core.run_folder import RunFolder


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
    with (
        chosen_device(attempt.options) as choice,
        MemoryReports(DeviceMemory(choice.kind), attempt.reporter) as memory_reports,
        _tensorboard(attempt),
        ExitStack() as held,
    ):
        loaded = _load(attempt, choice, memory_reports)
        held.enter_context(on_signals(loaded.requests.stop_at_signal))
        begun = time.perf_counter()
        outcome = _learn(attempt, loaded)
        seconds = time.perf_counter() - begun
        step = loaded.trainer.state.global_step
        if outcome is not Outcome.PAUSED:
            step = _keep_model(attempt, choice, loaded)
        if outcome is Outcome.FINISHED and not choice.settled.output.keep_checkpoints:
            checkpoints.keep(attempt.run.checkpoints, 0)  # of an earlier pause
        memory_reports.stop()
        loaded.requests.refuse_rest()
        attempt.reporter.write(_end(loaded, outcome, seconds, step))
        if outcome is not Outcome.PAUSED:
            remember(attempt.reporter.story, choice)


def _tensorboard(attempt: _Attempt) -> AbstractContextManager[Any]:
    """TensorBoard's files for as long as training lasts, where they are asked for."""
    if not attempt.options.output.tensorboard:
        return nullcontext()
    from core.engine.tensorboard import TensorBoardFiles

    return TensorBoardFiles(attempt.run.tensorboard, attempt.reporter)


def _load(attempt: _Attempt, choice: Choice, memory_reports: MemoryReports) -> _Loaded:
    run, reporter = attempt.run, attempt.reporter
    requests = RequestBox(run, reporter)
    fell_back = _listen_to_mps(reporter) if choice.kind == "mps" else []
    with EndWhileLoading(run, requests):
        only_if_it_fits = ONLY_IF_IT_FITS in os.environ
        if only_if_it_fits:
            with torch.random.fork_rng(()):  # a head is drawn from the same numbers with --yes
                refuse_too_large(foretell(choice, None, run.forecast()))
        prepared = prepare(choice.settled, reporter)
        checkpoints.clean(run.checkpoints)
        told = foretell(choice, prepared, run.forecast())
        if told is not None:
            reporter.write(told)
        if only_if_it_fits:
            refuse_too_large(told)
        trainer = build_trainer(run.checkpoints, choice, prepared, reporter)
        trainer.checkpoint_bytes = require_room(run, trainer, choice.settled).checkpoint
    trainer.fell_back = fell_back
    trainer.save_extras = prepared.save_extras
    log = StepLog(reporter, memory_reports.memory)
    loaded = _Loaded(prepared, trainer, log, requests)
    _add_callbacks(attempt, choice, loaded)
    return loaded


def _add_callbacks(attempt: _Attempt, choice: Choice, loaded: _Loaded) -> None:
    """Their order counts: asking the model is no part of a step, and what was asked for is put into effect last."""
    prepared, trainer, reporter = loaded.prepared, loaded.trainer, attempt.reporter
    if prepared.metrics is not None and prepared.labels:
        mixed_up = MixedUp(prepared.metrics, prepared.labels, reporter)
        trainer.compute_metrics = mixed_up
        trainer.add_callback(mixed_up)
    speaker = choose(choice.settled, prepared, attempt.run.path, reporter)
    if speaker is not None:
        trainer.add_callback(PredictionCallback(reporter, trainer, speaker, loaded.requests))
    if choice.settled.output.keep_best:
        trainer.add_callback(BestCallback())
    trainer.add_callback(
        ReportCallback(
            reporter=reporter,
            trainer=trainer,
            choice=choice,
            log=loaded.log,
            labels=prepared.labels,
            options=choice.settled,
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


def _listen_to_mps(reporter: Reporter) -> list[str]:
    """Tell what is known of this Mac's GPU, and from now on which operators the CPU computes in its place."""
    warn_of_wrong_numbers(reporter)
    return report_fallbacks(reporter)


def _keep_model(attempt: _Attempt, choice: Choice, loaded: _Loaded) -> int:
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
        take_best(trainer, attempt.reporter) if choice.settled.output.keep_best else trainer.state.global_step
    )
    refuse_lost_weights(trainer.model, trainer.args)
    with writing(attempt.run.path, "model", saved_bytes(trainer.model)), checkpoints.replaced(folder) as new:
        trainer.save_model(str(new))
        checkpoints.drop_pickle(new)
        loaded.prepared.save_extras(new)
    keep_base(folder, choice.settled.model.source)
    return step


def _end(loaded: _Loaded, outcome: Outcome, seconds: float, step: int) -> RunFinished:
    """The last event, with the metrics of the model that was kept, which is that of `step`."""
    state = loaded.trainer.state
    return RunFinished(
        state=outcome,
        metrics=_metrics_at(step, state.log_history),
        samples_per_second=loaded.log.samples_per_second,
        seconds=seconds,
        steps=state.global_step,
        peak_bytes=process_peak(),
        peak_device_bytes=loaded.log.memory.peak(),
    )


def _metrics_at(step: int, history: list[dict[str, Any]]) -> dict[str, float | None]:
    """What the evaluation after `step` gave; empty where there was none: an older one tells of another model."""
    for entry in history:
        if entry["step"] == step and "eval_loss" in entry:
            return {name: split_non_finite(entry[name])[0] for name in METRIC_NAMES if name in entry}
    return {}
