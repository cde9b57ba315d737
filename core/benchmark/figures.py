"""The figures of a benchmark: what each of its runs has measured so far, read from the run's events."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from core.base import formats
from core.base.language import _
from core.benchmark.plan import Benchmark, BenchmarkRow, Measured
from core.monitor.system_rules import SLOWED, held_back
from core.options import RunOptions
from core.runs.crash import crash_of
from core.runs.event_log import EventReader
from core.runs.events import (
    BatterySampled,
    DeviceSampled,
    Event,
    Level,
    MemorySampled,
    MessageRaised,
    Source,
    StepFinished,
)
from core.runs.folder import RunFolder
from core.runs.status import RunStatus, State
from core.runs.summary import status_at_end

GPU_HELD = 1 << 30
"""GPU memory of other programs, in bytes, that is more than the windows of a desktop use."""


MIN_SPREAD = 4
"""The fewest values that have quartiles."""


@dataclass(frozen=True)
class Spread:
    """A median and the quartiles below and above it; of fewer than four values, the minimum and maximum."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread | None":
        ordered = sorted(values)
        if len(ordered) < MIN_SPREAD:
            return cls(statistics.median(ordered), ordered[0], ordered[-1]) if ordered else None
        lower, middle, upper = statistics.quantiles(ordered, n=4, method="inclusive")
        return cls(middle, lower, upper)


@dataclass(frozen=True)
class Figures:
    """What the run of a row has measured so far.

    Attributes:
        state: The run's; None: it is refused, or its folder is gone.
        seconds: Durations of the timed steps, without compiling: those after the warm-up with a full batch.
        samples: Rows of a step.
        rows: Rows of an epoch.
        peak: The most memory that was held, in bytes, as `core.runs.status.RunStatus.peak_bytes`.
        first_loss: The loss of the first step.
        is_disturbed: Whether other programs used the CPU, or heat or a power cap reduced the clock.
        remarks: What has to be known of the conditions.
        problem: Why the run has failed.
    """

    row: BenchmarkRow
    run: RunFolder | None = None
    options: RunOptions | None = None
    state: State | None = None
    begun: float | None = None
    device: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    seconds: tuple[float, ...] = ()
    samples: int = 0
    rows: int = 0
    compile_seconds: float | None = None
    peak: int | None = None
    first_loss: float | None = None
    is_disturbed: bool = False
    remarks: tuple[str, ...] = ()
    problem: str = ""

    @property
    def is_measured(self) -> bool:
        return bool(self.seconds)

    @property
    def is_over(self) -> bool:
        return self.state is None or self.state.is_over

    @property
    def has_spread(self) -> bool:
        """Whether enough steps were timed to tell a difference from chance."""
        return len(self.seconds) >= MIN_SPREAD

    @property
    def step_seconds(self) -> Spread | None:
        """The spread over all timed steps: quartiles, because the slowest depends on what else the computer did."""
        return Spread.of(self.seconds)

    @property
    def samples_per_second(self) -> Spread | None:
        step = self.step_seconds
        if step is None or step.lowest <= 0:
            return None
        return Spread(self.samples / step.median, self.samples / step.highest, self.samples / step.lowest)

    @property
    def epoch_seconds(self) -> float | None:
        step = self.step_seconds
        return step.median * self.rows / self.samples if step is not None and self.samples else None

    def speed_against(self, other: "Figures") -> float | None:
        mine, theirs = self.samples_per_second, other.samples_per_second
        return mine.median / theirs.median if mine and theirs else None

    def memory_against(self, other: "Figures") -> float | None:
        return self.peak / other.peak if self.peak and other.peak else None

    def is_faster(self, other: "Figures") -> bool:
        """Returns whether it is faster and the interquartile ranges of both don't overlap."""
        mine, theirs = self.samples_per_second, other.samples_per_second
        if mine is None or theirs is None or not (self.has_spread and other.has_spread):
            return False
        return mine.lowest > theirs.highest


