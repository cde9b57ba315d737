"""Runs that ended without a word while nobody looked: the computer was switched off, or their process was killed.

What has been told once isn't told again: a file in Hone's home keeps, as its own date, until when everything has been
seen. A window that is killed leaves that date as it was.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from core import checkpoint_files, settings
from core.errors import OptionsError
from core.run_folder import RunFolder
from core.run_notes import title_of
from core.run_summary import story_at_end
from core.runs import list_runs
from core.story import State

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
    saved = checkpoint_files.newest(run)
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
