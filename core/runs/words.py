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
from core.base.language import _
from core.memory.model import PART_TITLES, Basis, ModelReport, ModelShape
from core.memory.remedies import Asked, checkpointing, less_to_see, small_matrices, smaller_batches
from core.options import RunOptions
from core.options.catalogue import options_by_path
from core.options.choices import device_title
from core.options.device_support import DeviceReport
from core.runs import models
from core.runs.crash import Crash, crash_before, crash_of
from core.runs.events import Level, MemoryForecast, MessageRaised, RunFinished, WhatRan
from core.runs.folder import ExitRecord, RunFolder
from core.runs.models import is_left_behind, trained_model
from core.runs.status import RunStatus, State
from core.runs.summary import seconds_spent

ONLY_IF_IT_FITS = "HONE_ONLY_IF_IT_FITS"
"""In the environment of a run that is to end where its forecast doesn't fit: nobody has agreed to that."""

Size = Callable[[float], str]
"""Formats bytes."""

# --- Out of memory

_TRIED = re.compile(r"tried to allocate\s+([\d.]+)\s*(bytes|[KMG]i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def out_of_memory(options: RunOptions, forecast: MemoryForecast | None, report: str = "") -> OutOfMemory:
    """The error to show.

    Args:
        options: The run's options.
        forecast: The run's forecast; None where memory ran out before that.
        report: What torch or the operating system reported, which may name the one allocation that failed.
    """
    count = options.memory.batch_size
    batch = _("A batch of 1 row") if count == 1 else _("A batch of {count:,} rows").format(count=count)
    length = (
        _(" of up to {length:,} tokens").format(length=forecast.length)
        if forecast is not None and forecast.length
        else ""
    )
    sentences = [
        _("{batch}{length} didn't fit.").format(batch=batch, length=length),
        *forecast_sentences(forecast),
    ]
    if found := _TRIED.search(report):
        unit = (found.group(2) or "").lower().removeprefix("bytes")[:1]
        size = formats.size(float(found.group(1)) * _UNITS[unit])
        sentences.append(_("What could not be allocated were {size} more.").format(size=size))
    fixes = forecast.fixes if forecast is not None and forecast.fixes else tuple(first_aid(options))
    return OutOfMemory(_("Memory ran out"), " ".join(sentences), fixes)


def first_aid(options: RunOptions) -> Iterator[Fix]:
    """Remedies where neither model nor device is known: those of the ladder that suit nearly all."""
    model = ModelReport(activation_checkpointing=True)
    device = DeviceReport(name="", title="", available=True)
    case = Asked(options, model, ModelShape(parameters=0), device)
    for step in islice(
        smaller_batches(case), 1
    ):  # the effect is part of the label: a fix has no other place for it
        half, before = step.changes["memory.batch_size"], options.effective_batch
        samples = half * step.changes["memory.gradient_accumulation_steps"]
        effect = (
            _("the same effective batch")
            if samples == before
            else _("{samples} rows instead of {before}").format(samples=samples, before=before)
        )
        yield Fix(
            _("Batch size {half} with accumulation: {effect}").format(half=half, effect=effect),
            dict(step.changes),
        )
    for step in (*checkpointing(case), *small_matrices(case), *less_to_see(case)):
        yield Fix(step.title, dict(step.changes))


def forecast_sentences(forecast: MemoryForecast | None, *, before: bool = False) -> Iterator[str]:
    """The forecast, free memory, and the largest part, in sentences; nothing without a forecast.

    `before` says it of a run that is yet to start.
    """
    if forecast is None:
        return
    parts, room = forecast.parts, forecast.room
    basis = _("as measured before") if forecast.basis is Basis.MEASURED else _("by forecast")
    needs, are = ("needs", "are") if before else (_("was to take"), "were")
    free = (
        _(", and {free} of {ceiling} {are} free").format(
            free=formats.size(room.free), ceiling=formats.size(room.ceiling), are=are
        )
        if room
        else ""
    )
    yield _("The run {needs} {total} {basis}{free}.").format(
        needs=needs, total=formats.size(parts.total), basis=basis, free=free
    )
    title, held = PART_TITLES[parts.largest], getattr(parts, parts.largest)
    yield _("Its largest part: {title}{title_2}, {held}.").format(
        title=title[0].lower(), title_2=title[1:], held=formats.size(held)
    )


# --- What ran

DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "uint8": "8-bit", "int8": "8-bit"}
AS_ASKED = _("as asked")
"""The reason that tells nothing."""


