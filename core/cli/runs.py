"""`hone runs` and `hone show`: what has been trained so far."""

import argparse
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from core.base import format as figures
from core.base import settings
from core.base.errors import OptionsError, Problem, RunFolderError
from core.base.files import is_there, new_file
from core.base.format import visible
from core.cli.output import NAME_HELP, agrees, print_json, say
from core.options import past_runs as run_notes
from core.options.catalogue import Kind, Option, number_words
from core.options.past_runs import RunNotes, close_to, folder_called, folders_given, run_folders
from core.runs import bin as the_bin
from core.runs.bin import BinPlan, Going, NoBinError
from core.runs.compare import FEWEST, MOST, Absent, Comparison, Results, metric_title
from core.runs.compare import compare as hold_against
from core.runs.event_log import EventReader
from core.runs.events import Example, Level, Predicted, Said
from core.runs.folder import RunFolder
from core.runs.library import list_runs, read_story
from core.runs.metrics import MetricsTable, What, save_csv, write_csv
from core.runs.status import PredictionStory, State
from core.runs.summary import RunSizes, RunSummary, summarize
from core.runs.words import (
    ending_text,
    message_text,
    queued_text,
    time_spent_text,
    unread_text,
    what_ran_text,
)

if TYPE_CHECKING:
    from core.cli.output import Commands


# --- `hone runs` and `hone show`: what has been trained so far


_TITLES = ("NAME", "STATE", "MODEL", "DATA", "BEST", "TIME", "MEMORY", "STARTED")


def list_all(*, as_json: bool) -> int:
    """Print all runs, newest first."""
    folder = settings.runs_folder()
    found = list_runs(folder)
    summaries = [summarize(run) for run in found]
    if as_json:
        print_json([summary_as_plain(summary) for summary in summaries])
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
    best = figures.metric(summary.metric, summary.best) if summary.metric else figures.PLAIN_MISSING
    return (
        summary.run.name,
        summary.state.value,
        summary.model or "(unreadable)",
        summary.data or figures.PLAIN_MISSING,
        best,
        figures.plain_duration(summary.seconds),
        figures.size(summary.peak_bytes),
        figures.full_moment(summary.started),
    )


def summary_as_plain(summary: RunSummary) -> dict[str, Any]:
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
        print_json(summary_as_plain(summary))
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


# --- `hone bin`: moves runs to the operating system's bin, after asking


def throw_away(names: list[str], *, agreed: bool, for_good: bool) -> int:
    """Move runs to the bin; 0 where all of them went, 1 where one didn't or the person said no.

    Args:
        names: Their folders, or their names among all runs.
        agreed: Whether the person has agreed to it beforehand.
        for_good: Whether they are deleted instead.

    Raises:
        OptionsError: One of them is not there, or it can't be asked about.
    """
    runs = list(dict.fromkeys(find_run(name) for name in names))
    planned = the_bin.plan(runs, settings.runs_folder())
    for title in planned.busy:
        say(f"{title} isn't over, so it stays. `hone stop` ends it.", sys.stderr)
    if not planned.going:
        return 1
    _say_plan(planned)
    if not (agreed or _ask("Delete for good?" if for_good else "Move to the bin?")):
        say("Nothing was moved.")
        return 1
    went = [_take(one, agreed=agreed, for_good=for_good) for one in planned.going]
    return 0 if all(went) and not planned.busy else 1


def _say_plan(planned: BinPlan) -> None:
    for one in planned.going:
        say(f"{one.run.name}  {one.title}  {figures.size(one.size)}")
    for one in planned.needed:
        say(f"Note: {', '.join(one.needed_by)} started from the model of {one.title}.")
    say(f"{figures.counted(len(planned.going), 'run')}, {figures.size(planned.size)}")


def _take(one: Going, *, agreed: bool, for_good: bool) -> bool:
    """Move or delete one; returns whether it went."""
    if for_good:
        the_bin.delete(one.run)
        return True
    try:
        the_bin.move(one.run)
    except NoBinError as error:
        say(f"{error.title}: {error.detail}", sys.stderr)
        return _delete_instead(one.run, agreed=agreed)
    return True


def _delete_instead(run: RunFolder, *, agreed: bool) -> bool:
    if agreed or not sys.stdin.isatty():
        say(f"`hone bin --for-good {run.name}` deletes it; it can't be put back then.", sys.stderr)
        return False
    if not _ask(f"Delete {run.name} for good? It can't be put back."):
        return False
    the_bin.delete(run)
    return True


