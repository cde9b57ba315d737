"""Sentences about a run: out of memory, what ran, messages and how it ended.

PyTorch's own advice for MPS, to remove the memory limit, "may cause system failure" in its own words: it is never
passed on.
"""

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from core.base import formats, settings
from core.base.errors import Fix, FixAction, OptionsError, OutOfMemory, UserError
from core.base.language import _, isolated, ngettext, pgettext
from core.memory.model import PART_TITLES, Basis, ModelReport, ModelShape
from core.memory.remedies import (
    RemedyRequest,
    checkpointing,
    lora,
    shorter_or_smaller_samples,
    smaller_batches,
)
from core.options import RunOptions
from core.options.catalogue import options_by_path
from core.options.choices import device_title
from core.options.device_support import DeviceReport
from core.options.past_runs import run_folder
from core.runs.crash import Crash, crash_before, crash_of, saved_step
from core.runs.events import (
    SAMPLE_PREDICTIONS,
    LabelCounted,
    Level,
    MemoryForecast,
    MessageRaised,
    Outcome,
    Phase,
    Predicted,
    RunFinished,
    TurnAwaited,
    WhatRan,
)
from core.runs.folder import Connection, ExitRecord, RunFolder
from core.runs.models import is_left_behind, trained_model
from core.runs.status import RunStatus, State
from core.runs.summary import RunSummary, seconds_spent

ONLY_IF_IT_FITS = "HONE_ONLY_IF_IT_FITS"
"""Environment variable of a run that ends if its forecast doesn't fit, because the person hasn't confirmed it."""


def awaited_text(awaited: TurnAwaited | None) -> str:
    if awaited is None or not awaited.behind:
        return _("Queued")
    name = f"“{isolated(awaited.title)}”" if awaited.title else awaited.behind
    if awaited.is_paused:
        return _("Waits for the model of {run}, which is paused").format(run=name)
    if awaited.is_source:
        return _("Waits for the model of {run}").format(run=name)
    if awaited.ahead <= 1:
        return _("Queued behind {run}").format(run=name)
    text = _("Queued behind {run} and {count} more")
    return text.format(run=name, count=formats.count(awaited.ahead - 1))


def state_word(run: RunSummary) -> str:
    """Returns the state of a run in the terminal and in reports: that of a test is no training."""
    return word_of(run.state, stopped_early=run.stopped_early, is_test=run.is_test)


def word_of(state: State, *, stopped_early: bool = False, is_test: bool = False) -> str:
    """The word for a state within a sentence or a line of a table."""
    if stopped_early and state is State.FINISHED:
        return _("stopped early")
    if is_test and state is State.TRAINING:
        return _("testing")
    return {
        State.QUEUED: _("queued"),
        State.STARTING: _("starting"),
        State.TRAINING: _("training"),
        State.PAUSING: _("pausing"),
        State.PAUSED: _("paused"),
        State.STOPPING: _("stopping"),
        State.STOPPED: _("stopped"),
        State.FINISHED: _("finished"),
        State.FAILED: _("failed"),
        State.CRASHED: _("crashed"),
    }[state]


def phase_title(phase: Phase) -> str:
    titles = {
        Phase.LOADING_DATA: _("Loading the data"),
        Phase.LOADING_MODEL: _("Loading the model"),
        Phase.TOKENIZING: _("Tokenizing"),
        Phase.COMPILING: _("Compiling the model"),
        Phase.TRAINING: _("Training"),
        Phase.EVALUATING: _("Evaluating"),
        Phase.SAVING: _("Saving"),
    }
    return titles[phase]


def phase_text(phase: Phase, detail: str, examples: int) -> str:
    """Returns a phase with its file or model; `examples` is how many have their predictions recorded."""
    if phase is Phase.EVALUATING and detail == SAMPLE_PREDICTIONS:
        return ngettext(
            "Making {count} sample prediction…", "Making {count} sample predictions…", examples
        ).format(count=examples)
    if phase is Phase.EVALUATING and detail:
        return _("Evaluating, {batches} batches").format(batches=detail.replace("/", " / "))
    return formats.titled(phase_title(phase), detail) if detail else phase_title(phase)


