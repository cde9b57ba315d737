"""Series of a run for its charts, over training steps, its marks, and the history that holds all of them.

The thread that reads a run collects events into `Batch`es of columns (`BatchBuilder`); the window appends these to a
`RunHistory`, so that a thousand steps cost the window no more than one.
"""

import bisect
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter, itemgetter
from typing import Literal

import numpy as np

from core.runs.events import (
    CheckpointSaved,
    Evaluated,
    Event,
    Level,
    MessageRaised,
    MessageWithdrawn,
    Phase,
    PhaseChanged,
    RunFinished,
    RunStarted,
    StepFinished,
)
from core.runs.status import ByStep, PredictionLog, RunStatus, WorkClock
from gui.charts.machine import DeviceHistory, MemoryHistory
from gui.charts.series import Floats, Series


class MarkKind(StrEnum):
    """Kinds of moments that are pointed out."""

    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


_LEVELS = {Level.INFO: MarkKind.NOTE, Level.WARNING: MarkKind.WARNING, Level.ERROR: MarkKind.ERROR}


@dataclass(frozen=True)
class Mark:
    """A moment to point out: `clock` in seconds worked, `step` the one it followed, if it belongs to one.

    A message has a `title`; it `is_over` once it was withdrawn.
    """

    clock: float
    kind: MarkKind
    step: int | None = None
    title: str = ""
    is_over: bool = False


MEDIAN_STEPS = 51


