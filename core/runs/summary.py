"""One row of the list of runs, read without reading all events; a verdict on a run; the disk space of runs."""

import contextlib
import heapq
import math
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import msgspec

from core.base import formats
from core.base.errors import Fix, FixAction, OptionsError
from core.base.files import changed_at, open_plain
from core.base.formats import METRICS, Metric
from core.base.language import _, ngettext
from core.memory.model import key_of
from core.options import RunOptions, past_runs
from core.options.catalogue import options_by_path, value_of, with_changes
from core.options.choices import PreferenceLoss, Task
from core.options.method_rules import pretrained_fix, steps_of
from core.options.past_runs import names_in, run_folder, short_title, title_of
from core.options.sources import short_name
from core.runs.event_log import LARGEST_LINE
from core.runs.events import Evaluated, Event, Outcome, decode
from core.runs.folder import ExitRecord, RunFolder
from core.runs.status import RunStatus, State

# --- Disk space


class RunSizes:
    """Counts the bytes of runs and caches them. Use it in one thread, and never in a window's."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], int]] = {}

    def of(self, run: RunFolder) -> int:
        """Bytes of all files of a run; links count as nothing, and what can't be read isn't counted.

        A run whose folders and growing files have the same dates as at the last count isn't counted again.
        """
        dated = (run.path, run.checkpoints, run.model, run.tensorboard, run.events_file, run.machine_file)
        stamp = tuple(map(changed_at, dated))
        known = self._known.get(run.path)
        if known is None or known[0] != stamp:
            known = self._known[run.path] = (stamp, sum(_file_sizes(run.path)))
        return known[1]


def _file_sizes(folder: Path) -> Iterator[int]:
    """The sizes of all files below a folder, no link followed."""
    for path, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(f"{path}{os.sep}{name}")
                if stat.S_ISREG(found.st_mode):
                    yield found.st_size


def stamp(run: RunFolder) -> tuple[int, ...]:
    """Modification times of a run's files: a run that is over is read again only if one has changed."""
    return tuple(
        map(changed_at, (run.events_file, run.options_file, run.path / past_runs.FILE, run.keeper_file))
    )


# --- Reading the ends of event files

TAIL_BYTES = 512 << 10
BLOCK_BYTES = 128 << 10
"""So much is read and searched at once: meanwhile no other thread of this process, the window's included, computes."""

_STARTED = b'"type":"run_started"'
_SUMMARIZED = re.compile(rb'\{"type":"(?:evaluated|run_started|run_planned|what_ran)"')
"""With the brace, which is rarer than a quote, it is 1.5 times as fast."""


def status_at_end(run: RunFolder, *, and_beginning: bool = False, and_between: bool = True) -> RunStatus:
    """The status by the ends of a run's files: its newest step, and how it ended.

    Args:
        and_beginning: Whether to read how it began, too: plan, forecast, what ran; and all evaluations.
        and_between: Whether to search what lies between for them: half a second for a million steps.
    """
    files = (
        _decoded(_lines(path, and_beginning, and_between)) for path in (run.events_file, run.machine_file)
    )
    status = RunStatus()
    # each in its order: a clock may be set back
    status.apply_all(heapq.merge(*files, key=attrgetter("time")))
    return status


def state_at_end(run: RunFolder) -> State:
    """Where a run stands, by the ends of its files alone: quick, and right for one that is over."""
    return run.state(status_at_end(run))


def current_attempt(run: RunFolder) -> int:
    """The number of the attempt under way, for its keeper and its engine.

    It is in `keeper.json`, or one more than the newest attempt in the events.
    """
    return max(run.attempt_kept(), status_at_end(run).attempt + 1)


def _decoded(lines: Iterable[bytes]) -> Iterator[Event]:
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError):
            event = decode(line)
            if event is not None:
                yield event


