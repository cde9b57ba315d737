"""What there is to say about a run in plain text: its messages, and how it ended."""

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core import figures, settings
from core.errors import Fix, FixAction, OptionsError, UserError
from core.events import Level, MessageRaised, WhatRan
from core.memory.shortage import out_of_memory
from core.run_folder import ExitRecord, RunFolder
from core.statements import Statement, statements
from core.story import RunStory, State, TimeSpent

VALUE_WIDTH = 60
"""Characters of a value before the column of reasons; a longer one goes on below."""

_LEVELS = {Level.INFO: "Note", Level.WARNING: "Warning", Level.ERROR: "Error"}


def message_text(message: MessageRaised, run: Path | None = None, *, is_over: bool = False) -> str:
    """A message with its detail and its fixes, a line each.

    Args:
        message: The message.
        run: The run's folder, for the commands that act on it; None: `RUN` stands for it.
        is_over: Whether the run is over, so that it can't be ended.
    """
    fixes = [fix for fix in message.fixes if not (is_over and fix.action and fix.action.is_end)]
    lines = [f"{_LEVELS[message.level]}: {message.title}", message.detail]
    lines += [fix_text(fix, run) for fix in fixes]
    return "\n".join(line for line in lines if line)


def error_text(error: UserError) -> str:
    """An error with its detail and its fixes; of a wrong request every problem with its own fixes."""
    lines = [error.title]
    if isinstance(error, OptionsError):
        for problem in error.problems:
            lines += [f"  {problem}", *("  " + fix_text(fix) for fix in problem.fixes)]
    else:
        lines.append(error.detail)
    lines += map(fix_text, error.fixes)
    return "\n".join(line for line in lines if line)


def fix_text(fix: Fix, run: Path | None = None) -> str:
    """What to try, with the options it sets as `--set` takes them, or the command that does it."""
    how = changes_text(fix.changes) if fix.action is None else _action_text(fix.action, run)
    return f"  Try: {fix.label}" + (f" ({how})" if how else "")


def _action_text(action: FixAction, run: Path | None) -> str:
    if action is FixAction.REVEAL:
        return str(run or "")
    name = "RUN" if run is None else run.name if run.parent == settings.runs_folder() else str(run)
    return f"hone stop {'--now ' if action is FixAction.END else ''}{shlex.quote(name)}"


def changes_text(changes: Mapping[str, Any]) -> str:
    """Changed options, as `--set` takes them."""
    return " ".join(f"--set {shlex.quote(f'{path}={_value(value)}')}" for path, value in changes.items())


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)


def unread_text(story: RunStory) -> str:
    """What of a run could not be read; empty where all of it was."""
    if story.is_of_newer_hone:
        return "Note: a newer Hone wrote this run; there may be more to it than is shown."
    if story.skipped:
        return f"Note: {figures.counted(story.skipped, 'line')} of what happened can't be read and left out."
    return ""


def time_spent_text(spent: TimeSpent | None) -> str:
    """Where the time of the last steps went; empty where none was taken apart."""
    if spent is None:
        return ""
    parts = {
        "waiting for data": spent.data,
        "forward": spent.forward,
        "backward": spent.backward,
        "optimizer": spent.optimizer,
        "the rest": spent.rest,
    }
    shares = ", ".join(f"{name} {share:.0%}" for name, share in parts.items())
    return f"A step's time goes into: {shares}"


def what_ran_text(ran: WhatRan, versions: Mapping[str, str]) -> str:
    """What actually ran, a line a statement, with the reason where it was left to Hone; long values take several."""
    rows = [row for found in statements(ran, figures.size, versions) for row in _statement_rows(found)]
    return f"\n{figures.table(('WHAT RAN', '', 'BECAUSE'), rows)}\n"


def _statement_rows(found: Statement) -> Iterator[tuple[str, str, str]]:
    lines = textwrap.wrap(found.value, VALUE_WIDTH, break_long_words=False, break_on_hyphens=False)
    first, *others = lines or [""]
    yield found.title, first, found.reason
    for line in others:
        yield "", line, ""


def ending_text(run: RunFolder, story: RunStory, state: State, record: ExitRecord | None) -> str:
    """How a run that is over ended: its figures and its model, or why it has none."""
    errors = [
        message_text(found, run.path, is_over=True)
        for found in story.messages.values()
        if found.level is Level.ERROR
    ]
    if state in (State.FINISHED, State.STOPPED):
        return "\n".join((*errors, *_result(run, story, state)))
    if record is not None and record.out_of_memory:
        errors.append(error_text(_shortage(run, story)))
    title = "The run failed." if state is State.FAILED else _crash_title(record)
    if errors and state is State.FAILED:
        return "\n".join((title, *errors))
    return "\n".join((title, *errors, *_evidence(run, record)))


def _result(run: RunFolder, story: RunStory, state: State) -> Iterator[str]:
    finished = story.finished
    if finished is None:
        yield "Ended at once, as asked. What it had saved before is kept."
        return
    word = "Finished" if state is State.FINISHED else "Stopped"
    result = f": {figures.metrics(finished.metrics)}" if finished.metrics else ""
    yield f"{word} after {figures.counted(finished.steps, 'step')} in {figures.duration(finished.seconds)}{result}"
    if story.metrics and not finished.metrics and story.evaluated_at is not None:
        yield f"Last evaluated at step {story.evaluated_at:,}: {figures.metrics(story.metrics)}"
    if finished.samples_per_second is not None:
        yield f"{figures.number(finished.samples_per_second)} samples a second{_memory(story)}"
    if run.model.is_dir():
        yield f"The model is in {run.model}"


def _shortage(run: RunFolder, story: RunStory) -> UserError:
    """What to say of a run that the operating system ended for lack of memory."""
    try:
        return out_of_memory(run.options(), story.forecast)
    except OptionsError as error:
        return error


def _memory(story: RunStory) -> str:
    """The most memory the run held, and how far off the forecast was."""
    if story.peak_bytes is None:
        return ""
    most = f", {figures.megabytes(story.peak_bytes)} of memory at most"
    error = story.forecast_error
    if error is None:
        return most
    return f"{most} (forecast: {figures.megabytes(story.forecast_bytes or 0)}, {error:+.0%})"


def _crash_title(record: ExitRecord | None) -> str:
    if record is None:
        return "The training process is gone, and nobody was left to see how."
    if record.signal is not None:
        return f"The training process was ended by {record.signal}."
    return "The training process ended before the run was over."


def _evidence(run: RunFolder, record: ExitRecord | None) -> Iterator[str]:
    if record is not None:
        yield record.reason
        if record.log_tail:
            yield "The end of its log:"
            yield from ("    " + line for line in record.log_tail.splitlines())
    yield f"The whole log: {run.log_file}"
