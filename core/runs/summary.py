"""One row of the list of runs, read without reading all events, and the disk space of runs."""

import contextlib
import heapq
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import msgspec

from core.base.errors import OptionsError
from core.base.files import open_plain
from core.base.formats import METRICS
from core.options import past_runs
from core.options.past_runs import data_name, model_name, title_of
from core.runs.event_log import LARGEST_LINE
from core.runs.events import Event, decode
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
        stamp = tuple(map(_changed, dated))
        known = self._known.get(run.path)
        if known is None or known[0] != stamp:
            known = self._known[run.path] = (stamp, sum(_file_sizes(run.path)))
        return known[1]


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _file_sizes(folder: Path) -> Iterator[int]:
    """The sizes of all files below a folder, no link followed."""
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(f"{path}{os.sep}{name}")
                if stat.S_ISREG(found.st_mode):
                    yield found.st_size


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
        run: The run.
        and_beginning: Whether to read how it began, too: plan, forecast, what ran; and all evaluations.
        and_between: Whether to search what lies between for them: half a second for a million steps.
    """
    files = (
        _decoded(_lines(path, and_beginning, and_between)) for path in (run.events_file, run.machine_file)
    )
    status = RunStatus()
    status.apply_all(
        heapq.merge(*files, key=attrgetter("time"))
    )  # each in its order: a clock may be set back
    return status


def state_at_end(run: RunFolder) -> State:
    """Where a run stands, by the ends of its files alone: quick, and right for one that is over."""
    return run.state(status_at_end(run))


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
    loss); None: not evaluated yet. `seconds` is how long it has been worked on, `peak_bytes` the most memory its
    processes held, `samples_per_second` the pace over all of it, or of its last steps, `forecast_error` by which share
    the forecast was off (positive: too high), `started` unix seconds.
    `problem` is what can't be read of the folder.
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
    seconds: float | None = None
    peak_bytes: int | None = None
    samples_per_second: float | None = None
    steps: int = 0
    forecast_error: float | None = None
    started: float | None = None
    tags: tuple[str, ...] = ()
    note: str = ""
    problem: str = ""


def summarize(run: RunFolder) -> RunSummary:
    """Read what the list shows of `run`; never fails, a damaged folder is summed up as far as it can be read."""
    status = status_at_end(run, and_beginning=True)
    status.clock_moved = run.clock_moved()
    state = run.state(status)
    try:
        options, problem = run.options(), ""
    except OptionsError as error:
        options, problem = None, str(error)
    name, best, last = None, None, None
    for metric in METRICS:
        values = [value for one in status.evaluations if (value := one.metrics.get(metric.name)) is not None]
        if values:
            name, best, last = metric.name, metric.best(values), values[-1]
            break
    planned = status.plan.device if status.plan is not None else ""
    notes = past_runs.read(run.path)
    return RunSummary(
        run=run,
        state=state,
        title=title_of(run.path, options),
        task=options.task if options else "",
        model=model_name(options) if options else "",
        data=data_name(options) if options else "",
        device=status.what_ran.device if status.what_ran is not None else planned,
        metric=name,
        best=best,
        last=last,
        seconds=seconds_spent(status, state, run.exit_record(), time.time()),
        peak_bytes=status.peak_bytes,
        samples_per_second=_pace(status),
        steps=(status.finished.steps if status.finished is not None else 0) or status.step,
        forecast_error=status.forecast_error,
        started=status.started,
        tags=notes.tags,
        note=notes.text,
        problem=problem,
    )


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