def _ask(question: str) -> bool:
    """Ask in the terminal; anything but yes is no.

    Raises:
        OptionsError: Nobody is there to answer.
    """
    if not sys.stdin.isatty():
        raise OptionsError((Problem("", "nobody is there to ask; --yes agrees beforehand"),), "The bin")
    return agrees(question)


# --- `hone compare`: runs side by side, and only what differs


ABSENT = {Absent.NO_MEANING: figures.PLAIN_MISSING, Absent.UNREADABLE: "?"}


def compare(names: list[str], *, as_json: bool) -> int:
    """Print what runs came to, the options in which they differ, and what else differed.

    Args:
        names: Their folders, or their names among all runs.
        as_json: Whether it is printed as JSON.

    Raises:
        OptionsError: One of them is not there or named twice, or they are too few or too many.
    """
    if not FEWEST <= len(names) <= MOST:
        said = f"name {FEWEST} to {MOST} runs; these are {len(names)}"
        raise OptionsError((Problem("", said),), "The comparison")
    runs = [find_run(name) for name in names]
    twice = next(
        (run for place, run in enumerate(runs) if run.path in [one.path for one in runs[:place]]), None
    )
    if twice is not None:
        raise OptionsError(
            (Problem("", f"{twice.name} is named twice; name each run once"),), "The comparison"
        )
    found = hold_against(runs)
    if as_json:
        print_json(comparison_as_plain(found))
        return 0
    columns = tuple(summary.run.name for summary in found.runs)
    say(figures.table(("RESULT", *columns), _result_rows(found)))
    unread = [summary.problem for summary in found.runs if summary.problem]
    for problem in unread:
        say(f"\n{problem}")
    _say_rows(("OPTION", *columns), _option_rows(found), "" if unread else "They were asked the same.")
    _say_rows(("WHAT RAN", *columns), [(row.title, *row.values) for row in found.ran], "")
    return 0


def comparison_as_plain(found: Comparison) -> dict[str, Any]:
    """A comparison as plain values for JSON; an option that a run lacks is null."""
    return {
        "runs": [str(summary.run.path) for summary in found.runs],
        "results": [vars(results) for results in found.results],
        "options": {row.option.path: [_plain(value) for value in row.values] for row in found.options},
        "ran": {row.title: [value or None for value in row.values] for row in found.ran},
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, Absent) else value


def _say_rows(titles: tuple[str, ...], rows: list[tuple[str, ...]], nothing: str) -> None:
    said = figures.table(titles, rows) if rows else nothing
    if said:
        say(f"\n{said}")


def _result_rows(found: Comparison) -> list[tuple[str, ...]]:
    lines = {
        "name": [summary.title for summary in found.runs],
        "state": [summary.state.value for summary in found.runs],
        "best": [_best(results) for results in found.results],
        "steps": [f"{results.steps:,}" for results in found.results],
        "time": [figures.plain_duration(results.seconds) for results in found.results],
        "peak memory": [figures.size(results.peak_bytes) for results in found.results],
        "samples a second": [figures.number(results.samples_per_second) for results in found.results],
    }
    return [(title, *values) for title, values in lines.items()]


def _best(results: Results) -> str:
    if results.metric is None:
        return figures.PLAIN_MISSING
    return f"{metric_title(results.metric)} {figures.number(results.best)}"


def _option_rows(found: Comparison) -> list[tuple[str, ...]]:
    return [
        (row.option.path, *(_option_words(row.option, value) for value in row.values))
        for row in found.options
    ]


def _option_words(option: Option, value: Any) -> str:
    """A value as a run file has it, but for a share, which is told in percent; what a run lacks is a dash."""
    if isinstance(value, Absent):
        return ABSENT[value]
    match option.kind, value:
        case _, None:
            words = "none"
        case Kind.SWITCH, _:
            words = "true" if value else "false"
        case Kind.TEXTS, _:
            words = ", ".join(value)
        case Kind.PAIRS, _:
            words = ", ".join(f"{name}={text}" for name, text in value.items())
        case Kind.NUMBER, _:
            words = number_words(option, value)
        case _:
            words = str(value)
    return words


# --- `hone export-metrics`: a run's figures for other programs, as CSV or Parquet