def _lines(path: Path, and_beginning: bool, and_between: bool) -> Iterator[bytes]:
    """Complete lines of a file: of its last block, or of its first one, its tail, and of evaluations and attempts.

    The line before each attempt is included: it has the time at which the attempt before it ended.
    """
    with contextlib.suppress(OSError), open_plain(path) as file:
        length = file.seek(0, os.SEEK_END)
        tail = length - TAIL_BYTES
        file.seek(0 if and_beginning else max(0, length - BLOCK_BYTES))
        is_whole, last, was_yielded = True, b"", True
        while block := file.read(BLOCK_BYTES):
            if not block.endswith(b"\n"):
                block += file.readline(LARGEST_LINE)
            complete = block[: block.rfind(b"\n") + 1]
            is_whole = is_whole or file.tell() >= tail
            if not is_whole and not _SUMMARIZED.search(complete):
                last, was_yielded = complete[:-1].rpartition(b"\n")[2], False
                continue
            for line in complete.splitlines():
                is_wanted = is_whole or _SUMMARIZED.search(line) is not None
                if is_wanted and _STARTED in line and not was_yielded:
                    yield last
                if is_wanted:
                    yield line
                last, was_yielded = line, is_wanted
            is_whole = False
            if not and_between and file.tell() < tail:
                file.seek(tail)
                file.readline(LARGEST_LINE)


# --- Summary


@dataclass(frozen=True)
class RunSummary:
    """What the list shows of one run.

    `metric` names the metric a run is judged by (`eval_accuracy`), with its `best` and `last` value (0 to 1, or a
    loss), and as `result` that of the model once it is kept, before the last; None: not evaluated yet.
    `seconds` is how long it has been worked on, `peak_bytes` the most memory its processes held, `samples_per_second`
    the pace over all of it, or of its last steps, `forecast_error` by which share the forecast was off (positive: too
    high), `started` unix seconds. `problem` is what can't be read of the folder.
    """

    run: RunFolder
    state: State
    title: str
    task: str = ""
    model: str = ""
    data: str = ""
    device: str = ""
    metric: str | None = None
    best: float | None = None
    last: float | None = None
    result: float | None = None
    eval_loss: float | None = None
    seconds: float | None = None
    peak_bytes: int | None = None
    samples_per_second: float | None = None
    steps: int = 0
    total_steps: int | None = None
    forecast_error: float | None = None
    started: float | None = None
    tags: tuple[str, ...] = ()
    note: str = ""
    problem: str = ""
    stopped_early: bool = False


def summarize(run: RunFolder) -> RunSummary:
    """Read what the list shows of `run`; never fails, a damaged folder is summed up as far as it can be read."""
    status = status_at_end(run, and_beginning=True)
    status.clock_moved = run.clock_moved()
    state = run.state(status)
    try:
        options, problem = run.options(), ""
    except OptionsError as error:
        options, problem = None, str(error)
    metric = judged_by(status.evaluations, options)
    found = [one.metrics.get(metric.name) for one in status.evaluations] if metric is not None else []
    values = [value for value in found if value is not None]
    best, last = metric.best(values) if metric is not None else None, values[-1] if values else None
    result = last
    if metric is not None and status.finished is not None and status.finished.wrote_model:
        result = status.metrics.get(metric.name)
    device = status.plan.device if status.plan is not None else ""
    device = status.what_ran.device if status.what_ran is not None else device
    if options is not None and options.device.computers:
        device = f"{device or options.device.there}@{'+'.join(options.device.computers)}"
    notes = past_runs.read(run.path)
    return RunSummary(
        run=run,
        state=state,
        title=title_of(run.path, options),
        task=options.task if options else "",
        model=short_title(options.model.source) if options else "",
        data=_data_of(options) if options else "",
        device=device,
        metric=metric.name if metric is not None else None,
        best=best,
        last=last,
        result=result,
        eval_loss=status.metrics.get("eval_loss"),
        seconds=seconds_spent(status, state, run.exit_record(), time.time()),
        peak_bytes=status.peak_bytes,
        samples_per_second=_pace(status),
        steps=(status.finished.steps if status.finished is not None else 0) or status.step,
        total_steps=status.total_steps,
        forecast_error=status.forecast_error,
        started=status.started,
        tags=notes.tags,
        note=notes.text,
        problem=problem,
        stopped_early=status.stopped_early,
    )


