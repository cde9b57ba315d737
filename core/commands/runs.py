"""`hone runs` and `hone show`: what has been trained so far."""

import os
from pathlib import Path
from typing import Any

from core import figures, settings
from core.commands.output import print_json, say
from core.commands.run_text import (
    ending_text,
    message_text,
    queued_text,
    time_spent_text,
    unread_text,
    what_ran_text,
)
from core.errors import OptionsError, Problem
from core.events import Level
from core.files import is_there
from core.run_folder import RunFolder
from core.run_names import close_to, folder_called, folders_given, run_folders
from core.run_sizes import RunSizes
from core.run_summary import RunSummary, summarize
from core.runs import list_runs, read_story
from core.state import State

_TITLES = ("NAME", "STATE", "MODEL", "DATA", "BEST", "TIME", "MEMORY", "STARTED")


def list_all(*, as_json: bool) -> int:
    """Print all runs, newest first."""
    folder = settings.runs_folder()
    found = list_runs(folder)
    summaries = [summarize(run) for run in found]
    if as_json:
        print_json([as_plain(summary) for summary in summaries])
    elif summaries:
        say(figures.table(_TITLES, [_row(summary) for summary in summaries]))
        size = figures.size(sum(map(RunSizes().of, found)))
        say(f"\n{figures.counted(len(found), 'run')}, {size} in {folder}")
    else:
        say(_none_yet(folder))
    return 0


def _none_yet(folder: Path) -> str:
    """What to do for a first run, or why none can be made there."""
    place = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if place.is_dir() and os.access(place, os.W_OK):
        return f"No runs yet in {folder}. `hone train RUN.hone` makes one."
    reason = "is a file" if place.is_file() else "can't be written to"
    return (
        f"No runs yet in {folder}, and none can be kept there: {place} {reason}.\n"
        "Make it a folder that you may write to, or name another one in HONE_HOME."
    )


def _row(summary: RunSummary) -> tuple[str, ...]:
    best = figures.metric(summary.metric, summary.best) if summary.metric else figures.MISSING
    return (
        summary.run.name,
        summary.state.value,
        summary.model or "(unreadable)",
        summary.data or figures.MISSING,
        best,
        figures.duration(summary.seconds),
        figures.size(summary.peak_bytes),
        figures.moment(summary.started),
    )


def as_plain(summary: RunSummary) -> dict[str, Any]:
    """A summary as plain values for JSON: `folder` in place of the object, all else under its own name."""
    plain = {"folder": str(summary.run.path), **vars(summary)}
    del plain["run"]
    return plain


def show(name: str, *, as_json: bool) -> int:
    """Print what there is to know about one run.

    Args:
        name: Its folder, or its name among all runs.
        as_json: Whether its summary is printed as JSON instead.

    Raises:
        OptionsError: There is no such run.
    """
    run = find_run(name)
    summary = summarize(run)
    if as_json:
        print_json(as_plain(summary))
        return 0
    say(f"{summary.title}: {summary.state}")
    if summary.problem:
        say(summary.problem)
    say(figures.table(_TITLES, [_row(summary)]))
    if summary.tags:
        say(f"Tags: {' '.join(summary.tags)}")
    if summary.note:
        say(f"Note: {summary.note}")
    story = read_story(run)
    if story.what_ran is not None:
        say(what_ran_text(story))
    if spent := time_spent_text(story.time_spent):
        say(spent)
    if unread := unread_text(story):
        say(unread)
    for message in story.messages.values():
        if not (summary.state.is_over and message.level is Level.ERROR):  # which the ending tells
            say(message_text(message, run.path, is_over=summary.state.is_over))
    if summary.state is State.QUEUED and (waits := queued_text(run, story)):
        say(waits)
    if summary.state.is_over:
        say(ending_text(run, story, summary.state, run.exit_record()))
    say(f"Everything about it is in {run.path}")
    return 0


def find_run(name: str) -> RunFolder:
    """The run in the folder `name`, or of that name among all runs, or the only one that was given this name.

    Raises:
        OptionsError: There is no such run, or there are several.
    """
    for path in (Path(name).absolute(), folder_called(name)):
        if path and (is_there(path / "run.toml") or is_there(path / "events.jsonl")):
            return RunFolder(path)
    namesakes = ", ".join(path.name for path in folders_given(name))
    if namesakes:
        raise OptionsError((Problem("", f"several runs are called {name}; name one of {namesakes}"),))
    place = Path(name).absolute() if name.strip() and is_there(Path(name)) else folder_called(name)
    if place is not None:
        raise OptionsError((Problem("", f"{place} is no run: there is neither run.toml nor events.jsonl"),))
    close = [path.name for path in close_to(name, run_folders())] if name.strip() else []
    meant = f"; did you mean {' or '.join(close)}?" if close else "; `hone runs` lists them"
    said = f"there is no run {name}{meant}" if name.strip() else "name a run; `hone runs` lists them"
    raise OptionsError((Problem("", said),))
