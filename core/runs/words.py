"""Sentences about a run: out of memory, what ran, messages and how it ended.

PyTorch's own advice for MPS, to remove the memory limit, "may cause system failure" in its own words: it is never
passed on.
"""

import re
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from core.base import formats, settings
from core.base.errors import Fix, FixAction, OptionsError, OutOfMemory, UserError
from core.memory.model import PART_TITLES, Basis, ModelReport, ModelShape
from core.memory.remedies import Asked, checkpointing, less_to_see, small_matrices, smaller_batches
from core.options import RunOptions
from core.options.catalogue import options_by_path
from core.options.choices import device_title
from core.options.device_support import DeviceReport
from core.runs import models
from core.runs.crash import Crash, crash_before, crash_of
from core.runs.events import Level, MemoryForecast, MessageRaised, WhatRan
from core.runs.folder import ExitRecord, RunFolder
from core.runs.models import is_left_behind, trained_model
from core.runs.status import OUTCOMES, RunStory, State, TimeSpent
from core.runs.summary import seconds_spent

# --- Out of memory


ONLY_IF_IT_FITS = "HONE_ONLY_IF_IT_FITS"
"""In the environment of a run that is to end where its forecast doesn't fit: nobody has agreed to that."""

UNKNOWN_MODEL = ModelReport(activation_checkpointing=True)
UNKNOWN_DEVICE = DeviceReport(name="", title="", available=True)
"""What remedies are asked about where nobody has looked at either yet: a model that can do what most can."""

_TRIED = re.compile(r"tried to allocate\s+([\d.]+)\s*(bytes|[KMG]i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def out_of_memory(options: RunOptions, forecast: MemoryForecast | None, report: str = "") -> OutOfMemory:
    """The error to show.

    Args:
        options: What was asked.
        forecast: What the run was told to take; None where memory ran out before that.
        report: What torch or the operating system said.
    """
    sentences = [
        f"{_batch(options, forecast)} didn't fit.",
        *forecast_sentences(forecast),
        *_asked_for(report),
    ]
    fixes = forecast.fixes if forecast is not None and forecast.fixes else tuple(first_aid(options))
    return OutOfMemory("Memory ran out", " ".join(sentences), fixes)


def first_aid(options: RunOptions) -> Iterator[Fix]:
    """What to do where nothing is known of the model or how much there is: of the ladder what suits nearly all."""
    asked = Asked(options, UNKNOWN_MODEL, ModelShape(parameters=0), UNKNOWN_DEVICE)
    yield from _half_the_batch(asked)
    for step in (*checkpointing(asked), *small_matrices(asked), *less_to_see(asked)):
        yield Fix(step.title, dict(step.changes))


def _half_the_batch(asked: Asked) -> Iterator[Fix]:
    """The first of the smaller batches, its effect said in the label: a fix has no other place for it."""
    for step in islice(smaller_batches(asked), 1):
        half, before = step.changes["memory.batch_size"], asked.options.effective_batch
        samples = half * step.changes["memory.gradient_accumulation_steps"]
        effect = "to the same effect" if samples == before else f"to {samples} rows instead of {before}"
        yield Fix(f"Batches of {half}, accumulated {effect}", dict(step.changes))


def _batch(options: RunOptions, forecast: MemoryForecast | None) -> str:
    count = options.memory.batch_size
    batch = "A batch of 1 row" if count == 1 else f"A batch of {count:,} rows"
    length = f" of up to {forecast.length:,} tokens" if forecast is not None and forecast.length else ""
    return f"{batch}{length}"


def forecast_sentences(forecast: MemoryForecast | None, *, before: bool = False) -> Iterator[str]:
    """What a run was told to take, what was free, and its largest part, in sentences; nothing without a forecast.

    `before` says it of a run that is yet to start.
    """
    if forecast is None:
        return
    parts = forecast.parts
    told = "as measured before" if forecast.basis is Basis.MEASURED else "by forecast"
    room = forecast.room
    needs, are = ("needs", "are") if before else ("was to take", "were")
    free = f", and {formats.size(room.free)} of {formats.size(room.ceiling)} {are} free" if room else ""
    yield f"The run {needs} {formats.size(parts.total)} {told}{free}."
    title, held = PART_TITLES[parts.largest], getattr(parts, parts.largest)
    yield f"Its largest part: {title[0].lower()}{title[1:]}, {formats.size(held)}."


def _asked_for(report: str) -> Iterator[str]:
    """The one allocation that failed, where torch tells its size."""
    found = _TRIED.search(report)
    if found:
        unit = (found.group(2) or "").lower().removeprefix("bytes")[:1]
        yield f"What could not be had were {formats.size(float(found.group(1)) * _UNITS[unit])} more."


# --- What ran


SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "uint8": "8-bit", "int8": "8-bit"}

OLD_PATHS = {"device": "device.name", "precision": "device.precision"}
"""How the first runs named the options in their reasons."""

AS_ASKED = "as asked"
"""The reason that says nothing."""

