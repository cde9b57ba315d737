"""Start, resume and extend runs."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from core.base import formats
from core.base.errors import OptionsError, Problem, RunFolderError
from core.base.files import is_link, is_plain, locked, write_atomically
from core.base.language import _
from core.base.processes import is_frozen, own_program, start_detached
from core.options import RunOptions, run_file
from core.options.validate import read_options
from core.runs import models, queue
from core.runs.event_log import next_attempt
from core.runs.events import Outcome
from core.runs.folder import ExitRecord, RunFolder
from core.runs.status import RunStatus, State
from core.runs.summary import status_at_end

QUEUE_FLAG = "--queue"


class CantResume(RunFolderError):  # noqa: N818 - said as the window says it
    """A run can't be resumed, or not as requested; nothing has been changed."""


class HasFinished(CantResume):
    """A finished run can only be extended."""


@dataclass(frozen=True)
class Extension:
    """How long a run is to train in all: so many epochs or so many steps, one of them."""

    epochs: float | None = None
    max_steps: int | None = None


def keeper_command(run_dir: Path, *, queued: bool = False) -> list[str]:
    """The command of the keeper of the run in `run_dir`, which waits for its turn where the run is `queued`."""
    flags = [QUEUE_FLAG] if queued else []
    if is_frozen():
        return [own_program(), "--keeper", str(run_dir), *flags]
    return [sys.executable, "-P", "-m", "core.monitor.keeper", str(run_dir), *flags]


def start(
    run: RunFolder, command: Sequence[str] | None = None, *, queued: bool = False
) -> subprocess.Popen[bytes]:
    """Start a run's keeper, which starts the engine; both outlive this process.

    Args:
        run: The run's folder.
        command: The command of the keeper, where it isn't Hone's own.
        queued: Whether it waits until nothing trains on its device and nothing that was queued before waits for it.

    Raises:
        RunFolderError: It can't be started, `exit.json` then says why, too; or it is under way already.
    """
    try:
        with locked(run.path):
            return _start(run, command, queued=queued)
    except OSError as error:
        raise RunFolderError(_("The run can't be started"), str(error)) from error


def resume(
    run: RunFolder,
    command: Sequence[str] | None = None,
    *,
    extension: Extension | None = None,
    queued: bool = False,
) -> subprocess.Popen[bytes]:
    """Resume a run that was paused, stopped or crashed, from its newest complete checkpoint; see `start`.

    Args:
        run: The run's folder.
        command: As in `start`.
        extension: How long it is to train in all, which is written to its `run.toml`; also of a run that has finished.
        queued: As in `start`.

    Raises:
        CantResume: It is under way, or its folder lacks its options. Without an extension: it has finished. With one:
            it is no longer than what was requested before, or the run has finished without a checkpoint.
        RunFolderError: It can't be started. `run.toml` is as it was.
    """
    try:
        with locked(run.path):  # of two who resume at once, the second finds it under way
            options, status = _check(run, extension)
            before = run.options_file.read_bytes()
            if extension is not None:
                with _cant_resume():
                    run_file.write(_extended(options, status, extension), run.options_file)
            try:
                return _start(run, command, queued=queued)
            except BaseException:
                if run.options_file.read_bytes() != before:
                    write_atomically(run.options_file, before)
                raise
    except OSError as error:
        raise RunFolderError(_("The run can't be resumed"), str(error)) from error


def extend(
    run: RunFolder,
    command: Sequence[str] | None = None,
    *,
    epochs: float | None = None,
    max_steps: int | None = None,
    queued: bool = False,
) -> subprocess.Popen[bytes]:
    """Resume a run that is over for so many epochs or steps in all; see `resume`."""
    return resume(run, command, extension=Extension(epochs, max_steps), queued=queued)


@contextlib.contextmanager
def _cant_resume(where: str = "") -> Iterator[None]:
    try:
        yield
    except OptionsError as error:
        raise CantResume(_("The run can't be resumed"), where + (error.detail or error.title)) from error


def _check(run: RunFolder, extension: Extension | None) -> tuple[RunOptions, RunStatus]:
    """Find out whether a run can be resumed; returns its options and what it has done.

    Raises:
        CantResume: It can't.
    """
    status = status_at_end(run, and_beginning=True)
    state = run.state(status)
    if not state.is_over or run.is_alive():
        raise CantResume(
            _("The run is under way already"), _("It is {state}: {path}").format(state=state, path=run.path)
        )
    if extension is None and state is State.FINISHED:
        raise HasFinished(
            _("The run has finished"),
            _("There is nothing left to do in it. It can be trained for more epochs or steps."),
        )
    if state is State.FINISHED and models.newest(run) is None:
        raise CantResume(
            _("The run can't be made longer"),
            _(
                "No checkpoint of it is there to resume from: it would train anew and replace its "
                "model. A new run can "
                "start from that model, run:{name}."
            ).format(name=run.name),
        )
    with _cant_resume(f"{run.options_file}: "):
        return run.options(), status