# --- Out of memory

_TRIED = re.compile(r"(?:tried|attempting) to allocate\s+([\d.]+)\s*(bytes|[KMG]i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


SPILLING = _(
    "On Windows, NVIDIA's driver moves what doesn't fit on the card to the computer's memory, and steps take 10 to 100 "
    "times as long. “CUDA - Sysmem Fallback Policy” in NVIDIA Control Panel can forbid that, but not in WSL."
)


def out_of_memory(
    options: RunOptions, forecast: MemoryForecast | None, report: str = "", *, limit: int | None = None
) -> OutOfMemory:
    """Returns the error to show; without a forecast, memory ran out before it was made.

    `report` is that of torch or the operating system, which may name the one allocation that failed; `limit` as in
    `WhatRan.memory_limit`.
    """
    count = options.memory.batch_size
    if forecast is not None and forecast.length:
        batch = ngettext(
            "A batch of {count:,} example of up to {length:,} tokens didn't fit.",
            "A batch of {count:,} examples of up to {length:,} tokens didn't fit.",
            count,
        ).format(count=count, length=forecast.length)
    else:
        batch = ngettext(
            "A batch of {count:,} example didn't fit.", "A batch of {count:,} examples didn't fit.", count
        ).format(count=count)
    sentences = [batch, *forecast_sentences(forecast)]
    if match := _TRIED.search(report):
        unit = (match.group(2) or "").lower().removeprefix("bytes")[:1]
        size = formats.memory(float(match.group(1)) * _UNITS[unit])
        sentences.append(_("Allocating {size} more failed.").format(size=size))
    if limit:
        sentences.append(
            _("The run is limited to the {size} that were free.").format(size=formats.memory(limit))
        )
        sentences.append(SPILLING)
    fixes = forecast.fixes if forecast is not None and forecast.fixes else tuple(first_aid(options))
    return OutOfMemory(_("Memory ran out"), formats.paragraph(*sentences), fixes)


def first_aid(options: RunOptions) -> Iterator[Fix]:
    """Yields remedies where neither model nor device is known: those that suit nearly all."""
    model = ModelReport(activation_checkpointing=True)
    device = DeviceReport(name="", title="", available=True)
    request = RemedyRequest(options, model, ModelShape(parameters=0), device)
    for step in islice(smaller_batches(request), 1):
        half, before = step.changes["memory.batch_size"], options.effective_batch
        after = half * step.changes["memory.gradient_accumulation_steps"]
        template = (
            _("Batch size {half} with accumulation: the same effective batch")
            if after == before
            else _("Batch size {half} with accumulation: effective batch size {after} instead of {before}")
        )
        yield Fix(template.format(half=half, after=after, before=before), dict(step.changes))
    for step in (*checkpointing(request), *lora(request), *shorter_or_smaller_samples(request)):
        yield Fix(step.title, dict(step.changes))


def forecast_sentences(forecast: MemoryForecast | None, *, before: bool = False) -> Iterator[str]:
    """Yields the forecast, free memory, and the largest part, in sentences; nothing without a forecast.

    `before`: the run hasn't started yet.
    """
    if forecast is None:
        return
    parts, room = forecast.parts, forecast.room
    is_measured = forecast.basis is Basis.MEASURED
    total = (
        _("The run takes {size}, as measured before.")
        if is_measured
        else _("The run was estimated to take {size}.")
    )
    yield total.format(size=formats.memory(parts.total))
    if room:
        free = _("{free} of {ceiling} are free.") if before else _("{free} of {ceiling} were free.")
        yield free.format(free=formats.memory(room.free), ceiling=formats.memory(room.ceiling))
    title, size = PART_TITLES[parts.largest], formats.memory(getattr(parts, parts.largest))
    yield _("The largest part: {title}, {size}.").format(title=f"{title[0].lower()}{title[1:]}", size=size)


# --- What ran

DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "uint8": "8-bit", "int8": "8-bit"}
AS_ASKED = _("as requested")
"""A reason that is left out."""


