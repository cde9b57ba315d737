"""Start, resume and extend runs."""

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil
import tomli_w

from core.base import formats
from core.base.errors import OptionsError, Problem, RunFolderError
from core.base.files import ENGINE_LOCK, is_link, is_locked, is_plain, locked, write_atomically
from core.base.processes import is_frozen, own_program, start_detached
from core.options import RunOptions, run_file
from core.options.validate import read_options
from core.runs import models, queue
from core.runs.event_log import next_attempt
from core.runs.events import Outcome
from core.runs.folder import ExitRecord, RunFolder
from core.runs.status import RunStory, State
from core.runs.summary import story_at_end

# --- Extend


_SECTION = re.compile(r"^[ \t]*\[[ \t]*training[ \t]*\][ \t]*(#.*)?$\n?", re.MULTILINE)
_NEXT_SECTION = re.compile(r"^[ \t]*\[", re.MULTILINE)


@dataclass(frozen=True)
class Extension:
    """How long a run is to train in all: so many epochs or so many steps, one of them."""

    epochs: float | None = None
    max_steps: int | None = None


def raise_to(run: RunFolder, options: RunOptions, story: RunStory, extension: Extension) -> None:
    """Write into a run's `run.toml` how long it is to train in all.

    Args:
        run: The run.
        options: What its `run.toml` asks for.
        story: What it has done.
        extension: What it is to ask for from now on.

    Raises:
        OptionsError: That is no more than it has done, or was asked to do; what it was asked to do and hasn't done may
            be asked for again: whoever did may have been killed in between. Nothing has been written.
        OSError: It can't be written.
    """
    name, value = _change(options, story, extension)
    wanted = msgspec.structs.replace(
        options, training=msgspec.structs.replace(options.training, **{name: value})
    )
    problems = read_options(run_file.to_tree(wanted))[1]
    if problems:
        raise OptionsError(problems)
    write_atomically(run.options_file, _edited(run, name, value) or run_file.dumps(wanted).encode())
    if run.options() != wanted:  # it says the same in other words somewhere else
        run_file.write(wanted, run.options_file)


def put_back(run: RunFolder, content: bytes) -> None:
    """Write a run's `run.toml` as it was, unless it still is.

    Raises:
        OSError: It can't be written.
    """
    if run.options_file.read_bytes() != content:
        write_atomically(run.options_file, content)


def _change(options: RunOptions, story: RunStory, extension: Extension) -> tuple[str, float | int]:
    asked = options.training
    if extension.max_steps is not None:
        least = max(story.step, asked.max_steps or 0)
        if extension.max_steps != asked.max_steps or least <= story.step:
            _refuse(extension.max_steps, least, formats.counted(least, "step"), "training.max_steps")
        return "max_steps", extension.max_steps
    if extension.epochs is None:
        raise OptionsError((Problem("training.epochs", "say for how many epochs or steps in all"),))
    if asked.max_steps is not None:
        steps = formats.counted(asked.max_steps, "step")
        raise OptionsError(
            (Problem("training.epochs", f"the run was asked for {steps}, whatever the epochs; name steps"),)
        )
    least_epochs = max(story.epoch, asked.epochs)
    if extension.epochs != asked.epochs or least_epochs <= _epochs_done(story):
        counted = formats.counted(round(least_epochs, 2), "epoch")
        _refuse(extension.epochs, least_epochs, counted, "training.epochs")
    return "epochs", float(extension.epochs)


def _epochs_done(story: RunStory) -> float:
    """The passes a run has made; of one that has finished, all that it had planned."""
    is_done = story.finished is not None and story.finished.state is Outcome.FINISHED
    return max(story.epoch, story.plan.epochs) if is_done and story.plan is not None else story.epoch


def _refuse(value: float, least: float, counted: str, path: str) -> None:
    if not value > least:  # which no NaN is
        raise OptionsError((Problem(path, f"it has been asked for {counted} already; name more"),))