def _data_of(options: RunOptions) -> str:
    """The short name of the data that a run is about."""
    data = options.data
    return short_name(data.eval if options.only_evaluates and data.eval else data.train)


def judged_by(evaluations: Sequence[Evaluated], options: RunOptions | None) -> Metric | None:
    """What a run's evaluations are compared by: the metric that its options name, or the first of METRICS they have."""
    had = [
        metric for metric in METRICS if any(one.metrics.get(metric.name) is not None for one in evaluations)
    ]
    asked = f"eval_{options.training.metric_for_best_model}" if options is not None else ""
    return next((metric for metric in had if metric.name == asked), had[0] if had else None)


def _pace(status: RunStatus) -> float | None:
    """Samples a second: what the engine reported at the end, else of the last steps."""
    if status.finished is not None and status.finished.samples_per_second is not None:
        return status.finished.samples_per_second
    if status.plan is None or not status.step_seconds:
        return None
    return status.plan.effective_batch / status.step_seconds


def seconds_spent(status: RunStatus, state: State, ended: ExitRecord | None, now: float) -> float | None:
    """How long a run has been worked on in all its attempts, each from its engine's start to its end.

    It is the one number for that, wherever it is shown: loading counts, waiting and pauses don't. `now` is in unix
    seconds.
    """
    if status.finished is not None:
        return status.seconds_spent(status.ended)
    if state.is_over:
        is_of_this_attempt = ended is not None and ended.attempt <= status.attempt
        return status.seconds_spent(ended.time if ended is not None and is_of_this_attempt else None)
    is_planned = status.plan is not None and status.plan.attempt >= status.attempt
    is_between = state is State.QUEUED or (state is State.STARTING and is_planned)
    if is_between or status.attempt_started is None:
        return status.seconds_spent()
    unmoved = now - status.clock_moved
    return status.seconds_spent(unmoved if unmoved >= status.attempt_started else now)


# --- The time that a run will take


MOST_TIMED = 60
UNTIMED = "device.name data.text_columns data.label_column data.label_names data.image_column data.columns data.roles"
"""Options that make no difference to it: of the device the title counts, of the data its file."""


@dataclass(frozen=True)
class Timing:
    """How long a past run took: all `seconds`, with what each step and each evaluation took of them."""

    title: str
    examples: int
    steps: int
    evaluations: float
    seconds: float
    per_step: float
    per_evaluation: float

    def seconds_of(self, options: RunOptions) -> float:
        """How long it takes with more or fewer steps or evaluations."""
        steps, evaluations = steps_and_evaluations(options, self.examples)
        longer = (steps - self.steps) * self.per_step
        return self.seconds + longer + (evaluations - self.evaluations) * self.per_evaluation


Timings = dict[tuple[bytes, str], Timing]
"""By `timing_key` and the title of the device; the newest one of any device by an empty title, too."""


def timing_key(options: RunOptions) -> bytes:
    """A key that is equal for options with which a step takes as long; a past run's model counts as what it was."""
    source = options.model.source
    for _generation in range(past_runs.MOST_GENERATIONS):
        source = names_in(folder)[1] if (folder := run_folder(source)) else source
    changes = {path: options_by_path()[path].default for path in UNTIMED.split()}
    return key_of(with_changes(options, {**changes, "model.source": source}))


def timings(runs: Sequence[RunFolder]) -> Timings:
    """How long the first run of each kind took that ended by itself and was never resumed."""
    found: Timings = {}
    for key, device, timing in filter(None, (_timing(run, stamp(run)) for run in runs[:MOST_TIMED])):
        found.setdefault((key, device), timing)
        found.setdefault((key, ""), timing)
    return found