@dataclass(frozen=True)
class Statement:
    """One line below the heading `group`. `reason` is why Hone chose this value; empty: nothing had to be chosen."""

    group: str
    title: str
    value: str
    reason: str = ""


def statements(
    ran: WhatRan | None,
    versions: Mapping[str, str] | None = None,
    status: RunStatus | None = None,
) -> tuple[Statement, ...]:
    """Returns all that is known of what ran; what isn't known has no line, and each reason is given once.

    `status` has the error of the memory forecast, once that is known.
    """
    found = _of_run(ran, status) if ran is not None else []
    if versions:
        listed = formats.enumerated(f"{name} {version}" for name, version in versions.items())
        found.append(Statement(_("Software"), _("Versions"), listed))
    return tuple(found)


def dtypes(names: str) -> str:
    """Shortens PyTorch's names of number formats: `float32 + bfloat16` is `fp32 + bf16`."""
    return " + ".join(DTYPES.get(name, name) for name in names.removeprefix("torch.").split(" + "))


class _Line(NamedTuple):
    """A statement of one group; left out if it has no value. Its reason, or that which `ran.reasons` has for `path`."""

    title: str
    value: str | None
    path: str = ""
    reason: str = ""


def _of_run(ran: WhatRan, status: RunStatus | None) -> list[Statement]:
    reasons = {path: reason for path, reason in ran.reasons.items() if reason != AS_ASKED}
    groups = (
        (_("Device and precision"), _of_device(ran)),
        (_("Model"), _of_model(ran)),
        (pgettext("options", "Training"), _of_training(ran)),
        (_("Data"), _of_data(ran)),
        (_("Memory"), _of_memory(ran, status)),
    )
    result = [
        Statement(group, line.title, line.value, line.reason or _split(reasons.pop(line.path, ""))[1])
        for group, lines in groups
        for line in lines
        if line.value
    ]
    for path, reason in reasons.items():  # of options without a line
        option = options_by_path().get(path)
        title = option.title if option else path.rpartition(".")[2].replace("_", " ").capitalize()
        value, why = _split(reason)
        result.append(Statement(_("Chosen automatically"), title, value or why, why if value else ""))
    return result


def _of_device(ran: WhatRan) -> Iterator[_Line]:
    device = device_title(ran.device)
    name = formats.with_note(device, "" if ran.device_name == ran.device else ran.device_name)
    yield _Line(_("Device"), name, "device.name")
    yield _Line(_("Engine"), ran.engine, "device.backend")
    yield _Line(_("Processes"), ran.parallel, "device.processes")
    weights = dtypes(ran.parameter_dtype)
    if ran.frozen_dtype not in ("", "float32"):
        weights = _("{frozen} where frozen, what learns in fp32").format(frozen=dtypes(ran.frozen_dtype))
    yield _Line(_("Weights"), weights, "model.frozen_precision")
    computed = dtypes(ran.autocast_dtype) if ran.autocast_dtype else ran.matmul
    if ran.autocast_dtype and not ran.engine:
        computed = f"{computed} (autocast)"
    alone = "fp32" if ran.frozen_dtype else dtypes(ran.parameter_dtype)
    yield _Line(_("Computed in"), computed or alone, "device.precision")
    if ran.autocast_dtype and ran.matmul != "fp32":
        yield _Line(_("fp32 multiplied as"), ran.matmul)
    if ran.loss_scale is not None:
        yield _Line(_("Loss scale"), f"{ran.loss_scale:,.10g}")
    if ran.threads is not None:
        yield _Line(_("CPU threads"), f"{ran.threads:,}", "device.threads")
    compiled = ran.compiled
    if compiled and ran.compile_seconds is not None:
        compiled = _("{backend}, in {seconds:,.0f} s").format(backend=compiled, seconds=ran.compile_seconds)
    yield _Line(_("Compiled by"), compiled)
    lacks = _("the device has no such operators; each waits for the CPU")
    yield _Line(_("Computed on the CPU"), formats.enumerated(ran.fell_back), reason=lacks)
    if ran.deterministic:
        yield _Line(_("Reproducibility"), _("only kernels that give the same bits every time"))