def _extended(options: RunOptions, status: RunStatus, extension: Extension) -> RunOptions:
    """The options with the new length.

    Raises:
        OptionsError: That is no more than it has done, or was requested to do. What was requested and isn't done may be
            requested again: whoever did may have been killed in between.
    """
    training = options.training
    name, problem = "max_steps", ""
    value: float | None = extension.max_steps
    if extension.max_steps is not None:
        least_steps = max(status.step, training.max_steps or 0)
        is_new = extension.max_steps != training.max_steps or least_steps <= status.step
        if is_new and not extension.max_steps > least_steps:
            problem = f"it has been asked for {formats.counted(least_steps, 'step')} already; name more"
    elif extension.epochs is None:
        name, problem = "epochs", _("say for how many epochs or steps in all")
    elif training.max_steps is not None:
        steps = formats.counted(training.max_steps, "step")
        name, problem = "epochs", f"the run was asked for {steps}, whatever the epochs; name steps"
    else:
        name, value = "epochs", float(extension.epochs)
        is_done = status.finished is not None and status.finished.state is Outcome.FINISHED
        done = max(status.epoch, status.plan.epochs) if is_done and status.plan is not None else status.epoch
        least = max(status.epoch, training.epochs)
        is_new = extension.epochs != training.epochs or least <= done
        if is_new and not extension.epochs > least:  # which no NaN is
            problem = f"it has been asked for {formats.counted(round(least, 2), 'epoch')} already; name more"
    if problem:
        raise OptionsError((Problem(f"training.{name}", problem),))
    wanted = msgspec.structs.replace(options, training=msgspec.structs.replace(training, **{name: value}))
    problems = read_options(run_file.to_tree(wanted))[1]
    if problems:
        raise OptionsError(problems)
    return wanted


def _start(run: RunFolder, command: Sequence[str] | None, *, queued: bool) -> subprocess.Popen[bytes]:
    """Start the keeper of the next attempt; see `start`. Where that fails, there was no attempt."""
    if run.is_worked_on():
        raise CantResume(_("The run is under way already"), str(run.path))
    _refuse_links(run)
    path = run.path.absolute()
    before = run.keeper_file.read_bytes() if run.keeper_file.exists() else None
    attempt = max(next_attempt(run.events_file), run.attempt_kept() + 1)
    try:
        for request in run.open_requests(clean=True):  # to an earlier attempt, and never answered
            run.close_request(request)
        run.record_keeper(os.getpid(), attempt)  # from now on it is starting: how it ended before is past
        keeper = start_detached(command or keeper_command(path, queued=queued), run.log_file, path)
    except (OSError, psutil.Error) as error:
        raise _not_started(run, before, error) from error
    try:
        record = run.keeper_record()
        if record is None or record.pid != keeper.pid:  # the keeper may have been quicker and recorded itself
            run.record_keeper(keeper.pid, attempt)
            record = run.keeper_record()
        if (
            queued and record is not None
        ):  # in the order in which they were started, not in that of their keepers
            queue.enter(run, queue.device_of(run), record)
    except (OSError, psutil.Error) as error:
        keeper.kill()
        keeper.wait()
        raise _not_started(run, before, error) from error
    return keeper


def _refuse_links(run: RunFolder) -> None:
    """Refuse a folder of somebody else with links, through which a run would write elsewhere, or pipes, which block.

    Raises:
        CantResume: It has some.
    """
    for folder in (run.path, run.checkpoints, run.tensorboard, run.path / "examples"):
        entries: list[Path] = []
        if not is_link(folder):
            with contextlib.suppress(OSError):  # there is none, or it can't be read
                entries = sorted(folder.iterdir())
        for path in entries:
            if is_link(path):
                raise CantResume(
                    _("The run's folder leads elsewhere"), f"{path} is a link; training would write there."
                )
            if not is_plain(path):
                raise CantResume(
                    _("The run's folder can't be written to"),
                    f"{path} is neither a file nor a folder; remove it.",
                )


def _not_started(run: RunFolder, before: bytes | None, why: Exception) -> RunFolderError:
    """Put back what was there before, or write down why a new run has not begun; returns the error to raise."""
    failure = RunFolderError(_("The run can't be started"), str(why))
    try:
        if before is not None:
            write_atomically(run.keeper_file, before)
        else:
            run.record_exit(
                ExitRecord(time=time.time(), code=None, reason=str(failure), attempt=run.attempt_kept())
            )
    except OSError as error:
        failure.add_note(
            _("{filename} can't be written either: {error}").format(filename=error.filename, error=error)
        )
    return failure