@lru_cache(2 * MOST_TIMED)
def _timing(run: RunFolder, _stamp: tuple[int, ...]) -> tuple[bytes, str, Timing] | None:
    options, status = run.readable_options(), status_at_end(run, and_beginning=True)
    ended, plan, ran = status.finished, status.plan, status.what_ran
    is_timed = ended is not None and ended.state is Outcome.FINISHED and ended.steps and status.attempt == 1
    if not (is_timed and options and ended and plan and ran):
        return None
    steps, evaluations = steps_and_evaluations(options, plan.train_samples)
    evaluations *= ended.steps / steps
    training = ended.time - plan.time
    per_evaluation = min(status.evaluation_seconds, training / max(1.0, evaluations))
    timing = Timing(
        title=title_of(run.path, options),
        examples=plan.train_samples,
        steps=ended.steps,
        evaluations=evaluations,
        seconds=status.seconds_spent() or training,
        per_step=max(0.0, training - evaluations * per_evaluation) / ended.steps,
        per_evaluation=per_evaluation,
    )
    return timing_key(options), ran.device_name, timing


def steps_and_evaluations(options: RunOptions, examples: int) -> tuple[int, float]:
    """How many of each a run on so many training examples has."""
    (steps, per_epoch), every = steps_of(options, examples), options.training.eval_steps
    return steps, 1 / every if 0 < every < 1 else steps / (every or per_epoch)


# --- Verdict


CERTAIN = 2.0
"""Standard errors by which an accuracy has to exceed the baseline."""
LEAST_GAIN = 0.02
"""What an accuracy has to exceed the baseline by, however many validation examples there are."""
RISEN, FALLING = 1.1, 0.97
"""A validation loss has risen above this multiple of its minimum, or still falls below this one of the one before."""
STEADY = 3
"""So many of the last validation losses must fall, each below the one before, to be still falling."""
GAP, LEAST_GAP = 2.0, 0.1
"""A validation loss is well above the training loss from this multiple and this difference on."""
LEAST_CHANGE = 0.03
"""Smaller changes of a loss mean nothing, as of a model that is nearly always right."""
CONSTANT = 0.95
"""A mean absolute error above this share of the baseline's is no better than a constant prediction."""
UNWRITTEN = 0.7
"""A loss above this share of the first one is of a model from scratch that can't write sentences yet."""
LEAST_TEXTS = 3
"""Of fewer generated texts it means nothing that they are the same."""
HIGHER_RATE, LOWER_RATE = 5.0, 0.1
MUCH_LONGER = 5
"""Pretraining that has taught a model nothing is to be so many times as long."""
LONGER = Fix(_("Train longer"), action=FixAction.EXTEND)


class Finding(StrEnum):
    """What a verdict comes to."""

    RESULT = "result"
    HARDLY_LEARNED = "hardly learned"
    OVERFITS = "overfits"
    STILL_FALLING = "still falling"
    NOT_EVALUATED = "not evaluated"


@dataclass(frozen=True)
class Verdict:
    """What a run has come to: a sentence, what it is compared with, and what to try next."""

    finding: Finding
    title: str
    detail: str = ""
    fixes: tuple[Fix, ...] = ()