def _of_model(ran: WhatRan) -> Iterator[_Line]:
    trained, total = ran.trainable_parameters, ran.total_parameters
    share = formats.in_percent(f"{100 * trained / max(1, total):.3g}") if trained != total else ""
    weights = _("{trained:,} of {total:,} parameters").format(trained=trained, total=total)
    yield _Line(_("Trained"), formats.with_note(weights, share))
    yield _Line(_("Adapter"), ran.adapter)
    if ran.packed_parameters:
        packed = _("{count:,} parameters in {bits} bits")
        bits = " + ".join(re.findall(r"[a-z](\d)\b", ran.adapter))  # `QLoRA (affine4, affine8), rank 16 ...`
        yield _Line(_("Packed"), packed.format(count=ran.packed_parameters, bits=bits))
    yield _Line(_("Attention"), ran.attention, "model.attention")


def _of_training(ran: WhatRan) -> Iterator[_Line]:
    yield _Line(_("Preference loss"), ran.preference_loss)
    yield _Line(_("Optimizer"), ran.optimizer, "training.optimizer")
    state = formats.memory(ran.optimizer_state_bytes)
    if len(ran.optimizer_state) > 1:
        parts = formats.enumerated(
            f"{dtypes(name)} {formats.memory(count)}" for name, count in ran.optimizer_state.items()
        )
        state = formats.with_note(state, parts)
    elif ran.optimizer_state:
        state = _("{size} in {dtype}").format(size=state, dtype=dtypes(next(iter(ran.optimizer_state))))
    yield _Line(_("Optimizer state"), state)
    trained, decayed = ran.trainable_parameters, ran.decayed_parameters
    if decayed == 0:
        yield _Line(_("Weight decay"), _("none"))
    elif decayed is not None:
        reached = _("on {decayed:,} of the {trained:,} that are trained")
        reason = _("biases and norms are left out") if decayed < trained else ""
        yield _Line(_("Weight decay"), reached.format(decayed=decayed, trained=trained), reason=reason)


def _of_data(ran: WhatRan) -> Iterator[_Line]:
    batch = formats.counted(ran.effective_batch, "example")
    if ran.batches_per_step != 1:
        batch = f"{ran.effective_batch // ran.batches_per_step:,} × {ran.batches_per_step:,} = {batch}"
    yield _Line(_("Effective batch"), batch)
    yield _Line(_("Padded to"), ran.padded_to, "data.pad_to_multiple_of")
    yield _Line(_("Order"), ran.sampling, "data.group_by_length")
    yield _Line(_("Augmentation"), ran.augmentation, "data.augmentation")
    workers = _("none: loaded by the training process")
    if ran.workers:
        count = len(ran.workers)
        workers = formats.with_note(formats.counted(count, "process"), ran.worker_start)
    yield _Line(_("Workers"), workers, "data.workers")
    yield _Line(_("Pinned memory"), _("yes") if ran.pinned else "", "data.pin_memory")


def _of_memory(ran: WhatRan, status: RunStatus | None) -> Iterator[_Line]:
    if ran.recomputed:
        layers = formats.counted(ran.recomputed, "layer")
        yield _Line(_("Activations"), _("of {layers} computed again for the gradients").format(layers=layers))
    if ran.memory_limit:
        why = _("beyond it, Windows would use the computer's memory, which is much slower")
        yield _Line(_("Memory limit"), formats.memory(ran.memory_limit), reason=why)
    if ran.empty_cache_steps:
        steps = formats.counted(ran.empty_cache_steps, "step")
        yield _Line(_("Cache"), _("emptied every {steps}").format(steps=steps))
    yield _Line("DeepSpeed", ran.deepspeed)
    shards = _("weights, gradients and optimizer state in {count} parts").format(count=ran.shards)
    yield _Line("FSDP2", shards if ran.shards else "")
    error = status.forecast_error if status is not None else None
    if status is not None and error is not None:
        above, below = (
            _("{percent:.0f} % above the peak of {peak}"),
            _("{percent:.0f} % below the peak of {peak}"),
        )
        template = above if error > 0 else below
        reason = template.format(percent=100 * abs(error), peak=formats.memory(status.measured_bytes or 0))
        yield _Line(_("Estimate"), formats.memory(status.forecast_bytes or 0), reason=reason)


