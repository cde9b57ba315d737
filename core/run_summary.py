"""One row of the list of runs, read quickly even from a run with a million steps."""

import contextlib
import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import msgspec

from core.errors import OptionsError
from core.events import Evaluated, Event, RunStarted, decode
from core.metrics import METRICS
from core.options import RunOptions
from core.run_folder import RunFolder
from core.sources import scheme_of, short_name
from core.story import RunStory, State

WHOLE_BYTES = 1 << 20
"""Files up to this size are read whole; of larger ones the beginning and the end."""

HEAD_BYTES = 64 << 10
TAIL_BYTES = 512 << 10

EVALUATED = b'"type":"evaluated"'


@dataclass(frozen=True)
class RunSummary:
    """What the list shows of one run.

    `metric` names the metric a run is judged by (`eval_accuracy`), with its `best` and `last` value (0 to 1, or a
    loss); None: not evaluated yet. `seconds` is wall time from start to end (or to now), `peak_bytes` the most memory
    its processes held, `forecast_error` by which share the forecast was off (positive: too high), `started` unix
    seconds. `problem` says in plain words what of the folder can't be read.
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
    problem: str = ""


def title_of(options: RunOptions) -> str:
    """What a run is called: its name, or model and data."""
    return options.output.name or f"{model_name(options)} on {data_name(options)}"


def model_name(options: RunOptions) -> str:
    """The model's short name: what follows a scheme, or the last part of its path or id."""
    return short_name(options.model.source)


def data_name(options: RunOptions) -> str:
    """The training data's short name: what follows a scheme, or the file's name without its ending."""
    name = short_name(options.data.train)
    return name if scheme_of(options.data.train) else Path(name).stem


def summarize(run: RunFolder) -> RunSummary:
    """Read what the list shows of `run`; never fails, a damaged folder is summed up as far as it can be read."""
    glance = _look(run)
    story = glance.story
    state = run.state(story)
    options, problem = _options(run)
    metric, best, last = _judge(glance.evaluations)
    return RunSummary(
        run=run,
        state=state,
        title=title_of(options) if options else run.name,
        task=options.task if options else "",
        model=model_name(options) if options else "",
        data=data_name(options) if options else "",
        device=_device(story),
        metric=metric,
        best=best,
        last=last,
        seconds=_seconds(run, glance, state),
        peak_bytes=story.peak_bytes,
        forecast_error=story.forecast_error,
        started=story.started,
        problem=problem,
    )


def state_at_end(run: RunFolder) -> State:
    """Where a run stands, told by the ends of its files alone: quickly, and rightly for one that is over."""
    return run.state(story_at_end(run))


def story_at_end(run: RunFolder, *, and_beginning: bool = False) -> RunStory:
    """What the ends of a run's files amount to: its newest step, and how it ended.

    Args:
        run: The run.
        and_beginning: Whether to read how it began, too: what was planned and forecast.
    """
    events: list[Event] = []
    for path in (run.events_file, run.machine_file):
        for line in _last_lines(path, and_beginning):
            with contextlib.suppress(msgspec.MsgspecError):
                event = decode(line)
                events += [] if event is None else [event]
    story = RunStory()
    story.apply_all(sorted(events, key=attrgetter("time")))
    return story


@dataclass
class _Glance:
    """What a quick look into the event files found. `last_time` is that of the newest event, in unix seconds."""

    story: RunStory
    evaluations: list[Evaluated]
    last_time: float | None = None

    def take(self, event: Event) -> None:
        self.story.apply(event)
        self.last_time = max(event.time, self.last_time or event.time)
        if isinstance(event, RunStarted):
            self.evaluations = [found for found in self.evaluations if found.step <= event.from_step]
        if isinstance(event, Evaluated):
            self.evaluations.append(event)


def _look(run: RunFolder) -> _Glance:
    glance = _Glance(RunStory(), [])
    for path in (run.events_file, run.machine_file):
        for line in _telling_lines(path):
            with contextlib.suppress(msgspec.MsgspecError):
                event = decode(line)
                if event is not None:
                    glance.take(event)
    return glance


def _telling_lines(path: Path) -> Iterator[bytes]:
    """The complete lines of a file; of a large one its beginning, its evaluations and its end."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size <= WHOLE_BYTES:
                yield from _complete(file.read())
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                yield from _complete(view[:HEAD_BYTES])
                yield from _evaluations(view, HEAD_BYTES, len(view) - TAIL_BYTES)
                yield from _complete(view[len(view) - TAIL_BYTES :])
    except OSError:
        return


def _last_lines(path: Path, and_first: bool) -> list[bytes]:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES) if and_first else b""
            begin = max(len(head), file.seek(0, os.SEEK_END) - HEAD_BYTES)
            file.seek(begin)
            gap = b"\n" if begin > len(head) else b""  # two halves of two lines are no line
            return _complete(head + gap + file.read())
    except OSError:
        return []


def _complete(block: bytes) -> list[bytes]:
    return block[: block.rfind(b"\n") + 1].splitlines()


def _evaluations(view: mmap.mmap, start: int, stop: int) -> Iterator[bytes]:
    position = view.find(EVALUATED, start, stop)
    while position >= 0:
        end = view.find(b"\n", position)
        yield view[view.rfind(b"\n", 0, position) + 1 : end]
        position = view.find(EVALUATED, end, stop)


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


def _seconds(run: RunFolder, glance: _Glance, state: State) -> float | None:
    if glance.story.started is None:
        return None
    if not state.is_over:
        return time.time() - glance.story.started
    exit_record = run.exit_record()
    ended = glance.story.ended or (exit_record.time if exit_record else glance.last_time)
    return ended - glance.story.started if ended is not None else None