def verdict(status: RunStatus, options: RunOptions | None) -> Verdict | None:
    """Judge a run that has ended by its recorded facts; None before the end, or if it has no result.

    The validation metric is compared with that of a constant prediction, or the loss with that of the first step.
    What an older run hasn't recorded is not compared.
    """
    finished = status.finished
    if status.is_test and finished is not None and finished.metrics:
        title, compared, is_at_chance = _result(status, options)
        return Verdict(Finding.HARDLY_LEARNED if is_at_chance else Finding.RESULT, title, compared)
    if finished is None or not finished.wrote_model or not finished.steps:
        return None
    if options is not None and options.task in (Task.CAUSAL_LM, Task.CHAT) and (empty := _monotony(status)):
        title = _("The model has not learned to generate text yet")
        return Verdict(Finding.HARDLY_LEARNED, title, *_to_generate(empty, options))
    if not status.evaluations:
        fixes = (Fix(_("New run with a validation fraction of 10 %"), {"data.eval_fraction": 0.1}),)
        return Verdict(
            Finding.NOT_EVALUATED,
            _("This run was not evaluated"),
            _("It is unknown how well the model does on new examples."),
            fixes if options is not None and not options.data.eval_fraction else (),
        )
    title, compared, is_at_chance = _result(status, options)
    model_step = finished.model_step or finished.steps
    if not finished.metrics and status.evaluated_at != model_step:
        at = _(
            "Measured at step {step:,}; the model was then trained to step {model:,}, not evaluated again."
        )
        compared = f"{compared} {at.format(step=status.evaluated_at, model=model_step)}".strip()

    def judged(finding: Finding, detail: str = "", *fixes: Fix) -> Verdict:
        return Verdict(finding, title, f"{compared} {detail}".strip(), fixes)

    kept = ""
    if finished.waited:
        kept = ngettext(
            "Stopped early at step {last:,}: no better for {count} evaluation; the model is that of step {best:,}.",
            "Stopped early at step {last:,}: no better for {count} evaluations; the model is that of step {best:,}.",
            finished.waited,
        ).format(count=finished.waited, last=finished.steps, best=model_step)
    elif model_step < finished.steps:
        metric, end = judged_by(status.evaluations, options), status.evaluations[-1]
        name = "eval_loss" if metric is None else metric.name
        kept = _(
            "The model is that of step {step:,}, the best evaluation; that of step {last:,} gave {value}."
        )
        if end.step == model_step:
            kept = _("The model is that of step {step:,}, the last that was evaluated.")
        value = formats.metric_format(name)(end.metrics.get(name))
        kept = kept.format(step=model_step, last=end.step, value=value)
    first, last = _lowest(status.evaluations), status.evaluations[-1]
    low, now = (one.metrics.get("eval_loss") for one in (first, last))
    has_risen = low is not None and now is not None and now > max(RISEN * low, low + LEAST_CHANGE)
    if (
        not finished.waited
        and has_risen
        and (last.train_loss or math.nan) < (first.train_loss or math.nan)  # not, as far as they are unknown
        and not _is_best(last, status, options)
    ):
        detail = _(
            "It overfits: the validation loss was lowest at epoch {epoch} ({low}) and rose to {now}, while the "
            "training loss kept falling."
        ).format(epoch=formats.epochs(first.epoch), low=formats.loss(low), now=formats.loss(now))
        if kept:
            return judged(Finding.RESULT, f"{detail} {kept}")
        return judged(Finding.OVERFITS, detail, *_against_overfitting(first, options))
    if is_at_chance and options is not None and options.task is Task.CAUSAL_LM:
        detail = f"{title}. {compared} {kept}".strip()
        title = _("The model has not learned to generate text yet")
        return Verdict(Finding.HARDLY_LEARNED, title, *_to_generate(detail, options))
    if is_at_chance:
        return Verdict(
            Finding.HARDLY_LEARNED,
            _("It has hardly learned"),
            f"{title}. {compared} {kept}".strip(),
            _to_learn(status, options),
        )
    if has_risen and not kept and _is_best(last, status, options):
        rose = _(
            "The validation loss rose from {low} to {now} although more answers are right: where the model is wrong, "
            "it is now more certain."
        )
        return judged(Finding.RESULT, rose.format(low=formats.loss(low), now=formats.loss(now)))
    losses = [loss for one in status.evaluations if (loss := one.metrics.get("eval_loss")) is not None]
    before = min(losses[:-1], default=0.0)
    is_steady = all(later < earlier for earlier, later in pairwise(losses[-STEADY:]))
    if not finished.waited and is_steady and losses[-1:] < [min(FALLING * before, before - LEAST_CHANGE)]:
        detail = _("The validation loss was still falling at the end: training longer may help.")
        return judged(Finding.STILL_FALLING, detail, LONGER)
    return judged(Finding.RESULT, f"{kept} {_gap(status, finished.model_step or last.step)}".strip())