@dataclass(frozen=True)
class Statement:
    """One line below the heading `group`. `reason` tells why it came out so; empty: nothing had to be chosen."""

    group: str
    title: str
    value: str
    reason: str = ""


def statements(
    ran: WhatRan | None,
    size: Size,
    versions: Mapping[str, str] | None = None,
    status: RunStatus | None = None,
) -> tuple[Statement, ...]:
    """All that is known of what ran; what isn't known has no line, and each reason is given once.

    Args:
        ran: The event; None: there is none yet.
        size: Formats bytes.
        versions: The libraries' versions by name.
        status: Has the error of the memory forecast, once that is known; None: leave it out.
    """
    found = _of_run(ran, size, status) if ran is not None else []
    if versions:
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        found.append(Statement(_("Software"), _("Versions"), listed))
    return tuple(found)


def dtypes(names: str) -> str:
    """PyTorch's names of number formats in short: `float32 + bfloat16` is `fp32 + bf16`."""
    return " + ".join(DTYPES.get(name, name) for name in names.removeprefix("torch.").split(" + "))


def _of_run(ran: WhatRan, size: Size, status: RunStatus | None) -> list[Statement]:
    reasons = {path: reason for path, reason in ran.reasons.items() if reason != AS_ASKED}
    found: list[Statement] = []

    def add(group: str, title: str, value: str | None, path: str = "", reason: str = "") -> None:
        if value:
            found.append(Statement(group, title, value, reason or _split(reasons.pop(path, ""))[1]))

    group = _("Device and precision")
    device = device_title(ran.device)
    named = device if ran.device_name in ("", ran.device) else f"{device} ({ran.device_name})"
    add(group, "Device", named, "device.name")
    add(group, "Weights", dtypes(ran.parameter_dtype))
    computed = f"{dtypes(ran.autocast_dtype)} (autocast)" if ran.autocast_dtype else ran.matmul
    add(group, _("Computed in"), computed or dtypes(ran.parameter_dtype), "device.precision")
    if ran.autocast_dtype and ran.matmul != "fp32":
        add(group, _("fp32 multiplied as"), ran.matmul)
    if ran.loss_scale is not None:
        add(group, _("Loss scale"), f"{ran.loss_scale:,.10g}")
    if ran.threads is not None:
        add(group, _("CPU threads"), f"{ran.threads:,}", "device.threads")
    took = (
        _(", in {compile_seconds:,.0f} s").format(compile_seconds=ran.compile_seconds)
        if ran.compile_seconds is not None
        else ""
    )
    add(group, _("Compiled by"), ran.compiled and f"{ran.compiled}{took}")
    lacks = "the device has no such operators; each waits for the CPU"
    add(group, _("Computed on the CPU"), ", ".join(ran.fell_back), reason=lacks)
    add(
        group,
        "Repeatability",
        _("only kernels that give the same bits every time") if ran.deterministic else "",
    )

    group = "Model"
    trained, total = ran.trainable_parameters, ran.total_parameters
    share = f" ({100 * trained / max(1, total):.3g} %)" if trained != total else ""
    add(
        group,
        "Trained",
        _("{trained:,} of {total:,} weights{share}").format(trained=trained, total=total, share=share),
    )
    add(group, "Adapter", ran.adapter)
    if ran.packed_parameters:
        add(
            group,
            "Packed",
            _("{packed_parameters:,} weights in {value} bits").format(
                packed_parameters=ran.packed_parameters, value=4 if "nf4" in ran.adapter else 8
            ),
        )
    add(group, "Attention", ran.attention, "model.attention")

    group = "Training"
    add(group, "Optimizer", ran.optimizer, "training.optimizer")
    state = size(ran.optimizer_state_bytes)
    if len(ran.optimizer_state) > 1:
        parts = ", ".join(f"{dtypes(name)} {size(count)}" for name, count in ran.optimizer_state.items())
        state += f" ({parts})"
    elif ran.optimizer_state:
        state += _(" in {optimizer_state}").format(optimizer_state=dtypes(next(iter(ran.optimizer_state))))
    add(group, _("Optimizer state"), state)
    if ran.decayed_parameters is not None:
        reached = _("on {decayed_parameters:,} of the {trained:,} that are trained").format(
            decayed_parameters=ran.decayed_parameters, trained=trained
        )
        left_out = _("biases and norms are left out") if 0 < ran.decayed_parameters < trained else ""
        add(group, _("Weight decay"), reached if ran.decayed_parameters else "none", reason=left_out)

    group = "Data"
    batch = formats.counted(ran.effective_batch, "sample")
    if ran.batches_per_step != 1:
        batch = f"{ran.effective_batch // ran.batches_per_step:,} × {ran.batches_per_step:,} = {batch}"
    add(group, _("Effective batch"), batch)
    add(group, _("Padded to"), ran.padded_to)
    add(group, "Order", ran.sampling, "data.group_by_length")
    workers = _("none: loaded by the training process")
    if ran.workers:
        workers = "1 process" if len(ran.workers) == 1 else f"{len(ran.workers)} processes"
        workers += f" ({ran.worker_start})" if ran.worker_start else ""
    add(group, "Workers", workers, "data.workers")
    add(group, _("Pinned memory"), "yes" if ran.pinned else "", "data.pin_memory")

    group = "Memory"
    if ran.recomputed:
        layers = formats.counted(ran.recomputed, "layer")
        add(group, "Activations", _("of {layers} computed again for the gradients").format(layers=layers))
    add(group, "DeepSpeed", ran.deepspeed)
    error = status.forecast_error if status is not None else None
    if status is not None and error is not None:
        off = f"{100 * abs(error):.0f} % {'above' if error > 0 else 'below'}"
        peak = size(status.peak_bytes or 0)
        add(
            group,
            "Forecast",
            size(status.forecast_bytes or 0),
            reason=_("{off} the peak of {peak}").format(off=off, peak=peak),
        )

    for path, reason in reasons.items():  # of options that have no line
        option = options_by_path().get(path)
        title = option.title if option else path.rpartition(".")[2].replace("_", " ").capitalize()
        value, why = _split(reason)
        found.append(Statement(_("Chosen by Hone"), title, value or why, why if value else ""))
    return found


