"""Commands about kept runs: runs and show."""

import argparse
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from core.base import formats, settings
from core.base.errors import OptionsError, Problem, RunFolderError
from core.base.files import is_there, new_file
from core.base.formats import visible
from core.base.language import _
from core.cli.output import NAME_HELP, add_command, add_json, agrees, print_json, say
from core.options import past_runs
from core.options.catalogue import number_words
from core.options.declare import Kind, Option
from core.options.past_runs import close_to, folder_called, folders_given, run_folders
from core.runs import trash
from core.runs.compare import FEWEST, MOST, Absent, Comparison, compare, metric_title
from core.runs.event_log import EventReader
from core.runs.events import Level, Predicted, Said
from core.runs.folder import RunFolder
from core.runs.library import list_runs, read_status
from core.runs.status import PredictionLog, State
from core.runs.summary import RunSizes, RunSummary, summarize
from core.runs.words import (
    ending_text,
    message_text,
    queued_text,
    time_spent_text,
    unread_text,
    what_ran_text,
)
from core.sharing import support

if TYPE_CHECKING:
    from core.cli.output import Commands

TITLES = ("NAME", "STATE", "MODEL", "DATA", "BEST", "TIME", "MEMORY", "STARTED")
PREDICTION_WIDTH = 96


def add_commands(commands: "Commands") -> None:
    command = add_command(
        commands,
        "runs",
        runs,
        summary=_("list all runs, compare some, or delete some"),
        example="--compare 2026-01-31-digits 2026-02-01-digits",
        details="--compare shows the results of 2 to 8 runs, the options in which they differ, and what else differs. "
        "--delete shows what goes and how large it is, asks, and moves it to the system's trash; it ends with 1 if a "
        "run stayed. Runs that train or wait stay.",
    )
    command.add_argument("names", nargs="*", metavar="RUN", help=NAME_HELP)
    action = command.add_mutually_exclusive_group()
    action.add_argument("--compare", action="store_true", help=_("compare the runs named"))
    action.add_argument("--delete", action="store_true", help=_("move the runs named to the trash"))
    command.add_argument("--permanently", action="store_true", help="with --delete: not to the trash")
    command.add_argument("--yes", action="store_true", help="with --delete: don't ask")
    add_json(command)

    command = add_command(
        commands,
        "show",
        show,
        summary=_("show one run: its options, results and messages"),
        example="2026-01-31-digits --note 'best so far'",
        details=f"--support collects its files for somebody who helps. {support.WORDS}",
    )
    command.add_argument("name", metavar="RUN", help=NAME_HELP)
    command.add_argument(
        "--predictions",
        action="store_true",
        help=_("show the predictions on validation examples, before and after training"),
    )
    command.add_argument("--rename", metavar="NAME", help='give it a name; "" removes it')
    command.add_argument("--tag", action="append", default=[], metavar="TAG", help=_("add a tag"))
    command.add_argument("--untag", action="append", default=[], metavar="TAG", help=_("remove a tag"))
    command.add_argument("--note", metavar="TEXT", help='write a note; "" removes it')
    command.add_argument(
        "--support", metavar="FILE", help="write a support file, a new zip; - prints its content"
    )
    add_json(command)


