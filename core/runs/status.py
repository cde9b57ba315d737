"""A run's status, computed from its events: state, progress, active time, peak memory, predictions."""

import contextlib
import statistics
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import msgspec

from core.base.files import open_plain
from core.runs.events import (
    SCHEMA,
    CheckpointSaved,
    ConfusionCounted,
    Evaluated,
    Event,
    Example,
    ExamplesChosen,
    MemoryForecast,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    Phase,
    PhaseChanged,
    Predicted,
    RequestAnswered,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    TurnAwaited,
    TurnCame,
    WhatRan,
    decode,
)

# --- Peak memory


@dataclass(frozen=True)
class Peak:
    """Of one attempt, in bytes: the most that samples saw, and what the engine itself told at its end.

    `device` is what torch's allocator held on a GPU, `process` what the processes held of the computer's memory.
    """

    sampled_device: int | None = None
    sampled_process: int | None = None
    told_device: int | None = None
    told_process: int | None = None

    @property
    def device(self) -> int | None:
        """What was told, else what was sampled."""
        return self.sampled_device if self.told_device is None else self.told_device

    @property
    def process(self) -> int | None:
        """What was told, else what was sampled."""
        return self.sampled_process if self.told_process is None else self.told_process


def most(peaks: Collection[Peak]) -> int | None:
    """The largest of all attempts: on the GPU where any of them computed there; None: nobody knows."""
    devices = [peak.device for peak in peaks if peak.device is not None]
    processes = [peak.process for peak in peaks if peak.process is not None]
    return max(devices or processes, default=None)


# --- Predictions


_CHOSEN = b'"type":"examples_chosen"'


@dataclass
class PredictionStory:
    """The examples, what was said of them evaluation by evaluation, and the newest confusion matrix.

    Steps of an attempt that no longer count are forgotten where a run goes on from an earlier step.
    """

    examples: tuple[Example, ...] = ()
    told: list[Predicted] = field(default_factory=list)
    confusion: ConfusionCounted | None = None

    def apply(self, event: Event) -> None:
        """Take one event; those of other kinds are passed over."""
        match event:
            case RunStarted():
                self.told = [
                    found for found in self.told if found.step <= event.from_step and event.from_step
                ]
                if self.confusion is not None and self.confusion.step > event.from_step:
                    self.confusion = None
            case ExamplesChosen():
                self.examples = event.examples
            case Predicted():
                self.told = [*(found for found in self.told if found.step != event.step), event]
            case ConfusionCounted():
                self.confusion = event.within_limits()

    def apply_all(self, events: Iterable[Event]) -> None:
        """Take events in their order."""
        for event in events:
            self.apply(event)


def chosen_examples(events_file: Path) -> tuple[Example, ...]:
    """The examples that a run told last, none where there are none; a file of a million lines isn't decoded."""
    found: tuple[Example, ...] = ()
    with contextlib.suppress(OSError), open_plain(events_file) as file:
        for line in file:
            if _CHOSEN in line[:80]:
                with contextlib.suppress(msgspec.MsgspecError, RecursionError):
                    event = decode(line)
                    found = event.examples if isinstance(event, ExamplesChosen) else found
    return found


# --- States


class State(StrEnum):
    """Where a run stands. There is no other idea of it anywhere."""

    QUEUED = "queued"
    STARTING = "starting"
    TRAINING = "training"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    CRASHED = "crashed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself: nobody works on the run."""
        return self in (State.PAUSED, State.STOPPED, State.FINISHED, State.FAILED, State.CRASHED)

    @property
    def can_resume(self) -> bool:
        """Whether the run ended before it was done, so that it may go on from where it was saved."""
        return self.is_over and self is not State.FINISHED


OUTCOMES = {
    Outcome.FINISHED: State.FINISHED,
    Outcome.STOPPED: State.STOPPED,
    Outcome.PAUSED: State.PAUSED,
    Outcome.FAILED: State.FAILED,
}
"""Where a run stands that ended by itself."""


# --- Active time


AT_REST = (TurnAwaited, TurnCame, RequestAnswered, MessageRaised, MessageWithdrawn)
"""What is also told while nobody works on the run."""


@dataclass(frozen=True)
class Interruption:
    """Nobody worked on the run for so many `seconds`; the next attempt goes on at `clock`, in seconds worked."""

    clock: float
    seconds: float
    was_paused: bool


