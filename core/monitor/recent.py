"""State of the current attempt, in constant memory, as read by the warning rules."""

import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from core.base.errors import Fix, FixAction
from core.base.formats import LESS_IS_BETTER
from core.base.language import _
from core.options import RunOptions
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
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    WhatRan,
)
from core.runs.status import TIMED_STEPS

STOP = Fix(_("Stop and save model"), action=FixAction.STOP)
PAUSE = Fix(_("Pause"), action=FixAction.PAUSE)
END = Fix(_("End now"), action=FixAction.END)
REVEAL = Fix(_("Show the folder"), action=FixAction.REVEAL)


@dataclass(frozen=True)
class MonitorFinding:
    """Result of a rule. The message is raised again only if `key` changes, not if figures in its text change."""

    key: str
    title: str
    detail: str
    fixes: tuple[Fix, ...] = ()
    level: Level = Level.WARNING

    def message(self, message_id: str) -> MessageRaised:
        return MessageRaised(
            id=message_id, level=self.level, title=self.title, detail=self.detail, fixes=self.fixes
        )


# --- Loss curve

MOST_BLOCKS = 256
FIRST_LOSSES = 5


@dataclass
class LossBlock:
    """The sum of `count` losses, those of the steps `first` to `last`."""

    first: int
    last: int
    count: int
    total: float

    @property
    def mean(self) -> float:
        return self.total / self.count


class Low(NamedTuple):
    """The lowest average loss over some steps, and the last of them."""

    loss: float
    step: int


class Trend(NamedTuple):
    """Mean of a loss over some steps, and the least and most by which it changed, as shares of the mean."""

    mean: float
    least: float
    most: float


