"""Steps and losses of a run as columns, so that a thousand of them cost the window no more than one."""

import bisect
import math
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import itemgetter
from typing import Literal

import numpy as np

from core.runs.events import (
    BatterySampled,
    CheckpointSaved,
    DeviceSampled,
    DiskSampled,
    Evaluated,
    Event,
    Level,
    MemorySampled,
    MessageRaised,
    Phase,
    PhaseChanged,
    RunPlanned,
    RunStarted,
    StepFinished,
)
from core.runs.status import Interruption, PredictionStory, RunStory, WorkClock
from gui.charts.machine_history import DeviceHistory, Growing, Growth, MemoryHistory
from gui.charts.series import Floats, Series

# --- Moments of a run that its charts point out: checkpoints, evaluations, messages


class MarkKind(StrEnum):
    """What happened."""

    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


_LEVELS = {Level.INFO: MarkKind.NOTE, Level.WARNING: MarkKind.WARNING, Level.ERROR: MarkKind.ERROR}


@dataclass(frozen=True)
class Mark:
    """One moment, in seconds since the run's start. `step` is what it came after, None where it belongs to none."""

    clock: float
    kind: MarkKind
    step: int | None = None
    title: str = ""


class Marks:
    """All of them by their kind, each in the order of time. Apply the run's events in order."""

    def __init__(self) -> None:
        self.found: dict[MarkKind, list[Mark]] = {kind: [] for kind in MarkKind}

    def apply(self, event: Event, clock: float) -> None:
        """Add one event, `clock` seconds after the run's start; others than those marked are welcome too."""
        match event:
            case RunStarted():
                self._forget_after(event.from_step)
            case CheckpointSaved():
                self._add(Mark(clock, MarkKind.CHECKPOINT, event.step))
            case Evaluated():
                self._add(Mark(clock, MarkKind.EVALUATION, event.step))
            case MessageRaised():
                self._add(Mark(clock, _LEVELS[event.level], title=event.title))

    def _add(self, mark: Mark) -> None:
        self.found[mark.kind].append(mark)

    def _forget_after(self, step: int) -> None:
        """A later attempt starts again from there."""
        for kind, marks in self.found.items():
            self.found[kind] = [mark for mark in marks if (mark.step or 0) <= step]


# --- Figures that follow a noisy one more calmly


LEAST_WEIGHT, MOST_WEIGHT = 0.1, 0.5
"""Bounds of what a new loss weighs in the smoothed one: from about the last 3 losses to about the last 20."""

SETTLING = 20
"""A new loss weighs `SETTLING` divided by how many there are: a loss that still falls steeply is smoothed little."""

LEAST_WEIGHT_OF_SMOOTHER = 0.02
"""The same for the smoother loss: about the last 100."""

SETTLING_OF_SMOOTHER = 10

MEDIAN_STEPS = 51