class WorkClock:
    """Turns the time of events into seconds worked: each attempt follows directly on the one before.

    An attempt begins with the first thing that is told of its work. Tell of all events, in their order.
    """

    def __init__(self) -> None:
        self.origin = 0.0
        self._attempt = -1
        self._last = 0.0
        self._was_paused = False

    def begins_with(self, event: Event) -> bool:
        """Whether an attempt's work begins with this event."""
        return event.attempt > self._attempt and not isinstance(event, AT_REST)

    def begin(self, event: Event) -> Interruption | None:
        """Let an attempt begin with this event; None: it is the first one."""
        is_first = self._attempt < 0
        worked = 0.0 if is_first else self._last - self.origin
        away = event.time - self._last
        was_paused, self._was_paused = self._was_paused, False
        self._attempt, self.origin, self._last = event.attempt, event.time - worked, event.time
        return None if is_first else Interruption(worked, max(0.0, away), was_paused)

    def at(self, event: Event) -> float:
        """Seconds worked until this event of the attempt that was begun last; of a wait, those until it."""
        if event.attempt > self._attempt:
            return self._last - self.origin
        return event.time - self.origin

    def go_on(self, events: Sequence[Event]) -> None:
        """Note what has been told of the attempt; of what was told while it rested, nothing."""
        of_attempt = (event for event in reversed(events) if event.attempt <= self._attempt)
        newest = next(of_attempt, None)
        if newest is not None:
            self._last = max(self._last, newest.time)
        for event in events:
            if isinstance(event, RunFinished):
                self._was_paused = event.state is Outcome.PAUSED


# --- Status


__all__ = [
    "DOESNT_FIT",
    "LOOKED_AT",
    "PAUSED_ITSELF",
    "RECENT_STEPS",
    "STEPS_BEFORE_ESTIMATE",
    "RunStory",
    "State",
    "TimeSpent",
]

RECENT_STEPS = 50
LOOKED_AT = 10_000
"""So many steps of a long past are looked through for some that were taken apart."""
STEPS_BEFORE_ESTIMATE = 5
DOESNT_FIT = "doesnt-fit"
"""The id of the message that says that a run has ended before it trained, as it would take too much memory."""
PAUSED_ITSELF = "paused"
"""The id of the message that says why a run has paused though nobody asked it to."""


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