NOUNS = {What.STEPS: "step", What.EVALUATIONS: "evaluation", What.MACHINE: "sample"}
STDOUT = "-"


def export_metrics(name: str, what: What, *, csv: str | None, parquet: str | None) -> int:
    """Write one table of a run to a new file, and say on standard error how long it is.

    Args:
        name: The run's folder, or its name among all runs.
        what: Which table.
        csv: The file to write as CSV, or `-` for standard output.
        parquet: The file to write as Parquet, where `csv` is None.

    Raises:
        OptionsError: There is no such run, or it is no file that Parquet can be written to.
        TargetError: Something is at the file's place, or it can't be written there.
        RunFolderError: The run can't be read.
    """
    run = find_run(name)
    table = MetricsTable(run, what)
    if csv == STDOUT:
        count = write_csv(table, sys.stdout)
    elif csv is not None:
        count = save_csv(table, _new(csv))
    else:
        from core.runs.metrics import save_parquet

        count = save_parquet(table, _new(parquet or ""))
    to = "" if csv == STDOUT else f" to {csv or parquet}"
    say(f"{figures.counted(count, NOUNS[what])} written{to}", sys.stderr)
    if table.skipped:
        say(f"Note: {figures.counted(table.skipped, 'line')} can't be read and left out.", sys.stderr)
    return 0


def _new(file: str) -> Path:
    """The path of a file that isn't there yet.

    Raises:
        OptionsError: It is no file that Parquet can be written to.
        TargetError: It is there, or its folder isn't.
    """
    if file == STDOUT:
        raise OptionsError((Problem("", "Parquet needs a file; only CSV can be printed"),))
    return new_file(Path(file))


# --- `hone rename`, `hone tag` and `hone note`: what a person says of a run


def rename(name: str, title: str) -> int:
    """Call a run otherwise; an empty title gives it its own name back.

    Args:
        name: Its folder, or its name among all runs.
        title: The new name.

    Raises:
        OptionsError: There is no such run, or the name is too long.
    """
    run = find_run(name)
    run_notes.write(run.path, msgspec.structs.replace(_notes(run), title=" ".join(title.split())))
    say(f"{run.name} is called “{summarize(run).title}”")
    return 0


def tag(name: str, changes: list[str]) -> int:
    """Give a run tags (`+night`, or `night`) and take some away (`-old`); without any, print those it has.

    Raises:
        OptionsError: There is no such run, a tag is too long, or there are too many.
    """
    run = find_run(name)
    if any(not change.strip("+- \t\n") for change in changes):
        raise OptionsError((Problem("", "a tag has a name, such as +night or -old"),))
    remove = [change.removeprefix("-") for change in changes if change.startswith("-")]
    add = [change.removeprefix("+") for change in changes if not change.startswith("-")]
    notes = run_notes.retagged(_notes(run), add, remove)
    if changes:
        run_notes.write(run.path, notes)
    say(" ".join(notes.tags) or f"{run.name} has no tags.")
    return 0


def note(name: str, text: str | None) -> int:
    """Write a note to a run; None prints the one it has, an empty text takes it away.

    Raises:
        OptionsError: There is no such run, or the text is too long.
    """
    run = find_run(name)
    if text is not None:
        run_notes.write(run.path, msgspec.structs.replace(_notes(run), text=text.strip()))
    say(_notes(run).text or f"{run.name} has no note.")
    return 0


def _notes(run: RunFolder) -> RunNotes:
    return run_notes.read(run.path)


# --- `hone predictions`: what a run's model said of its held-out examples


WIDTH = 96


def predictions(name: str, *, as_json: bool) -> int:
    """Print each example with what was expected and what was said of it.

    Args:
        name: The run's folder, or its name among all runs.
        as_json: Whether all that was said at every evaluation is printed as JSON.

    Raises:
        OptionsError: There is no such run.
        RunFolderError: What happened in it can't be read.
    """
    story, reader = PredictionStory(), EventReader(find_run(name).events_file)
    story.apply_all(reader.read_all())
    if reader.trouble:
        raise RunFolderError("The run can't be read", reader.trouble)
    if as_json:
        print_json({"examples": story.examples, "told": story.told, "confusion": story.confusion})
        return 0
    if not story.told:
        say("No predictions were kept of this run.")
        return 0
    first, last = story.told[0], story.told[-1]
    for number, example in enumerate(story.examples):
        say(_prediction_words(number, example, first, last))
    say(_summary(story.told))
    return 0