def _split(reason: str) -> tuple[str, str]:
    """Value and words of a reason: `bf16: this GPU computes it` begins with the value; others have none."""
    value, colon, why = reason.partition(": ")
    return (value, why) if colon and " " not in value else ("", reason)


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
    return _("hone {commands} {name}").format(commands=_COMMANDS[action], name=shlex.quote(name))


def changes_text(changes: Mapping[str, Any]) -> str:
    """Changed options, as `--set` takes them."""
    return " ".join(f"--set {shlex.quote(f'{path}={_value(value)}')}" for path, value in changes.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)


def unread_text(status: RunStatus) -> str:
    """What of a run could not be read; empty where all of it was."""
    if status.is_of_newer_hone:
        return "Note: a newer Hone wrote this run; there may be more to it than is shown."
    if status.trouble:
        return _("Note: not all of what happened can be read: {trouble}").format(trouble=status.trouble)
    if status.skipped:
        return _("Note: {lines} of what happened can't be read and left out.").format(
            lines=formats.counted(status.skipped, "line")
        )
    return ""


def time_spent_text(shares: Mapping[str, float] | None) -> str:
    """Where the time of the last steps went; empty where none was timed in parts."""
    if shares is None:
        return ""
    titles = {"data": _("waiting for data"), "rest": _("the rest")}
    parts = ", ".join(f"{titles.get(part, part)} {share:.0%}" for part, share in shares.items())
    return _("A step's time goes into: {parts}").format(parts=parts)


def what_ran_text(status: RunStatus) -> str:
    """What actually ran as a table, with the reason where it was left to Hone; long values take several lines."""
    rows: list[tuple[str, str, str]] = []
    for found in statements(status.what_ran, formats.size, status.versions, status):
        lines = textwrap.wrap(found.value, VALUE_WIDTH, break_long_words=False, break_on_hyphens=False)
        rows.append((found.title, next(iter(lines), ""), found.reason))
        rows += [("", line, "") for line in lines[1:]]
    return f"\n{formats.table(('WHAT RAN', '', 'BECAUSE'), rows)}\n"


def ending_text(run: RunFolder, status: RunStatus, state: State, record: ExitRecord | None) -> str:
    """How a run that is over ended: its figures and its model, or why it has none; and how to resume it."""
    return "\n".join((*_ending(run, status, state, record), *_resuming(run, status, state)))


