"""A run's status, computed from its events: state, progress, active time, peak memory, predictions."""

import contextlib
import math
import statistics
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from core.base.files import open_plain
from core.runs.events import (
    Action,
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
    Phase,
    PhaseChanged,
    Predicted,
    RequestAnswered,
    RunFinished,
    RunPlanned,
    RunStarted,
    Said,
    Source,
    StepFinished,
    TurnAwaited,
    TurnCame,
    WhatRan,
    decode,
)

RECENT_STEPS = 50
TIMED_STEPS = 300
TIMED_BATCHES = 60  # reports of an evaluation, one a second
PARTS_SEARCHED = 10_000  # newest steps of a long run that are searched for some timed in parts
EVEN = 0.2  # evaluations may be this share of an interval off
DOESNT_FIT = "doesnt-fit"
"""The id of the message that a run has ended before it trained, as it would take too much memory."""
IN_BOTH = "in-both"
"""The id of the message that many validation examples are trained on, too."""
PAUSED_ITSELF = "paused"
"""The id of the message why a run has paused without a request."""

# --- What happened at steps


class AtStep(Protocol):
    """An event, or a figure, of a step."""

    @property
    def step(self) -> int: ...


Kept = TypeVar("Kept", bound=AtStep)


class ByStep(list[Kept]):
    """What happened at steps, in order: the newest of each step, without what a resumed run takes back."""

    def with_(self, event: Kept) -> "ByStep[Kept]":
        """Returns a copy with an event, in place of one of the same step."""
        return ByStep([*(one for one in self if one.step != event.step), event])

    def resumed(self, started: RunStarted) -> "ByStep[Kept]":
        """Returns the events that still count when an attempt begins."""
        return ByStep(one for one in self if not started.undoes(one.step))


# --- Predictions

MOST_CONFUSIONS = 200
"""Newest evaluations whose confusion matrices are kept in memory: of 50 labels one has 2,500 counts."""


