"""What the last minutes of one attempt came to: what the watchers look at."""

import math
from collections import deque
from dataclasses import dataclass, field, replace

from core.events import (
    BatterySampled,
    CheckpointSaved,
    DeviceSampled,
    DiskSampled,
    Evaluated,
    Event,
    Level,
    MessageRaised,
    Phase,
    PhaseChanged,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    WhatRan,
)
from core.options import RunOptions
from core.watchers import thresholds as limits
from core.watchers.loss_curve import LossCurve
from core.watchers.scores import Scores

STEPS_KEPT = 50
SLICES_KEPT = 180
SAMPLES_KEPT = 180


@dataclass
class Slice:
    """The steps that ended within one second: how many, how long they took, and how long they waited for data."""

    second: int
    steps: int = 0
    seconds: float = 0.0
    data_seconds: float = 0.0


@dataclass(frozen=True)
class BadLoss:
    """The first loss that was no number, its step, and how many finite ones came in a row after the last such."""

    step: int
    loss: float
    finite_since: int = 0


@dataclass
class Recent:
    """Takes in the events of one attempt, in the order of time; what isn't known is None and alarms nobody.

    Args:
        options: What was asked; None: that can't be read.
        cores: Processor cores of this computer.
    """

    options: RunOptions | None = None
    cores: int = 1
    now: float = 0.0
    from_step: int = 0
    step: int = 0
    plan: RunPlanned | None = None
    what_ran: WhatRan | None = None
    phase: Phase | None = None
    heard: float = 0.0
    """Since when there was no step and no other phase; the time the computer slept doesn't count.

    Where no step is to come, it is also since when its process has done nothing.
    """
    last_word: StepFinished | PhaseChanged | None = None
    """What the engine last told of: a step or a phase."""
    engine_busy: float | None = None
    """Processor time the engine has used meanwhile, as a share of one core."""
    first_seconds: float | None = None
    """How long the first step took, which has more to do than others."""
    pace: deque[float] = field(default_factory=lambda: deque(maxlen=STEPS_KEPT))
    slices: deque[Slice] = field(default_factory=lambda: deque(maxlen=SLICES_KEPT))
    losses: LossCurve = field(default_factory=LossCurve)
    last_losses: deque[float] = field(default_factory=lambda: deque(maxlen=limits.EXPLODED_OVER.steps))
    """The last finite ones."""
    bad_loss: BadLoss | None = None
    scores: Scores = field(default_factory=Scores)
    checkpoints: list[CheckpointSaved] = field(default_factory=list)
    """Those of this attempt that are still there, the oldest first: the engine keeps the newest only."""
    good_checkpoint: CheckpointSaved | None = None
    """The last one of them that was saved while the losses were numbers, or had been for long again."""
    devices: dict[Source, deque[DeviceSampled]] = field(default_factory=dict)
    gpu_busy: deque[float] = field(default_factory=lambda: deque(maxlen=int(limits.STARVING_SECONDS)))
    """How busy the GPU was in the last samples that were taken while it trained."""
    battery: BatterySampled | None = None
    unplugged_since: float | None = None
    disk: DiskSampled | None = None
    failure: MessageRaised | None = None
    """What the engine says it failed of."""
    is_over: bool = False

    @property
    def checkpoint(self) -> CheckpointSaved | None:
        """The last one."""
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def is_full(self) -> bool:
        """Whether the next checkpoint takes the place of the oldest."""
        return len(self.checkpoints) >= self._most_checkpoints

    @property
    def _most_checkpoints(self) -> int:
        return max(1, self.options.output.keep_checkpoints if self.options is not None else 1)

    def tick(self, now: float) -> None:
        """Say what time it is, by a clock that nobody sets: once a second or so.

        A long gap between two ticks is a computer that slept, where that clock goes on meanwhile.
        """
        slept = now - self.now
        if self.now and slept > limits.SLEPT_SECONDS:
            self.heard = min(self.heard + slept, now)  # what was told on waking has not slept
            self.devices.clear()
        self.now = max(self.now, now)

    def look_at_process(self, busy: float | None) -> None:
        """Say how busy the engine's process has been since it is looked at: as a share of one core."""
        self.engine_busy = busy
        if self.phase is not Phase.TRAINING and busy is not None and busy >= limits.IDLE:
            self.heard = self.now

    def apply(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case RunStarted():
                self.from_step = self.step = event.from_step
                self.heard = event.time
            case RunPlanned():
                self.plan = event
            case PhaseChanged():
                self.phase = event.phase
                self.heard, self.last_word = event.time, event
            case StepFinished():
                self._add_step(event)
            case Evaluated():
                self.scores.add(event)
            case CheckpointSaved():
                self._add_checkpoint(event)
            case WhatRan():
                self.what_ran = event
            case MessageRaised(level=Level.ERROR):
                self.failure = event
            case DeviceSampled():
                self._add_device(event)
            case BatterySampled():
                self._add_battery(event)
            case DiskSampled():
                self.disk = event
            case RunFinished():
                self.is_over = True

    def _add_step(self, event: StepFinished) -> None:
        is_first = self.first_seconds is None
        self.step = event.step
        self.heard, self.last_word = event.time, event
        self._add_loss(event.step, event.loss_value)
        if is_first:
            self.first_seconds = event.seconds
        if is_first or event.compile_seconds:
            return  # such a step is no measure of the pace
        self.pace.append(event.seconds)
        if event.data_seconds is not None:
            second = int(event.time)
            if not self.slices or self.slices[-1].second != second:
                self.slices.append(Slice(second))
            slice_ = self.slices[-1]
            slice_.steps += 1
            slice_.seconds += event.seconds
            slice_.data_seconds += event.data_seconds

    def _add_loss(self, step: int, loss: float | None) -> None:
        if loss is None:
            return
        bad = self.bad_loss
        if math.isfinite(loss):
            self.losses.add(step, loss)
            self.last_losses.append(loss)
            if bad is not None:
                self.bad_loss = replace(bad, finite_since=bad.finite_since + 1)
        elif bad is None or bad.finite_since >= limits.FINITE_AGAIN:
            self.bad_loss = BadLoss(step, loss)
        else:
            self.bad_loss = replace(bad, finite_since=0)

    def _add_checkpoint(self, event: CheckpointSaved) -> None:
        others = [kept for kept in self.checkpoints if kept.path != event.path]
        self.checkpoints = [*others, event][-self._most_checkpoints :]
        bad = self.bad_loss
        if bad is None or bad.finite_since >= limits.FINITE_AGAIN:
            self.good_checkpoint = event
        elif self.good_checkpoint not in self.checkpoints:
            self.good_checkpoint = None

    def _add_device(self, event: DeviceSampled) -> None:
        self.devices.setdefault(event.source, deque(maxlen=SAMPLES_KEPT)).append(event)
        if event.source is not Source.SYSTEM and event.busy is not None and self.phase is Phase.TRAINING:
            self.gpu_busy.append(event.busy)

    def _add_battery(self, event: BatterySampled) -> None:
        self.battery = event
        if event.is_plugged is not False:
            self.unplugged_since = None
        elif self.unplugged_since is None:
            self.unplugged_since = event.time