def _split(reason: str) -> tuple[str, str]:
    """Splits a reason into value and explanation: `bf16: this GPU computes it` begins with one, others don't."""
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
    FixAction.EXTEND: "resume --epochs N",
    FixAction.TESTED: "show",
    FixAction.RECONNECT: "follow",
    FixAction.GIVE_UP: "stop --now",
}
_LEVELS = {
    Level.INFO: _("Note: {title}"),
    Level.WARNING: _("Warning: {title}"),
    Level.ERROR: _("Error: {title}"),
}


def message_text(message: MessageRaised, run: Path | None = None, *, is_over: bool = False) -> str:
    """Returns a message with its detail and its fixes, a line each.

    In commands `RUN` stands for a run that isn't given; one that is over can't be ended.
    """
    fixes = [fix for fix in message.fixes if not (is_over and fix.action and fix.action.is_end)]
    lines = [_LEVELS[message.level].format(title=message.title), message.detail]
    lines += [fix_text(fix, run) for fix in fixes]
    return "\n".join(line for line in lines if line)


def error_text(error: UserError) -> str:
    """Returns an error with its detail and its fixes; a wrong request has every problem with its own fixes."""
    lines = [error.title]
    if isinstance(error, OptionsError) and not error.where and len(error.problems) == 1:
        lines = [str(error.problems[0]), *map(fix_text, error.problems[0].fixes)]
    elif isinstance(error, OptionsError):
        for problem in error.problems:
            lines += [f"  {problem}", *("  " + fix_text(fix) for fix in problem.fixes)]
    else:
        lines.append(error.detail)
    lines += map(fix_text, error.fixes)
    return "\n".join(line for line in lines if line)


def fix_text(fix: Fix, run: Path | None = None) -> str:
    """Returns what to try, with the options it sets as `--set` takes them, or the command that does it."""
    how = changes_text(fix.changes) if fix.action is None else _action_text(fix.action, run)
    return "  " + _("Try: {label}").format(label=formats.with_note(fix.label, how))


def _action_text(action: FixAction, run: Path | None) -> str:
    if action is FixAction.REVEAL:
        return str(run or "")
    name = "RUN" if run is None else name_of(RunFolder(run))
    options = RunFolder(run).readable_options() if run is not None else None
    if action is FixAction.TESTED and options is not None and (tested := run_folder(options.model.source)):
        name = name_of(RunFolder(tested))
    command = _COMMANDS[action]
    if action is FixAction.EXTEND and options is not None and options.training.max_steps is not None:
        command = "resume --max-steps N"
    return f"hone {command} {shlex.quote(name)}"


def changes_text(changes: Mapping[str, Any]) -> str:
    """Formats changed options as `--set` takes them."""
    return " ".join(f"--set {shlex.quote(f'{path}={_value(value)}')}" for path, value in changes.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)


def unread_message(status: RunStatus) -> MessageRaised | None:
    """Returns a message about events of a run that can't be read."""
    left_out = ngettext(
        "{count} line can't be read and is left out.",
        "{count} lines can't be read and are left out.",
        status.skipped,
    ).format(count=formats.count(status.skipped))
    detail = status.trouble or (left_out if status.skipped else "")
    title = _("Not all of this run can be read")
    return MessageRaised(id="unread", level=Level.INFO, title=title, detail=detail) if detail else None


def kept_message(connection: Connection | None) -> MessageRaised | None:
    """Returns a message about files that were set aside, as the other computer has other ones."""
    if connection is None or not connection.kept:
        return None
    title = _("{name} has lost or changed records of this run").format(name=connection.computer)
    detail = _("What was known here is kept in the run's folder: {files}. The charts show what is there now.")
    files = ", ".join(connection.kept)
    return MessageRaised(id="kept", level=Level.WARNING, title=title, detail=detail.format(files=files))