@dataclass
class RunStory:
    """The sum of a run's events so far. Apply them in order; read the fields at any time.

    Seconds are wall time, bytes are bytes, metrics are named as Trainer names them (`eval_accuracy`); `evaluated_at` is
    the step of the last evaluation. `seconds_before` is how long the attempts before the newest one took, `last_told`
    when the engine last said something. `peaks` is by attempt the most memory it held. `accepted` holds by request
    (stop, pause, ...) the newest attempt that took one up, `awaited` what the run's keeper waits for until its turn has
    come. `model_step` is after how many steps the model was written that stands in the run's folder, by whichever
    attempt. `skipped` counts the lines that could not be read, `trouble` says why a whole file can't be, `clock_moved`
    by how many seconds the computer's clock was set forward since the run's keeper began; whoever reads the files sets
    all three.
    """

    started: float | None = None
    attempt_started: float | None = None
    ended: float | None = None
    seconds_before: float = 0.0
    last_told: float | None = None
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
    accepted: dict[str, int] = field(default_factory=dict)
    awaited: TurnAwaited | None = None
    finished: RunFinished | None = None
    model_step: int | None = None
    forecast: MemoryForecast | None = None
    peaks: dict[int, Peak] = field(default_factory=dict)
    recent_parts: deque[StepFinished] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    recent_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    schema: int = SCHEMA
    skipped: int = 0
    trouble: str = ""
    clock_moved: float = 0.0

    def apply(self, event: Event) -> None:
        """Add one event."""
        match event:
            case RunStarted():
                self._start_attempt(event)
            case RunPlanned():
                self._notice(event)
                self.plan = event
            case PhaseChanged():
                self._notice(event)
                self.phase, self.phase_detail = event.phase, event.detail
            case StepFinished():
                self._add_steps([event])
            case Evaluated():
                self._notice(event)
                self.metrics, self.evaluated_at = dict(event.metrics), event.step
            case CheckpointSaved():
                self._notice(event)
                self.last_checkpoint = event
            case WhatRan():
                self.what_ran = event
            case MessageRaised():
                self.messages[event.id] = event
            case MessageWithdrawn():
                self.messages.pop(event.id, None)
            case RequestAnswered(accepted=True):
                self.accepted[event.action] = max(event.attempt, self.accepted.get(event.action, 0))
            case TurnAwaited():
                self.awaited = event
            case TurnCame():
                self.awaited = None
            case MemoryForecast():
                self.forecast = event
            case MemorySampled():
                self._sample(event)
            case RunFinished():
                self._notice(event)
                self.finished, self.ended = event, event.time
                self._peak(event.attempt, told_device=event.peak_device_bytes, told_process=event.peak_bytes)
                if event.wrote_model:
                    self.model_step = event.steps
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
            accepted=dict(self.accepted),
            messages=dict(self.messages),
            peaks=dict(self.peaks),
            recent_parts=self.recent_parts.copy(),
            recent_seconds=self.recent_seconds.copy(),
        )

    def _sample(self, event: MemorySampled) -> None:
        peak = self.peaks.get(event.attempt, Peak())
        if event.source is Source.TORCH and event.reserved is not None:
            self._peak(event.attempt, sampled_device=max(event.reserved, peak.sampled_device or 0))
        elif event.source is Source.PROCESS:
            self._peak(event.attempt, sampled_process=max(event.bytes, peak.sampled_process or 0))

    def _peak(self, attempt: int, **found: int | None) -> None:
        self.peaks[attempt] = replace(self.peaks.get(attempt, Peak()), **found)

    def _start_attempt(self, event: RunStarted) -> None:
        self._leave_behind(event.attempt)
        self.started = self.started or event.time
        self.attempt_started = event.time
        self.engine_pid = event.pid
        self.versions = dict(event.versions)
        self.schema = event.schema
        self.step = event.from_step
        if self.evaluated_at is not None and self.evaluated_at > event.from_step:
            self.metrics, self.evaluated_at = {}, None
        if self.last_checkpoint is not None and self.last_checkpoint.step > event.from_step:
            self.last_checkpoint = None

    def _notice(self, event: Event) -> None:
        """Of a long file only the ends may have been read: an attempt is known by all that its engine says."""
        if event.attempt > self.attempt:
            self._leave_behind(event.attempt)
        self.last_told = max(
            event.time, self.last_told or event.time
        )  # many steps are added after what followed

    def _leave_behind(self, attempt: int) -> None:
        """Forget what held for the attempts before this one."""
        self.seconds_before = self.seconds_spent() or 0.0
        self.attempt_started, self.last_told = None, None
        self.attempt = attempt
        self.finished, self.ended = None, None
        self.phase, self.phase_detail = None, ""
        # the keeper writes another file: what it said of this attempt may have been read already
        self.messages = {name: said for name, said in self.messages.items() if said.attempt == attempt}
        self.recent_seconds.clear()
        self.recent_parts.clear()

    def _add_steps(self, steps: list[StepFinished]) -> None:
        if not steps:
            return
        self._notice(steps[-1])
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
        """The most memory the run has held where it computes, in all its attempts: of the GPU, or of the computer.

        Of a GPU it is what torch's allocator held.
        """
        return most(self.peaks.values())

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

    def seconds_spent(self, until: float | None = None) -> float | None:
        """How long the engines of all attempts have worked, the time between them left out; None: none has begun.

        Args:
            until: The end of the newest attempt, or now (unix seconds); None: when its engine last said something.
        """
        if self.attempt_started is None:
            return self.seconds_before or None
        if self.finished is not None and self.finished.worked is not None:
            return self.seconds_before + self.finished.worked
        end = self.last_told if until is None else until
        return self.seconds_before + max(0.0, (end or self.attempt_started) - self.attempt_started)

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

    @property
    def stop_accepted(self) -> bool:
        """Whether the newest attempt is about to stop."""
        return self.has_accepted("stop")

    @property
    def pause_accepted(self) -> bool:
        """Whether the newest attempt is about to pause."""
        return self.has_accepted("pause")

    @property
    def kill_accepted(self) -> bool:
        """Whether the newest attempt was ended at once, as asked."""
        return self.has_accepted("kill")

    def has_accepted(self, action: str, attempt: int = 0) -> bool:
        """Whether the newest attempt, or at least the given one, has taken up a request (`stop`, `pause`, ...)."""
        return self.accepted.get(action, 0) >= max(1, attempt, self.attempt)

    def state(
        self, *, engine_ended: bool, keeper_alive: bool, asked: Collection[str] = (), attempt: int = 0
    ) -> State:
        """Where the run stands.

        Args:
            engine_ended: Whether `exit.json` is there.
            keeper_alive: Whether the keeper's process lives, or an engine that lost its keeper.
            asked: Requests that wait to be answered (`stop`, `pause`, ...).
            attempt: The attempt that is kept, or was kept last. Where the engine has not yet said anything in it, what
                it said at the end of an earlier one no longer counts.
        """
        has_begun = attempt <= self.attempt
        if has_begun and self.finished is not None:
            return OUTCOMES[self.finished.state]
        if engine_ended or not keeper_alive:
            return self._abandoned(has_begun, attempt)
        if "stop" in asked or self.has_accepted("stop", attempt) or self.has_accepted("kill", attempt):
            return State.STOPPING
        if "pause" in asked or self.has_accepted("pause", attempt):
            return State.PAUSING
        if self.awaited is not None and self.awaited.attempt >= max(attempt, self.attempt):
            return State.QUEUED
        is_planned = self.plan is not None and self.plan.attempt >= self.attempt
        return State.TRAINING if has_begun and (is_planned or self.recent_seconds) else State.STARTING

    def _abandoned(self, has_begun: bool, attempt: int) -> State:
        """Where a run stands that nobody works on, and whose engine hasn't said how it ended."""
        if self.has_accepted("kill", attempt):
            return State.STOPPED
        if has_begun:
            return State.CRASHED
        if self.has_accepted("stop", attempt):  # while it waited for its turn
            return State.STOPPED
        return State.PAUSED if self.has_accepted("pause", attempt) else State.CRASHED