def _edited(run: RunFolder, name: str, value: float) -> bytes | None:
    """The content of `run.toml` with one value changed and all else as it stands; None where that isn't plain."""
    text = run.options_file.read_bytes().decode("utf-8", errors="strict")
    tree: dict[str, Any] = tomllib.loads(text)
    section = tree.setdefault("training", {})
    section[name] = value
    line = tomli_w.dumps({name: value}).rstrip()
    header = _SECTION.search(text)
    if header is None:
        edited = f"{text.rstrip()}\n\n[training]\n{line}\n"
    else:
        following = _NEXT_SECTION.search(text, header.end())
        end = following.start() if following else len(text)
        body = text[header.end() : end]
        known = re.compile(rf"^([ \t]*){name}[ \t]*=[^#\n]*?(?=[ \t]*(#.*)?$)", re.MULTILINE)
        body, changes = known.subn(lambda found: found[1] + line, body, count=1)
        edited = text[: header.end()] + ("" if changes else line + "\n") + body + text[end:]
    try:
        return edited.encode() if tomllib.loads(edited) == tree else None
    except tomllib.TOMLDecodeError:
        return None


# --- Start and resume


QUEUE_FLAG = "--queue"


class CantResume(RunFolderError):  # noqa: N818 - said as the window says it
    """A run can't be gone on with, or not as asked; nothing has been changed."""


def keeper_command(run_dir: Path, *, queued: bool = False) -> list[str]:
    """What starts the keeper of the run in `run_dir`, which waits for its turn where the run is `queued`."""
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
        command: What starts the keeper, where it isn't Hone's own.
        queued: Whether it waits until nothing trains on its device and nothing that was queued before waits for it.

    Raises:
        RunFolderError: It can't be started, `exit.json` then says why, too; or it is under way already.
    """
    try:
        with locked(run.path):
            record = run.keeper_record()
            if record is not None and record.is_worked_on:
                raise CantResume("The run is under way already", str(run.path))
            return _start(run, command, queued=queued)
    except OSError as error:
        raise RunFolderError("The run can't be started", str(error)) from error


def resume(
    run: RunFolder, command: Sequence[str] | None = None, *, queued: bool = False
) -> subprocess.Popen[bytes]:
    """Go on with a run that was paused, stopped or crashed, from its newest complete checkpoint; see `start`.

    Raises:
        CantResume: It is under way, is done, or its folder lacks what was asked.
        RunFolderError: It can't be started.
    """
    return _resume(run, command, None, queued=queued)


def extend(
    run: RunFolder,
    command: Sequence[str] | None = None,
    *,
    epochs: float | None = None,
    max_steps: int | None = None,
    queued: bool = False,
) -> subprocess.Popen[bytes]:
    """Raise how long a run that is over is to train, in its `run.toml`, and go on with it.

    Args:
        run: The run's folder.
        command: As in `start`.
        epochs: So many passes in all; more than it has made.
        max_steps: So many steps in all, instead; more than it has made.
        queued: As in `start`.

    Raises:
        CantResume: As in `resume`; it was asked for no more than there is; or it has finished without a checkpoint.
        RunFolderError: It can't be started. `run.toml` is as it was.
    """
    return _resume(run, command, Extension(epochs=epochs, max_steps=max_steps), queued=queued)


def _resume(
    run: RunFolder, command: Sequence[str] | None, extension: Extension | None, *, queued: bool
) -> subprocess.Popen[bytes]:
    try:
        with locked(run.path):  # of two who ask at once, the second finds it under way
            before = _check(run, extension)
            try:
                return _start(run, command, queued=queued)
            except BaseException:
                put_back(run, before)
                raise
    except OSError as error:
        raise RunFolderError("The run can't be resumed", str(error)) from error


def _check(run: RunFolder, extension: Extension | None) -> bytes:
    """Find out whether a run can be gone on with, and raise its length; returns its `run.toml` as it was before."""
    story = story_at_end(run, and_beginning=True)
    state = run.state(story)
    if not state.is_over or run.is_alive(story):
        raise CantResume("The run is under way already", f"It is {state}: {run.path}")
    if extension is None and state is State.FINISHED:
        raise CantResume(
            "The run has finished",
            "There is nothing left to do in it. It can be trained for more epochs or steps.",
        )
    if state is State.FINISHED and models.newest(run) is None:
        raise CantResume(
            "The run can't be made longer",
            "No checkpoint of it is there to go on from: it would train anew and replace its model. A new run can "
            f"start from that model, run:{run.name}.",
        )
    try:
        options = run.options()
    except OptionsError as error:
        raise CantResume("The run can't be resumed", f"{run.options_file}: {error.detail}") from error
    try:
        before = run.options_file.read_bytes()
        if extension is not None:
            raise_to(run, options, story, extension)
    except OptionsError as error:
        raise CantResume("The run can't be resumed", error.detail or error.title) from error
    return before


def _start(run: RunFolder, command: Sequence[str] | None, *, queued: bool) -> subprocess.Popen[bytes]:
    """Start the keeper of the next attempt; see `start`. Where that fails, the attempt hasn't been."""
    _refuse_links(run)
    path = run.path.absolute()
    if is_locked(path, ENGINE_LOCK):  # whatever the records say
        raise CantResume("The run is under way already", f"Its training process still works in {path}")
    before = _content(run.keeper_file)
    attempt = max(next_attempt(run.events_file), run.attempt_kept() + 1)
    try:
        for request in run.open_requests(clean=True):  # asked of an earlier attempt, and never answered
            run.close_request(request)
        run.record_keeper(os.getpid(), attempt)  # from now on it is starting: how it ended before is past
        keeper = start_detached(command or keeper_command(path, queued=queued), run.log_file, path)
    except (OSError, psutil.Error) as error:
        raise _not_started(run, before, error) from error
    try:
        _hand_over(run, keeper.pid, attempt, queued=queued)
    except (OSError, psutil.Error) as error:
        keeper.kill()
        keeper.wait()
        raise _not_started(run, before, error) from error
    return keeper