def _prediction_words(number: int, example: Example, first: Predicted, last: Predicted) -> str:
    lines = [_line(f"{number + 1:>3} ", example.image or example.given)]
    if example.expected:
        lines.append(_line("    expected:        ", example.expected))
    if last is not first:
        lines.append(_line(f"    {_moment(first) + ':':<17}", _said(first, number)))
    lines.append(_line(f"    {_moment(last) + ':':<17}", _said(last, number)))
    return "\n".join(lines) + "\n"


def _line(head: str, text: str) -> str:
    """A text on one line; what doesn't fit is cut."""
    return head + textwrap.shorten(visible(" ".join(text.split())), WIDTH - len(head), placeholder=" …")


def _moment(found: Predicted) -> str:
    return "before training" if found.step == 0 else f"step {found.step:,}"


def _said(found: Predicted, number: int) -> str:
    if number >= len(found.said):
        return figures.PLAIN_MISSING
    said: Said = found.said[number]
    sure = "" if said.sure is None else f" ({said.sure:.0%})"
    right = "" if said.right is None else ", right" if said.right else ", wrong"
    return f"{said.text}{sure}{right}"


def _summary(told: list[Predicted]) -> str:
    """How many were right at each evaluation, where that is a matter of yes or no."""
    rows = []
    for found in told:
        judged = [said.right for said in found.said if said.right is not None]
        if judged:
            rows.append((_moment(found), f"{sum(judged)} of {len(judged)}"))
    return figures.table(("ASKED", "RIGHT"), rows) if rows else ""


# --- The commands that compare runs, name them, and take them away: how they are called


def add_tidying(commands: "Commands") -> None:
    """Add `compare`, `rename`, `tag`, `note` and `bin`."""
    _add_compare(commands)
    _add_notes(commands)
    _add_bin(commands)


def _add_compare(commands: "Commands") -> None:
    comparing = commands.add_parser(
        "compare",
        help="tell in what runs differ, and what they came to",
        description="Tell what 2 to 8 runs came to, the options in which they differ, and what else did: the device, "
        "what ran, versions. Options that were left alone count as their defaults.",
    )
    comparing.add_argument("names", nargs="+", metavar="RUN", help=NAME_HELP)
    comparing.add_argument("--json", action="store_true")
    comparing.set_defaults(run=lambda asked: compare(asked.names, as_json=asked.json))


def _add_notes(commands: "Commands") -> None:
    renaming = commands.add_parser("rename", help="call a run otherwise")
    renaming.add_argument("name", metavar="RUN", help=NAME_HELP)
    renaming.add_argument("title", metavar="NAME", help='the new name; "" gives it its own name back')
    renaming.set_defaults(run=lambda asked: rename(asked.name, asked.title))
    tagging = commands.add_parser(
        "tag",
        help="give a run tags, or take some away",
        description="Give a run tags and take some away; without any, tell those it has.",
    )
    tagging.add_argument("name", metavar="RUN", help=NAME_HELP)
    tagging.add_argument("tags", nargs=argparse.REMAINDER, metavar="+TAG -TAG")
    tagging.set_defaults(run=lambda asked: tag(asked.name, asked.tags))
    noting = commands.add_parser("note", help="write a note to a run, or read it")
    noting.add_argument("name", metavar="RUN", help=NAME_HELP)
    noting.add_argument("text", nargs="?", metavar="TEXT", help='"" takes the note away')
    noting.set_defaults(run=lambda asked: note(asked.name, asked.text))


def _add_bin(commands: "Commands") -> None:
    throwing = commands.add_parser(
        "bin",
        help="move runs to the system's bin",
        description="Say what goes and how much room it takes, ask, and move it to the system's bin. A run that trains "
        "or waits stays. Ends with 1 when anything stayed.",
    )
    throwing.add_argument("names", nargs="+", metavar="RUN", help=NAME_HELP)
    throwing.add_argument("--yes", action="store_true", help="don't ask")
    throwing.add_argument(
        "--for-good", action="store_true", help="delete instead; nothing can be put back then"
    )
    throwing.set_defaults(
        run=lambda asked: throw_away(asked.names, agreed=asked.yes, for_good=asked.for_good)
    )