Size = Callable[[float], str]
"""Writes bytes as a person reads them."""


@dataclass(frozen=True)
class Statement:
    """One line below the heading `group`. `reason` says why it came out so; empty: nothing had to be chosen."""

    group: str
    title: str
    value: str
    reason: str = ""


def statements(
    ran: WhatRan | None,
    size: Size,
    versions: Mapping[str, str] | None = None,
    story: RunStory | None = None,
) -> tuple[Statement, ...]:
    """Everything that is known of what ran; what isn't known has no line, and each reason is told once.

    Args:
        ran: The event; None: it has not been told yet.
        size: Writes bytes.
        versions: The libraries' versions by name.
        story: Tells how far off the memory forecast was, once that is known; None: leave it out.
    """
    told = tuple(_of_run(ran, size, story)) if ran is not None else ()
    if not versions:
        return told
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (*told, Statement("Software", "Versions", listed))


def dtypes(names: str) -> str:
    """PyTorch's names of number formats as people call them: `float32 + bfloat16` is `fp32 + bf16`."""
    return " + ".join(SHORT.get(name, name) for name in names.removeprefix("torch.").split(" + "))


class _Reasons:
    """The reasons by option. Each is taken by the line it is about; the others make lines of their own."""

    def __init__(self, ran: WhatRan) -> None:
        self._left = {
            OLD_PATHS.get(path, path): told for path, told in ran.reasons.items() if told != AS_ASKED
        }

    def take(self, path: str) -> str:
        """Why an option came to its value, which its line says itself."""
        return _split(self._left.pop(path, ""))[1]

    def rest(self) -> Iterator[Statement]:
        """What was chosen beside all that has a line."""
        for path, told in self._left.items():
            option = options_by_path().get(path)
            title = option.title if option else path.rpartition(".")[2].replace("_", " ").capitalize()
            value, why = _split(told)
            yield Statement("Chosen by Hone", title, value or why, why if value else "")


def _of_run(ran: WhatRan, size: Size, story: RunStory | None) -> Iterator[Statement]:
    why = _Reasons(ran)
    yield from _device(ran, why)
    yield from _process(ran, why)
    yield from _model(ran, why)
    yield from _optimizer(ran, size, why)
    yield from _data(ran, why)
    yield from _memory(ran)
    if story is not None:
        yield from _forecast(story, size)
    yield from why.rest()


def _device(ran: WhatRan, why: _Reasons) -> Iterator[Statement]:
    group = "Device and precision"
    title = device_title(ran.device)
    name = title if ran.device_name in ("", ran.device) else f"{title} ({ran.device_name})"
    yield Statement(group, "Device", name, why.take("device.name"))
    yield Statement(group, "Weights", dtypes(ran.parameter_dtype))
    yield Statement(group, "Computed in", _computed(ran), why.take("device.precision"))
    if ran.autocast_dtype and ran.matmul not in ("", "fp32"):
        yield Statement(group, "fp32 multiplied as", ran.matmul)
    if ran.loss_scale is not None:
        yield Statement(group, "Loss scale", f"{ran.loss_scale:,.10g}")


def _process(ran: WhatRan, why: _Reasons) -> Iterator[Statement]:
    group = "Device and precision"
    if ran.threads is not None:
        yield Statement(group, "CPU threads", f"{ran.threads:,}", why.take("device.threads"))
    if ran.compiled:
        took = f", in {ran.compile_seconds:,.0f} s" if ran.compile_seconds is not None else ""
        yield Statement(group, "Compiled by", f"{ran.compiled}{took}")
    if ran.fell_back:
        lacks = "the device has no such operators; each waits for the CPU"
        yield Statement(group, "Computed on the CPU", ", ".join(ran.fell_back), lacks)
    if ran.deterministic:
        yield Statement(group, "Repeatability", "only kernels that give the same bits every time")


def _model(ran: WhatRan, why: _Reasons) -> Iterator[Statement]:
    group = "Model"
    yield Statement(group, "Trained", _trained(ran))
    if ran.adapter:
        yield Statement(group, "Adapter", ran.adapter)
    if ran.packed_parameters:
        bits = "4 bits" if "nf4" in ran.adapter else "8 bits"
        yield Statement(group, "Packed", f"{ran.packed_parameters:,} weights in {bits}")
    if ran.attention:
        yield Statement(group, "Attention", ran.attention, why.take("model.attention"))


def _optimizer(ran: WhatRan, size: Size, why: _Reasons) -> Iterator[Statement]:
    group = "Training"
    yield Statement(group, "Optimizer", ran.optimizer, why.take("training.optimizer"))
    yield Statement(group, "Optimizer state", _state(ran, size))
    if ran.decayed_parameters is not None:
        reached = f"on {ran.decayed_parameters:,} of the {ran.trainable_parameters:,} that are trained"
        is_part = 0 < ran.decayed_parameters < ran.trainable_parameters
        left_out = "biases and norms are left out" if is_part else ""
        yield Statement(group, "Weight decay", reached if ran.decayed_parameters else "none", left_out)


