"""Commands about saved runs: runs and show."""

import argparse
import difflib
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from core.base import formats, settings
from core.base.errors import RunFolderError
from core.base.files import changed_at, is_there, new_file
from core.base.language import _
from core.cli.output import (
    NAME_HELP,
    CommandParsers,
    add_flag,
    add_json,
    add_repeated,
    add_run,
    confirm,
    note,
    print_answer,
    refuse,
    say,
)
from core.hosts.mirror import removal_there
from core.options import past_runs
from core.options.catalogue import number_words
from core.options.declare import Option, OptionKind
from core.options.past_runs import close_to, folder_called, folders_given, run_folders
from core.runs import start as runs_start
from core.runs import trash
from core.runs.compare import FEWEST, MOST, Absent, compare
from core.runs.event_log import EventReader
from core.runs.events import Level, Predicted
from core.runs.folder import RunFolder
from core.runs.library import list_runs, read_status, run_title
from core.runs.notes import retagged
from core.runs.notes import write as write_notes
from core.runs.status import PredictionLog, State
from core.runs.summary import RunSizes, RunSummary, summarize
from core.runs.verdict import verdict
from core.runs.words import (
    FIGURES_OF_LABEL,
    ending_text,
    evaluations_text,
    figures_of,
    fix_text,
    kept_message,
    message_text,
    queued_text,
    said_text,
    state_word,
    time_spent_text,
    unread_message,
    what_ran_text,
)
from core.sharing import support

TITLES = (
    _("Name"),
    _("State"),
    _("Steps"),
    _("Result"),
    _("Time"),
    _("Memory"),
    _("Started"),
    _("Model"),
    _("Data"),
)
OF_RESULTS = 6
"""The first of these are the results of a run."""
LATEST = "latest"
MOST_NAMED = 8
"""At most so many runs are named where a name is that of several."""
PREDICTION_WIDTH = 96
RESULTS = ("metric", "best", "seconds", "peak_bytes", "samples_per_second", "steps")


def add_commands(commands: CommandParsers) -> None:
    command = commands.add(
        "runs",
        runs,
        summary=_("list all runs, compare some, or delete some"),
        example="--compare 2026-01-31-digits 2026-02-01-digits",
        details=_(
            "--compare shows the results of 2 to 12 runs, the options in which they differ, and what else differs. "
            "--delete shows the runs and their size, asks, and moves them to the system's trash; it ends with 1 if a "
            "run was not deleted. Runs that train or wait are never deleted."
        ),
    )
    command.add_argument("names", nargs="*", metavar="RUN", help=NAME_HELP)
    action = command.add_mutually_exclusive_group()
    add_flag(action, "--compare", _("compare the runs named"))
    add_flag(action, "--delete", _("move the runs named to the trash"))
    add_flag(command, "--permanently", _("with --delete: delete at once, not to the trash"))
    add_flag(command, "--yes", _("with --delete: don't ask"))
    add_json(command)

    command = commands.add(
        "show",
        show,
        summary=_("show one run: its options, results and messages"),
        example="2026-01-31-digits --note 'best so far'",
        details=_("--support collects its files for somebody who helps. {words}").format(words=support.WORDS),
    )
    add_run(command)
    add_flag(
        command,
        "--predictions",
        _(
            "show the predictions on validation examples, before and after training, and the figures of each label"
        ),
    )
    command.add_argument("--rename", metavar="NAME", help=_('give it a name; "" removes it'))
    add_repeated(command, "--tag", "TAG", _("add a tag"))
    add_repeated(command, "--untag", "TAG", _("remove a tag"))
    command.add_argument("--note", metavar="TEXT", help=_('write a note; "" removes it'))
    command.add_argument(
        "--support", metavar="FILE", help=_("write a support file, a new zip; - prints its content")
    )
    add_json(command)


