"""Everything of a run that is drawn or listed over time, folded from its events as in `core.story`."""

import bisect
import math
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

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
from gui.models.device_history import DeviceHistory
from gui.models.memory_history import MemoryHistory
from gui.models.smoothing import (
    LEAST_WEIGHT,
    LEAST_WEIGHT_OF_SMOOTHER,
    SETTLING,
    SETTLING_OF_SMOOTHER,
    RunningMedian,
    Smoothing,
)
from gui.plots.series import Series

PARTS = ("data_seconds", "forward_seconds", "backward_seconds", "optimizer_seconds")
"""The parts of a step, as `core.events.StepFinished` names them and `RunHistory` does, in the order of their doing."""


@dataclass(frozen=True)
class Pause:
    """Steps waited for something: how long (seconds), until when (`clock`, since the start), and after which step."""

    step: int
    clock: float
    seconds: float
    kind: Literal["evaluation", "checkpoint"]


class RunHistory:
    """A run's series. Apply its events in order; read at any time.

    Series over steps: `loss` (NaN where it was no number), `smooth_loss`, `smoother_loss`, `eval_loss`, `metrics` by
    name, `learning_rate`, `grad_norm`, `step_epoch`, `step_clock` (seconds since the start at which each step ended),
    `step_seconds`, `median_seconds`, the seconds of each of the `PARTS` of a step (NaN where they weren't measured),
    `samples_per_second` and `tokens_per_second` (NaN for a step in which something was compiled).

    `memory` and `devices` are over seconds since the start; `phases` are what the engine was busy with, each from so
    many seconds on, `pauses` what the steps had to wait for.
    """

    def __init__(self) -> None:
        self.origin: float | None = None
        self.versions: dict[str, str] = {}
        self.loss = Series()
        self.smooth_loss = Series()
        self.smoother_loss = Series()
        self.eval_loss = Series()
        self.metrics: dict[str, Series] = {}
        self.learning_rate = Series()
        self.grad_norm = Series()
        self.step_epoch = Series()
        self.step_clock = Series()
        self.step_seconds = Series()
        self.median_seconds = Series()
        self.data_seconds = Series()
        self.forward_seconds = Series()
        self.backward_seconds = Series()
        self.optimizer_seconds = Series()
        self.samples_per_second = Series()
        self.tokens_per_second = Series()
        self.memory = MemoryHistory()
        self.devices = DeviceHistory()
        self.phases: list[tuple[float, Phase]] = []
        self.pauses: list[Pause] = []
        self.longest_step: float | None = None
        self.checkpoint_steps: list[int] = []
        self.evaluations: list[Evaluated] = []
        self.first_non_finite: tuple[int, float] | None = None
        self._median = RunningMedian()
        self._smooth = Smoothing(SETTLING, LEAST_WEIGHT)
        self._smoother = Smoothing(SETTLING_OF_SMOOTHER, LEAST_WEIGHT_OF_SMOOTHER)

    def apply(self, event: Event) -> None:
        """Add one event."""
        if self.origin is None:
            self.origin = event.time
        self.memory.apply(event, self._since_start(event))
        self.devices.apply(event, self._since_start(event))
        match event:
            case RunStarted():
                self._start_attempt(event)
            case StepFinished():
                self._add_step(event)
            case LossesLogged():
                for told in event.losses:
                    self._add_loss(told.step, told.loss_value, told.grad_norm)
            case Evaluated():
                self._add_evaluation(event)
            case CheckpointSaved():
                self.checkpoint_steps.append(event.step)
                self._add_pause(event, "checkpoint")
            case PhaseChanged():
                self.phases.append((self._since_start(event), event.phase))

    def clock_of_step(self, step: float) -> float | None:
        """Seconds since the start at which `step` ended, held to the steps there are; None before the first."""
        return self.step_clock.between(step)

    def step_at(self, clock: float) -> float | None:
        """The step under way at this clock, held to the steps there are; None before the first."""
        return self.step_clock.place_of(clock)

    def epoch_of_step(self, step: float) -> float | None:
        """How many times the data had been gone through when `step` ended, held to the steps there are."""
        return self.step_epoch.between(step)

    def step_of_epoch(self, epoch: float) -> float | None:
        """The step at which the data had been gone through so many times, held to the steps there are."""
        return self.step_epoch.place_of(epoch)

    @property
    def last_clock(self) -> float:
        """Seconds from the start to the newest point."""
        memory, devices = self.memory, self.devices
        pictures = memory.computer, memory.card, devices.cpu, devices.gpu
        return max(self.step_clock.last or 0.0, *(picture.last_clock for picture in pictures))

    def phase_at(self, clock: float) -> Phase | None:
        """What the engine was busy with; None before it has said so."""
        place = bisect.bisect_right(self.phases, clock, key=itemgetter(0))
        return self.phases[place - 1][1] if place else None

    def _stepped(self) -> tuple[Series, ...]:
        return (
            *(self.loss, self.smooth_loss, self.smoother_loss, self.eval_loss, *self.metrics.values()),
            *(self.learning_rate, self.grad_norm, self.step_epoch, self.step_clock),
            *(self.step_seconds, self.median_seconds, *self._parts()),
            *(self.samples_per_second, self.tokens_per_second),
        )

    def _parts(self) -> tuple[Series, ...]:
        return self.data_seconds, self.forward_seconds, self.backward_seconds, self.optimizer_seconds

    def _start_attempt(self, event: RunStarted) -> None:
        self.versions = dict(event.versions)
        for series in self._stepped():
            series.cut_after(event.from_step)
        self.evaluations = [found for found in self.evaluations if found.step <= event.from_step]
        self.checkpoint_steps = [step for step in self.checkpoint_steps if step <= event.from_step]
        self.pauses = [pause for pause in self.pauses if pause.step <= event.from_step]
        if self.first_non_finite is not None and self.first_non_finite[0] > event.from_step:
            self.first_non_finite = None
        self._median = RunningMedian()

    def _add_step(self, event: StepFinished) -> None:
        self.step_seconds.append(event.step, event.seconds)
        self.longest_step = max(event.seconds, self.longest_step or 0.0)
        self.median_seconds.append(event.step, self._median.add(event.seconds))
        self.step_clock.append(event.step, self._since_start(event))
        self.step_epoch.append(event.step, event.epoch)
        self.learning_rate.append(event.step, event.learning_rate)
        for name, series in zip(PARTS, self._parts(), strict=True):
            seconds = getattr(event, name)
            series.append(event.step, math.nan if seconds is None else seconds)
        for series, count in (
            (self.samples_per_second, event.samples),
            (self.tokens_per_second, event.tokens),
        ):
            series.append(event.step, _rate(event, count))
        if event.loss_value is not None or event.grad_norm is not None:
            self._add_loss(event.step, event.loss_value, event.grad_norm)

    def _add_loss(self, step: int, loss: float | None, grad_norm: float | None) -> None:
        if grad_norm is not None:
            self.grad_norm.append(step, grad_norm if math.isfinite(grad_norm) else math.nan)
        if loss is None:
            return
        if not math.isfinite(loss):
            self.first_non_finite = self.first_non_finite or (step, loss)
            loss = math.nan
        self.loss.append(step, loss)
        for series, smoothing in ((self.smooth_loss, self._smooth), (self.smoother_loss, self._smoother)):
            before = series.last
            series.append(step, smoothing.next(before if before is not None else loss, loss, len(self.loss)))

    def _add_evaluation(self, event: Evaluated) -> None:
        self.evaluations.append(event)
        self._add_pause(event, "evaluation")
        for name, value in event.metrics.items():
            series = self.eval_loss if name == "eval_loss" else self.metrics.setdefault(name, Series())
            series.append(event.step, math.nan if value is None else value)

    def _add_pause(
        self, event: Evaluated | CheckpointSaved, kind: Literal["evaluation", "checkpoint"]
    ) -> None:
        self.pauses.append(Pause(event.step, self._since_start(event), event.seconds, kind))

    def _since_start(self, event: Event) -> float:
        return event.time - (self.origin or event.time)


def _rate(event: StepFinished, count: int | None) -> float:
    """So many a second; NaN where that isn't known or the step is no measure of the pace."""
    if count is None or event.compile_seconds or event.seconds <= 0:
        return math.nan
    return count / event.seconds