def _gap(status: RunStatus, step: int) -> str:
    """That the model does much better on what it has trained on, by the evaluation at a step; empty if it doesn't."""
    losses = [
        (one.metrics.get("eval_loss"), one.train_loss) for one in status.evaluations if one.step == step
    ]
    new, seen = losses[-1] if losses else (None, None)
    if new is None or seen is None or new < max(GAP * seen, seen + LEAST_GAP):
        return ""
    return _(
        "The validation loss ({new}) is well above the training loss ({seen}): the model does better on the examples "
        "that it has trained on than on new ones."
    ).format(new=formats.loss(new), seen=formats.loss(seen))


def _monotony(status: RunStatus) -> str:
    """Why the generated texts of the last evaluation are worth nothing; empty if they differ."""
    texts = [set(one.text.split()) for one in status.said]
    if not texts or (any(texts) and (len(texts) < LEAST_TEXTS or any(text != texts[0] for text in texts))):
        return ""
    found = _("All generated texts are the same.") if any(texts) else _("All generated texts are empty.")
    if status.epoch >= 1:
        return found
    trained = _("After {epoch} epochs it has not seen every training example yet.")
    return f"{found} {trained.format(epoch=formats.epochs(status.epoch))}"


def _to_generate(found: str, options: RunOptions) -> tuple[str, tuple[Fix, ...]]:
    """What was found and its cause, and what makes a model generate text."""
    if not options.starts_random and not run_folder(options.model.source):
        return f"{found} {_('Training longer may help.')}", (LONGER,)
    cause = _(
        "A model from scratch needs much more text, or much longer pretraining; a pretrained one can write already."
    )
    longer = LONGER if options.task is not Task.CHAT else _longer_pair(options)
    pretrained = pretrained_fix(options.task, _("New run with {model}"))
    return f"{found} {cause}", (pretrained,) if longer is None else (longer, pretrained)


def _longer_pair(options: RunOptions) -> Fix | None:
    """Pretraining and chat once more, and longer; None for a model that no run of Hone has pretrained."""
    folder = run_folder(options.model.source)
    before = None if folder is None else RunFolder(folder).readable_options()
    if before is None or not before.starts_random:
        return None
    model, path = (
        before.model,
        "training.epochs" if options.training.max_steps is None else "training.max_steps",
    )
    label = _("Two new runs, {times} times as long").format(times=MUCH_LONGER)
    longer = {path: MUCH_LONGER * value_of(options, path)}
    return Fix(label, {"model.source": model.source, "model.vocabulary": model.vocabulary, **longer})


def _result(status: RunStatus, options: RunOptions | None) -> tuple[str, str, bool]:
    """The result, what it is compared with, and whether it is no better than chance."""
    metrics, baseline = status.metrics, status.evaluations[-1].baseline
    count = status.plan.eval_samples if status.plan is not None else 0
    if (accuracy := metrics.get("eval_accuracy")) is not None:
        title = _("{accuracy} of the validation examples are right")
        if status.is_test:
            title = ngettext(
                "The model is right on {accuracy} of {count} example",
                "The model is right on {accuracy} of {count} examples",
                count,
            )
        title = title.format(accuracy=formats.share(accuracy), count=formats.count(count))
        loss, labels = metrics.get("eval_loss"), status.plan.labels if status.plan is not None else ()
        if baseline is None:
            is_chance = loss is not None and len(labels) > 1 and loss > 0.98 * math.log(len(labels))
            guessing = _("Its loss is that of guessing among {count} labels.").format(count=len(labels))
            return title, guessing if is_chance else "", is_chance
        compared = _("Always answering the most frequent label would be right in {share}.")
        return title, compared.format(share=formats.share(baseline)), not _exceeds(accuracy, baseline, count)
    if (error := metrics.get("eval_mae")) is not None:
        title = _("Predictions are off by {error} on average").format(error=formats.three_figures(error))
        if baseline is None:
            return title, "", False
        compared = _("Always predicting the mean would be off by {error}.")
        return title, compared.format(error=formats.three_figures(baseline)), error > CONSTANT * baseline
    if (preferred := metrics.get("eval_reward_accuracy")) is not None:
        title = _("It prefers the better answer in {share} of the validation pairs")
        compared = _("Guessing would be right in 50 %.")
        if options is not None and options.preference is PreferenceLoss.KTO:
            title, compared = _("{share} of the validation answers get a reward on the right side"), ""
        return title.format(share=formats.share(preferred)), compared, not _exceeds(preferred, 0.5, count)
    perplexity, loss = metrics.get("eval_perplexity"), metrics.get("eval_loss")
    if perplexity is None or loss is None:
        name = next((metric.name for metric in METRICS if metrics.get(metric.name) is not None), "eval_loss")
        title = _("{metric} {value} on the validation data")
        value = formats.metric_format(name)(metrics.get(name))
        return title.format(metric=formats.metric_title(name), value=value), "", metrics.get(name) == 0
    value = formats.three_figures(perplexity)
    title = _("Perplexity {value} on the validation data").format(value=value)
    meaning = _("It is as unsure of the next token as if it chose among {value}.").format(value=value)
    if status.first_loss is None or status.first_loss > LARGEST_EXPONENT:
        return title, meaning, False
    compared = _("Before training it was about {value}; lower is better.")
    is_chance = options is not None and options.starts_random and loss > UNWRITTEN * status.first_loss
    first = compared.format(value=formats.three_figures(math.exp(status.first_loss)))
    return title, f"{meaning} {first}", is_chance