def time_spent_text(shares: Mapping[str, float] | None) -> str:
    """Returns where the time of the last steps went; empty if none was timed in parts."""
    if shares is None:
        return ""
    titles = {
        "data": _("waiting for data"),
        "forward": _("forward"),
        "backward": _("backward"),
        "optimizer": _("optimizer"),
        "rest": _("the rest"),
    }
    rounded = zip(shares, formats.whole_shares([*shares.values()]), strict=True)
    parts = formats.enumerated(
        f"{titles.get(part, part)} {formats.whole_percent(share)}" for part, share in rounded
    )
    return _("A step's time goes into: {parts}").format(parts=parts)


NOTEWORTHY, LEAST_SHARE = 0.2, 0.005
"""Evaluations and predictions that took a larger share of a run's time are told of; either if it isn't 0 %."""


def evaluations_text(status: RunStatus, seconds: float | None) -> str:
    """Says which share of the time evaluations and sample predictions took; empty if small, and for a test."""
    spent = status.evaluating + status.predicting
    if status.is_test or not seconds or spent <= NOTEWORTHY * seconds:
        return ""
    evaluations, samples = (
        formats.whole_percent(part / seconds) for part in (status.evaluating, status.predicting)
    )
    template = _("{evaluations} of the time went into evaluations, {samples} into sample predictions.")
    if status.predicting < LEAST_SHARE * seconds:
        template = _("{evaluations} of the time went into evaluations.")
    elif status.evaluating < LEAST_SHARE * seconds:
        template = _("{samples} of the time went into sample predictions.")
    return template.format(evaluations=evaluations, samples=samples)


def what_ran_text(status: RunStatus) -> str:
    """Returns what actually ran as a table, with the reason where Hone chose; long values take several lines."""
    rows: list[tuple[str, str, str]] = []
    for statement in statements(status.what_ran, status.versions, status):
        lines = textwrap.wrap(statement.value, VALUE_WIDTH, break_long_words=False, break_on_hyphens=False)
        rows.append((statement.title, next(iter(lines), ""), statement.reason))
        rows += [("", line, "") for line in lines[1:]]
    table = formats.table((_("What ran"), "", _("Because")), rows)
    return f"\n{table}\n"


def ending_text(run: RunFolder, status: RunStatus, state: State, record: ExitRecord | None) -> str:
    """Returns how a run that is over ended: its figures and its model, or why it has none; and how to resume it."""
    return "\n".join((*_ending(run, status, state, record), *_resuming(run, status, state)))


def _ending(run: RunFolder, status: RunStatus, state: State, record: ExitRecord | None) -> Iterator[str]:
    messages = (message for message in status.messages.values() if message.level is Level.ERROR)
    errors = [message_text(message, run.path, is_over=True) for message in messages]
    if state in (State.FINISHED, State.STOPPED, State.PAUSED):
        yield from errors
        if status.finished is not None and State(status.finished.state) is state:
            yield from _figures(status, status.finished, record)
        else:  # that is the state of an earlier attempt
            was_queued = record is not None and record.code is None
            yield record.reason if record is not None and was_queued else _("Ended at once, as requested.")
            if status.step:
                yield _("It is at step {step:,}.").format(step=status.step)
        yield from _where_model_is(run)
        if (crash := crash_before(run, status, record)) is not None:
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


ENDINGS = {
    Outcome.FINISHED: _("Finished after {steps} in {time}"),
    Outcome.STOPPED: _("Stopped after {steps} in {time}"),
    Outcome.PAUSED: _("Paused after {steps} in {time}"),
    Outcome.FAILED: _("Failed after {steps} in {time}"),
}


