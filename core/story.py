"""What a run's events amount to: folded one by one, the same way for the live view, the list and the command line."""

import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from core.events import (
    SCHEMA,
    CheckpointSaved,
    Evaluated,
    Event,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    Phase,
    PhaseChanged,
    RequestAnswered,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    WhatRan,
)

RECENT_STEPS = 50
LOOKED_AT = 10_000
"""So many steps of a long past are looked through for some that were taken apart."""
STEPS_BEFORE_ESTIMATE = 5


@dataclass(frozen=True)
class TimeSpent:
    """Where the time of some steps went, each as a share of it (0 to 1); `rest` belongs to no part: the loop itself."""

    data: float
    forward: float
    backward: float
    optimizer: float

    @property
    def rest(self) -> float:
        """What is left."""
        return max(0.0, 1.0 - self.data - self.forward - self.backward - self.optimizer)


class State(StrEnum):
    """Where a run stands. There is no other idea of it anywhere."""

    STARTING = "starting"
    TRAINING = "training"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    CRASHED = "crashed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self in (State.STOPPED, State.FINISHED, State.FAILED, State.CRASHED)


_OUTCOMES = {Outcome.FINISHED: State.FINISHED, Outcome.STOPPED: State.STOPPED, Outcome.FAILED: State.FAILED}


