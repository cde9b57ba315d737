"""An attempt of a run: from its beginning to the exit status, whatever happens in between."""

import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from core.base.errors import UserError
from core.base.language import _
from core.base.processes import CANT_WRITE
from core.engine.launch import is_rank, rank
from core.engine.reporter import Reporter
from core.engine.run import checkpoints, failures
from core.engine.run.best import History, metrics_at
from core.engine.run.log import RunLog
from core.engine.run.requests import EndRequested, RequestBox, on_signals
from core.options import RunOptions
from core.runs.events import Outcome, RunFinished
from core.runs.folder import RunFolder


def attempt(
    run: RunFolder,
    options: RunOptions,
    reporter: Reporter,
    train: Callable[[], None],
    explain: Callable[[Exception], UserError | None],
) -> int:
    """Trains, and reports how that ended.

    Args:
        run: The run's folder.
        options: The run's.
        reporter: Writes the events.
        train: Loads, trains and reports its own end.
        explain: Returns what an error means, None if that is unknown.

    Returns:
        The exit status: 0 finished, stopped or paused; 1 failed, which the events explain; `CANT_WRITE` if not even
        that could be written. A rank that ends before the others returns 1, whatever the outcome: the agent ends them.
    """
    with on_signals(signal.SIG_IGN if rank() else signal.default_int_handler):
        try:
            tensorboard: AbstractContextManager[Any] = nullcontext()
            if options.output.tensorboard and rank() == 0:
                from core.engine.run.tensorboard import TensorBoardFiles

                tensorboard = TensorBoardFiles(run.tensorboard, reporter)
            with tensorboard:
                train()
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
            return report_failure(error, run, reporter, explain)
    return 0


def report_failure(
    error: Exception, run: RunFolder, reporter: Reporter, explain: Callable[[Exception], UserError | None]
) -> int:
    """Reports why an attempt ended; returns its exit status."""
    known = True
    is_full = failures.is_disk_full(error)
    if not isinstance(error, UserError):
        if not (is_full or isinstance(error, failures.Diverged)):
            with suppress(OSError):  # the log can't be written
                traceback.print_exc(file=sys.stderr)
        if is_full and reporter.status.plan is not None:  # the events, after training has begun
            error = failures.cant_save(error, run.path)
        else:
            explained = explain(error)
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


def finish(
    run: RunFolder,
    log: RunLog,
    requests: RequestBox,
    outcome: Outcome,
    history: History,
    *,
    step: int,
    model_step: int,
    seconds: float,
    peak_bytes: int | None = None,
    peak_device_bytes: int | None = None,
) -> None:
    """Writes the last event of an attempt that was finished, stopped or paused.

    Args:
        run: The run's folder.
        log: What happened.
        requests: Those that come too late are refused.
        outcome: How it ended.
        history: Its evaluations (`core.engine.run.best`).
        step: Its last step.
        model_step: The step whose weights the model has.
        seconds: The time of training and evaluation without loading.
        peak_bytes: The peak of main memory.
        peak_device_bytes: The peak of the device's memory.
    """
    options, is_finished = log.options, outcome is Outcome.FINISHED
    if is_finished and not options.output.keep_checkpoints:
        checkpoints.keep(run.checkpoints, 0)  # of an earlier pause
    requests.refuse_rest()
    log.reporter.write(
        RunFinished(
            state=outcome,
            metrics=metrics_at(model_step, history),
            samples_per_second=log.samples_per_second,
            seconds=seconds,
            steps=step,
            model_step=model_step if options.keeps_best and options.output.save_model else None,
            waited=options.training.early_stopping_patience if is_finished and step < log.total else 0,
            peak_bytes=peak_bytes,
            peak_device_bytes=peak_device_bytes,
            keeps_model=options.output.save_model,
        )
    )
