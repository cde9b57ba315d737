"""`hone runs` and `hone show`: what has been trained so far."""

from pathlib import Path
from typing import Any

from core import figures, settings
from core.commands.output import print_json
from core.commands.run_text import ending_text, message_text, time_spent_text, unread_text, what_ran_text
from core.errors import OptionsError, Problem
from core.events import Level
from core.files import is_there
from core.run_folder import RunFolder
from core.run_summary import RunSummary, summarize
from core.runs import list_runs, read_story

_TITLES = ("NAME", "STATE", "MODEL", "DATA", "BEST", "TIME", "MEMORY", "STARTED")


def list_all(*, as_json: bool) -> int:
    """Print all runs, newest first."""
    folder = settings.runs_folder()
    summaries = [summarize(run) for run in list_runs(folder)]
    if as_json:
        print_json([as_plain(summary) for summary in summaries])
    elif summaries:
        print(figures.table(_TITLES, [_row(summary) for summary in summaries]))
        print(f"\nin {folder}")
    else:
        print(f"No runs yet in {folder}. `hone train RUN.hone` makes one.")
    return 0


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
    print(f"{summary.title}: {summary.state}")
    if summary.problem:
        print(summary.problem)
    print(figures.table(_TITLES, [_row(summary)]))
    story = read_story(run)
    if story.what_ran is not None:
        print(what_ran_text(story.what_ran, story.versions))
    if spent := time_spent_text(story.time_spent):
        print(spent)
    if unread := unread_text(story):
        print(unread)
    for message in story.messages.values():
        if not (summary.state.is_over and message.level is Level.ERROR):  # which the ending tells
            print(message_text(message, run.path, is_over=summary.state.is_over))
    if summary.state.is_over:
        print(ending_text(run, story, summary.state, run.exit_record()))
    print(f"Everything about it is in {run.path}")
    return 0


def find_run(name: str) -> RunFolder:
    """The run in the folder `name`, or of that name among all runs.

    Raises:
        OptionsError: There is no such run.
    """
    for path in (Path(name).absolute(), settings.runs_folder() / name):
        if is_there(path / "run.toml") or is_there(path / "events.jsonl"):
            return RunFolder(path)
    raise OptionsError((Problem("", f"there is no run {name}; `hone runs` lists them"),))
