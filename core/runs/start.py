"""Start, resume and extend runs."""

import contextlib
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from core.base import formats
from core.base.errors import OptionsError, Problem, RunFolderError, why
from core.base.files import is_link, is_plain, locked, remove, write_atomically
from core.base.language import _
from core.base.processes import is_frozen, own_program, start_detached
from core.options import RunOptions, run_file
from core.options.validate import read_options
from core.runs import elsewhere, models, queue
from core.runs.event_log import EventWriter
from core.runs.events import Event, Outcome, TurnCame
from core.runs.folder import Connection, ExitRecord, RunFolder
from core.runs.library import list_runs
from core.runs.status import RunStatus, State
from core.runs.summary import status_at_end

QUEUE_FLAG = "--queue"
LEAVING_SECONDS = 2.0
"""How long a keeper may take to leave a run that is over; another process may ask to resume it meanwhile."""
END_SECONDS = 5.0
KEEPER_LOG = "connection.log"
"""What the keeper of a run that trains elsewhere prints."""


class CantResume(RunFolderError):  # noqa: N818 - said as the window says it
    """A run can't be resumed, or not as requested; nothing was changed."""


class HasFinished(CantResume):
    """A finished run can only be extended."""


@dataclass(frozen=True)
class Extension:
    """A new length of a run, which `resume` takes: epochs or steps in total."""

    epochs: float | None = None
    max_steps: int | None = None


def keeper_command(run_dir: Path, *, queued: bool = False) -> list[str]:
    """Returns the command of the keeper of the run in `run_dir`; a `queued` run waits for its turn."""
    flags = [QUEUE_FLAG] if queued else []
    if is_frozen():
        return [own_program(), "--keeper", str(run_dir), *flags]
    return [sys.executable, "-P", "-m", "core.monitor.keeper", str(run_dir), *flags]


def start(
    run: RunFolder, command: Sequence[str] | None = None, *, queued: bool = False
) -> subprocess.Popen[bytes]:
    """Starts a run's keeper, which starts the engine; both outlive this process.

    Args:
        command: The command of the keeper, if it isn't Hone's own.
        queued: Whether the run waits until nothing trains on its device and no earlier queued run waits for it.

    Raises:
        RunFolderError: It can't be started, which `exit.json` then explains, too; or it is under way already.
    """
    try:
        with locked(run.path):
            return _start(run, command, queued=queued)
    except OSError as error:
        raise RunFolderError(_("The run can't be started"), str(error)) from error


def start_all(runs: Sequence[RunFolder], *, queued: bool = False) -> list[subprocess.Popen[bytes]]:
    """Starts new runs each of which starts from the model of the one before: all but the first wait. See `start`."""
    return [start(run, queued=queued or run != runs[0]) for run in runs]


def resume(
    run: RunFolder,
    command: Sequence[str] | None = None,
    *,
    longer: Extension | None = None,
    queued: bool = False,
) -> subprocess.Popen[bytes]:
    """Resumes a run that is over from its newest complete checkpoint, or trains it longer; see `start`.

    Args:
        longer: Its new length, which is written to `run.toml`; also for a finished run.

    Raises:
        HasFinished: It has finished, and no new length is given.
        CantResume: It is under way, its folder lacks its options, or the new length isn't larger than the one before.
        RunFolderError: It can't be started. `run.toml` is as it was.
    """
    try:
        with locked(run.path):  # if two processes resume at once, the second finds it under way
            options, status = _check(run, is_longer=longer is not None)
            before = run.options_file.read_bytes()
            if longer is not None:
                with _cant_resume():
                    run_file.write(_extended(options, status, longer), run.options_file)
            try:
                return _start(run, command, queued=queued)
            except BaseException:
                if run.options_file.read_bytes() != before:
                    write_atomically(run.options_file, before)
                raise
    except OSError as error:
        raise RunFolderError(_("The run can't be resumed"), str(error)) from error


@contextlib.contextmanager
def _cant_resume(where: str = "") -> Iterator[None]:
    try:
        yield
    except OptionsError as error:
        raise CantResume(_("The run can't be resumed"), where + (error.detail or error.title)) from error