@dataclass
class PredictionLog:
    """The examples, and evaluation by evaluation their predictions and the confusion matrix."""

    examples: tuple[Example, ...] = ()
    predicted: ByStep[Predicted] = field(default_factory=ByStep)
    confusions: ByStep[ConfusionCounted] = field(default_factory=ByStep)
    is_test: bool = False

    @property
    def confusion(self) -> ConfusionCounted | None:
        """The matrix of the evaluation whose examples are kept: the newest, or the best if that is kept."""
        return next((one for one in reversed(self.confusions) if one.is_kept), None)

    def apply(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.predicted = self.predicted.resumed(event)
                self.confusions = self.confusions.resumed(event)
            case ExamplesChosen():
                self.examples = event.examples
            case RunPlanned():
                self.is_test = not event.total_steps
            case Predicted():
                self.predicted = self.predicted.with_(event)
            case ConfusionCounted():
                self.confusions = self.confusions.with_(event.within_limits())
                if len(self.confusions) > MOST_CONFUSIONS:
                    oldest = next(one for one in self.confusions if one is not self.confusion)
                    self.confusions = ByStep(one for one in self.confusions if one is not oldest)

    def apply_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.apply(event)


def chosen_examples(events_file: Path) -> tuple[Example, ...]:
    """Returns the examples that a run chose last; a file of a million lines isn't decoded."""
    found: tuple[Example, ...] = ()
    with contextlib.suppress(OSError), open_plain(events_file) as file:
        for line in file:
            if b'"type":"examples_chosen"' in line[:80]:
                with contextlib.suppress(msgspec.MsgspecError):
                    event = decode(line)
                    found = event.examples if isinstance(event, ExamplesChosen) else found
    return found


# --- Pace

PACE_SECONDS, CHANGE_SECONDS = 60.0, 20.0
PACE_STEPS = 5
CHANGED = 2.0  # times as slow or as quick: less may be batches of another length


def pace_of(seconds: Iterable[float]) -> float | None:
    """Returns a run's pace: median seconds of its steps of the last minute, of five at least; None without a step.

    A status keeps `TIMED_STEPS`: a minute of steps that take 200 ms or more, and 3 s of steps of 10 ms.
    If the median of the last 20 s is half or twice as much, the pace has changed, and that is the pace.
    """
    minute: list[float] = []
    newest: list[float] = []
    spent = 0.0
    for one in reversed([*seconds]):
        if len(minute) >= PACE_STEPS and spent >= PACE_SECONDS:
            break
        if len(newest) < PACE_STEPS or spent < CHANGE_SECONDS:
            newest.append(one)
        minute.append(one)
        spent += one
    if not minute:
        return None
    pace, now = statistics.median(minute), statistics.median(newest)
    return pace if pace / CHANGED < now < pace * CHANGED else now


# --- Active time


class WorkClock:
    """Converts the time of events into active time: each attempt directly follows the one before.

    Apply it to all events in order.
    """

    def __init__(self) -> None:
        self.origin = 0.0
        self._attempt = -1
        self._last = 0.0

    def begins_with(self, event: Event) -> bool:
        """Returns whether an attempt begins with this event; some are also written while no engine works."""
        at_rest = (TurnAwaited, TurnCame, RequestAnswered, MessageRaised, MessageWithdrawn)
        return event.attempt > self._attempt and not isinstance(event, at_rest)

    def begin(self, event: Event) -> None:
        """Begins an attempt with this event."""
        worked = 0.0 if self._attempt < 0 else self._last - self.origin
        self._attempt, self.origin, self._last = event.attempt, event.time - worked, event.time

    def at(self, event: Event) -> float:
        """Returns the active time in seconds at this event; constant while the next attempt waits."""
        return (self._last if event.attempt > self._attempt else event.time) - self.origin

    def go_on(self, events: Sequence[Event]) -> None:
        """Adds events of the current attempt."""
        for event in events:
            if event.attempt <= self._attempt:
                self._last = max(self._last, event.time)


# --- Status

MOST_SHARE = 0.99
"""A run is done once its last evaluation is over and its model is saved, not after its last step."""


def share_done(step: int, total: int | None) -> float | None:
    """Returns which share of a run that isn't over is done, 0 to 1; None before it is planned."""
    return min(MOST_SHARE, step / total) if total else None


class State(StrEnum):
    """The state of a run."""

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
        return self in (State.PAUSED, State.STOPPED, State.FINISHED, State.FAILED, State.CRASHED)

    @property
    def can_resume(self) -> bool:
        return self.is_over and self is not State.FINISHED


@dataclass(frozen=True)
class Peak:
    """Peak memory of one attempt, in bytes, on the GPU (torch's allocator) and of its processes in main memory.

    `engine` is what the engine counted of its own processes; samples may be more: they also count its helpers.
    """

    device: int | None = None
    process: int | None = None
    engine: int | None = None


def _larger(one: int | None, other: int | None) -> int | None:
    return max((known for known in (one, other) if known is not None), default=None)


@dataclass
class RunStatus:
    """The sum of a run's events so far. Apply them in order; read the fields at any time.

    Seconds are wall time, metrics are named as Trainer names them (`eval_accuracy`).

    - `seconds_before` is the time of the attempts before the newest one, `last_event_time` the engine's newest event.
    - `first_loss` is that of the first step: of the model before it was trained, on one batch.
    - `evaluations` are those that weren't undone by a resume; `model_step` is the step of the model in `model/`.
    - `examples` is how many have their predictions recorded: `said`, which took `predict_seconds`, the last time.
    - `evaluating` and `predicting` are the seconds of all evaluations and sample predictions, also of undone ones.
    - `evaluated` are the times, batches so far and batches in all of the newest evaluation, of its last minute.
    - `accepted` is the latest attempt that accepted each request (stop, pause, ...), `awaited` the run it is queued
      behind, `peaks` peak memory by attempt.
    - Set by the reader of the files: `skipped` lines that could not be read, `trouble` why a whole file can't be, and
      `clock_moved`, the seconds by which the clock was set forward since the run's keeper started.
    """

    started: float | None = None
    attempt_started: float | None = None
    ended: float | None = None
    seconds_before: float = 0.0
    last_event_time: float | None = None
    attempt: int = 0
    engine_pid: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    phase: Phase | None = None
    phase_detail: str = ""
    plan: RunPlanned | None = None
    step: int = 0
    epoch: float = 0.0
    loss: float | None = None
    first_loss: float | None = None
    evaluations: ByStep[Evaluated] = field(default_factory=ByStep)
    examples: int = 0
    said: tuple[Said, ...] = ()
    predict_seconds: float = 0.0
    evaluating: float = 0.0
    predicting: float = 0.0
    evaluated: deque[tuple[float, int, int]] = field(default_factory=lambda: deque(maxlen=TIMED_BATCHES))
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
    recent_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=TIMED_STEPS))
    skipped: int = 0
    trouble: str = ""
    clock_moved: float = 0.0

    @property
    def is_test(self) -> bool:
        """Whether it only evaluates a model."""
        return self.plan is not None and not self.plan.total_steps

    @property
    def share_done(self) -> float | None:
        """Which share of a run that isn't over is done, 0 to 1, of a test by its batches; None before it is planned."""
        if not self.is_test:
            return share_done(self.step, self.total_steps)
        _time, done, batches = self.evaluated[-1] if self.evaluated else (0.0, 0, 1)
        return share_done(done, batches)

    def apply(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._start_attempt(event)
            case RunPlanned():
                self._register(event)
                self.plan = event
            case PhaseChanged():
                self._register(event)
                self.phase, self.phase_detail = event.phase, event.detail
                self._count_batches(event)
            case StepFinished():
                self._add_steps([event])
            case Evaluated():
                self._register(event)
                self.evaluating += event.seconds
                self.evaluations = self.evaluations.with_(event)
            case ExamplesChosen():
                self.examples = len(event.examples)
            case Predicted():
                self.said, self.predict_seconds = event.said, event.seconds
                self.predicting += event.seconds
            case CheckpointSaved():
                self._register(event)
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
                self._add_sample(event)
            case RunFinished():
                self._register(event)
                self.finished, self.ended = event, event.time
                sampled = self.peaks.get(event.attempt, Peak())
                self.peaks[event.attempt] = Peak(
                    device=_larger(sampled.device, event.peak_device_bytes),
                    process=_larger(sampled.process, event.peak_bytes),
                    engine=event.peak_bytes,
                )
                if event.wrote_model and event.steps:
                    self.model_step = event.steps

    def apply_all(self, events: Iterable[Event]) -> None:
        """Adds events, as `apply` does one by one; many steps in a row cost little."""
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

    def copy(self) -> "RunStatus":
        own: dict[str, Any] = {
            name: copy(value) for name, value in vars(self).items() if isinstance(value, dict | list | deque)
        }
        return replace(self, **own)

    def _add_sample(self, event: MemorySampled) -> None:
        peak = self.peaks.get(event.attempt, Peak())
        if event.source is Source.TORCH:
            self.peaks[event.attempt] = replace(peak, device=_larger(peak.device, event.needed))
        elif event.source is Source.PROCESS:
            self.peaks[event.attempt] = replace(peak, process=_larger(peak.process, event.bytes))

    def _count_batches(self, event: PhaseChanged) -> None:
        if event.phase is not Phase.EVALUATING:
            return
        done, _slash, batches = event.detail.partition("/")
        if done.isdecimal() and batches.isdecimal():
            self.evaluated.append((event.time, int(done), int(batches)))
        elif not event.detail:  # it begins
            self.evaluated.clear()
            self.evaluated.append((event.time, 0, 1))

    def _start_attempt(self, event: RunStarted) -> None:
        self._reset(event.attempt)
        self.started = self.started or event.time
        self.attempt_started = event.time
        self.engine_pid = event.pid
        self.versions = dict(event.versions)
        self.step = event.from_step
        self.evaluations = self.evaluations.resumed(event)
        if self.last_checkpoint is not None and event.undoes(self.last_checkpoint.step):
            self.last_checkpoint = None

    def _register(self, event: Event) -> None:
        """Registers the attempt and time of an engine's event: of a long file only the ends may have been read."""
        if event.attempt > self.attempt:
            self._reset(event.attempt)
        # many steps are added after later events
        self.last_event_time = max(event.time, self.last_event_time or event.time)

    def _reset(self, attempt: int) -> None:
        """Resets what belongs to earlier attempts."""
        self.seconds_before = self.seconds_spent() or 0.0
        self.attempt_started, self.last_event_time = None, None
        self.attempt = attempt
        self.finished, self.ended = None, None
        self.phase, self.phase_detail = None, ""
        # the keeper writes another file: its messages of this attempt may have been read already
        self.messages = {name: said for name, said in self.messages.items() if said.attempt == attempt}
        self.recent_seconds.clear()
        self.recent_parts.clear()
        self.evaluated.clear()

    def _add_steps(self, steps: list[StepFinished]) -> None:
        if not steps:
            return
        self._register(steps[-1])
        self.step, self.epoch = steps[-1].step, steps[-1].epoch
        if steps[0].step == 1:
            self.first_loss = steps[0].loss
        self.recent_seconds.extend(step.seconds for step in steps if not step.compile_seconds)
        newest_steps = steps[-PARTS_SEARCHED:]
        self.recent_parts.extend(step for step in newest_steps if step.forward_seconds is not None)
        for step in reversed(steps):
            if step.loss is not None or step.non_finite is not None:
                self.loss = step.loss_value
                break

    @property
    def total_steps(self) -> int | None:
        return self.plan.total_steps if self.plan else None

    @property
    def stopped_early(self) -> bool:
        return self.finished is not None and self.finished.waited > 0

    @property
    def metrics(self) -> dict[str, float | None]:
        """The metrics of the last evaluation and those at the end."""
        found = dict(self.evaluations[-1].metrics) if self.evaluations else {}
        return found | self.finished.metrics if self.finished is not None else found

    @property
    def evaluated_at(self) -> int | None:
        return self.evaluations[-1].step if self.evaluations else None

    @property
    def peak_bytes(self) -> int | None:
        """Peak memory over all attempts: of the GPU where any of them computed there, else of main memory."""
        devices = [peak.device for peak in self.peaks.values() if peak.device is not None]
        processes = [peak.process for peak in self.peaks.values() if peak.process is not None]
        return max(devices or processes, default=None)

    @property
    def measured_bytes(self) -> int | None:
        """What a forecast is compared with: `peak_bytes`, in main memory of the engine's own processes."""
        if any(peak.device is not None for peak in self.peaks.values()):
            return self.peak_bytes
        counted = [peak.engine or peak.process for peak in self.peaks.values()]
        return max(filter(None, counted), default=None)

    @property
    def forecast_bytes(self) -> int | None:
        """The forecast of `measured_bytes`: on a GPU without the overhead outside of tensors."""
        if self.forecast is None:
            return None
        parts = self.forecast.parts
        return parts.total if self.forecast.device == "cpu" else parts.total - parts.overhead

    @property
    def forecast_error(self) -> float | None:
        """Relative error of the forecast, positive: too high; None before the end, or without a forecast."""
        forecast, peak = self.forecast_bytes, self.measured_bytes
        if forecast is None or not peak or self.finished is None or not self.finished.steps:
            return None
        return (forecast - peak) / peak

    @property
    def step_seconds(self) -> float | None:
        """Wall time of a step at the run's pace."""
        return pace_of(self.recent_seconds)

    @property
    def seconds_left(self) -> float | None:
        """Estimated time left, with the evaluations if one was timed; None before `PACE_STEPS` steps.

        Of a test by the batches of the last minute; None before the first ones.
        """
        if self.is_test and not self.finished and self.evaluated:
            (begun, before, _all), (now, done, batches) = self.evaluated[0], self.evaluated[-1]
            return (batches - done) * (now - begun) / (done - before) if done > before else None
        pace = self.step_seconds
        if self.plan is None or self.finished or pace is None or len(self.recent_seconds) < PACE_STEPS:
            return None
        training = (self.plan.total_steps - self.step) * pace
        if not self.evaluations or not self.evaluations[-1].step:
            return training
        done, last = len(self.evaluations), self.evaluations[-1]
        left = math.ceil((self.plan.total_steps - last.step) * done / last.step - EVEN)
        return training + max(0, left) * self.evaluation_seconds

    @property
    def evaluation_seconds(self) -> float:
        """Duration of the last evaluation with its predictions; 0 before one."""
        return (self.evaluations[-1].seconds if self.evaluations else 0.0) + self.predict_seconds

    @property
    def time_spent(self) -> dict[str, float] | None:
        """Shares of the last steps' time by part (data, forward, backward, optimizer, rest); None if not timed."""
        seconds = sum(step.seconds for step in self.recent_parts)
        if seconds <= 0:
            return None
        shares = {
            part: sum(getattr(step, f"{part}_seconds") or 0.0 for step in self.recent_parts) / seconds
            for part in ("data", "forward", "backward", "optimizer")
        }
        return shares | {"rest": max(0.0, 1.0 - sum(shares.values()))}

    def seconds_spent(self, until: float | None = None) -> float | None:
        """Returns the total time of all attempts' engines, without pauses; None if none has started.

        Args:
            until: The end of the newest attempt, or now (unix seconds); None: its engine's last event.
        """
        if self.attempt_started is None:
            return self.seconds_before or None
        if self.finished is not None and self.finished.worked is not None:
            return self.seconds_before + self.finished.worked
        end = self.last_event_time if until is None else until
        return self.seconds_before + max(0.0, (end or self.attempt_started) - self.attempt_started)

    def state(
        self, *, engine_ended: bool, keeper_alive: bool, requested: Collection[Action] = (), attempt: int = 0
    ) -> State:
        """Returns the state of the run.

        Args:
            engine_ended: Whether `exit.json` exists.
            keeper_alive: Whether the keeper runs, or an engine that lost its keeper.
            requested: What open requests ask.
            attempt: The newest attempt by `keeper.json`. Until its engine has written an event, the end of an earlier
                one no longer counts.
        """
        has_begun = attempt <= self.attempt
        newest = max(1, attempt, self.attempt)
        accepted = {action for action, one in self.accepted.items() if one >= newest}
        if has_begun and self.finished is not None:
            return State(self.finished.state)
        if engine_ended or not keeper_alive:
            if Action.KILL in accepted:
                return State.STOPPED
            if has_begun:
                return State.CRASHED
            if Action.STOP in accepted:  # while it waited for its turn
                return State.STOPPED
            return State.PAUSED if Action.PAUSE in accepted else State.CRASHED
        if Action.STOP in requested or accepted & {Action.STOP, Action.KILL}:
            return State.STOPPING
        if Action.PAUSE in requested or Action.PAUSE in accepted:
            return State.PAUSING
        if self.awaited is not None and self.awaited.attempt >= max(attempt, self.attempt):
            return State.QUEUED
        is_planned = self.plan is not None and self.plan.attempt >= self.attempt
        return State.TRAINING if has_begun and (is_planned or self.recent_seconds) else State.STARTING