def find_run(name: str) -> RunFolder:
    """The run in the folder `name`, or of that name among all runs, or the only one with that title.

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
        raise OptionsError(
            (
                Problem(
                    "", _("{place} is no run: there is neither run.toml nor events.jsonl").format(place=place)
                ),
            )
        )
    close = [path.name for path in close_to(name, run_folders())] if name.strip() else []
    meant = f"; did you mean {' or '.join(close)}?" if close else "; `hone runs` lists them"
    said = (
        _("there is no run {name}{meant}").format(name=name, meant=meant)
        if name.strip()
        else "name a run; `hone runs` lists them"
    )
    raise OptionsError((Problem("", said),))


# --- hone runs


def runs(arguments: argparse.Namespace) -> int:
    if not (arguments.names or arguments.compare or arguments.delete):
        return list_all(as_json=arguments.json)
    if arguments.compare:
        return compare_runs(arguments.names, as_json=arguments.json)
    if arguments.delete and arguments.names:
        return delete(arguments.names, agreed=arguments.yes, permanently=arguments.permanently)
    said = _("name the runs") if arguments.delete else "say what to do with them: --compare or --delete"
    raise OptionsError((Problem("", said),))


def list_all(*, as_json: bool) -> int:
    """Print all runs, newest first."""
    folder = settings.runs_folder()
    found = list_runs(folder)
    summaries = [summarize(run) for run in found]
    if as_json:
        print_json([_as_plain(summary) for summary in summaries])
    elif summaries:
        say(formats.table(TITLES, [_row(summary) for summary in summaries]))
        size = formats.size(sum(map(RunSizes().of, found)))
        say(
            _("\n{runs}, {size} in {folder}").format(
                runs=formats.counted(len(found), "run"), size=size, folder=folder
            )
        )
    else:
        say(_none_yet(folder))
    return 0


def _none_yet(folder: Path) -> str:
    place = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if place.is_dir() and os.access(place, os.W_OK):
        return _("No runs yet in {folder}. `hone train RUN.hone` makes one.").format(folder=folder)
    reason = _("is a file") if place.is_file() else _("can't be written to")
    return _(
        "No runs yet in {folder}, and none can be kept there: {place} {reason}.\n"
        "Make it a folder that you may write to, or name another one in HONE_HOME."
    ).format(folder=folder, place=place, reason=reason)


def _row(summary: RunSummary) -> tuple[str, ...]:
    best = formats.metric(summary.metric, summary.best) if summary.metric else formats.PLAIN_MISSING
    return (
        summary.run.name,
        summary.state.value,
        summary.model or "(unreadable)",
        summary.data or formats.PLAIN_MISSING,
        best,
        formats.plain_duration(summary.seconds),
        formats.size(summary.peak_bytes),
        formats.full_moment(summary.started),
    )


def _as_plain(summary: RunSummary) -> dict[str, Any]:
    plain = {"folder": str(summary.run.path), **vars(summary)}
    del plain["run"]
    return plain


def delete(names: list[str], *, agreed: bool, permanently: bool) -> int:
    """Move runs to the trash, or delete them; returns 0 if all of them went."""
    plan = trash.plan(list(dict.fromkeys(map(find_run, names))), settings.runs_folder())
    for title in plan.busy:
        say(_("{title} isn't over, so it stays. `hone stop` ends it.").format(title=title), sys.stderr)
    if not plan.going:
        return 1
    for one in plan.going:
        say(f"{one.run.name}  {one.title}  {formats.size(one.size)}")
    for one in plan.needed:
        say(
            _("Note: {needed_by} started from the model of {title}.").format(
                needed_by=", ".join(one.needed_by), title=one.title
            )
        )
    say(f"{formats.counted(len(plan.going), 'run')}, {formats.size(plan.size)}")
    if not (agreed or _agrees(_("Delete permanently?") if permanently else _("Move to the trash?"))):
        say(_("Nothing was deleted."))
        return 1
    went = [_delete(one.run, agreed=agreed, permanently=permanently) for one in plan.going]
    return 0 if all(went) and not plan.busy else 1


def _delete(run: RunFolder, *, agreed: bool, permanently: bool) -> bool:
    if not permanently:
        try:
            trash.move(run)
        except trash.NoTrashError as error:
            say(f"{error.title}: {error.detail}", sys.stderr)
        else:
            return True
        if agreed or not sys.stdin.isatty():
            say(
                f"`hone runs --delete --permanently {run.name}` deletes it; it can't be restored then.",
                sys.stderr,
            )
            return False
        if not agrees(_("Delete {name} permanently? It can't be restored.").format(name=run.name)):
            return False
    trash.delete(run)
    return True


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        raise OptionsError((Problem("", _("nobody can confirm it here; add --yes")),))
    return agrees(question)


RESULTS = ("metric", "best", "seconds", "peak_bytes", "samples_per_second", "steps")


def compare_runs(names: list[str], *, as_json: bool) -> int:
    """Print the results of runs, the options in which they differ, and what else differs."""
    if not FEWEST <= len(names) <= MOST:
        said = f"name {FEWEST} to {MOST} runs; these are {len(names)}"
        raise OptionsError((Problem("", said),), _("The comparison"))
    chosen = [find_run(name) for name in names]
    paths = [run.path for run in chosen]
    twice = next((run.name for place, run in enumerate(chosen) if run.path in paths[:place]), None)
    if twice is not None:
        said = f"{twice} is named twice; name each run once"
        raise OptionsError((Problem("", said),), _("The comparison"))
    found = compare(chosen)
    if as_json:
        print_json(
            {
                "runs": [str(summary.run.path) for summary in found.runs],
                "results": [{name: getattr(one, name) for name in RESULTS} for one in found.runs],
                "options": {
                    row.option.path: [None if isinstance(value, Absent) else value for value in row.values]
                    for row in found.options
                },
                "ran": {row.title: [value or None for value in row.values] for row in found.ran},
            }
        )
        return 0
    columns = tuple(summary.run.name for summary in found.runs)
    say(formats.table(("RESULT", *columns), _result_rows(found)))
    unread = [summary.problem for summary in found.runs if summary.problem]
    for problem in unread:
        say(f"\n{problem}")
    rows = [(row.option.path, *(_words(row.option, value) for value in row.values)) for row in found.options]
    if rows:
        say(f"\n{formats.table(('OPTION', *columns), rows)}")
    elif not unread:
        say(_("\nTheir options are the same."))
    if found.ran:
        say(f"\n{formats.table(('WHAT RAN', *columns), [(row.title, *row.values) for row in found.ran])}")
    return 0


def _result_rows(found: Comparison) -> list[tuple[str, ...]]:
    lines = {
        "name": [summary.title for summary in found.runs],
        "state": [summary.state.value for summary in found.runs],
        "best": [_best(results) for results in found.runs],
        "steps": [f"{results.steps:,}" for results in found.runs],
        "time": [formats.plain_duration(results.seconds) for results in found.runs],
        "peak memory": [formats.size(results.peak_bytes) for results in found.runs],
        "samples a second": [formats.number(results.samples_per_second) for results in found.runs],
    }
    return [(title, *values) for title, values in lines.items()]


def _best(results: RunSummary) -> str:
    if results.metric is None:
        return formats.PLAIN_MISSING
    return f"{metric_title(results.metric)} {formats.number(results.best)}"


def _words(option: Option, value: Any) -> str:
    """A value as in a run file, a share in percent."""
    match option.kind, value:
        case _, Absent.NO_MEANING:
            words = formats.PLAIN_MISSING
        case _, Absent():
            words = "?"
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


# --- hone show


def show(arguments: argparse.Namespace) -> int:
    run = find_run(arguments.name)
    if arguments.predictions:
        return show_predictions(run, as_json=arguments.json)
    if arguments.support:
        return support_file(run, arguments.support)
    if arguments.tag or arguments.untag or arguments.rename is not None or arguments.note is not None:
        return change_notes(run, arguments)
    summary = summarize(run)
    if arguments.json:
        print_json(_as_plain(summary))
        return 0
    say(f"{summary.title}: {summary.state}")
    if summary.problem:
        say(summary.problem)
    say(formats.table(TITLES, [_row(summary)]))
    if summary.tags:
        say(f"Tags: {' '.join(summary.tags)}")
    if summary.note:
        say(f"Note: {summary.note}")
    status = read_status(run)
    if status.what_ran is not None:
        say(what_ran_text(status))
    if spent := time_spent_text(status.time_spent):
        say(spent)
    if unread := unread_text(status):
        say(unread)
    for message in status.messages.values():
        if not (summary.state.is_over and message.level is Level.ERROR):  # said with the ending
            say(message_text(message, run.path, is_over=summary.state.is_over))
    if summary.state is State.QUEUED and (waits := queued_text(run, status)):
        say(waits)
    if summary.state.is_over:
        say(ending_text(run, status, summary.state, run.exit_record()))
    say(_("Everything about it is in {path}").format(path=run.path))
    return 0


def change_notes(run: RunFolder, arguments: argparse.Namespace) -> int:
    """Change a run's name, tags and note, and print them."""
    notes = past_runs.retagged(past_runs.read(run.path), arguments.tag, arguments.untag)
    if not all(tag.strip() for tag in (*arguments.tag, *arguments.untag)):
        raise OptionsError((Problem("", _("a tag can't be empty")),))
    if arguments.rename is not None:
        notes = msgspec.structs.replace(notes, title=" ".join(arguments.rename.split()))
    if arguments.note is not None:
        notes = msgspec.structs.replace(notes, text=arguments.note.strip())
    past_runs.write(run.path, notes)
    say(_("{name} is called “{title}”").format(name=run.name, title=summarize(run).title))
    say(f"Tags: {' '.join(notes.tags) or 'none'}\nNote: {notes.text or 'none'}")
    return 0