def _check(run: RunFolder, *, is_longer: bool) -> tuple[RunOptions, RunStatus]:
    """Returns the options and status of a run that can be resumed."""
    status = status_at_end(run, and_beginning=True)
    state = run.state(status)
    deadline = time.monotonic() + LEAVING_SECONDS
    while state.is_over and run.is_worked_on() and time.monotonic() < deadline:
        time.sleep(LEAVING_SECONDS / 20)
    if not state.is_over or run.is_alive():
        where = _("It is {state}: {path}").format(state=state, path=run.path)
        raise CantResume(_("The run is under way already"), where)
    if state is State.FINISHED and not is_longer:
        raise HasFinished(_("The run has finished"), _("It can be trained for more epochs or steps."))
    options = run.readable_options()
    if state is State.FINISHED and options is not None and options.only_measures:
        detail = _("It keeps neither checkpoints nor a model. Start a new run with more steps instead.")
        raise CantResume(_("The run can't be extended"), detail)
    if state is State.FINISHED and run.connection() is None and models.newest(run) is None:
        detail = _(
            "It has no checkpoint to resume from: it would start again and replace its model. A new run "
            "can start from its model, run:{name}."
        )
        raise CantResume(_("The run can't be extended"), detail.format(name=run.name))
    with _cant_resume(f"{run.options_file}: "):
        return run.options(), status


def _extended(options: RunOptions, status: RunStatus, longer: Extension) -> RunOptions:
    """Returns the options with the new length, and with the best model kept if it evaluates: longer may be worse.

    Raises:
        OptionsError: It isn't larger than what was done or requested before. What was requested and isn't done may be
            requested again: the program may have been killed in between.
    """
    training = options.training
    max_steps = longer.max_steps
    name, value = ("max_steps", max_steps) if max_steps is not None else ("epochs", longer.epochs)
    done, requested = float(status.step), float(max(status.step, training.max_steps or 0))
    if max_steps is None:
        is_finished = status.finished is not None and status.finished.state is Outcome.FINISHED
        planned = status.plan.epochs if is_finished and status.plan is not None else 0.0
        done, requested = max(status.epoch, planned), max(status.epoch, training.epochs)
    problem = ""
    if max_steps is None and training.max_steps is not None:
        steps = formats.counted(training.max_steps, "step")
        problem = _("the run's length is {steps}, whatever the epochs; name steps (`--max-steps`)").format(
            steps=steps
        )
    elif value is None or not (  # a NaN isn't larger, either
        value > requested or (value == getattr(training, name) and requested > done)
    ):
        least = formats.counted(round(requested, 2), name.removeprefix("max_").removesuffix("s"))
        problem = _("it was requested for {length} already; name more").format(length=least)
    if problem:
        raise OptionsError((Problem(f"training.{name}", problem),))
    value = value if max_steps is not None else float(value or 0)
    extended = msgspec.structs.replace(options, training=msgspec.structs.replace(training, **{name: value}))
    if status.evaluations:
        extended = msgspec.structs.replace(
            extended, output=msgspec.structs.replace(options.output, keep_best=True)
        )
    if problems := read_options(run_file.to_tree(extended))[1]:
        raise OptionsError(problems)
    return extended


def _start(run: RunFolder, command: Sequence[str] | None, *, queued: bool) -> subprocess.Popen[bytes]:
    """Starts the keeper of the next attempt; see `start`. If that fails, there was no attempt."""
    if run.is_worked_on():
        raise CantResume(_("The run is under way already"), str(run.path))
    _refuse_links(run)
    path, link = run.path.absolute(), _link_of(run)
    before = run.keeper_file.read_bytes() if run.keeper_file.exists() else None
    attempt = max(status_at_end(run).attempt, run.attempt_kept()) + 1
    if may_go_on := link is not None and link.attempt > 0 and (link.is_given_up or not link.over):
        attempt -= 1  # it may still train there
    keeper: subprocess.Popen[bytes] | None = None
    try:
        for request in run.open_requests(clean=True):  # to an earlier attempt, and never answered
            run.close_request(request)
        run.record_keeper(os.getpid(), attempt)  # from now on it is starting: how it ended before is past
        if link is not None:
            if may_go_on:
                remove(run.exit_file)
            elsewhere.claim(path, link.computer, link.folder)
            run.record_connection(msgspec.structs.replace(link, problem="", doing="", over=False))
        waits = queued and link is None  # a run elsewhere always waits for its turn there
        awaited = (
            queue.ahead_of(queue.device_held(run.readable_options()), queue.source_of(run)) if waits else None
        )
        if awaited is not None:
            _tell(run, attempt, awaited)  # as its keeper will, once it has begun
        # log.txt of a run elsewhere is a copy of the one there
        log = run.log_file if link is None else run.path / KEEPER_LOG
        keeper = start_detached(command or keeper_command(path, queued=queued), log, path)
        record = run.keeper_record()
        if record is None or record.pid != keeper.pid:  # the keeper may have been quicker and recorded itself
            run.record_keeper(keeper.pid, attempt)
            record = run.keeper_record()
        # in the order in which they are started, not in that of their keepers
        if waits and record is not None:
            queue.enter(run, queue.device_held(run.readable_options()), record)
    except (OSError, psutil.Error) as error:
        if keeper is not None:
            keeper.kill()
            keeper.wait()
        if link is None:
            with contextlib.suppress(OSError):
                _tell(run, attempt, TurnCame())  # it doesn't wait any more
        raise _not_started(run, before, error) from error
    return keeper