def find_run(name: str, *, is_whole: bool = False) -> RunFolder:
    """Returns the run of this folder or name, or the only one with `name` as a part of these.

    `latest` is the one that was started or resumed last; while that waits in the queue, the last one that trains.
    `is_whole`: a part is not enough, nor is `latest`.

    Raises:
        OptionsError: There is no such run, or there are several.
    """
    if not name.strip():
        refuse(_("name a run; `hone runs` lists them"))
    for path in (Path(name).absolute(), folder_called(name)):
        if path and (is_there(path / "run.toml") or is_there(path / "events.jsonl")):
            return RunFolder(path)
    matching = [RunFolder(folder) for folder in folders_given(name)]
    if not matching and not is_whole:
        found, part = list_runs(settings.runs_folder()), name.casefold()
        if part == LATEST and found:
            found.sort(
                key=lambda run: changed_at(run.keeper_file) or changed_at(run.options_file), reverse=True
            )
            if (
                summarize(found[0]).state is State.QUEUED
            ):  # one that trains comes before those that wait for it
                under_way = (
                    run for run in found if run.is_alive() and summarize(run).state is not State.QUEUED
                )
                return next(under_way, found[0])
            return found[0]
        matching = [run for run in found if part in f"{run.name}\n{run_title(run)}".casefold()]
    if len(matching) == 1 and not is_whole:
        return matching[0]
    if matching:
        names = [f"{run.name} ({run_title(run)})" for run in matching[:MOST_NAMED]]
        names += ["..."] if len(matching) > MOST_NAMED else []
        refuse(_("{name} is the name of several runs: {names}").format(name=name, names=", ".join(names)))
    folder = Path(name).absolute() if is_there(Path(name)) else folder_called(name)
    if folder is not None:
        refuse(_("{folder} is not a run: it has neither run.toml nor events.jsonl").format(folder=folder))
    likely = [] if is_whole else difflib.get_close_matches(name.casefold(), [LATEST])
    if likely := likely or [folder.name for folder in close_to(name, run_folders())]:
        refuse(_("there is no run {name}; did you mean {other}?").format(name=name, other=likely[0]))
    refuse(_("there is no run {name}; `hone runs` lists them").format(name=name))


# --- hone runs


def runs(arguments: argparse.Namespace) -> int:
    if arguments.compare:
        return compare_runs(arguments.names, as_json=arguments.json)
    if arguments.delete:
        return delete(arguments.names, agreed=arguments.yes, permanently=arguments.permanently)
    if arguments.names:
        refuse(_("use --compare or --delete with the names of runs; `hone show RUN` shows one"))
    folder = settings.runs_folder()
    found = list_runs(folder)
    for run in found:
        runs_start.follow_again(run)
    summaries = [summarize(run) for run in found]
    print_answer(list(map(_as_plain, summaries)), _list_lines(folder, summaries), as_json=arguments.json)
    return 0


def _list_lines(folder: Path, summaries: list[RunSummary]) -> Iterator[str]:
    if summaries:
        size = formats.memory(sum(RunSizes().of(summary.run) for summary in summaries))
        count = formats.counted(len(summaries), "run")
        total = _("{count}, {size} in {folder}").format(count=count, size=size, folder=folder)
        titles = Counter(summary.title for summary in summaries)
        rows = [_row(summary, with_id=titles[summary.title] > 1) for summary in summaries]
        yield from (formats.table(TITLES, rows), "", total)
        return
    place = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if place.is_dir() and os.access(place, os.W_OK):
        yield _("No runs yet in {folder}. `hone train RUN.hone` makes one.").format(folder=folder)
    else:
        yield _(
            "No runs yet in {folder}, and none can be made: {place} is not a folder that you may write to. Change "
            "that, or set HONE_HOME to another folder."
        ).format(folder=folder, place=place)


def _row(summary: RunSummary, *, with_id: bool) -> tuple[str, ...]:
    """Returns the cells of `TITLES`; `with_id`: the folder's name beside the run's."""
    total = summary.total_steps
    is_partly = total is not None and summary.steps < total
    return (
        formats.with_note(
            summary.title, summary.run.name if with_id and summary.title != summary.run.name else ""
        ),
        state_word(summary),
        _("{step:,} of {total:,}").format(step=summary.steps, total=total)
        if is_partly
        else f"{summary.steps:,}",
        _result(summary),
        formats.duration(summary.seconds),
        formats.memory(summary.peak_bytes),
        formats.full_moment(summary.started),
        summary.model or _("(unreadable)"),
        summary.data or formats.MISSING,
    )


def _result(summary: RunSummary) -> str:
    return formats.metric(summary.metric, summary.result) if summary.metric else formats.MISSING


def _as_plain(summary: RunSummary) -> dict[str, Any]:
    return {
        "folder": str(summary.run.path),
        **{name: value for name, value in vars(summary).items() if name != "run"},
    }


def delete(names: list[str], *, agreed: bool, permanently: bool) -> int:
    """Moves runs to the trash, or deletes them; returns 0 if all of them are gone."""
    if not names:
        refuse(_("name the runs to delete"))
    named = [find_run(name, is_whole=True) for name in names]
    plan = trash.plan(list(dict.fromkeys(named)), settings.runs_folder())
    for title in plan.busy:
        note(_("{title} isn't over and is not deleted. `hone stop` ends it.").format(title=title))
    if not plan.going:
        return 1
    for item in plan.going:
        say(f"{item.run.name}  {item.title}  {formats.memory(item.size)}")
    for item in plan.needed:
        say(
            _("Note: {names} started from the model of {title}.").format(
                names=", ".join(item.needed_by), title=item.title
            )
        )
    say(f"{formats.counted(len(plan.going), 'run')}, {formats.memory(plan.size)}")
    if not agreed and not confirm(_("Delete permanently?") if permanently else _("Move to the trash?")):
        say(_("Nothing was deleted."))
        return 1
    gone = [_delete(item.run, agreed=agreed, permanently=permanently) for item in plan.going]
    return 0 if all(gone) and not plan.busy else 1


