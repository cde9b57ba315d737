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
from typing import BinaryIO

import msgspec

from core.base.errors import OptionsError
from core.base.files import open_plain
from core.base.formats import METRICS
from core.options import RunOptions, past_runs
from core.options.past_runs import data_name, model_name, title_of
from core.runs.event_log import LARGEST_LINE
from core.runs.events import Evaluated, Event, RunStarted, decode
from core.runs.folder import ExitRecord, RunFolder
from core.runs.status import RunStory, State

# --- Disk space


Stamp = tuple[int, ...]


class RunSizes:
    """Counts the bytes of runs and keeps them in mind. Ask it in one thread, and never in a window's."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Stamp, int]] = {}

    def of(self, run: RunFolder) -> int:
        """Bytes of all files of a run, as they are listed (links count as nothing); what can't be read isn't counted.

        A run whose folders and growing files bear the same dates as at the last count isn't counted again.
        """
        stamp = _stamp(run)
        known = self._known.get(run.path)
        if known is not None and known[0] == stamp:
            return known[1]
        counted = sum(_file_sizes(run.path))
        self._known[run.path] = (stamp, counted)
        return counted


def _stamp(run: RunFolder) -> Stamp:
    """When something was last put into a run's folders or taken out, and when its growing files were last written."""
    looked_at = (run.path, run.checkpoints, run.model, run.tensorboard, run.events_file, run.machine_file)
    return tuple(map(_changed, looked_at))


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _file_sizes(folder: Path) -> Iterator[int]:
    """The sizes of all files below a folder. No link is followed: what it leads to stays when the run goes."""
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    size = _size_of(entry, waiting)
                    if size:
                        yield size
        except OSError:
            continue


def _size_of(entry: "os.DirEntry[str]", folders: list[str]) -> int:
    """The size of a file; of a folder 0, and it is added to `folders`."""
    try:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.path)
            return 0
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


# --- Summary


TAIL_BYTES = 512 << 10

BLOCK_BYTES = 128 << 10
"""So much is read and searched at once: meanwhile no other thread of this process, the window's included, computes."""

_STARTED = b'"type":"run_started"'
_TELLING = re.compile(rb'"type":"(?:evaluated|run_started|run_planned|what_ran)"')


@dataclass(frozen=True)
class RunSummary:
    """What the list shows of one run.

    `metric` names the metric a run is judged by (`eval_accuracy`), with its `best` and `last` value (0 to 1, or a
    loss); None: not evaluated yet. `seconds` is how long it has been worked on, `peak_bytes` the most memory
    its processes held, `forecast_error` by which share the forecast was off (positive: too high), `started` unix
    seconds. `tags` and `note` are what the person says of it. `problem` says in plain words what of the folder can't be
    read.
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
    forecast_error: float | None = None
    started: float | None = None
    tags: tuple[str, ...] = ()
    note: str = ""
    problem: str = ""


def summarize(run: RunFolder) -> RunSummary:
    """Read what the list shows of `run`; never fails, a damaged folder is summed up as far as it can be read."""
    glance = _look(run)
    story = glance.story
    story.clock_moved = run.clock_moved()
    state = run.state(story)
    options, problem = _options(run)
    metric, best, last = _judge(glance.evaluations)
    notes = past_runs.read(run.path)
    return RunSummary(
        run=run,
        state=state,
        title=title_of(run.path, options),
        task=options.task if options else "",
        model=model_name(options) if options else "",
        data=data_name(options) if options else "",
        device=_device(story),
        metric=metric,
        best=best,
        last=last,
        seconds=seconds_spent(story, state, run.exit_record(), time.time()),
        peak_bytes=story.peak_bytes,
        forecast_error=story.forecast_error,
        started=story.started,
        tags=notes.tags,
        note=notes.text,
        problem=problem,
    )


@dataclass(frozen=True)
class SavedModel:
    """The model in a run's folder: after how many steps it was written, and whether the run trains again since."""

    step: int
    has_gone_on: bool


def saved_model_of(run: RunFolder) -> SavedModel | None:
    """What a run's events tell of the model in its folder; None where they tell of none."""
    story = story_at_end(run)
    if story.model_step is None:  # written long ago
        story = _look(run).story
    return None if story.model_step is None else SavedModel(story.model_step, story.finished is None)


def state_at_end(run: RunFolder) -> State:
    """Where a run stands, told by the ends of its files alone: quickly, and rightly for one that is over."""
    return run.state(story_at_end(run))