def support_file(run: RunFolder, target: str) -> int:
    """Write a run's support file, or print its content."""
    if target != "-":
        new_file(Path(target))
    files = support.collect(run)
    if target == "-":
        for file in files:
            say(f"===== {file.name}{f' ({file.note})' if file.note else ''}\n{file.text}")
    else:
        support.save(files, Path(target))
        say(
            _("{words}\nThe support file is in {target}").format(words=support.WORDS, target=target),
            sys.stderr,
        )
    return 0


def show_predictions(run: RunFolder, *, as_json: bool) -> int:
    """Print each example with its label and the first and last prediction."""
    status, reader = PredictionLog(), EventReader(run.events_file)
    status.apply_all(reader.read_all())
    if reader.trouble:
        raise RunFolderError(_("The run can't be read"), reader.trouble)
    if as_json:
        print_json({"examples": status.examples, "told": status.told, "confusion": status.confusion})
        return 0
    if not status.told:
        say(_("No predictions were kept of this run."))
        return 0
    first, last = status.told[0], status.told[-1]
    for number, example in enumerate(status.examples):
        _say_line(f"{number + 1:>3} ", example.image or example.given)
        if example.expected:
            _say_line("    expected:        ", example.expected)
        for found in (first, last) if last is not first else (last,):
            _say_line(f"    {_moment(found) + ':':<17}", _prediction(found, number))
        say("")
    rows = []
    for found in status.told:
        judged = [said.right for said in found.said if said.right is not None]
        if judged:
            rows.append(
                (_moment(found), _("{judged} of {judged_2}").format(judged=sum(judged), judged_2=len(judged)))
            )
    say(formats.table(("EVALUATED", "RIGHT"), rows) if rows else "")
    return 0


def _say_line(head: str, text: str) -> None:
    width = PREDICTION_WIDTH - len(head)
    say(head + textwrap.shorten(visible(" ".join(text.split())), width, placeholder=" …"))


def _moment(found: Predicted) -> str:
    return _("before training") if found.step == 0 else _("step {step:,}").format(step=found.step)


def _prediction(found: Predicted, number: int) -> str:
    if number >= len(found.said):
        return formats.PLAIN_MISSING
    said: Said = found.said[number]
    sure = "" if said.sure is None else f" ({said.sure:.0%})"
    right = "" if said.right is None else ", right" if said.right else ", wrong"
    return f"{said.text}{sure}{right}"