def _refuse_links(run: RunFolder) -> None:
    """A folder that a stranger made may hold links, through which a run would write elsewhere, and pipes, which wait.

    Raises:
        CantResume: It does.
    """
    folders = (run.path, run.checkpoints, run.tensorboard, run.path / "examples")
    for path in (path for folder in folders if not is_link(folder) for path in _entries(folder)):
        if is_link(path):
            raise CantResume(
                "The run's folder leads elsewhere", f"{path} is a link; training would write there."
            )
        if not is_plain(path):
            raise CantResume(
                "The run's folder can't be written to",
                f"{path} is neither a file nor a folder; take it away.",
            )


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # there is none, or it can't be read
        return []


def _hand_over(run: RunFolder, pid: int, attempt: int, *, queued: bool) -> None:
    """Name the keeper, which may have been quicker and said so itself; let it wait where it is to."""
    record = run.keeper_record()
    if record is None or record.pid != pid:
        run.record_keeper(pid, attempt)
        record = run.keeper_record()
    if queued and record is not None:  # in the order in which they were started, not in that of their keepers
        queue.enter(run, queue.device_of(run), record)


def _not_started(run: RunFolder, before: bytes | None, why: Exception) -> RunFolderError:
    """Put back what was there before, or write down why a new run has not begun; returns the error to raise."""
    failure = RunFolderError("The run can't be started", str(why))
    try:
        if before is not None:
            write_atomically(run.keeper_file, before)
        else:
            record = ExitRecord(time=time.time(), code=None, reason=str(failure), attempt=run.attempt_kept())
            run.record_exit(record)
    except OSError as error:
        failure.add_note(f"{error.filename} can't be written either: {error}")
    return failure


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