def _data(ran: WhatRan, why: _Reasons) -> Iterator[Statement]:
    group = "Data"
    yield Statement(group, "Effective batch", _effective(ran))
    if ran.padded_to:
        yield Statement(group, "Padded to", ran.padded_to)
    if ran.sampling:
        yield Statement(group, "Order", ran.sampling, why.take("data.group_by_length"))
    yield Statement(group, "Workers", _workers(ran), why.take("data.workers"))
    if ran.pinned:
        yield Statement(group, "Pinned memory", "yes", why.take("data.pin_memory"))


def _memory(ran: WhatRan) -> Iterator[Statement]:
    if ran.recomputed:
        layers = f"of {_counted(ran.recomputed, 'layer')} computed again for the gradients"
        yield Statement("Memory", "Activations", layers)
    if ran.deepspeed:
        yield Statement("Memory", "DeepSpeed", ran.deepspeed)


def _forecast(story: RunStory, size: Size) -> Iterator[Statement]:
    error, told, peak = story.forecast_error, story.forecast_bytes, story.peak_bytes
    if error is not None and told is not None and peak is not None:
        side = "above" if error > 0 else "below"
        yield Statement(
            "Memory", "Forecast", size(told), f"{100 * abs(error):.0f} % {side} the peak of {size(peak)}"
        )


def _computed(ran: WhatRan) -> str:
    if ran.autocast_dtype:
        return f"{dtypes(ran.autocast_dtype)} (autocast)"
    return ran.matmul or dtypes(ran.parameter_dtype)


def _trained(ran: WhatRan) -> str:
    of_all = f"{ran.trainable_parameters:,} of {ran.total_parameters:,} weights"
    if ran.trainable_parameters == ran.total_parameters:
        return of_all
    return f"{of_all} ({100 * ran.trainable_parameters / max(1, ran.total_parameters):.3g} %)"


def _state(ran: WhatRan, size: Size) -> str:
    total = size(ran.optimizer_state_bytes)
    if len(ran.optimizer_state) > 1:
        parts = ", ".join(f"{dtypes(name)} {size(count)}" for name, count in ran.optimizer_state.items())
        return f"{total} ({parts})"
    return " in ".join((total, *map(dtypes, ran.optimizer_state)))


def _effective(ran: WhatRan) -> str:
    samples = _counted(ran.effective_batch, "sample")
    if ran.batches_per_step == 1:
        return samples
    return f"{ran.effective_batch // ran.batches_per_step:,} × {ran.batches_per_step:,} = {samples}"


def _workers(ran: WhatRan) -> str:
    if not ran.workers:
        return "none: loaded by the training process"
    count = _counted(len(ran.workers), "process", "processes")
    return f"{count} ({ran.worker_start})" if ran.worker_start else count


def _counted(count: int, noun: str, several: str = "") -> str:
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def _split(told: str) -> tuple[str, str]:
    """A reason's value and its words: `bf16: this GPU computes it` begins with the value; others have none."""
    value, colon, why = told.partition(": ")
    return (value, why) if colon and " " not in value else ("", told)


# --- Messages and results


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
        return f"Note: {formats.counted(story.skipped, 'line')} of what happened can't be read and left out."
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
    told = statements(story.what_ran, formats.size, story.versions, story)
    rows = [row for found in told for row in _statement_rows(found)]
    return f"\n{formats.table(('WHAT RAN', '', 'BECAUSE'), rows)}\n"


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
    result = f": {formats.metrics(finished.metrics)}" if finished.metrics else ""
    seconds = seconds_spent(story, state, record, now=0.0) or finished.seconds
    yield f"{word} after {formats.counted(finished.steps, 'step')} in {formats.plain_duration(seconds)}{result}"
    if story.metrics and not finished.metrics and story.evaluated_at is not None:
        yield f"Last evaluated at step {story.evaluated_at:,}: {formats.metrics(story.metrics)}"
    if finished.samples_per_second is not None:
        stretch = " in its last stretch" if story.attempt > 1 else ""
        yield f"{formats.number(finished.samples_per_second)} samples a second{stretch}{_peak_memory(story)}"
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
    saved = models.newest(run)
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


def _peak_memory(story: RunStory) -> str:
    """The most memory the run held."""
    if story.peak_bytes is None:
        return ""
    return f", {formats.megabytes(story.peak_bytes)} of memory at most"


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
    saved = models.newest(run)
    command = f"`hone resume {shlex.quote(name_of(run))}`"
    if saved is not None:
        yield f"{command} goes on from step {saved.step:,}, its newest complete checkpoint."
    elif state in (State.PAUSED, State.CRASHED) or story.finished is None:
        yield f"{command} begins anew: it has no complete checkpoint."


def name_of(run: RunFolder) -> str:
    """What `hone show` and its like call a run: its name among all runs, else its folder."""
    return run.name if run.path.parent == settings.runs_folder() else str(run.path)