def _delete(run: RunFolder, *, agreed: bool, permanently: bool) -> bool:
    remove_there = removal_there(run)
    is_gone = _delete_here(run, agreed=agreed, permanently=permanently)
    if is_gone and (reason := remove_there()):
        note(reason)
    return is_gone


def _delete_here(run: RunFolder, *, agreed: bool, permanently: bool) -> bool:
    if not permanently:
        try:
            trash.move(run)
            return True
        except trash.NoTrashError as error:
            note(error)
        question = _("Delete {name} permanently? It can't be restored.").format(name=run.name)
        if agreed or not sys.stdin.isatty():
            command = f"hone runs --delete --permanently {run.name}"
            note(_("`{command}` deletes it; it can't be restored then.").format(command=command))
            return False
        if not confirm(question):
            return False
    trash.delete(run)
    return True


def compare_runs(names: list[str], *, as_json: bool) -> int:
    """Prints the results of runs, the options in which they differ, and what else differs."""
    if not FEWEST <= len(names) <= MOST:
        refuse(
            _("name {least} to {most} runs to compare, not {count}").format(
                least=FEWEST, most=MOST, count=len(names)
            )
        )
    chosen = [find_run(name) for name in names]
    for place, run in enumerate(chosen):
        if run.path in [other.path for other in chosen[:place]]:
            refuse(_("{name} is named twice; name each run once").format(name=run.name))
    comparison = compare(chosen)
    summaries = comparison.runs
    answer = {
        "runs": [str(summary.run.path) for summary in summaries],
        "results": [{name: getattr(summary, name) for name in RESULTS} for summary in summaries],
        "options": {
            row.option.path: [None if isinstance(value, Absent) else value for value in row.values]
            for row in comparison.options
        },
        "ran": {row.title: [value or None for value in row.values] for row in comparison.ran},
    }
    numbers = tuple(str(place) for place in range(1, len(summaries) + 1))
    is_unclear = len({summary.title for summary in summaries}) < len(summaries)
    results = [
        (number, *_row(one, with_id=is_unclear)[:OF_RESULTS], formats.rate(one.samples_per_second))
        for number, one in zip(numbers, summaries, strict=True)
    ]
    options = [
        (row.option.path, *(_value_text(row.option, value) for value in row.values))
        for row in comparison.options
    ]
    ran = [(row.title, *row.values) for row in comparison.ran]
    parts = [formats.table(("", *TITLES[:OF_RESULTS], _("Speed")), results)]
    parts += (unread := [summary.problem for summary in summaries if summary.problem])
    if options:
        parts.append(formats.table((_("Option"), *numbers), options))
    elif not unread:
        parts.append(_("Their options are the same."))
    if ran:
        parts.append(formats.table((_("What ran"), *numbers), ran))
    parts += [comparison.conclusion] if comparison.conclusion else []
    print_answer(answer, ["\n\n".join(parts)], as_json=as_json)
    return 0


def _value_text(option: Option, value: Any) -> str:
    """Returns a value as in a run file, a share in percent."""
    match option.kind, value:
        case _, Absent.NO_MEANING:
            return formats.MISSING
        case _, Absent():
            return "?"
        case _, None:
            return "none"
        case OptionKind.SWITCH, _:
            return "true" if value else "false"
        case OptionKind.TEXTS, _:
            return ", ".join(value)
        case OptionKind.PAIRS, _:
            return ", ".join(f"{name}={text}" for name, text in value.items())
        case OptionKind.NUMBER, _:
            return number_words(option, value)
    return str(value)


# --- hone show


def show(arguments: argparse.Namespace) -> int:
    run = find_run(arguments.name)
    if arguments.predictions:
        return show_predictions(run, as_json=arguments.json)
    if arguments.support:
        return write_support_file(run, arguments.support)
    if arguments.tag or arguments.untag or arguments.rename is not None or arguments.note is not None:
        return change_notes(run, arguments)
    summary = summarize(run)
    print_answer(_as_plain(summary), _run_lines(run, summary), as_json=arguments.json)
    return 0


