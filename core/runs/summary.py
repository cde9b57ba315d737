"""One row of the list of runs, read without reading all events; how long runs took; the disk space of runs."""

import contextlib
import heapq
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

import msgspec

from core.base.errors import OptionsError
from core.base.files import changed_at, open_plain
from core.memory.model import key_of
from core.options import RunOptions, past_runs
from core.options.catalogue import options_by_path, with_changes
from core.options.choices import BestMetric
from core.options.method_rules import steps_of
from core.options.past_runs import names_in, run_folder
from core.options.sources import short_name
from core.runs import notes
from core.runs.event_log import LARGEST_LINE
from core.runs.events import Event, Outcome, decode
from core.runs.folder import ExitRecord, RunFolder
from core.runs.notes import short_title, title_of
from core.runs.status import RunStatus, State
from core.runs.verdict import judged_by

# --- Disk space


class RunSizes:
    """Counts the bytes of runs and caches them. Use it in one thread, and never in a window's."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], int]] = {}

    def of(self, run: RunFolder) -> int:
        """Returns the bytes of all files of a run; links count as nothing, and what can't be read isn't counted.

        A run whose folders and growing files have the same dates as at the last count isn't counted again.
        """
        dated = (run.path, run.checkpoints, run.model, run.tensorboard, run.events_file, run.machine_file)
        stamp = tuple(map(changed_at, dated))
        known = self._known.get(run.path)
        if known is None or known[0] != stamp:
            known = self._known[run.path] = (stamp, sum(_file_sizes(run.path)))
        return known[1]


def _file_sizes(folder: Path) -> Iterator[int]:
    """Yields the sizes of all files below a folder, no link followed."""
    for path, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(f"{path}{os.sep}{name}")
                if stat.S_ISREG(found.st_mode):
                    yield found.st_size


def stamp(run: RunFolder) -> tuple[int, ...]:
    """Returns modification times of a run's files: a run that is over is read again only if one has changed."""
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
    """Returns the status by the ends of a run's files: its newest step, and how it ended.

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
    """Returns where a run stands, by the ends of its files alone: quick, and right for one that is over."""
    return run.state(status_at_end(run))


def current_attempt(run: RunFolder) -> int:
    """Returns the number of the attempt under way, for its keeper and its engine.

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
    """Returns complete lines of a file: its last block, or its first one, its tail, and evaluations and attempts.

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
    high), `started` unix seconds. `problem` is what can't be read of the
    folder, `share` how much of the run is done (0 to 1).
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
    is_test: bool = False
    share: float | None = None


def summarize(run: RunFolder) -> RunSummary:
    """Reads what the list shows of `run`; never fails, a damaged folder is summed up as far as it can be read."""
    status = status_at_end(run, and_beginning=True)
    status.clock_moved = run.clock_moved()
    state = run.state(status)
    try:
        options, problem = run.options(), ""
    except OptionsError as error:
        options, problem = None, str(error)
    by = options.training.metric_for_best_model if options is not None else BestMetric.AUTO
    metric = judged_by([one.metrics for one in status.evaluations], by)
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
        is_test=status.is_test or (options is not None and options.only_evaluates),
        share=status.share_done,
    )


def _data_of(options: RunOptions) -> str:
    """Returns the short name of the data that a run is about."""
    data = options.data
    return short_name(data.eval if options.only_evaluates and data.eval else data.train)


def _pace(status: RunStatus) -> float | None:
    """Returns samples a second: what the engine reported at the end, else of the last steps."""
    if status.finished is not None and status.finished.samples_per_second is not None:
        return status.finished.samples_per_second
    if status.plan is None or not status.step_seconds:
        return None
    return status.plan.effective_batch / status.step_seconds


def seconds_spent(status: RunStatus, state: State, ended: ExitRecord | None, now: float) -> float | None:
    """Returns how long a run has been worked on in all its attempts, each from its engine's start to its end.

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
"""Options that don't change the time; a device counts by its title only, data by its file."""
ROUGH = (
    "memory.batch_size memory.gradient_accumulation_steps data.max_train_samples data.max_eval_samples "
    "data.eval_fraction"
)
"""Options on which the time per example hardly depends."""


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
    batch: int = 0

    def seconds_of(self, options: RunOptions) -> float:
        """Returns how long it takes with more or fewer steps or evaluations."""
        steps, evaluations = steps_and_evaluations(options, self.examples)
        longer = (steps - self.steps) * self.per_step
        return self.seconds + longer + (evaluations - self.evaluations) * self.per_evaluation

    def roughly(self, options: RunOptions, examples: int) -> float | None:
        """Returns how long it takes with another batch size or of so many examples, by the time per example.

        None if the batch sizes are far apart: a step also takes what doesn't grow with its batch.
        """
        factor = options.effective_batch / max(1, self.batch)
        if not 1 / FAR_BATCHES <= factor <= FAR_BATCHES:
            return None
        rest = self.seconds - self.steps * self.per_step - self.evaluations * self.per_evaluation
        steps, evaluations = steps_and_evaluations(options, examples)
        has_own = bool(options.data.eval or options.data.eval_split or options.data.max_eval_samples)
        evaluated = 1.0 if has_own else examples / self.examples
        return max(0.0, rest) + steps * self.per_step * factor + evaluations * self.per_evaluation * evaluated


FAR_BATCHES = 4.0

Timings = dict[tuple[bytes, str], Timing]
"""By `timing_key` and the title of the device; the newest one of any device by an empty title, too. The newest of a
device by `rough_key`, too."""


def timing_key(options: RunOptions) -> bytes:
    """Returns a key equal for options with the same step time; a past run's model counts as what it was."""
    source = options.model.source
    for _generation in range(notes.MOST_GENERATIONS):
        source = names_in(folder)[1] if (folder := run_folder(source)) else source
    changes = {path: options_by_path()[path].default for path in UNTIMED.split()}
    return key_of(with_changes(options, {**changes, "model.source": source}))


def rough_key(options: RunOptions) -> bytes:
    """Returns a key that is equal for options with which an example takes about as long."""
    return b"rough" + timing_key(
        with_changes(options, {path: options_by_path()[path].default for path in ROUGH.split()})
    )


def timings(runs: Sequence[RunFolder]) -> Timings:
    """Returns how long the first run of each kind took that ended by itself and was never resumed."""
    found: Timings = {}
    for key, rough, device, timing in filter(None, (_timing(run, stamp(run)) for run in runs[:MOST_TIMED])):
        found.setdefault((key, device), timing)
        found.setdefault((key, ""), timing)
        found.setdefault((rough, device), timing)
    return found


@lru_cache(2 * MOST_TIMED)
def _timing(run: RunFolder, _stamp: tuple[int, ...]) -> tuple[bytes, bytes, str, Timing] | None:
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
        batch=options.effective_batch,
    )
    return timing_key(options), rough_key(options), ran.device_name, timing


def steps_and_evaluations(options: RunOptions, examples: int) -> tuple[int, float]:
    """Returns how many of each a run on so many training examples has."""
    (steps, per_epoch), every = steps_of(options, examples), options.training.eval_steps
    return steps, 1 / every if 0 < every < 1 else steps / (every or per_epoch)