def story_at_end(run: RunFolder, *, and_beginning: bool = False) -> RunStory:
    """What the ends of a run's files amount to: its newest step, and how it ended.

    Args:
        run: The run.
        and_beginning: Whether to read how it began, too: what was planned and forecast, and what ran.
    """
    lines = _telling_lines if and_beginning else _last_lines
    files = (_decoded(lines(path)) for path in (run.events_file, run.machine_file))
    story = RunStory()
    story.apply_all(heapq.merge(*files, key=attrgetter("time")))  # each in its order: a clock may be set back
    return story


def _decoded(lines: Iterable[bytes]) -> Iterator[Event]:
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError):
            event = decode(line)
            if event is not None:
                yield event


@dataclass
class _Glance:
    """What a quick look into the event files found."""

    story: RunStory
    evaluations: list[Evaluated]

    def take(self, event: Event) -> None:
        self.story.apply(event)
        if isinstance(event, RunStarted):
            self.evaluations = [found for found in self.evaluations if found.step <= event.from_step]
        if isinstance(event, Evaluated):
            self.evaluations.append(event)


def _look(run: RunFolder) -> _Glance:
    glance = _Glance(RunStory(), [])
    for path in (run.events_file, run.machine_file):
        for event in _decoded(_telling_lines(path)):
            glance.take(event)
    return glance


def _telling_lines(path: Path) -> Iterator[bytes]:
    """The complete lines of a file; of the middle of a large one those that tell of evaluations and attempts."""
    try:
        with open_plain(path) as file:
            tail = file.seek(0, os.SEEK_END) - TAIL_BYTES
            file.seek(0)
            before = b""
            for number, block in enumerate(_blocks(file)):
                if number == 0 or file.tell() >= tail:
                    yield from block.splitlines()
                else:
                    yield from _telling(before, block)
                before = block
    except OSError:
        return


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """The complete lines of a file from where it stands, some at a time; none that is too long to be an event."""
    while block := file.read(BLOCK_BYTES):
        if not block.endswith(b"\n"):
            block += file.readline(LARGEST_LINE)
        yield block[: block.rfind(b"\n") + 1]


def _telling(before: bytes, block: bytes) -> Iterator[bytes]:
    """Of a block those lines, and the one before each beginning, which tells how the attempt before it ended."""
    end = 0
    while found := _TELLING.search(block, end):
        begin = max(end, block.rfind(b"\n", end, found.start()) + 1)
        if found.group() == _STARTED:
            ended = (block[:begin] or before)[:-1].rpartition(b"\n")[2]
            yield from [] if _TELLING.search(ended) else [ended]
        end = block.find(b"\n", found.end()) + 1
        yield block[begin:end]


def _last_lines(path: Path) -> Iterator[bytes]:
    try:
        with open_plain(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - BLOCK_BYTES))
            for block in _blocks(file):
                yield from block.splitlines()
    except OSError:
        return


def _judge(evaluations: list[Evaluated]) -> tuple[str | None, float | None, float | None]:
    """The metric a run is judged by, its best and its last value."""
    for metric in METRICS:
        values = [value for found in evaluations if (value := found.metrics.get(metric.name)) is not None]
        if values:
            return metric.name, metric.best(values), values[-1]
    return None, None, None


def _options(run: RunFolder) -> tuple[RunOptions | None, str]:
    try:
        return run.options(), ""
    except OptionsError as error:
        return None, str(error)


def _device(story: RunStory) -> str:
    if story.what_ran is not None:
        return story.what_ran.device
    return story.plan.device if story.plan is not None else ""


def seconds_spent(story: RunStory, state: State, ended: ExitRecord | None, now: float) -> float | None:
    """How long a run has been worked on in all its attempts, each from its engine's start to its end.

    It is the one number for that, wherever it is shown: loading counts, waiting and pauses don't. `now` is in unix
    seconds.
    """
    if story.finished is not None:
        return story.seconds_spent(story.ended)
    if state.is_over:
        is_of_this_attempt = ended is not None and ended.attempt <= story.attempt
        return story.seconds_spent(ended.time if ended is not None and is_of_this_attempt else None)
    is_planned = story.plan is not None and story.plan.attempt >= story.attempt
    is_between = state is State.QUEUED or (state is State.STARTING and is_planned)
    if is_between or story.attempt_started is None:
        return story.seconds_spent()
    unmoved = now - story.clock_moved
    return story.seconds_spent(unmoved if unmoved >= story.attempt_started else now)
