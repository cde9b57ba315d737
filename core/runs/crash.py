"""Find out how a run ended whose processes are gone, also if its keeper wrote nothing."""

import time
from dataclasses import dataclass
from pathlib import Path

from core.base import settings
from core.base.errors import OptionsError
from core.options.past_runs import title_of
from core.runs import models
from core.runs.folder import ExitRecord, RunFolder
from core.runs.library import list_runs
from core.runs.status import RunStory, State
from core.runs.summary import story_at_end

# --- Runs whose processes are gone


SWITCHED_OFF = "The computer was restarted or switched off while it trained."
SWITCHED_OFF_WAITING = "The computer was restarted or switched off while it waited for its turn."
KEEPER_GONE = (
    "Its keeper is gone, too: somebody ended both, or the operating system did, for lack of memory or because the "
    "person logged out."
)
KEEPER_GONE_WAITING = "Its keeper was ended from outside while it waited for its turn."
NEVER_KEPT = "It was never started, or all trace of that is lost."
ELSEWHERE = "It was trained on another computer, {}, and nothing has been heard of it since."


@dataclass(frozen=True)
class Crash:
    """How a run ended that didn't say so itself.

    `reason` is one or two plain sentences, empty where `log_tail`, the last lines it printed, has to tell. `step` is
    the one it would go on from, that of the newest complete checkpoint; None: it would begin anew.
    """

    title: str
    reason: str
    log_tail: str = ""
    out_of_memory: bool = False
    step: int | None = None


def crash_of(run: RunFolder, story: RunStory, record: ExitRecord | None) -> Crash:
    """What is known of a crash; reads a small file or two.

    Args:
        run: The run.
        story: Its events.
        record: How its engine ended, as far as its keeper saw it.
    """
    checkpoint = models.newest(run)
    step = None if checkpoint is None else checkpoint.step
    if record is None:
        return Crash(title=_unseen_title(run, story), reason=_unseen_reason(run, story), step=step)
    return Crash(
        title=_title(record),
        reason=record.reason,
        log_tail=record.log_tail,
        out_of_memory=record.out_of_memory,
        step=step,
    )


def crash_before(run: RunFolder, story: RunStory, record: ExitRecord | None) -> Crash | None:
    """How the newest attempt that trained ended without a word, where another one waited since and never began.

    Args:
        run: The run.
        story: Its events.
        record: How the attempt that waited ended.
    """
    before = record.of_engine if record is not None and record.code is None else None
    if before is None or story.finished is not None or before.attempt < story.attempt:
        return None
    return crash_of(run, story, before)


def _title(record: ExitRecord) -> str:
    if record.out_of_memory:
        return "The operating system ended the training process for lack of memory."
    if record.signal is not None:
        return f"The training process was ended by {record.signal}."
    return "The training process ended before the run was over."


def _unseen_title(run: RunFolder, story: RunStory) -> str:
    if _waited(run, story):
        return "The run waited for its turn, which never came."
    return "The training process is gone, and nobody was left to see how."


def _unseen_reason(run: RunFolder, story: RunStory) -> str:
    keeper = run.keeper_record()
    waited = _waited(run, story)
    if keeper is None:
        return NEVER_KEPT
    if not keeper.is_here:
        return ELSEWHERE.format(keeper.host)
    if not keeper.is_of_this_boot:
        return SWITCHED_OFF_WAITING if waited else SWITCHED_OFF
    return KEEPER_GONE_WAITING if waited else KEEPER_GONE


def _waited(run: RunFolder, story: RunStory) -> bool:
    """Whether the newest attempt was still waiting for its turn."""
    return story.awaited is not None and story.awaited.attempt >= max(run.attempt_kept(), story.attempt)


# --- Runs that ended while Hone was closed


FIRST_SECONDS = 7 * 86_400.0
"""Where nothing was ever seen, runs of so many seconds before now are told of."""


@dataclass(frozen=True)
class Interrupted:
    """A run that can be gone on with: from the checkpoint of `step`, or from its beginning (None)."""

    run: RunFolder
    title: str
    step: int | None = None


def find(folder: Path, since: float) -> list[Interrupted]:
    """The runs of a folder that have ended without a word since then (unix seconds), the newest first.

    Raises:
        OSError: The folder can't be listed.
    """
    recent = [(changed, run) for run in list_runs(folder) if (changed := _last_changed(run)) > since]
    recent.sort(key=lambda pair: pair[0], reverse=True)
    found = (_look_at(run) for _, run in recent)
    return [one for one in found if one is not None]


def _look_at(run: RunFolder) -> Interrupted | None:
    story = story_at_end(run)
    if run.keeper_record() is None or run.state(story) is not State.CRASHED:
        return None
    saved = models.newest(run)
    try:
        title = title_of(run.path, run.options())
    except OptionsError:
        return None  # it couldn't be started again
    return Interrupted(run, title, None if saved is None else saved.step)


def _last_changed(run: RunFolder) -> float:
    """When anything was last written of a run, in unix seconds."""
    newest = 0.0
    for path in (run.events_file, run.machine_file, run.exit_file, run.keeper_file):
        try:
            newest = max(newest, path.stat().st_mtime)
        except OSError:
            continue
    return newest


def seen_until() -> float:
    """Until when everything has been seen, in unix seconds."""
    try:
        return _mark().stat().st_mtime
    except OSError:
        return time.time() - FIRST_SECONDS


def mark_seen() -> None:
    """From now on nothing that happened before is told again.

    Raises:
        OSError: That can't be kept.
    """
    _mark().parent.mkdir(parents=True, exist_ok=True)
    _mark().touch()


def _mark() -> Path:
    return settings.home() / "seen"
