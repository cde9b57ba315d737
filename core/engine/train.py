"""The training job with PyTorch: transformers' Trainer between a run's folder and what the engine knows of it."""

import os
import signal
import time
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from core.base.errors import UserError
from core.engine.devices.check import warn_of_wrong_numbers
from core.engine.devices.choose import ResolvedRun
from core.engine.devices.memory import DeviceMemory, MemoryReports, ceiling_of, process_peak
from core.engine.generate.predict import Predictor, choose, judge
from core.engine.launch import rank
from core.engine.memory.forecast import foretell, refuse_too_large, remember
from core.engine.models.past_runs import save_base_model
from core.engine.reporter import Reporter
from core.engine.run import checkpoints
from core.engine.run.attempt import attempt, finish
from core.engine.run.failures import require_disk_space, writing
from core.engine.run.log import RunLog
from core.engine.run.predictions import Predictions, ShouldStop
from core.engine.run.requests import EndRequested, RequestBox, end_while_loading, on_signals
from core.engine.tasks import Prepared
from core.engine.training import failures
from core.engine.training.arguments import allow_zero_state
from core.engine.training.build import build_trainer, chosen_device, prepare
from core.engine.training.callbacks import (
    BestCallback,
    PredictionCallback,
    ReportCallback,
    RequestCallback,
    ValidationCallback,
    fetched,
    load_best,
)
from core.engine.training.ranks import agreed, agreed_numbers, gathered, wait_for_all, world_size
from core.engine.training.resuming import Resuming
from core.engine.training.step import StepFigures
from core.engine.training.trainer import WatchedTrainer
from core.engine.training.what_ran import report_mps_fallbacks, what_ran
from core.options import RunOptions
from core.options.choices import Method
from core.runs.events import Outcome, Phase, Said
from core.runs.folder import RunFolder
from core.runs.models import Checkpoint
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
        # before the precision is chosen: it measures how fast bf16 is
        if options.device.name in ("auto", "mps") and torch.backends.mps.is_available():
            warn_of_wrong_numbers(reporter)
        with chosen_device(options) as resolved:
            reasons = {**resolved.reasons, "device.backend": why}
            _train(run, replace(resolved, reasons=reasons), reporter, checkpoint)

    def explain(error: Exception) -> UserError | None:
        return failures.explain(error, options, reporter.status.forecast)

    return attempt(run, options, reporter, train, explain)


def _train(run: RunFolder, resolved: ResolvedRun, reporter: Reporter, checkpoint: Checkpoint | None) -> None:
    checkpoint = agreed(checkpoint)
    meeting, options = run.rendezvous(), resolved.options
    failures.require_processes(checkpoint, world_size(), len(meeting.names) if meeting is not None else 1)
    memory = DeviceMemory(resolved.kind, ceiling_of(resolved))
    requests = RequestBox(run, reporter, agreed_numbers)
    requests.is_test = options.only_evaluates
    step = StepFigures(resolved, reporter)
    log = RunLog(reporter, options, step.parts, fetched, memory.sample)
    with MemoryReports(memory, reporter) as memory_reports:
        prepared, trainer = _load(run, resolved, log, step, requests)
        wait_for_all()  # one may download a model for longer than GPUs wait for each other
        with on_signals(signal.SIG_IGN if rank() else requests.stop_at_signal):
            start = time.perf_counter()
            outcome = _learn(trainer, requests, checkpoint)
            seconds = time.perf_counter() - start
            last = model_step = trainer.state.global_step
            saves = options.output.save_model and not options.only_evaluates
            if saves and outcome is not Outcome.PAUSED:
                model_step = _save_model(run, resolved, reporter, prepared, trainer)
            memory_reports.stop()
            peak = sum(gathered(process_peak()))  # as the forecast counts all processes
            if rank():
                return
            finish(
                run,
                log,
                requests,
                outcome,
                trainer.state.log_history,
                step=last,
                model_step=model_step,
                seconds=seconds,
                peak_bytes=peak,
                peak_device_bytes=memory.peak(),
            )
            if outcome is not Outcome.PAUSED:
                remember(reporter.status, resolved)


def _load(
    run: RunFolder, resolved: ResolvedRun, log: RunLog, step: StepFigures, requests: RequestBox
) -> tuple[Prepared, WatchedTrainer]:
    """Loads the data and the model, and builds a trainer with its callbacks."""
    reporter, options = log.reporter, resolved.options
    fell_back = report_mps_fallbacks(reporter) if resolved.kind == "mps" else []
    only_if_it_fits = ONLY_IF_IT_FITS in os.environ
    size = 0
    with end_while_loading(run, requests):
        if only_if_it_fits and rank() == 0:
            with torch.random.fork_rng(()):  # or the head's random weights would differ
                refuse_too_large(foretell(resolved, None, run.forecast()))
        prepared = prepare(options, reporter)
        if options.model.method is Method.QLORA:
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
            trained = sum(one.numel() for one in prepared.model.parameters() if one.requires_grad)
            size = require_disk_space(run, failures.saved_bytes(prepared.model), trained, options).checkpoint
        validation = None
        if prepared.metrics is not None:
            validation = ValidationCallback(prepared, run, options, reporter, judge)
        resuming = Resuming(resolved.kind, prepared.save_extras, log.begin_saving, size)
        asked = replace(prepared, metrics=validation)
        trainer = build_trainer(run.checkpoints, resolved, asked, step, resuming)
    # the order counts: predictions are no part of a step, and requests come last
    if validation is not None:
        trainer.add_callback(validation)
    predictor = choose(options, prepared, run.path, reporter)
    if predictor is not None:
        predictions = Predictions(
            reporter, requests, predictor.examples, partial(_predict, trainer, predictor), agreed
        )
        trainer.add_callback(PredictionCallback(predictions, has_eval=trainer.eval_dataset is not None))
    if options.keeps_best:
        trainer.add_callback(BestCallback(options.training))
    ran = partial(what_ran, trainer, resolved, fell_back)
    trainer.add_callback(ReportCallback(log, step, resuming, resolved, prepared, what_ran=ran))
    trainer.add_callback(RequestCallback(requests, resuming, log))
    return prepared, trainer


def _predict(trainer: WatchedTrainer, predictor: Predictor, should_stop: ShouldStop) -> tuple[Said, ...]:
    """Predicts the examples with the current weights: on rank 0, or on all ranks that have a part of them."""
    if rank() and not trainer.is_divided:
        return ()
    if trainer.is_divided and world_size() > 1:
        should_stop = bool  # all ranks have to generate as many tokens
    model: Any = trainer.model
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return predictor.predict(model, should_stop)
    finally:
        model.train(was_training)


def _learn(trainer: WatchedTrainer, requests: RequestBox, checkpoint: Checkpoint | None) -> Outcome:
    """Trains until the end, or until a request ends it, and saves a checkpoint then.

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
    """Saves the trained model; an earlier one stays until the new one is complete.

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
        writing(run.path, failures.saved_bytes(trainer.model)),
        checkpoints.replaced(run.model) as new,
    ):
        trainer.save_model(str(new))
        checkpoints.drop_pickle(new)
        prepared.save_extras(new)
    save_base_model(run.model, resolved.options.model.source)
    return step
