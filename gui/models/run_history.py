"""Everything of a run that is drawn or listed over time, folded from its events as in `core.story`."""

import bisect
import math
from collections import deque
from operator import itemgetter

import numpy as np

from core.events import (
    CheckpointSaved,
    Evaluated,
    Event,
    LossesLogged,
    Phase,
    PhaseChanged,
    RunStarted,
    StepFinished,
)
from gui.models.memory_history import MemoryHistory
from gui.plots.series import Series

LEAST_WEIGHT, MOST_WEIGHT = 0.1, 0.5
"""Bounds of what a new loss weighs in the smoothed one: from about the last 3 losses to about the last 20."""

SETTLING = 20
"""A new loss weighs `SETTLING` divided by how many there are: a loss that still falls steeply is smoothed little."""

MEDIAN_STEPS = 51


class RunningMedian:
    """Median of the last `MEDIAN_STEPS` values, kept sorted so that adding one is cheap."""

    def __init__(self) -> None:
        self._window: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, value: float) -> float:
        """Take in a value and give the median."""
        self._window.append(value)
        bisect.insort(self._sorted, value)
        if len(self._window) > MEDIAN_STEPS:
            del self._sorted[bisect.bisect_left(self._sorted, self._window.popleft())]
        return self._sorted[len(self._sorted) // 2]


class RunHistory:
    """A run's series. Apply its events in order; read at any time.

    Series over steps: `loss` (NaN where it was no number), `smooth_loss`, `eval_loss`, `metrics` by name,
    `step_seconds`, `median_seconds` and `step_clock` (seconds since the start at which each step ended).
    `memory` is over seconds since the start; `phases` are what the engine was busy with, each from so many seconds on.
    """

    def __init__(self) -> None:
        self.origin: float | None = None
        self.versions: dict[str, str] = {}
        self.loss = Series()
        self.smooth_loss = Series()
        self.eval_loss = Series()
        self.metrics: dict[str, Series] = {}
        self.step_seconds = Series()
        self.median_seconds = Series()
        self.step_clock = Series()
        self.memory = MemoryHistory()
        self.phases: list[tuple[float, Phase]] = []
        self.longest_step: float | None = None
        self.checkpoint_steps: list[int] = []
        self.evaluations: list[Evaluated] = []
        self.first_non_finite: tuple[int, float] | None = None
        self._median = RunningMedian()

    def apply(self, event: Event) -> None:
        """Add one event."""
        if self.origin is None:
            self.origin = event.time
        self.memory.apply(event, self._since_start(event))
        match event:
            case RunStarted():
                self._start_attempt(event)
            case StepFinished():
                self._add_step(event)
            case LossesLogged():
                for told in event.losses:
                    self._add_loss(told.step, told.loss_value)
            case Evaluated():
                self._add_evaluation(event)
            case CheckpointSaved():
                self.checkpoint_steps.append(event.step)
            case PhaseChanged():
                self.phases.append((self._since_start(event), event.phase))

    def clock_of_step(self, step: float) -> float | None:
        """Seconds since the start at which `step` ended, held to the steps there are; None before the first."""
        known = self.step_clock
        return float(np.interp(step, known.x, known.y)) if len(known) else None

    def step_at(self, clock: float) -> float | None:
        """The step under way at this clock, held to the steps there are; None before the first."""
        known = self.step_clock
        return float(np.interp(clock, known.y, known.x)) if len(known) else None

    @property
    def last_clock(self) -> float:
        """Seconds from the start to the newest point."""
        pictures = self.memory.computer, self.memory.card
        return max(self.step_clock.last or 0.0, *(picture.last_clock for picture in pictures))

    def phase_at(self, clock: float) -> Phase | None:
        """What the engine was busy with; None before it has said so."""
        place = bisect.bisect_right(self.phases, clock, key=itemgetter(0))
        return self.phases[place - 1][1] if place else None

    def _stepped(self) -> tuple[Series, ...]:
        stepped = (self.loss, self.smooth_loss, self.eval_loss, *self.metrics.values())
        return *stepped, self.step_seconds, self.median_seconds, self.step_clock

    def _start_attempt(self, event: RunStarted) -> None:
        self.versions = dict(event.versions)
        for series in self._stepped():
            series.cut_after(event.from_step)
        self.evaluations = [found for found in self.evaluations if found.step <= event.from_step]
        self.checkpoint_steps = [step for step in self.checkpoint_steps if step <= event.from_step]
        if self.first_non_finite is not None and self.first_non_finite[0] > event.from_step:
            self.first_non_finite = None
        self._median = RunningMedian()

    def _add_step(self, event: StepFinished) -> None:
        self.step_seconds.append(event.step, event.seconds)
        self.longest_step = max(event.seconds, self.longest_step or 0.0)
        self.median_seconds.append(event.step, self._median.add(event.seconds))
        self.step_clock.append(event.step, self._since_start(event))
        if event.loss_value is not None:
            self._add_loss(event.step, event.loss_value)

    def _add_loss(self, step: int, loss: float | None) -> None:
        if loss is None:
            return
        if not math.isfinite(loss):
            self.first_non_finite = self.first_non_finite or (step, loss)
            self.loss.append(step, math.nan)
            self.smooth_loss.append(step, math.nan)
            return
        before = self.smooth_loss.last
        self.loss.append(step, loss)
        weight = max(LEAST_WEIGHT, min(MOST_WEIGHT, SETTLING / len(self.loss)))
        old = loss if before is None or math.isnan(before) else before
        self.smooth_loss.append(step, old + weight * (loss - old))

    def _add_evaluation(self, event: Evaluated) -> None:
        self.evaluations.append(event)
        for name, value in event.metrics.items():
            series = self.eval_loss if name == "eval_loss" else self.metrics.setdefault(name, Series())
            series.append(event.step, math.nan if value is None else value)

    def _since_start(self, event: Event) -> float:
        return event.time - (self.origin or event.time)