class RunningMedian:
    """Median of the last `MEDIAN_STEPS` values, kept sorted so that adding one is cheap."""

    def __init__(self) -> None:
        self._window: deque[float] = deque()
        self._sorted: list[float] = []

    def of(self, values: list[float]) -> list[float]:
        """Take in values and give the median after each of them."""
        window, ordered, found = self._window, self._sorted, []
        for value in values:
            window.append(value)
            bisect.insort(ordered, value)
            if len(window) > MEDIAN_STEPS:
                del ordered[bisect.bisect_left(ordered, window.popleft())]
            found.append(ordered[len(ordered) // 2])
        return found


class Smoothing:
    """An exponential mean whose newest value weighs `settling` divided by how many there are, within bounds."""

    def __init__(self, settling: float, least: float, most: float = MOST_WEIGHT) -> None:
        self._settling = settling
        self._least = least
        self._most = most

    def of(self, values: Floats, before: float | None, count: int) -> Floats:
        """Means that follow `values`, NaN where these are; after a gap they start anew. Shape (n,).

        Args:
            values: What is new. Shape (n,).
            before: The mean up to it; None or NaN to start anew.
            count: How many values it is made of.
        """
        settled = max(0, math.ceil(self._settling / self._least) - count)
        found: list[float] = []
        mean = math.nan if before is None else before
        for place, value in enumerate(values[:settled].tolist(), start=count + 1):
            weight = max(self._least, min(self._most, self._settling / place))
            mean = mean + weight * (value - mean) if mean == mean and value == value else value  # noqa: PLR0124
            found.append(mean)
        weight = self._least
        for value in values[settled:].tolist():  # comparing with itself asks for NaN, a million times
            mean = mean + weight * (value - mean) if mean == mean and value == value else value  # noqa: PLR0124
            found.append(mean)
        return np.array(found, np.float64)


# --- Steps and losses of a run as columns


PARTS = ("data_seconds", "forward_seconds", "backward_seconds", "optimizer_seconds")
"""The parts of a step, as `StepFinished` names them, in the order of their doing."""


@dataclass(frozen=True)
class StepRows:
    """Steps, one a row; each column is named as the series that it belongs to in `RunHistory`. Shapes (n,)."""

    step_clock: Floats
    step_epoch: Floats
    learning_rate: Floats
    step_seconds: Floats
    median_seconds: Floats
    data_seconds: Floats
    forward_seconds: Floats
    backward_seconds: Floats
    optimizer_seconds: Floats
    samples_per_second: Floats
    tokens_per_second: Floats


STEP_COLUMNS = tuple(column.name for column in fields(StepRows))


@dataclass(frozen=True)
class LossRows:
    """The losses that are known, each with its step; NaN where one was no number. Shapes (n,) and (m,).

    `grad_norm` has steps of its own. `first_non_finite` is the first step whose loss was no number, and that loss.
    """

    loss_steps: Floats
    loss: Floats
    grad_steps: Floats
    grad_norm: Floats
    first_non_finite: tuple[int, float] | None


class StepColumns:
    """Collects steps and losses until they are taken.

    Args:
        median: Goes on from one collection to the next.
    """

    def __init__(self, median: RunningMedian) -> None:
        self._median = median
        self._steps = _numbers()
        self._columns = {name: _numbers() for name in STEP_COLUMNS}
        self._compiled = _numbers()
        self._losses = _numbers(), _numbers()
        self._norms = _numbers(), _numbers()

    def add(self, steps: list[StepFinished], origin: float) -> None:
        """Add steps with their losses and gradient norms; clocks count from `origin`, in unix seconds."""
        self._add_steps(steps, origin)
        self._add_losses(steps)

    def take(self) -> tuple[Floats, StepRows, LossRows]:
        """The numbers of the steps, shape (n,), what is known of them, and the losses."""
        columns = {name: np.asarray(self._columns[name]) for name in STEP_COLUMNS}
        pace = _pace(columns["step_seconds"], np.asarray(self._compiled))
        for name in ("samples_per_second", "tokens_per_second"):
            columns[name] = columns[name] * pace
        steps, losses = map(np.asarray, self._losses)
        bad = np.flatnonzero(~np.isfinite(losses))
        first = (int(steps[bad[0]]), float(losses[bad[0]])) if len(bad) else None
        norm_steps, norms = map(np.asarray, self._norms)
        told = LossRows(steps, _finite(losses), norm_steps, _finite(norms), first)
        return np.asarray(self._steps), StepRows(**columns), told

    def _add_steps(self, steps: list[StepFinished], origin: float) -> None:
        self._steps.fromlist([step.step for step in steps])
        columns = self._columns
        columns["step_clock"].fromlist([step.time - origin for step in steps])
        columns["step_epoch"].fromlist([step.epoch for step in steps])
        columns["learning_rate"].fromlist([step.learning_rate for step in steps])
        seconds = [step.seconds for step in steps]
        columns["step_seconds"].fromlist(seconds)
        columns["median_seconds"].fromlist(self._median.of(seconds))
        columns["data_seconds"].fromlist(_known([step.data_seconds for step in steps]))
        columns["forward_seconds"].fromlist(_known([step.forward_seconds for step in steps]))
        columns["backward_seconds"].fromlist(_known([step.backward_seconds for step in steps]))
        columns["optimizer_seconds"].fromlist(_known([step.optimizer_seconds for step in steps]))
        columns["samples_per_second"].fromlist([step.samples for step in steps])
        columns["tokens_per_second"].fromlist(_known([step.tokens for step in steps]))
        self._compiled.fromlist([step.compile_seconds for step in steps])

    def _add_losses(self, steps: list[StepFinished]) -> None:
        """Only where they are known."""
        losses = [one for one in steps if one.loss is not None or one.non_finite is not None]
        self._losses[0].fromlist([one.step for one in losses])
        self._losses[1].fromlist(_known([one.loss_value for one in losses]))
        norms = [one for one in steps if one.grad_norm is not None]
        self._norms[0].fromlist([one.step for one in norms])
        self._norms[1].fromlist(_known([one.grad_norm for one in norms]))


def _numbers() -> "array[float]":
    return array("d")


def _known(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _pace(seconds: Floats, compiled: Floats) -> Floats:
    """Steps a second; NaN for a step that is no measure of the pace, something having been compiled in it."""
    pace: Floats = np.full(len(seconds), np.nan)
    np.divide(1.0, seconds, out=pace, where=(compiled == 0) & (seconds > 0))
    return pace


# --- What the window is told of a run: folded into columns in the thread that reads it


SAMPLES = (MemorySampled, DeviceSampled, BatterySampled, DiskSampled)


@dataclass(frozen=True)
class Batch:
    """What happened in a while, at most one attempt of it.

    `events` are those that are neither steps nor samples, in their order: a `RunStarted` is the first of them.
    `clocks` says of each at how many seconds of work it came, `interruption` what came before an attempt's first batch.
    `steps` are the numbers of the `rows`, shape (n,).
    """

    events: tuple[Event, ...]
    clocks: tuple[float, ...]
    interruption: Interruption | None
    steps: Floats
    rows: StepRows
    losses: LossRows
    memory: Growth
    devices: Growth


@dataclass(frozen=True)
class RunNews:
    """What the window is told: what happened since it last was, and what all so far amounts to.

    `is_whole` is false while a long past is still read: `story` is then what the ends of the run's files amount to.
    """

    story: RunStory
    batches: list[Batch]
    is_whole: bool = True


class NewsMaker:
    """Folds a run's events into batches. Add events in their order; take what they amount to now and then."""

    def __init__(self) -> None:
        self._clock = WorkClock()
        self._interruption: Interruption | None = None
        self._memory = MemoryHistory()
        self._devices = DeviceHistory()
        self._memory_growing = Growing(self._memory)
        self._devices_growing = Growing(self._devices)
        self._done: list[Batch] = []
        self._count = 0
        self._median = RunningMedian()
        self._begin_batch()

    def __len__(self) -> int:
        """How many events were added since they were last taken."""
        return self._count

    def add(self, events: Sequence[Event]) -> None:
        """Fold events."""
        self._count += len(events)
        first = 0
        for place, event in enumerate(events):
            begins = self._clock.begins_with(event)
            if begins or isinstance(event, RunStarted):
                self._add_some(events[first:place])
                self._close()
                first = place
            if begins:
                self._interruption = self._clock.begin(event)
            if isinstance(event, RunStarted):
                self._median = RunningMedian()
                self._begin_columns()
        self._add_some(events[first:])

    def take(self) -> list[Batch]:
        """What was folded since the last call."""
        self._close()
        self._count = 0
        taken, self._done = self._done, []
        return taken

    def _begin_batch(self) -> None:
        self._begin_columns()
        self._events: list[Event] = []
        self._clocks: list[float] = []
        self._interruption = None
        self._is_empty = True

    def _begin_columns(self) -> None:
        self._columns = StepColumns(self._median)

    def _add_some(self, events: Sequence[Event]) -> None:
        """Fold events of one attempt."""
        if not events:
            return
        self._is_empty = False
        steps = [event for event in events if isinstance(event, StepFinished)]
        self._columns.add(steps, self._clock.origin)
        if len(steps) == len(events):
            self._clock.go_on(steps[-1:])
            return
        self._clock.go_on(events)
        for event in events:
            if not isinstance(event, StepFinished):
                self._add_other(event, self._clock.at(event))

    def _add_other(self, event: Event, clock: float) -> None:
        if isinstance(event, (RunPlanned, *SAMPLES)):
            self._memory.apply(event, clock)
            self._devices.apply(event, clock)
        if not isinstance(event, SAMPLES):
            self._events.append(event)
            self._clocks.append(clock)

    def _close(self) -> None:
        if self._is_empty:
            return
        steps, rows, losses = self._columns.take()
        memory, devices = self._memory_growing.take(), self._devices_growing.take()
        events, clocks = tuple(self._events), tuple(self._clocks)
        self._done.append(Batch(events, clocks, self._interruption, steps, rows, losses, memory, devices))
        self._begin_batch()


# --- Everything of a run that is drawn or listed over time


@dataclass(frozen=True)
class Pause:
    """Steps waited for something: how long (seconds), until when (`clock`, worked), and after which step."""

    step: int
    clock: float
    seconds: float
    kind: Literal["evaluation", "checkpoint"]


class RunHistory:
    """A run's series. Take what is told of it, batch by batch or event by event, never both; read at any time.

    Series over steps: `loss` (NaN where it was no number), `smooth_loss`, `smoother_loss`, `eval_loss`, `metrics` by
    name, `learning_rate`, `grad_norm`, `step_epoch`, `step_clock` (seconds worked when each step ended),
    `step_seconds`, `median_seconds`, the seconds of each of the `step_rows.PARTS` of a step (NaN where they weren't
    measured), `samples_per_second` and `tokens_per_second` (NaN for a step in which something was compiled).

    All clocks count seconds worked (`WorkClock`): `memory` and `devices` lie over these; `phases` are what the engine
    was busy with, each from so many on, `interruptions` where an attempt went on after a pause, `pauses` what the steps
    had to wait for, `marks` the moments to point out, `predictions` what the model said of its examples.
    """

    def __init__(self) -> None:
        self.loss = Series(np.float32)
        self.smooth_loss = Series()
        self.smoother_loss = Series()
        self.eval_loss = Series()
        self.metrics: dict[str, Series] = {}
        self.learning_rate = Series(np.float32)
        self.grad_norm = Series(np.float32)
        self.step_epoch = Series()
        self.step_clock = Series()
        self.step_seconds = Series(np.float32)
        self.median_seconds = Series(np.float32)
        self.data_seconds = Series(np.float32)
        self.forward_seconds = Series(np.float32)
        self.backward_seconds = Series(np.float32)
        self.optimizer_seconds = Series(np.float32)
        self.samples_per_second = Series(np.float32)
        self.tokens_per_second = Series(np.float32)
        self.memory = MemoryHistory()
        self.devices = DeviceHistory()
        self.marks = Marks()
        self.predictions = PredictionStory()
        self.phases: list[tuple[float, Phase]] = []
        self.interruptions: list[Interruption] = []
        self.pauses: list[Pause] = []
        self.longest_step: float | None = None
        self.checkpoint_steps: list[int] = []
        self.evaluations: list[Evaluated] = []
        self.first_non_finite: tuple[int, float] | None = None
        self._smooth = Smoothing(SETTLING, LEAST_WEIGHT)
        self._smoother = Smoothing(SETTLING_OF_SMOOTHER, LEAST_WEIGHT_OF_SMOOTHER)
        self._news = NewsMaker()

    def apply(self, event: Event) -> None:
        """Add one event. A window lets a thread make batches of many."""
        self._news.add([event])
        for batch in self._news.take():
            self.take(batch)

    def take(self, batch: Batch) -> None:
        """Add all that happened in a while."""
        if batch.interruption is not None:
            self.interruptions.append(batch.interruption)
        for event, clock in zip(batch.events, batch.clocks, strict=True):
            self._apply(event, clock)
        batch.memory.add_to(self.memory)
        batch.devices.add_to(self.devices)
        if len(batch.steps):
            self._add_steps(batch.steps, batch.rows)
        self._add_losses(batch.losses)

    def _apply(self, event: Event, clock: float) -> None:
        self.marks.apply(event, clock)
        self.predictions.apply(event)
        match event:
            case RunStarted():
                self._start_attempt(event)
            case Evaluated():
                self._add_evaluation(event, clock)
            case CheckpointSaved():
                self.checkpoint_steps.append(event.step)
                self._add_pause(event, clock, "checkpoint")
            case PhaseChanged():
                self.phases.append((clock, event.phase))

    def clock_of_step(self, step: float) -> float | None:
        """Seconds worked when `step` ended, held to the steps there are; None before the first."""
        return self.step_clock.between(step)

    def step_at(self, clock: float) -> float | None:
        """The step under way at this clock, held to the steps there are; None before the first."""
        return self.step_clock.place_of(clock)

    def epoch_of_step(self, step: float) -> float | None:
        """How many times the data had been gone through when `step` ended, held to the steps there are."""
        return self.step_epoch.between(step)

    @property
    def last_clock(self) -> float:
        """Seconds worked until the newest point."""
        memory, devices = self.memory, self.devices
        pictures = memory.computer, memory.card, devices.cpu, devices.gpu
        return max(self.step_clock.last or 0.0, *(picture.last_clock for picture in pictures))

    def phase_at(self, clock: float) -> Phase | None:
        """What the engine was busy with; None before it has said so."""
        place = bisect.bisect_right(self.phases, clock, key=itemgetter(0))
        return self.phases[place - 1][1] if place else None

    def _stepped(self) -> tuple[Series, ...]:
        told = (self.loss, self.smooth_loss, self.smoother_loss, self.grad_norm)
        return (
            *told,
            self.eval_loss,
            *self.metrics.values(),
            *(getattr(self, name) for name in STEP_COLUMNS),
        )

    def _start_attempt(self, event: RunStarted) -> None:
        for series in self._stepped():
            series.cut_after(event.from_step)
        self.evaluations = [found for found in self.evaluations if found.step <= event.from_step]
        self.checkpoint_steps = [step for step in self.checkpoint_steps if step <= event.from_step]
        self.pauses = [pause for pause in self.pauses if pause.step <= event.from_step]
        if self.first_non_finite is not None and self.first_non_finite[0] > event.from_step:
            self.first_non_finite = None

    def _add_steps(self, steps: Floats, rows: StepRows) -> None:
        for name in STEP_COLUMNS:
            getattr(self, name).extend(steps, getattr(rows, name))
        self.longest_step = max(float(rows.step_seconds.max()), self.longest_step or 0.0)

    def _add_losses(self, told: LossRows) -> None:
        self.grad_norm.extend(told.grad_steps, told.grad_norm)
        for series, smoothing in ((self.smooth_loss, self._smooth), (self.smoother_loss, self._smoother)):
            series.extend(told.loss_steps, smoothing.of(told.loss, series.last, len(self.loss)))
        self.loss.extend(told.loss_steps, told.loss)
        self.first_non_finite = self.first_non_finite or told.first_non_finite

    def _add_evaluation(self, event: Evaluated, clock: float) -> None:
        self.evaluations.append(event)
        self._add_pause(event, clock, "evaluation")
        for name, value in event.metrics.items():
            series = self.eval_loss if name == "eval_loss" else self.metrics.setdefault(name, Series())
            series.append(event.step, math.nan if value is None else value)

    def _add_pause(
        self, event: Evaluated | CheckpointSaved, clock: float, kind: Literal["evaluation", "checkpoint"]
    ) -> None:
        self.pauses.append(Pause(event.step, clock, event.seconds, kind))
