"""Find out how a run ended whose processes are gone, also if its keeper wrote nothing."""

import contextlib
import time
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from core.base import settings
from core.base.errors import OptionsError
from core.base.files import changed_at
from core.base.language import _
from core.runs import models
from core.runs.folder import ExitRecord, RunFolder
from core.runs.library import list_runs
from core.runs.notes import title_of
from core.runs.status import RunStatus, State
from core.runs.summary import status_at_end

SWITCHED_OFF = _("The computer was restarted or switched off while it trained.")
SWITCHED_OFF_WAITING = _("The computer was restarted or switched off while it waited for its turn.")
KEEPER_GONE = _(
    "The process that watches it has ended, too: both were ended by a user or by the operating system, "
    "for lack of memory or because of a logout."
)
KEEPER_GONE_WAITING = _("The process that watches it was ended while the run waited for its turn.")
NEVER_KEPT = _("It was never started, or its records are lost.")
NOT_FOLLOWED = _(
    "Hone has no record that it started this run from this folder, so it sends nothing to {computer} and doesn't "
    "follow it there. If the run is yours, Resume goes on with it."
)
NOT_BEGUN = _("It had not begun on {computer} when Hone's process for it was ended. Resume begins it.")
ELSEWHERE = _("It was trained on another computer, {host}, and nothing has been heard of it since.")

FIRST_SECONDS = 7 * 86_400.0
"""Until crashes have been shown once, those of so many seconds before now are new."""


@dataclass(frozen=True)
class Crash:
    """How a run ended that didn't report it itself.

    `reason` is one or two sentences, empty if only `log_tail`, the last lines it printed, is known. `step` is that of
    the newest complete checkpoint; None: there is none.
    """

    title: str
    reason: str
    log_tail: str = ""
    out_of_memory: bool = False
    step: int | None = None


def saved_step(run: RunFolder, status: RunStatus) -> int | None:
    """Returns the step of the newest complete checkpoint, on the computer that trains: the run can go on from it."""
    checkpoint = models.newest(run) if run.connection() is None else status.last_checkpoint
    return None if checkpoint is None else checkpoint.step


def crash_of(run: RunFolder, status: RunStatus, record: ExitRecord | None) -> Crash:
    """Returns what is known of a crash, with how the engine ended if the keeper saw it; reads a small file or two."""
    step = saved_step(run, status)
    if record is not None:
        title = _("The training process ended before the run was over.")
        if record.out_of_memory:
            title = _("The operating system ended the training process for lack of memory.")
        elif record.signal is not None:
            title = _("The training process was ended by {signal}.").format(signal=record.signal)
        elif record.code is None:
            title = _("The training process was not started.")
        return Crash(title, record.reason, record.log_tail, record.out_of_memory, step)
    keeper, awaited = run.keeper_record(), status.awaited
    waited = awaited is not None and awaited.attempt >= max(run.attempt_kept(), status.attempt)
    title = (
        _("The run waited for its turn and never started.")
        if waited
        else _("The training process has ended, and the reason is unknown.")
    )
    link = run.connection()
    if link is not None and not link.over:
        reason = (NOT_BEGUN if run.is_own(link) else NOT_FOLLOWED).format(computer=link.computer)
    elif keeper is None:
        reason = NEVER_KEPT
    elif not keeper.is_here:
        reason = ELSEWHERE.format(host=keeper.host)
    elif not keeper.is_of_this_boot:
        reason = SWITCHED_OFF_WAITING if waited else SWITCHED_OFF
    else:
        reason = KEEPER_GONE_WAITING if waited else KEEPER_GONE
    return Crash(title, reason, step=step)


def crash_before(run: RunFolder, status: RunStatus, record: ExitRecord | None) -> Crash | None:
    """Returns how the newest attempt that trained crashed, if a later one only waited; `record` is of the later one."""
    before = record.of_engine if record is not None and record.code is None else None
    if before is None or status.finished is not None or before.attempt < status.attempt:
        return None
    return crash_of(run, status, before)


# --- Runs that ended while Hone was closed


@dataclass(frozen=True)
class Interrupted:
    """A run that can be resumed: from the checkpoint of `step`, or from its beginning (None)."""

    run: RunFolder
    title: str
    step: int | None = None
    is_paused: bool = False


def find(folder: Path, since: float) -> list[Interrupted]:
    """Returns the runs of a folder that have crashed since then (unix seconds), the newest first.

    If there are none, the run that wrote last, if it is paused.

    Raises:
        OSError: The folder can't be listed.
    """
    runs = [
        (max(map(changed_at, (run.events_file, run.machine_file, run.exit_file, run.keeper_file))) / 1e9, run)
        for run in list_runs(folder)
    ]
    runs.sort(key=itemgetter(0), reverse=True)
    found = []
    for place, (changed, run) in enumerate(runs):
        if (changed > since or not place) and run.keeper_record() is not None:
            status = status_at_end(run)
            state = run.state(status)
            is_paused = state is State.PAUSED and not place
            if is_paused or (state is State.CRASHED and changed > since):
                with contextlib.suppress(OptionsError):  # it couldn't be started again
                    title, step = title_of(run.path, run.options()), saved_step(run, status)
                    found.append(Interrupted(run, title, step, is_paused))
    return [one for one in found if not one.is_paused] or found


def seen_until() -> float:
    """Returns until when all crashes have been shown, in unix seconds."""
    return changed_at(_mark()) / 1e9 or time.time() - FIRST_SECONDS


def mark_seen() -> None:
    """Records that earlier crashes were shown, so that they aren't shown again.

    Raises:
        OSError: The mark can't be written.
    """
    _mark().parent.mkdir(parents=True, exist_ok=True)
    _mark().touch()


def _mark() -> Path:
    return settings.home() / "seen"