@dataclass
class RunStory:
    """The sum of a run's events so far. Apply them in order; read the fields at any time.

    Seconds are wall time, bytes are bytes, metrics are named as Trainer names them (`eval_accuracy`); `evaluated_at` is
    the step of the last evaluation. `skipped` counts the lines that could not be read; whoever reads the files sets it.
    """

    started: float | None = None
    attempt_started: float | None = None
    ended: float | None = None
    attempt: int = 0
    engine_pid: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    phase: Phase | None = None
    phase_detail: str = ""
    plan: RunPlanned | None = None
    step: int = 0
    epoch: float = 0.0
    loss: float | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    evaluated_at: int | None = None
    messages: dict[str, MessageRaised] = field(default_factory=dict)
    what_ran: WhatRan | None = None
    last_checkpoint: CheckpointSaved | None = None
    stop_accepted: bool = False
    kill_accepted: bool = False
    finished: RunFinished | None = None
    forecast: MemoryForecast | None = None
    peak_process_bytes: int | None = None
    peak_device_bytes: int | None = None
    recent_parts: deque[StepFinished] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    recent_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    schema: int = SCHEMA
    skipped: int = 0

    def apply(self, event: Event) -> None:  # noqa: PLR0912 - one branch a kind of event
        """Add one event."""
        match event:
            case RunStarted():
                self._start_attempt(event)
            case RunPlanned():
                self.plan = event
            case PhaseChanged():
                self.phase, self.phase_detail = event.phase, event.detail
            case StepFinished():
                self._add_steps([event])
            case Evaluated():
                self.metrics, self.evaluated_at = dict(event.metrics), event.step
            case CheckpointSaved():
                self.last_checkpoint = event
            case WhatRan():
                self.what_ran = event
            case MessageRaised():
                self.messages[event.id] = event
            case MessageWithdrawn():
                self.messages.pop(event.id, None)
            case RequestAnswered():
                self.stop_accepted |= event.action == "stop" and event.accepted
                self.kill_accepted |= event.action == "kill" and event.accepted
            case MemoryForecast():
                self.forecast = event
            case MemorySampled(source=Source.TORCH, reserved=int(held)):
                self.peak_device_bytes = max(held, self.peak_device_bytes or 0)
            case MemorySampled(source=Source.PROCESS):
                self.peak_process_bytes = max(event.bytes, self.peak_process_bytes or 0)
            case RunFinished():
                self.finished, self.ended = event, event.time
                self.metrics.update(event.metrics)

    def apply_all(self, events: Iterable[Event]) -> None:
        """Add events, as `apply` does one by one; many steps in a row cost little."""
        steps: list[StepFinished] = []
        for event in events:
            if isinstance(event, StepFinished):
                steps.append(event)
                continue
            if isinstance(event, RunStarted):
                self._add_steps(steps)
                steps = []
            self.apply(event)
        self._add_steps(steps)

    def copy(self) -> "RunStory":
        """The story so far, which stays as it is when this one goes on."""
        return replace(
            self,
            versions=dict(self.versions),
            metrics=dict(self.metrics),
            messages=dict(self.messages),
            recent_parts=self.recent_parts.copy(),
            recent_seconds=self.recent_seconds.copy(),
        )

    def _start_attempt(self, event: RunStarted) -> None:
        self.started = self.started or event.time
        self.attempt_started = event.time
        self.attempt = event.attempt
        self.engine_pid = event.pid
        self.versions = dict(event.versions)
        self.schema = event.schema
        self.step = event.from_step
        if self.evaluated_at is not None and self.evaluated_at > event.from_step:
            self.metrics, self.evaluated_at = {}, None
        self.finished, self.ended = None, None
        self.stop_accepted, self.kill_accepted = False, False
        # the keeper writes another file: what it said of this attempt may have been read already
        self.messages = {name: said for name, said in self.messages.items() if said.attempt == event.attempt}
        self.recent_seconds.clear()
        self.recent_parts.clear()

    def _add_steps(self, steps: list[StepFinished]) -> None:
        if not steps:
            return
        self.step, self.epoch = steps[-1].step, steps[-1].epoch
        self.recent_seconds.extend(step.seconds for step in steps if not step.compile_seconds)
        newest_steps = steps[-LOOKED_AT:]
        self.recent_parts.extend(step for step in newest_steps if step.forward_seconds is not None)
        told = (step for step in reversed(steps) if step.loss is not None or step.non_finite is not None)
        newest = next(told, None)
        if newest is not None:
            self.loss = newest.loss_value

    @property
    def is_of_newer_hone(self) -> bool:
        """Whether a newer Hone wrote the run, so that there may be more to it than is read here."""
        return self.schema > SCHEMA

    @property
    def total_steps(self) -> int | None:
        """Steps the run will take, once known."""
        return self.plan.total_steps if self.plan else None

    @property
    def peak_bytes(self) -> int | None:
        """The most memory the run has held where it computes: of the GPU, or of the computer.

        Of a GPU it is what torch's allocator held.
        """
        done = self.finished
        if done is not None and done.peak_device_bytes is not None:
            return done.peak_device_bytes
        if self.peak_device_bytes is not None:
            return self.peak_device_bytes
        told = done.peak_bytes if done is not None else None
        return self.peak_process_bytes if told is None else told

    @property
    def forecast_error(self) -> float | None:
        """By which share of its peak the forecast was off, positive: too high; None before the end, or without one."""
        told, peak = self.forecast_bytes, self.peak_bytes
        if told is None or not peak or self.finished is None or not self.finished.steps:
            return None
        return (told - peak) / peak

    @property
    def forecast_bytes(self) -> int | None:
        """What was forecast of that which `peak_bytes` measures: on a GPU without what stands beside all tensors."""
        if self.forecast is None:
            return None
        parts = self.forecast.parts
        return parts.total if self.forecast.device == "cpu" else parts.total - parts.overhead

    @property
    def step_seconds(self) -> float | None:
        """Median wall time of the last steps."""
        return statistics.median(self.recent_seconds) if self.recent_seconds else None

    @property
    def time_spent(self) -> TimeSpent | None:
        """Where the time of the last steps went that were taken apart; None where none were."""
        seconds = sum(step.seconds for step in self.recent_parts)
        if seconds <= 0:
            return None
        return TimeSpent(
            data=sum(step.data_seconds or 0.0 for step in self.recent_parts) / seconds,
            forward=sum(step.forward_seconds or 0.0 for step in self.recent_parts) / seconds,
            backward=sum(step.backward_seconds or 0.0 for step in self.recent_parts) / seconds,
            optimizer=sum(step.optimizer_seconds or 0.0 for step in self.recent_parts) / seconds,
        )

    @property
    def seconds_left(self) -> float | None:
        """Estimated training time left; None until a few steps have shown their pace."""
        if self.plan is None or self.finished or len(self.recent_seconds) < STEPS_BEFORE_ESTIMATE:
            return None
        return (self.plan.total_steps - self.step) * statistics.median(self.recent_seconds)

    def state(self, *, engine_ended: bool, keeper_alive: bool, stop_asked: bool) -> State:
        """Where the run stands.

        Args:
            engine_ended: Whether `exit.json` is there.
            keeper_alive: Whether the keeper's process lives, or an engine that lost its keeper.
            stop_asked: Whether a stop request waits to be answered.
        """
        if self.finished is not None:
            return _OUTCOMES[self.finished.state]
        if engine_ended or not keeper_alive:
            return State.STOPPED if self.kill_accepted else State.CRASHED
        if stop_asked or self.stop_accepted or self.kill_accepted:
            return State.STOPPING
        return State.STARTING if self.plan is None else State.TRAINING