class RunningMedian:
    """Median of the last `MEDIAN_STEPS` values, which are kept sorted."""

    def __init__(self) -> None:
        self._window: deque[float] = deque()
        self._sorted: list[float] = []

    def update(self, values: list[float]) -> list[float]:
        """Add values; returns the median after each of them."""
        medians = []
        for value in values:
            self._window.append(value)
            bisect.insort(self._sorted, value)
            if len(self._window) > MEDIAN_STEPS:
                del self._sorted[bisect.bisect_left(self._sorted, self._window.popleft())]
            count = len(self._sorted)
            medians.append((self._sorted[(count - 1) // 2] + self._sorted[count // 2]) / 2)
        return medians


class Smoothing(StrEnum):
    """How much a loss is smoothed."""

    OFF = "off"
    LIGHT = "light"
    STRONG = "strong"


MAX_WEIGHT = 0.5
"""Weight of a new loss in the mean at most: about the last 3 losses."""

SMOOTHING = {Smoothing.LIGHT: (20, 0.1), Smoothing.STRONG: (10, 0.02)}
"""A new loss weighs the first number divided by the number of losses, so that a loss that still falls steeply is
smoothed little, but at least the second: about the last 20 losses, or the last 100."""


def smoothed(values: Floats, before: float | None, count: int, smoothing: Smoothing) -> Floats:
    """Exponential moving means; NaN where `values` are, restarting after such a gap. Shape (n,).

    Args:
        before: The mean so far; None or NaN to start.
        count: How many values it is made of.
    """
    numerator, least = SMOOTHING[smoothing]
    counts = np.arange(count + 1, count + 1 + len(values))
    weights = np.maximum(least, np.minimum(MAX_WEIGHT, numerator / counts))
    means, mean = [], math.nan if before is None else before
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        # comparing with itself finds NaN, a million times
        mean = mean + weight * (value - mean) if mean == mean and value == value else value  # noqa: PLR0124
        means.append(mean)
    return np.array(means, np.float64)


PARTS = ("data_seconds", "forward_seconds", "backward_seconds", "optimizer_seconds")
"""The parts of a step in their order, as `StepFinished` names them."""

STEP_COLUMNS = (
    "step_clock",
    "step_epoch",
    "learning_rate",
    "step_seconds",
    "median_seconds",
    *PARTS,
    "samples_per_second",
    "tokens_per_second",
)
"""Series of a `RunHistory` that have a point for each step."""

SAMPLE_WEIGHT = 16
"""Number of steps that take the window as long as one other event."""


@dataclass(frozen=True)
class Batch:
    """Events of at most one attempt; a `RunStarted` is always the first. All arrays have the shape (n,).

    `events` are all but the steps, each at `clocks` seconds of work. `steps` are the numbers of the steps, `columns`
    their figures by the names of `STEP_COLUMNS`. `losses` and `norms` are steps with values, NaN if not finite.
    `first_non_finite` is the first step whose loss wasn't, and that loss.
    """

    events: tuple[Event, ...]
    clocks: tuple[float, ...]
    steps: Floats
    columns: dict[str, Floats]
    losses: tuple[Floats, Floats]
    norms: tuple[Floats, Floats]
    first_non_finite: tuple[int, float] | None


@dataclass(frozen=True)
class RunUpdate:
    """A run's status, and its events since the last update.

    `is_complete` is false while a long past is read: `status` is then summed up from the ends of the run's files.
    """

    status: RunStatus
    batches: list[Batch]
    is_complete: bool = True


class BatchBuilder:
    """Collects events into batches. `len()` estimates how long the window takes to draw them, in steps."""

    def __init__(self) -> None:
        self._clock = WorkClock()
        self._median = RunningMedian()
        self._batches: list[Batch] = []
        self._weight = 0
        self._begin_batch()

    def __len__(self) -> int:
        return self._weight

    def add(self, events: Sequence[Event]) -> None:
        first = 0
        for place, event in enumerate(events):
            begins = self._clock.begins_with(event)
            if begins or isinstance(event, RunStarted):
                self._add_to_batch(events[first:place])
                self._end_batch()
                first = place
            if begins:
                self._clock.begin(event)
            if isinstance(event, RunStarted):
                self._median = RunningMedian()
        self._add_to_batch(events[first:])

    def build(self) -> list[Batch]:
        """The batches of all events since the last call."""
        self._end_batch()
        self._weight = 0
        batches, self._batches = self._batches, []
        return batches

    def _begin_batch(self) -> None:
        self._steps: list[StepFinished] = []
        self._events: list[Event] = []
        self._clocks: list[float] = []

    def _add_to_batch(self, events: Sequence[Event]) -> None:
        steps = [event for event in events if isinstance(event, StepFinished)]
        others = [event for event in events if not isinstance(event, StepFinished)]
        self._clock.go_on(events if others else steps[-1:])
        self._steps += steps
        self._events += others
        self._clocks += map(self._clock.at, others)
        self._weight += len(steps) + SAMPLE_WEIGHT * len(others)

    def _end_batch(self) -> None:
        steps = self._steps
        if not steps and not self._events:
            return
        losses = [step for step in steps if step.loss is not None or step.non_finite is not None]
        norms = [step for step in steps if step.grad_norm is not None]
        bad = next((step for step in losses if not math.isfinite(step.loss_value or 0.0)), None)
        batch = Batch(
            tuple(self._events),
            tuple(self._clocks),
            _column(steps, "step"),
            self._step_columns(steps),
            (_column(losses, "step"), _finite(_column(losses, "loss_value"))),
            (_column(norms, "step"), _finite(_column(norms, "grad_norm"))),
            None if bad is None else (bad.step, bad.loss_value or 0.0),
        )
        self._batches.append(batch)
        self._begin_batch()

    def _step_columns(self, steps: list[StepFinished]) -> dict[str, Floats]:
        seconds = _column(steps, "seconds")
        is_usual = (_column(steps, "compile_seconds") == 0) & (seconds > 0)
        pace = np.full(len(steps), np.nan)
        np.divide(1.0, seconds, out=pace, where=is_usual)
        return {
            "step_clock": _column(steps, "time") - self._clock.origin,
            "step_epoch": _column(steps, "epoch"),
            "learning_rate": _column(steps, "learning_rate"),
            "step_seconds": seconds,
            "median_seconds": np.array(self._median.update(seconds.tolist())),
            **{part: _column(steps, part) for part in PARTS},
            "samples_per_second": _column(steps, "samples") * pace,
            "tokens_per_second": _column(steps, "tokens") * pace,
        }


def _column(steps: list[StepFinished], name: str) -> Floats:
    """A field of all steps, NaN for None. Shape (n,)."""
    return np.array(list(map(attrgetter(name), steps)), np.float64)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


@dataclass(frozen=True)
class Pause:
    """Steps waited `seconds` for something after `step`."""

    step: int
    seconds: float
    kind: Literal["evaluation", "checkpoint"]


class RunHistory:
    """A run's series. Add batches; read at any time.

    Series over steps: `loss` (NaN if not finite), `smooth_loss`, `smoother_loss`, `eval_loss`, `metrics` by name,
    `learning_rate`, `grad_norm`, `step_epoch`, `step_clock` (seconds worked when the step ended), `step_seconds`,
    `median_seconds`, the seconds of each of the `PARTS` of a step (NaN if not measured), `samples_per_second` and
    `tokens_per_second` (NaN for a step in which something was compiled).

    All clocks are in seconds worked (`WorkClock`), also those of `memory`, `devices`, `phases` (each with its
    beginning), `pauses` and `marks`.
    """

    def __init__(self) -> None:
        self.loss = Series(np.float32)
        self.smooth_loss = Series(x_of=self.loss)
        self.smoother_loss = Series(x_of=self.loss)
        self.eval_loss = Series()
        self.metrics: dict[str, Series] = {}
        self.grad_norm = Series(np.float32)
        self.step_clock = Series()
        self.step_epoch = Series(x_of=self.step_clock)
        self.learning_rate = Series(np.float32, x_of=self.step_clock)
        self.step_seconds = Series(np.float32, x_of=self.step_clock)
        self.median_seconds = Series(np.float32, x_of=self.step_clock)
        self.data_seconds = Series(np.float32, x_of=self.step_clock)
        self.forward_seconds = Series(np.float32, x_of=self.step_clock)
        self.backward_seconds = Series(np.float32, x_of=self.step_clock)
        self.optimizer_seconds = Series(np.float32, x_of=self.step_clock)
        self.samples_per_second = Series(np.float32, x_of=self.step_clock)
        self.tokens_per_second = Series(np.float32, x_of=self.step_clock)
        self.memory = MemoryHistory()
        self.devices = DeviceHistory()
        self.marks: dict[MarkKind, list[Mark]] = {kind: [] for kind in MarkKind}
        self._messages: dict[str, Mark] = {}  # by their ids
        self.predictions = PredictionLog()
        self.phases: list[tuple[float, Phase]] = []
        self.pauses: list[Pause] = []
        self.evaluations: ByStep[Evaluated] = ByStep()
        self.model_step: int | None = None  # of a run that has kept its best model
        self.first_non_finite: tuple[int, float] | None = None

    def add(self, batch: Batch) -> None:
        for event, clock in zip(batch.events, batch.clocks, strict=True):
            self._apply(event, clock)
        if len(batch.steps):
            for name, values in batch.columns.items():
                getattr(self, name).extend(batch.steps, values)
        self.grad_norm.extend(*batch.norms)
        steps, losses = batch.losses
        for smoothing in SMOOTHING:
            series = self.loss_smoothed(smoothing)
            series.extend(steps, smoothed(losses, series.last, len(self.loss), smoothing))
        self.loss.extend(steps, losses)
        self.first_non_finite = self.first_non_finite or batch.first_non_finite

    def _apply(self, event: Event, clock: float) -> None:
        self.predictions.apply(event)
        self.memory.apply(event, clock)
        self.devices.apply(event, clock)
        match event:
            case RunStarted():
                self._start_attempt(event)
            case Evaluated():
                self._mark(Mark(clock, MarkKind.EVALUATION, event.step))
                self.evaluations = self.evaluations.with_(event)
                self.pauses.append(Pause(event.step, event.seconds, "evaluation"))
                for name, value in event.metrics.items():
                    is_loss = name == "eval_loss"
                    series = self.eval_loss if is_loss else self.metrics.setdefault(name, Series())
                    series.append(event.step, math.nan if value is None else value)
            case CheckpointSaved():
                self._mark(Mark(clock, MarkKind.CHECKPOINT, event.step))
                self.pauses.append(Pause(event.step, event.seconds, "checkpoint"))
            case MessageRaised():
                self._mark_message(event, clock)
            case MessageWithdrawn() if event.id in self._messages:
                self._put_message(event.id, replace(self._messages[event.id], is_over=True))
            case RunFinished():
                self.model_step = event.model_step
            case PhaseChanged():
                self.phases.append((clock, event.phase))

    def _mark(self, mark: Mark) -> None:
        self.marks[mark.kind].append(mark)

    def _mark_message(self, event: MessageRaised, clock: float) -> None:
        """Mark where the message was raised first; one with another title after its end is marked apart."""
        mark = Mark(clock, _LEVELS[event.level], title=event.title)
        before = self._messages.get(event.id)
        if before is not None and before.is_over and before.title != event.title:
            del self._messages[event.id]
        elif before is not None:
            mark = replace(mark, clock=before.clock)
        self._put_message(event.id, mark)

    def _put_message(self, name: str, mark: Mark) -> None:
        if name in self._messages:
            self.marks[self._messages[name].kind].remove(self._messages[name])
        self._messages[name] = mark
        self._mark(mark)

    def loss_smoothed(self, smoothing: Smoothing) -> Series:
        series = {Smoothing.LIGHT: self.smooth_loss, Smoothing.STRONG: self.smoother_loss}
        return series.get(smoothing, self.loss)

    @property
    def last_clock(self) -> float:
        """Seconds worked until the newest point."""
        memory, devices = self.memory, self.devices
        pictures = memory.computer, memory.card, devices.cpu, devices.gpu
        return max(self.step_clock.last or 0.0, *(picture.last_clock for picture in pictures))

    def phase_at(self, clock: float) -> Phase | None:
        place = bisect.bisect_right(self.phases, clock, key=itemgetter(0))
        return self.phases[place - 1][1] if place else None

    def _start_attempt(self, event: RunStarted) -> None:
        """Forget what a new attempt does again."""
        over_steps = (getattr(self, name) for name in STEP_COLUMNS)
        losses = self.loss, self.smooth_loss, self.smoother_loss, self.grad_norm, self.eval_loss
        for series in (*over_steps, *losses, *self.metrics.values()):
            series.cut_after(event.from_step)
        self.evaluations = self.evaluations.resumed(event)
        self.pauses = [pause for pause in self.pauses if not event.undoes(pause.step)]
        for kind, marks in self.marks.items():
            self.marks[kind] = [mark for mark in marks if not event.undoes(mark.step or 0)]
        self._messages.clear()
        self.model_step = None
        if self.first_non_finite is not None and event.undoes(self.first_non_finite[0]):
            self.first_non_finite = None
