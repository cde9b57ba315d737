"""Everything of a run that is drawn or listed over time."""

import bisect
import math
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

import numpy as np

from core.events import (
    CheckpointSaved,
    Evaluated,
    Event,
    Phase,
    PhaseChanged,
    RunStarted,
)
from core.prediction_story import PredictionStory
from core.work_clock import Interruption
from gui.models.device_history import DeviceHistory
from gui.models.marks import Marks
from gui.models.memory_history import MemoryHistory
from gui.models.run_news import Batch, NewsMaker
from gui.models.smoothing import (
    LEAST_WEIGHT,
    LEAST_WEIGHT_OF_SMOOTHER,
    SETTLING,
    SETTLING_OF_SMOOTHER,
    Smoothing,
)
from gui.models.step_rows import STEP_COLUMNS, LossRows, StepRows
from gui.plots.reduction import Floats
from gui.plots.series import Series


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