class LossCurve:
    """Finite losses, one per step. Neighbours are merged into blocks of equal size once there are `MOST_BLOCKS`."""

    def __init__(self) -> None:
        self._blocks: list[LossBlock] = []
        self._size = 1
        self._first: list[float] = []

    def add(self, step: int, loss: float) -> None:
        if len(self._first) < FIRST_LOSSES:
            self._first.append(loss)
        blocks = self._blocks
        if blocks and blocks[-1].count < self._size:
            block = blocks[-1]
            block.last, block.count, block.total = step, block.count + 1, block.total + loss
        else:
            blocks.append(LossBlock(step, step, 1, loss))
        if len(blocks) > MOST_BLOCKS:
            pairs = zip(blocks[::2], blocks[1::2], strict=False)
            joined = [LossBlock(a.first, b.last, a.count + b.count, a.total + b.total) for a, b in pairs]
            self._blocks = joined + blocks[2 * len(joined) :]
            self._size *= 2

    @property
    def first(self) -> Low | None:
        """The loss of the first step, before any weight was changed."""
        return Low(self._first[0], self._blocks[0].first) if self._first else None

    @property
    def start(self) -> float | None:
        """Average of the first `FIRST_LOSSES` losses; None before there are as many."""
        return statistics.fmean(self._first) if len(self._first) == FIRST_LOSSES else None

    @property
    def last(self) -> int:
        """The last step with a loss; 0 before one."""
        return self._blocks[-1].last if self._blocks else 0

    def since(self, step: int) -> list[LossBlock]:
        """Returns the complete blocks from `step` on."""
        return [block for block in self._blocks if block.first >= step and block.count == self._size]

    def at(self, step: int) -> float | None:
        """Returns the average loss of the steps around `step`; None if unknown."""
        width = max(1, -(-FIRST_LOSSES // self._size))
        near = [block for block in self._blocks if block.first <= step][-width:]
        return sum(block.total for block in near) / sum(block.count for block in near) if near else None

    def lowest(self, steps: int) -> Low | None:
        """Returns the lowest average over at least `steps` consecutive steps; None before there are as many."""
        width = -(-steps // self._size)
        blocks = [block for block in self._blocks if block.count == self._size]
        if len(blocks) < width:
            return None
        sums = [0.0, *accumulate(block.total for block in blocks)]
        low, end = min((sums[end] - sums[end - width], end) for end in range(width, len(sums)))
        return Low(low / (width * self._size), blocks[end - 1].last)


def trend(blocks: Sequence[LossBlock]) -> Trend:
    """Returns the change along the least-squares line through three or more blocks, within two standard errors."""
    steps = [(block.first + block.last) / 2 for block in blocks]
    losses = [block.mean for block in blocks]
    slope, intercept = statistics.linear_regression(steps, losses)
    residual = sum((loss - intercept - slope * step) ** 2 for step, loss in zip(steps, losses, strict=True))
    spread = statistics.pvariance(steps) * len(steps)
    length = blocks[-1].last - blocks[0].first
    mean = statistics.fmean(losses)
    change = abs(slope * length)
    uncertainty = 2 * math.sqrt(residual / (len(blocks) - 2) / spread) * length
    scale = max(abs(mean), 1e-12)
    return Trend(mean, max(0.0, change - uncertainty) / scale, (change + uncertainty) / scale)


# --- State of the attempt

STEPS_COMPARED = 10
SAMPLES_KEPT = 180
LOSSES_KEPT = 20
GPU_SAMPLES_KEPT = 20
STEPS_TIMED = 20_000

FIRST_STEPS = 10

FINITE_AGAIN = 50  # finite losses in a row after which a single NaN is past
BETTER = 0.01  # share by which a metric has to improve to count as better
IDLE = 0.02  # share of one core below which a process does nothing
SLEPT_SECONDS = 15.0  # a longer gap between two ticks means that the computer slept


@dataclass(frozen=True)
class BadLoss:
    """The first loss that was NaN or infinite, its step, and how many finite ones followed the last such."""

    step: int
    loss: float
    finite_since: int = 0


@dataclass
class Recent:
    """Accumulates the events of one attempt in the order of time. What is unknown is None and raises no warning.

    - `last_progress` is when the last step or phase was reported, and `last_event` that event. Time asleep doesn't
      count; nor, outside of training, time in which the engine's process was busy.
    - `engine_busy` is the processor time its process has used since, as a share of one core.
    - `usual_seconds` is the lowest median of `STEPS_COMPARED` steps in a row; None before there are as many. `others`
      has the shares of the CPU that other programs take, by name, while that is looked at.
    - `pace` has the seconds of the last steps, `timed` those of more steps with their seconds of waiting for data.
    - `checkpoints` are those of this attempt still on disk, oldest first; `good_checkpoint` the last of them saved
      while losses were finite.
    - `held` has the last samples of the GPU's memory while it trained, without the first steps.
    - `gpu_busy` has the last samples taken while it trained, from 0 to 1.
    - `evaluations` counts them, `since_better` those after the last that improved any metric, at `best_step`.
    """

    options: RunOptions | None = None
    cores: int = 1
    now: float = 0.0
    from_step: int = 0
    step: int = 0
    plan: RunPlanned | None = None
    what_ran: WhatRan | None = None
    phase: Phase | None = None
    trains_since: float | None = None
    last_progress: float = 0.0
    last_event: StepFinished | PhaseChanged | None = None
    engine_busy: float | None = None
    usual_seconds: float | None = None
    others: dict[str, float] = field(default_factory=dict)
    first_seconds: float | None = None
    pace: deque[float] = field(default_factory=lambda: deque(maxlen=TIMED_STEPS))
    timed: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=STEPS_TIMED))
    losses: LossCurve = field(default_factory=LossCurve)
    last_losses: deque[float] = field(default_factory=lambda: deque(maxlen=LOSSES_KEPT))
    bad_loss: BadLoss | None = None
    best: dict[str, float] = field(default_factory=dict)
    evaluations: int = 0
    best_step: int = 0
    since_better: int = 0
    checkpoints: list[CheckpointSaved] = field(default_factory=list)
    good_checkpoint: CheckpointSaved | None = None
    devices: dict[Source, deque[DeviceSampled]] = field(default_factory=dict)
    held: deque[MemorySampled] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    gpu_busy: deque[float] = field(default_factory=lambda: deque(maxlen=GPU_SAMPLES_KEPT))
    battery: BatterySampled | None = None
    unplugged_since: float | None = None
    disk: DiskSampled | None = None
    failure: MessageRaised | None = None
    is_over: bool = False

    @property
    def most_checkpoints(self) -> int:
        return max(1, self.options.output.keep_checkpoints if self.options is not None else 1)

    def tick(self, now: float) -> None:
        """Sets the time of a monotonic clock; to be called about once a second."""
        slept = now - self.now
        if self.now and slept > SLEPT_SECONDS:
            self.last_progress = min(self.last_progress + slept, now)
            self.devices.clear()
        self.now = max(self.now, now)

    def set_engine_busy(self, busy: float | None) -> None:
        self.engine_busy = busy
        if self.phase is not Phase.TRAINING and busy is not None and busy >= IDLE:
            self.last_progress = self.now

    def apply(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.from_step = self.step = event.from_step
                self.last_progress = event.time
            case RunPlanned():
                self.plan = event
            case PhaseChanged():
                self.phase = event.phase
                if event.phase is Phase.TRAINING and self.trains_since is None:
                    self.trains_since = event.time
                self.last_progress, self.last_event = event.time, event
            case StepFinished():
                self._add_step(event)
            case Evaluated():
                self._add_evaluation(event)
            case CheckpointSaved():
                self._add_checkpoint(event)
            case WhatRan():
                self.what_ran = event
            case MessageRaised(level=Level.ERROR):
                self.failure = event
            case DeviceSampled():
                self.devices.setdefault(event.source, deque(maxlen=SAMPLES_KEPT)).append(event)
                is_gpu = event.source is not Source.SYSTEM
                if is_gpu and event.busy is not None and self.phase is Phase.TRAINING:
                    self.gpu_busy.append(event.busy)
            case MemorySampled(source=Source.TORCH):
                if self.phase is Phase.TRAINING and self.step >= self.from_step + FIRST_STEPS:
                    self.held.append(event)
            case BatterySampled():
                self.battery = event
                unplugged = event.time if self.unplugged_since is None else self.unplugged_since
                self.unplugged_since = unplugged if event.is_plugged is False else None
            case DiskSampled():
                self.disk = event
            case RunFinished():
                self.is_over = True

    def _add_step(self, event: StepFinished) -> None:
        self.step = event.step
        self.last_progress, self.last_event = event.time, event
        self._add_loss(event.step, event.loss_value)
        if self.first_seconds is None:
            self.first_seconds = event.seconds
        elif not event.compile_seconds:
            self.pace.append(event.seconds)
            if len(self.pace) >= STEPS_COMPARED:
                newest = statistics.median(list(self.pace)[-STEPS_COMPARED:])
                self.usual_seconds = min(newest, self.usual_seconds or newest)
            if event.data_seconds is not None:
                self.timed.append((event.seconds, event.data_seconds))

    def _add_loss(self, step: int, loss: float | None) -> None:
        if loss is None:
            return
        bad = self.bad_loss
        if math.isfinite(loss):
            self.losses.add(step, loss)
            self.last_losses.append(loss)
            if bad is not None:
                self.bad_loss = replace(bad, finite_since=bad.finite_since + 1)
        elif bad is None or bad.finite_since >= FINITE_AGAIN:
            self.bad_loss = BadLoss(step, loss)
        else:
            self.bad_loss = replace(bad, finite_since=0)

    def _add_evaluation(self, event: Evaluated) -> None:
        self.evaluations += 1
        self.since_better += 1
        for name, value in event.metrics.items():
            if value is None:
                continue
            best = self.best.get(name)
            gain = math.inf if best is None else best - value if name in LESS_IS_BETTER else value - best
            if gain > BETTER * abs(best or 0.0):
                self.best[name] = value
                self.best_step, self.since_better = event.step, 0

    def _add_checkpoint(self, event: CheckpointSaved) -> None:
        others = [kept for kept in self.checkpoints if kept.path != event.path]
        self.checkpoints = [*others, event][-self.most_checkpoints :]
        if self.bad_loss is None or self.bad_loss.finite_since >= FINITE_AGAIN:
            self.good_checkpoint = event
        elif self.good_checkpoint not in self.checkpoints:
            self.good_checkpoint = None