@dataclass(frozen=True)
class Result:
    """A benchmark with the figures of its rows, measured or not."""

    benchmark: Benchmark
    rows: tuple[Figures, ...]

    @property
    def measured(self) -> tuple[Figures, ...]:
        return tuple(row for row in self.rows if row.is_measured)

    @property
    def is_over(self) -> bool:
        return all(row.is_over for row in self.rows)

    def baseline(self, figures: Figures) -> Figures:
        """Returns the first row of a row's group."""
        return next(first for first in self.rows if first.row.group == figures.row.group)


def read_result(measured: Measured) -> Result:
    """Reads what the runs of a benchmark have measured so far."""
    found = measured.benchmark
    rows = (read_figures(row, measured.runs.get(row.name), found.warm_up) for row in found.rows)
    return Result(found, tuple(rows))


def read_figures(row: BenchmarkRow, run: RunFolder | None, warm_up: int) -> Figures:
    """Reads the figures of a row from its run's files, leaving out the first `warm_up` steps of each attempt."""
    if run is None:
        return Figures(row)
    status = status_at_end(run, and_beginning=True)
    state = run.state(status)
    steps = [event for event in EventReader(run.events_file).read_all() if isinstance(event, StepFinished)]
    timed = list(_timed(steps, warm_up))
    samples = EventReader(run.machine_file).read_all()
    meanwhile = [event for event in samples if timed and timed[0].time <= event.time <= timed[-1].time]
    disturbed = list(_disturbances(samples, meanwhile))
    compiling = sum(step.compile_seconds for step in steps)
    return Figures(
        row,
        run,
        options=run.readable_options(),
        state=state,
        begun=status.started,
        device=status.what_ran.device_name if status.what_ran is not None else "",
        versions=status.versions,
        seconds=tuple(step.seconds for step in timed),
        samples=timed[0].samples if timed else 0,
        rows=status.plan.train_samples if status.plan is not None else 0,
        compile_seconds=compiling or None,
        peak=status.peak_bytes,
        first_loss=steps[0].loss if steps else None,
        is_disturbed=bool(disturbed),
        remarks=(*disturbed, *_remarks(meanwhile)),
        problem=_problem(run, status, state),
    )


def _timed(steps: Sequence[StepFinished], warm_up: int) -> Iterator[StepFinished]:
    """Yields the steps after the warm-up of each attempt, without the last of an epoch, which may have fewer rows."""
    done, full = Counter[int](), max((step.samples for step in steps), default=0)
    for step in steps:
        done[step.attempt] += 1
        if done[step.attempt] > warm_up and step.samples == full:
            yield step


def _disturbances(samples: Sequence[Event], meanwhile: Sequence[Event]) -> Iterator[str]:
    """Yields what the run's keeper has said of other programs, and what slowed the processor down."""
    for event in samples:
        if isinstance(event, MessageRaised) and event.id == SLOWED:
            yield event.title
    throttled = (why for event in meanwhile if isinstance(event, DeviceSampled) for why in held_back(event))
    if causes := formats.enumerated(dict.fromkeys(throttled)):
        yield _("slowed down: {causes}").format(causes=causes)


def _remarks(samples: Sequence[Event]) -> Iterator[str]:
    others = [
        event.bytes - event.own
        for event in samples
        if isinstance(event, MemorySampled) and event.source is Source.NVML and event.own is not None
    ]
    if max(others, default=0) > GPU_HELD:
        yield _("others held {size} of the GPU").format(size=formats.memory(max(others)))
    if any(event.is_plugged is False for event in samples if isinstance(event, BatterySampled)):
        yield _("on battery")


def _problem(run: RunFolder, status: RunStatus, state: State) -> str:
    """Returns why a run has no figures, or not all; empty if it has finished, or goes on."""
    errors = [message for message in status.messages.values() if message.level is Level.ERROR]
    if errors:
        return " ".join(formats.paragraph(errors[0].title.rstrip(":"), errors[0].detail).split())
    return crash_of(run, status, run.exit_record()).title if state is State.CRASHED else ""