def _figures(status: RunStatus, finished: RunFinished, record: ExitRecord | None) -> Iterator[str]:
    seconds = seconds_spent(status, State(finished.state), record, now=0.0) or finished.seconds
    steps = formats.counted(finished.steps, "step")
    ending = _("Stopped early after {steps} in {time}") if finished.waited else ENDINGS[finished.state]
    if status.is_test and finished.metrics:
        ending = _("Evaluated in {time}")
    ending = ending.format(steps=steps, time=formats.duration(seconds))
    if finished.model_step is not None and finished.model_step < finished.steps:
        ending = _("{ending}; best at step {best:,}").format(ending=ending, best=finished.model_step)
    yield formats.titled(ending, formats.metrics(finished.metrics)) if finished.metrics else ending
    if status.metrics and not finished.metrics and status.evaluated_at is not None:
        yield _("Last evaluated at step {step:,}: {metrics}").format(
            step=status.evaluated_at, metrics=formats.metrics(status.metrics)
        )
    if finished.samples_per_second is not None:
        template = (
            _("{speed} examples/s since it was resumed") if status.attempt > 1 else _("{speed} examples/s")
        )
        yield template.format(speed=formats.number(finished.samples_per_second))
        if status.peak_bytes is not None:
            yield _("{peak} of memory at most").format(peak=formats.memory(status.peak_bytes))


def queued_text(run: RunFolder, status: RunStatus) -> str:
    """Returns where a queued run will go on from; empty for one that has never begun."""
    if not status.attempt:
        return ""
    step = saved_step(run, status)
    if step is None:
        return _("When its turn comes it starts again: it has no complete checkpoint.")
    return _("When its turn comes it continues from step {step:,}, its newest complete checkpoint.").format(
        step=step
    )


def _where_model_is(run: RunFolder) -> Iterator[str]:
    model = trained_model(run)
    if model is None:
        return
    if not model.is_checkpoint:
        template = _("The model of step {step:,} is in {folder}")
        yield (template if model.has_gone_on else _("The model is in {folder}")).format(
            step=model.step, folder=model.folder
        )
        return
    yield _("Its newest weights, of step {step:,}, are in {folder}").format(
        step=model.step, folder=model.folder
    )
    if is_left_behind(run):
        yield _("The model in {folder} is older: it was saved before the run was resumed.").format(
            folder=run.model
        )


def _evidence(run: RunFolder, crash: Crash) -> Iterator[str]:
    yield crash.reason
    if crash.log_tail:
        yield _("The end of its log:")
        yield from ("    " + line for line in crash.log_tail.splitlines())
    yield _("The whole log: {file}").format(file=run.log_file)


def _resuming(run: RunFolder, status: RunStatus, state: State) -> Iterator[str]:
    """Yields how to resume a run that ended before it was done, and from where."""
    if not state.can_resume:
        return
    try:
        run.options()
    except OptionsError as error:
        template = _("It can't be resumed. {file}: {reason}")
        yield template.format(file=run.options_file, reason=error.detail)
        return
    step = saved_step(run, status)
    command = f"`hone resume {shlex.quote(name_of(run))}`"
    if step is not None:
        template = _("{command} continues from step {step:,}, its newest complete checkpoint.")
        yield template.format(command=command, step=step)
    elif state in (State.PAUSED, State.CRASHED) or status.finished is None:
        yield _("{command} starts again: it has no complete checkpoint.").format(command=command)


def name_of(run: RunFolder) -> str:
    """Returns what `hone show` and its like call a run: its name among all runs, else its folder."""
    return run.name if run.path.parent == settings.runs_folder() else str(run.path)


def said_text(predicted: Predicted, place: int) -> str:
    """Returns the prediction on an example, such as `seven (95%) ✓`."""
    if place >= len(predicted.said):
        return formats.MISSING
    said = predicted.said[place]
    sure = f" ({said.sure:.0%})" if said.sure is not None else ""
    right = {True: " ✓", False: " ✗", None: ""}[said.right]
    return f"{said.text}{' …' * said.is_cut}{sure}{right}"


FIGURES_OF_LABEL = (_("Label"), _("Precision"), _("Recall"), _("F1"), _("Count"))
"""Titles of `figures_of`."""


def figures_of(one: LabelCounted) -> tuple[str, ...]:
    """Returns a label with its figures: `cat`, `50.0 %`, `40.4 %`, `44.7 %`, `52`."""
    shares = (one.precision, one.recall, one.f1)
    return " ".join(one.label.split()), *map(formats.share, shares), formats.count(one.true)