LARGEST_EXPONENT = 100.0
"""Of a perplexity that is worth showing."""


def _exceeds(accuracy: float, baseline: float, count: int) -> bool:
    """Whether an accuracy on `count` examples is better than a baseline by more than chance."""
    error = math.sqrt(baseline * (1 - baseline) / count) if count else 0.0
    return accuracy - baseline > max(LEAST_GAIN, CERTAIN * error) or accuracy == 1.0


def _lowest(evaluations: Sequence[Evaluated]) -> Evaluated:
    """The evaluation with the lowest validation loss."""
    losses = [one.metrics.get("eval_loss") for one in evaluations]
    return evaluations[losses.index(min((loss for loss in losses if loss is not None), default=None))]


def _is_best(last: Evaluated, status: RunStatus, options: RunOptions | None) -> bool:
    """Whether the last evaluation was better than all others by what they are compared by."""
    metric = judged_by(status.evaluations, options)
    if metric is None or (value := last.metrics.get(metric.name)) is None:
        return False
    values = [found for one in status.evaluations if (found := one.metrics.get(metric.name)) is not None]
    return metric.best(values) == value and values.count(value) == 1


def _to_learn(status: RunStatus, options: RunOptions | None) -> tuple[Fix, ...]:
    is_worse = status.stopped_early or status.evaluations[-1] is not _lowest(status.evaluations)
    longer = () if is_worse else (LONGER,)
    if status.finished is not None and status.finished.state is Outcome.STOPPED and not status.stopped_early:
        return (Fix(_("Resume"), action=FixAction.RESUME),)  # it was not trained to its end
    if options is None:
        return longer
    factor, title = HIGHER_RATE, _("New run with a higher learning rate, {rate}")
    last, first = status.evaluations[-1].train_loss, status.first_loss
    if last is not None and first is not None and last > RISEN * first:
        factor, title, longer = LOWER_RATE, _("New run with a lower learning rate, {rate}"), ()
    rate = float(f"{factor * options.training.learning_rate:.3g}")
    return *longer, Fix(title.format(rate=formats.plain_number(rate)), {"training.learning_rate": rate})


def _against_overfitting(best: Evaluated, options: RunOptions | None) -> tuple[Fix, ...]:
    epochs = max(1, math.ceil(best.epoch - 0.01))
    fixes = []
    if options is not None and options.training.max_steps is None and epochs < options.training.epochs:
        words = ngettext("New run with {count} epoch", "New run with {count} epochs", epochs)
        fixes.append(Fix(words.format(count=epochs), {"training.epochs": epochs}))
    if options is not None and not options.keeps_best:
        fixes.append(Fix(_("New run that keeps the best model"), {"output.keep_best": True}))
    return tuple(fixes)
