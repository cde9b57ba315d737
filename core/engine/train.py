"""The training job: one run folder in, events, checkpoints and a model out."""

import sys
import time
import traceback
from pathlib import Path
from typing import Any

import transformers

from core.engine import checkpoints
from core.engine.arguments import trainer_arguments
from core.engine.callbacks import REPORTED_METRICS, ReportCallback, RequestCallback
from core.engine.devices import Choice, choose
from core.engine.failures import explain
from core.engine.loss_scaling import mend_loss_scaling
from core.engine.machine_facts import MachineFacts, gather
from core.engine.peak_memory import peak_bytes
from core.engine.reporter import Reporter
from core.engine.requests import RequestBox, StopRequested
from core.engine.tasks import Prepared
from core.engine.trainer import WatchedTrainer
from core.errors import UserError
from core.events import Outcome, Phase, RunFinished, RunPlanned, split_non_finite
from core.options import RunOptions, Task
from core.runs import RunFolder


def train_run(run: RunFolder) -> int:
    """Train what `run.toml` asks for and report into the folder.

    Returns:
        The exit status: 0 finished or stopped, 1 failed (the events say why, a bug's traceback is in the log).
    """
    options = run.options()
    facts = gather()
    reporter = Reporter(run)
    reporter.start(facts.versions)
    try:
        _train(run, options, facts, reporter)
    except StopRequested:
        reporter.write(RunFinished(state=Outcome.STOPPED))
    except UserError as error:
        reporter.fail(error)
        return 1
    except Exception as error:  # noqa: BLE001 - the outer edge of this process: logged whole, shown as failed
        traceback.print_exc(file=sys.stderr)
        reporter.fail(explain(error, options) or _bug(error))
        return 1
    finally:
        reporter.close()
    return 0


def _bug(error: Exception) -> UserError:
    return UserError(
        "Training ended with an unexpected error",
        f"{type(error).__name__}: {error}\nThe whole report is at the end of the log.",
    )


def _train(run: RunFolder, options: RunOptions, facts: MachineFacts, reporter: Reporter) -> None:
    transformers.utils.logging.disable_progress_bar()  # the log is read by people
    requests = RequestBox(run, reporter)
    choice = choose(facts, options.device)
    prepared = _prepare(options, reporter)
    requests.raise_if_stopped()
    checkpoints.clean(run.checkpoints)
    trainer = _build_trainer(run, options, choice, prepared, reporter)
    trainer.add_callback(ReportCallback(reporter, trainer, choice))
    trainer.add_callback(RequestCallback(requests))
    reporter.write(_plan(options, prepared, trainer))
    begun = time.perf_counter()
    try:
        trainer.train()
    except StopRequested:  # in the middle of an evaluation, after the epoch's last step
        trainer.save_checkpoint()
    seconds = time.perf_counter() - begun
    reporter.phase(Phase.SAVING)
    _save_model(run.model, trainer, prepared)
    reporter.write(_finished(trainer, requests, seconds))


def _prepare(options: RunOptions, reporter: Reporter) -> Prepared:
    """Load what the task needs; each task's libraries are imported only for it."""
    match options.task:
        case Task.TEXT_CLASSIFICATION:
            from core.engine.tasks import text_classification as task
        case Task.IMAGE_CLASSIFICATION:
            from core.engine.tasks import image_classification as task  # type: ignore[no-redef]
    return task.prepare(options, reporter)


def _build_trainer(
    run: RunFolder, options: RunOptions, choice: Choice, prepared: Prepared, reporter: Reporter
) -> WatchedTrainer:
    from transformers import PrinterCallback, TrainingArguments

    from core.engine.metrics import classification_metrics

    has_eval = prepared.eval is not None and len(prepared.eval) > 0
    arguments = trainer_arguments(options, choice, run.checkpoints, has_eval=has_eval)
    trainer = WatchedTrainer(
        model=prepared.model,
        args=TrainingArguments(**arguments),
        train_dataset=prepared.train,
        eval_dataset=prepared.eval if has_eval else None,
        data_collator=prepared.collator,
        processing_class=prepared.processing_class,
        compute_metrics=classification_metrics,
    )
    trainer.remove_callback(PrinterCallback)  # it prints dictionaries where no progress bar is shown
    if options.memory.gradient_accumulation_steps > 1:
        batch = prepared.collator([prepared.train[0]])
        batch = {name: value.to(trainer.args.device) for name, value in batch.items()}
        if mend_loss_scaling(trainer.model, batch):
            trainer.model_accepts_loss_kwargs = False
    return trainer


def _plan(options: RunOptions, prepared: Prepared, trainer: WatchedTrainer) -> RunPlanned:
    """Steps as Trainer counts them: an epoch's batches in groups of the accumulation, the last group maybe smaller."""
    batches = -(-len(prepared.train) // options.memory.batch_size)
    steps_an_epoch = max(1, -(-batches // options.memory.gradient_accumulation_steps))
    by_epochs = -int(-(options.training.epochs * steps_an_epoch) // 1)
    total = options.training.max_steps or by_epochs
    return RunPlanned(
        total_steps=total,
        epochs=total / steps_an_epoch,
        train_samples=len(prepared.train),
        eval_samples=len(prepared.eval) if prepared.eval is not None else 0,
        effective_batch=options.effective_batch,
        labels=prepared.labels,
        device=str(trainer.args.device),
    )


def _save_model(folder: Path, trainer: WatchedTrainer, prepared: Prepared) -> None:
    trainer.save_model(str(folder))
    checkpoints.drop_pickle(folder)
    prepared.save_extras(folder)


def _finished(trainer: WatchedTrainer, requests: RequestBox, seconds: float) -> RunFinished:
    steps = trainer.state.global_step
    samples = min(trainer.state.epoch or 0.0, trainer.state.num_train_epochs) * trainer.num_examples(
        trainer.get_train_dataloader()
    )
    return RunFinished(
        state=Outcome.STOPPED if requests.stop_accepted else Outcome.FINISHED,
        metrics=_last_metrics(trainer.state.log_history),
        samples_per_second=samples / seconds if seconds > 0 else None,
        seconds=seconds,
        steps=steps,
        peak_bytes=peak_bytes(),
    )


def _last_metrics(history: list[dict[str, Any]]) -> dict[str, float | None]:
    for entry in reversed(history):
        found = {name: split_non_finite(entry[name])[0] for name in REPORTED_METRICS if name in entry}
        if found:
            return found
    return {}
