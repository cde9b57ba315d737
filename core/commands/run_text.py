"""What there is to say about a run in plain text: its messages, and how it ended."""

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core import checkpoint_files, figures, settings
from core.crash import Crash, crash_before, crash_of
from core.errors import Fix, FixAction, OptionsError, UserError
from core.events import Level, MessageRaised
from core.memory.shortage import out_of_memory
from core.run_folder import ExitRecord, RunFolder
from core.run_summary import seconds_spent
from core.state import OUTCOMES
from core.statements import Statement, statements
from core.story import RunStory, State, TimeSpent
from core.trained_model import is_left_behind, trained_model

VALUE_WIDTH = 60
"""Characters of a value before the column of reasons; a longer one goes on below."""

_COMMANDS = {
    FixAction.STOP: "stop",
    FixAction.END: "stop --now",
    FixAction.PAUSE: "pause",
    FixAction.RESUME: "resume",
}
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
    name = "RUN" if run is None else name_of(RunFolder(run))
    return f"hone {_COMMANDS[action]} {shlex.quote(name)}"


def changes_text(changes: Mapping[str, Any]) -> str:
    """Changed options, as `--set` takes them."""
    return " ".join(f"--set {shlex.quote(f'{path}={_value(value)}')}" for path, value in changes.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)


def unread_text(story: RunStory) -> str:
    """What of a run could not be read; empty where all of it was."""
    if story.is_of_newer_hone:
        return "Note: a newer Hone wrote this run; there may be more to it than is shown."
    if story.trouble:
        return f"Note: not all of what happened can be read: {story.trouble}"
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


def what_ran_text(story: RunStory) -> str:
    """What actually ran, a line a statement, with the reason where it was left to Hone; long values take several."""
    told = statements(story.what_ran, figures.size, story.versions, story)
    rows = [row for found in told for row in _statement_rows(found)]
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
    if state in (State.FINISHED, State.STOPPED, State.PAUSED):
        return "\n".join((*errors, *_result(run, story, state, record), *_going_on(run, story, state)))
    if record is not None and record.out_of_memory:
        errors.append(error_text(_shortage(run, story)))
    if errors and state is State.FAILED:
        return "\n".join(("The run failed.", *errors, *_going_on(run, story, state)))
    crash = crash_of(run, story, record)
    title = "The run failed." if state is State.FAILED else crash.title
    return "\n".join((title, *errors, *_evidence(run, crash), *_going_on(run, story, state)))


def _result(run: RunFolder, story: RunStory, state: State, record: ExitRecord | None) -> Iterator[str]:
    finished = story.finished
    if finished is None or OUTCOMES[finished.state] is not state:  # that was said by an earlier attempt
        yield record.reason if record is not None and record.code is None else "Ended at once, as asked."
        yield from _standing(run, story, record)
        return
    word = state.value.capitalize()
    result = f": {figures.metrics(finished.metrics)}" if finished.metrics else ""
    seconds = seconds_spent(story, state, record, now=0.0) or finished.seconds
    yield f"{word} after {figures.counted(finished.steps, 'step')} in {figures.duration(seconds)}{result}"
    if story.metrics and not finished.metrics and story.evaluated_at is not None:
        yield f"Last evaluated at step {story.evaluated_at:,}: {figures.metrics(story.metrics)}"
    if finished.samples_per_second is not None:
        stretch = " in its last stretch" if story.attempt > 1 else ""
        yield f"{figures.number(finished.samples_per_second)} samples a second{stretch}{_memory(story)}"
    yield from _where_model_is(run)


def _standing(run: RunFolder, story: RunStory, record: ExitRecord | None) -> Iterator[str]:
    """Where a run stands that another attempt was to go on with, and how the one before crashed."""
    if story.step:
        of_all = f" of {story.total_steps:,}" if story.total_steps else ""
        yield f"It stands at step {story.step:,}{of_all}."
    yield from _where_model_is(run)
    crash = crash_before(run, story, record)
    if crash is not None:
        yield f"Before that: {crash.title}"
        yield from _evidence(run, crash)


def queued_text(run: RunFolder, story: RunStory) -> str:
    """Where a run that waits will go on once its turn has come; empty for one that has never begun."""
    if not story.attempt:
        return ""
    saved = checkpoint_files.newest(run)
    if saved is None:
        return "Once its turn has come it begins anew: it has no complete checkpoint."
    return f"Once its turn has come it goes on from step {saved.step:,}, its newest complete checkpoint."


def _where_model_is(run: RunFolder) -> Iterator[str]:
    """Where the trained model is, and of which step where that isn't the last."""
    newest = trained_model(run)
    if newest is None:
        return
    if not newest.is_checkpoint:
        of_step = f", and is of step {newest.step:,}" if newest.has_gone_on else ""
        yield f"The model is in {newest.folder}{of_step}"
        return
    yield f"Its newest weights, of step {newest.step:,}, are in {newest.folder}"
    if is_left_behind(run):
        yield f"The model in {run.model} is older: it was written before the run went on."


def _shortage(run: RunFolder, story: RunStory) -> UserError:
    """What to say of a run that the operating system ended for lack of memory."""
    try:
        return out_of_memory(run.options(), story.forecast)
    except OptionsError as error:
        return error


def _memory(story: RunStory) -> str:
    """The most memory the run held."""
    if story.peak_bytes is None:
        return ""
    return f", {figures.megabytes(story.peak_bytes)} of memory at most"


def _evidence(run: RunFolder, crash: Crash) -> Iterator[str]:
    yield crash.reason
    if crash.log_tail:
        yield "The end of its log:"
        yield from ("    " + line for line in crash.log_tail.splitlines())
    yield f"The whole log: {run.log_file}"


def _going_on(run: RunFolder, story: RunStory, state: State) -> Iterator[str]:
    """How to go on with a run that ended before it was done, and from where."""
    if not state.can_resume:
        return
    try:
        run.options()
    except OptionsError as error:
        yield f"It can't be resumed. {run.options_file}: {error.detail}"
        return
    saved = checkpoint_files.newest(run)
    command = f"`hone resume {shlex.quote(name_of(run))}`"
    if saved is not None:
        yield f"{command} goes on from step {saved.step:,}, its newest complete checkpoint."
    elif state in (State.PAUSED, State.CRASHED) or story.finished is None:
        yield f"{command} begins anew: it has no complete checkpoint."


def name_of(run: RunFolder) -> str:
    """What `hone show` and its like call a run: its name among all runs, else its folder."""
    return run.name if run.path.parent == settings.runs_folder() else str(run.path)