def _ending(run: RunFolder, status: RunStatus, state: State, record: ExitRecord | None) -> Iterator[str]:
    messages = (found for found in status.messages.values() if found.level is Level.ERROR)
    errors = [message_text(found, run.path, is_over=True) for found in messages]
    if state in (State.FINISHED, State.STOPPED, State.PAUSED):
        yield from errors
        if status.finished is not None and State(status.finished.state) is state:
            yield from _figures(status, status.finished, record)
        else:  # that is the state of an earlier attempt
            yield (
                record.reason if record is not None and record.code is None else _("Ended at once, as asked.")
            )
            if status.step:
                of_all = (
                    _(" of {total_steps:,}").format(total_steps=status.total_steps)
                    if status.total_steps
                    else ""
                )
                yield _("It stands at step {step:,}{of_all}.").format(step=status.step, of_all=of_all)
        yield from _where_model_is(run)
        crash = crash_before(run, status, record)
        if crash is not None:
            yield _("Before that: {title}").format(title=crash.title)
            yield from _evidence(run, crash)
        return
    if record is not None and record.out_of_memory:
        try:
            error: UserError = out_of_memory(run.options(), status.forecast)
        except OptionsError as problem:
            error = problem
        errors.append(error_text(error))
    crash = crash_of(run, status, record)
    yield _("The run failed.") if state is State.FAILED else crash.title
    yield from errors
    if not errors or state is not State.FAILED:
        yield from _evidence(run, crash)


def _figures(status: RunStatus, finished: RunFinished, record: ExitRecord | None) -> Iterator[str]:
    result = f": {formats.metrics(finished.metrics)}" if finished.metrics else ""
    duration = formats.plain_duration(
        seconds_spent(status, State(finished.state), record, now=0.0) or finished.seconds
    )
    steps = formats.counted(finished.steps, "step")
    yield _("{value} after {steps} in {duration}{result}").format(
        value=finished.state.value.capitalize(), steps=steps, duration=duration, result=result
    )
    if status.metrics and not finished.metrics and status.evaluated_at is not None:
        yield _("Last evaluated at step {evaluated_at:,}: {metrics}").format(
            evaluated_at=status.evaluated_at, metrics=formats.metrics(status.metrics)
        )
    if finished.samples_per_second is not None:
        stretch = _(" in its last stretch") if status.attempt > 1 else ""
        peak = status.peak_bytes
        memory = "" if peak is None else _(", {peak} of memory at most").format(peak=formats.megabytes(peak))
        yield _("{samples_per_second} samples a second{stretch}{memory}").format(
            samples_per_second=formats.number(finished.samples_per_second), stretch=stretch, memory=memory
        )


def queued_text(run: RunFolder, status: RunStatus) -> str:
    """Where a run that waits will go on once it is its turn; empty for one that has never begun."""
    if not status.attempt:
        return ""
    saved = models.newest(run)
    if saved is None:
        return _("Once its turn has come it begins anew: it has no complete checkpoint.")
    return _("Once its turn has come it goes on from step {step:,}, its newest complete checkpoint.").format(
        step=saved.step
    )


def _where_model_is(run: RunFolder) -> Iterator[str]:
    newest = trained_model(run)
    if newest is None:
        return
    if not newest.is_checkpoint:
        of_step = _(", and is of step {step:,}").format(step=newest.step) if newest.has_gone_on else ""
        yield _("The model is in {folder}{of_step}").format(folder=newest.folder, of_step=of_step)
        return
    yield _("Its newest weights, of step {step:,}, are in {folder}").format(
        step=newest.step, folder=newest.folder
    )
    if is_left_behind(run):
        yield _("The model in {model} is older: it was written before the run went on.").format(
            model=run.model
        )


def _evidence(run: RunFolder, crash: Crash) -> Iterator[str]:
    yield crash.reason
    if crash.log_tail:
        yield _("The end of its log:")
        yield from ("    " + line for line in crash.log_tail.splitlines())
    yield _("The whole log: {log_file}").format(log_file=run.log_file)


def _resuming(run: RunFolder, status: RunStatus, state: State) -> Iterator[str]:
    """How to resume a run that ended before it was done, and from where."""
    if not state.can_resume:
        return
    try:
        run.options()
    except OptionsError as error:
        yield _("It can't be resumed. {options_file}: {detail}").format(
            options_file=run.options_file, detail=error.detail
        )
        return
    saved = models.newest(run)
    command = _("`hone resume {run}`").format(run=shlex.quote(name_of(run)))
    if saved is not None:
        yield _("{command} goes on from step {step:,}, its newest complete checkpoint.").format(
            command=command, step=saved.step
        )
    elif state in (State.PAUSED, State.CRASHED) or status.finished is None:
        yield _("{command} begins anew: it has no complete checkpoint.").format(command=command)


def name_of(run: RunFolder) -> str:
    """What `hone show` and its like call a run: its name among all runs, else its folder."""
    return run.name if run.path.parent == settings.runs_folder() else str(run.path)