def _link_of(run: RunFolder) -> Connection | None:
    """Returns the link to the computers that the options name, with a folder there; None for a run of this one.

    Raises:
        CantResume: The folder is a copy of the run's own, which is still there.
    """
    options, known = run.readable_options(), run.connection()
    if options is None or not options.device.computers:
        return None
    computer, *others = options.device.computers
    if known is None or known.computer != computer or not known.folder:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", run.path.absolute().name).strip(".-_")[:80] or "run"
        known = Connection(computer=computer, folder=f"{plain}-{secrets.token_hex(2)}")
    owner = elsewhere.owner(computer, known.folder)
    if owner is not None and not run.is_own(known):
        for other in (RunFolder(owner), *list_runs(run.path.parent)):  # it may have been renamed
            link = other.connection()
            if (
                link is not None
                and (link.computer, link.folder) == (computer, known.folder)
                and other.is_own(link)
            ):
                detail = _("This folder is a copy: the run on {computer} belongs to {path}. Resume that one.")
                raise CantResume(
                    _("The run can't be resumed"), detail.format(computer=computer, path=other.path)
                )
    return msgspec.structs.replace(known, others=tuple(others))


def follow_again(run: RunFolder, *, at_once: bool = False) -> bool:
    """Starts the keeper again of a run that trains elsewhere, if it has lost it; returns whether it was started.

    Only if this Hone began the run there from this folder: looking at an untrusted folder or a copy starts nothing.

    Args:
        at_once: End one that waits before it tries to connect again, so that it is tried now.

    Raises:
        RunFolderError: It can't be started.
    """
    if not (at_once and _end_waiting(run)) and (run.keeper_is_alive() or not run.goes_on_elsewhere()):
        return False
    try:
        with locked(run.path):
            if run.keeper_is_alive():
                return False
            path = run.path.absolute()
            keeper = start_detached(keeper_command(path), run.path / KEEPER_LOG, path)
            run.record_keeper(keeper.pid, run.attempt_kept())
    except (OSError, psutil.Error) as error:
        raise RunFolderError(_("The run can't be followed"), str(error)) from error
    return True


def _end_waiting(run: RunFolder) -> bool:
    """Ends the keeper of a run elsewhere that waits before it tries to connect; returns whether it was ended."""
    connection, record = run.connection(), run.keeper_record()
    if connection is None or connection.connected or not run.is_own(connection):
        return False
    if record is None or not record.is_alive:
        return False
    with contextlib.suppress(psutil.Error):
        keeper_here = psutil.Process(record.pid)
        keeper_here.terminate()
        keeper_here.wait(END_SECONDS)
    return not record.is_alive


def _tell(run: RunFolder, attempt: int, event: Event) -> None:
    """Writes an event for a keeper that doesn't run yet."""
    writer = EventWriter(run.machine_file, attempt=attempt)
    writer.write(event)
    writer.close()


def _refuse_links(run: RunFolder) -> None:
    """Refuses an untrusted folder with links, through which a run would write elsewhere, or pipes, which block."""
    for folder in (run.path, run.checkpoints, run.tensorboard, run.path / "examples"):
        entries: list[Path] = []
        if not is_link(folder):
            with contextlib.suppress(OSError):  # there is none, or it can't be read
                entries = sorted(folder.iterdir())
        for path in entries:
            if is_link(path):
                detail = _("{path} is a link; training would write there.").format(path=path)
                raise CantResume(_("The run's folder leads elsewhere"), detail)
            if not is_plain(path):
                detail = _("{path} is neither a file nor a folder; remove it.").format(path=path)
                raise CantResume(_("The run's folder can't be written to"), detail)


def _not_started(run: RunFolder, before: bytes | None, cause: Exception) -> RunFolderError:
    """Restores keeper.json, or records why a new run has not begun; returns the error to raise."""
    failure = RunFolderError(_("The run can't be started"), str(cause))
    try:
        if before is not None:
            write_atomically(run.keeper_file, before)
        else:
            attempt = run.attempt_kept()
            run.record_exit(ExitRecord(time=time.time(), code=None, reason=str(failure), attempt=attempt))
    except OSError as error:
        failure.add_note(f"{error.filename}: {why(error)}")
    return failure