def _run_lines(run: RunFolder, summary: RunSummary) -> Iterator[str]:
    status = read_status(run)
    is_over = summary.state.is_over
    lines = [
        formats.titled(summary.title, state_word(summary)),
        summary.problem,
        formats.table(TITLES, [_row(summary, with_id=True)]),
        _("Tags: {tags}").format(tags=" ".join(summary.tags)) if summary.tags else "",
        _("Note: {text}").format(text=summary.note) if summary.note else "",
        what_ran_text(status) if status.what_ran is not None else "",
        time_spent_text(status.time_spent),
    ]
    lines += [
        message_text(message, run.path, is_over=is_over)
        for message in filter(
            None, (unread_message(status), kept_message(run.connection()), *status.messages.values())
        )
        if not (is_over and message.level is Level.ERROR)  # it is part of the ending
    ]
    if is_over:
        lines.append(ending_text(run, status, summary.state, run.exit_record()))
        lines.append(evaluations_text(status, summary.seconds))
        if (judged := verdict(status, run.readable_options())) is not None:
            said = formats.paragraph(judged.title, judged.detail)
            lines += [said, *(fix_text(fix, run.path) for fix in judged.fixes)]
    elif summary.state is State.QUEUED:
        lines.append(queued_text(run, status))
    lines.append(_("All its files are in {path}").format(path=run.path))
    yield from (line for line in lines if line)


def change_notes(run: RunFolder, arguments: argparse.Namespace) -> int:
    if not all(tag.strip() for tag in (*arguments.tag, *arguments.untag)):
        refuse(_("a tag can't be empty"))
    notes = retagged(past_runs.read(run.path), arguments.tag, arguments.untag)
    if arguments.rename is not None:
        notes = msgspec.structs.replace(notes, title=" ".join(arguments.rename.split()))
    if arguments.note is not None:
        notes = msgspec.structs.replace(notes, text=arguments.note.strip())
    write_notes(run.path, notes)
    say(_("{name} is called “{title}”").format(name=run.name, title=summarize(run).title))
    say(_("Tags: {tags}").format(tags=" ".join(notes.tags) or _("none")))
    say(_("Note: {text}").format(text=notes.text or _("none")))
    return 0


def write_support_file(run: RunFolder, target: str) -> int:
    """Writes a run's support file, or prints its content."""
    if target == "-":
        for file in support.collect(run):
            say(f"===== {file.name}{f' ({file.note})' if file.note else ''}\n{file.text}")
    else:
        new_file(Path(target))
        support.save(support.collect(run), Path(target))
        note("\n".join((support.WORDS, _("The support file is in {target}").format(target=target))))
    return 0


def show_predictions(run: RunFolder, *, as_json: bool) -> int:
    """Prints each example with its label and the first and last prediction."""
    log, reader = PredictionLog(), EventReader(run.events_file)
    log.apply_all(reader.read_all())
    if reader.trouble:
        raise RunFolderError(_("The run can't be read"), reader.trouble)
    answer = {"examples": log.examples, "told": log.predicted, "confusion": log.confusion}
    print_answer(answer, _prediction_lines(log), as_json=as_json)
    return 0


def _prediction_lines(log: PredictionLog) -> list[str]:
    if not log.predicted:
        return [_("This run saved no predictions.")]
    lines, first, last = [], log.predicted[0], log.predicted[-1]
    for number, example in enumerate(log.examples):
        place = f"{example.where}: " if example.where else ""
        given = example.shown or example.file or example.image
        lines.append(_shorten(f"{number + 1:>3} {place}", given))
        if example.expected:
            lines.append(_shorten(_("    expected:        "), example.expected))
        lines += [
            _shorten(f"    {_moment(predicted, log) + ':':<17}", said_text(predicted, number))
            for predicted in ((first, last) if last is not first else (last,))
        ]
        lines.append("")
    rows = []
    for predicted in log.predicted:
        if judged := [said.right for said in predicted.said if said.right is not None]:
            right = _("{right} of {count}").format(right=sum(judged), count=len(judged))
            rows.append((_moment(predicted, log), right))
    if rows:
        lines.append(formats.table((_("Evaluated"), _("Right")), rows))
    if log.confusion is not None and (counted := log.confusion.each_label):
        lines += ["", formats.table(tuple(FIGURES_OF_LABEL), [figures_of(one) for one in counted])]
    return lines


def _shorten(head: str, text: str) -> str:
    width = PREDICTION_WIDTH - len(head)
    return head + textwrap.shorten(formats.visible(" ".join(text.split())), width, placeholder=" …")


def _moment(predicted: Predicted, log: PredictionLog) -> str:
    if log.is_test:
        return _("test")
    return _("before training") if predicted.step == 0 else _("step {step:,}").format(step=predicted.step)
