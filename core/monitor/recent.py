"""State of the current attempt that the rules look at, and their limits."""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from core.base.errors import Fix, FixAction
from core.base.formats import LESS_IS_BETTER
from core.options import RunOptions
from core.runs.events import (
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

# --- Findings


@dataclass(frozen=True)
class Finding:
    """Something a person should read.

    `key` names the state found. While it stays the same the message stands as it was first said, though the figures in
    its words move on; with another key it is said anew.
    """

    key: str
    level: Level
    title: str
    detail: str
    fixes: tuple[Fix, ...] = ()

    def message(self, message_id: str) -> MessageRaised:
        """The message that says it."""
        return MessageRaised(
            id=message_id, level=self.level, title=self.title, detail=self.detail, fixes=self.fixes
        )


# --- Loss curve in constant memory


MOST_BLOCKS = 256
FIRST_LOSSES = 5


@dataclass
class Block:
    """The sum of `count` losses, those of the steps `first` to `last`."""

    first: int
    last: int
    count: int
    total: float

    @property
    def mean(self) -> float:
        """Their average."""
        return self.total / self.count

    @property
    def middle(self) -> float:
        """The step in their middle."""
        return (self.first + self.last) / 2


@dataclass(frozen=True)
class Low:
    """The lowest a loss was, averaged over some steps, and the last of these."""

    loss: float
    step: int


@dataclass(frozen=True)
class Trend:
    """How a loss went over some steps: its `mean`, by how much it changed, and how far from that it may really be."""

    mean: float
    change: float
    uncertainty: float

    @property
    def most(self) -> float:
        """The largest change that it may have been, as a share of the mean."""
        return (abs(self.change) + self.uncertainty) / max(abs(self.mean), 1e-12)

    @property
    def least(self) -> float:
        """The smallest change that it may have been, as a share of the mean; 0: maybe none."""
        return max(0.0, abs(self.change) - self.uncertainty) / max(abs(self.mean), 1e-12)


class LossCurve:
    """Takes in one finite loss a step, for as many steps as come: neighbours are joined once there are too many blocks.

    `start` is the average of the first few, None before them.
    """

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._size = 1
        self._first: list[float] = []

    def add(self, step: int, loss: float) -> None:
        """Take in the loss of a step."""
        if len(self._first) < FIRST_LOSSES:
            self._first.append(loss)
        if self._blocks and self._blocks[-1].count < self._size:
            block = self._blocks[-1]
            block.last, block.count, block.total = step, block.count + 1, block.total + loss
        else:
            self._blocks.append(Block(step, step, 1, loss))
        if len(self._blocks) > MOST_BLOCKS:
            self._blocks = list(_joined(self._blocks))
            self._size *= 2

    @property
    def first(self) -> Low | None:
        """The first loss, of the model as it was before anything moved."""
        return Low(self._first[0], self._blocks[0].first) if self._first else None

    @property
    def start(self) -> float | None:
        """What the loss began at."""
        return sum(self._first) / FIRST_LOSSES if len(self._first) == FIRST_LOSSES else None

    @property
    def last(self) -> int:
        """The last step with a loss; 0 before one."""
        return self._blocks[-1].last if self._blocks else 0

    def since(self, step: int) -> list[Block]:
        """The complete blocks from `step` on."""
        return [block for block in self._blocks if block.first >= step and block.count == self._size]

    def up_to(self, step: int) -> float | None:
        """What the loss was at a step: the average of the neighbouring steps kept together with it; None: not known."""
        until = [block for block in self._blocks if block.first <= step]
        width = max(1, -(-FIRST_LOSSES // self._size))
        near = until[-width:]
        return sum(block.total for block in near) / sum(block.count for block in near) if near else None

    def lowest(self, steps: int) -> Low | None:
        """The lowest average over at least so many neighbouring steps; None before there are so many."""
        width = -(-steps // self._size)
        blocks = [block for block in self._blocks if block.count == self._size]
        if len(blocks) < width:
            return None
        sums = [0.0, *accumulate(block.total for block in blocks)]
        low, end = min((sums[end] - sums[end - width], end) for end in range(width, len(sums)))
        return Low(low / (width * self._size), blocks[end - 1].last)


def _joined(blocks: Sequence[Block]) -> Iterator[Block]:
    for index in range(0, len(blocks) - 1, 2):
        one, other = blocks[index], blocks[index + 1]
        yield Block(one.first, other.last, one.count + other.count, one.total + other.total)
    if len(blocks) % 2:
        yield blocks[-1]


def trend(blocks: Sequence[Block]) -> Trend:
    """The straight line through at least three blocks of equal size, by least squares.

    The uncertainty is two standard errors: a change that large or larger comes of noise alone about once in twenty
    times.
    """
    count = len(blocks)
    mean_step = sum(block.middle for block in blocks) / count
    mean_loss = sum(block.mean for block in blocks) / count
    spread = sum((block.middle - mean_step) ** 2 for block in blocks)
    slope = sum((block.middle - mean_step) * (block.mean - mean_loss) for block in blocks) / spread
    rest = sum((block.mean - mean_loss - slope * (block.middle - mean_step)) ** 2 for block in blocks)
    error = math.sqrt(rest / (count - 2) / spread)
    length = blocks[-1].last - blocks[0].first
    return Trend(mean_loss, slope * length, 2 * error * length)


# --- Fixes


STOP = Fix("Stop and keep", action=FixAction.STOP)
END = Fix("End now", action=FixAction.END)
REVEAL = Fix("Show the folder", action=FixAction.REVEAL)


# --- Limits. Where there are two, the second is for withdrawing a message


# Paging

PAGING_SLOWER = 5.0
"""A step so many times as long as the median of those before it is a slow one."""

PAGING_SLOW_STEPS = 2
"""So many slow steps in a row are told of: one alone may have another reason."""

PAGING_ALONE_SECONDS = 1.0
"""A step that lasts so long and is slow is told of alone, also before it is over."""

PAGING_CALM = 2.0
"""Below so many times the median a step is an ordinary one again."""

PAGING_CALM_STEPS = 5
"""After so many ordinary steps in a row the message is withdrawn."""

PAGING_FULL = 0.95
"""From this share of a ceiling on, memory is full."""

PAGING_SWAP_GROWTH = 64 << 20
"""Bytes by which swap grows within a slow step where the run pages."""

PAGING_STEPS_BEFORE = 5
"""Before so many steps nothing is known of how long one takes; the first of a run doesn't count at all."""

PAGING_STEPS_KNOWN = 50
"""The median is that of so many steps at most."""

# Throttling. What slows a Mac down is a fact of macOS: core.monitor.apple has it.

THROTTLED_SECONDS = 30.0
"""The span judged: a chip that is held back for a second now and then loses nothing worth a message."""

THROTTLED_SAMPLES = 10
"""Fewer samples than this in the span say nothing."""

THROTTLED_SHARE = 0.8
"""From this share of the span on, a chip counts as held back."""

THROTTLED_SHARE_OVER = 0.3
"""Below this share it no longer does: heat comes and goes in waves."""

BUSY = 0.5
"""A processor less busy than this clocks down to save power, not because it has to."""

CLOCK_LOW = 0.75
"""Below this share of its limit a clock is low, where nobody tells why."""

CLOCK_CAPPED = 0.5
"""Below this share for want of power alone: a GPU at its cap is well below its highest clock by design."""

HOT = 85.0
"""Degrees Celsius from which a low clock has the heat for a reason, where nobody tells the reason."""

# Data that starves the device

STARVING_SHARE = 0.3
"""More than this share of the steps spent waiting for data is worth a remedy."""

STARVING_SHARE_OVER = 0.2
"""Below this share it isn't any longer."""

STARVING_SECONDS = 20.0
"""Seconds of steps that are judged: less may be a disk that woke up, or the beginning of an epoch."""

STARVING_STEPS = 10
"""Steps that are judged at least."""

FED = 0.9
"""A GPU as busy as this isn't starved, however long the loop waits: it has work left from before."""

MANY_WORKERS = 4
"""From so many workers on, more of them are no remedy."""

# The loss is no number

FINITE_AGAIN = 50
"""After so many finite losses in a row a single one that was none is past."""

# The loss shoots up


class Rise(NamedTuple):
    """A loss has risen where each of so many `steps` is so many `times` its lowest, and `more` than it by as much."""

    steps: int
    times: float
    more: float


EXPLODED = (Rise(20, 3.0, 1.0), Rise(5, 10.0, 5.0))
"""Either of them. Losses of batches that have nothing to do with each other don't pass by chance: at three times the
lowest one in three might, and twenty in a row do once in billions."""

EXPLODED_AT_ONCE = Rise(10, 10.0, 5.0)
"""Against the first loss, where no steps before were low: 0.7, then 155 at the second step and 925 at the fortieth.
No cross entropy of a model that learns is so far above its first one."""

EXPLODED_FEWEST = 8
"""Squared errors of fewer samples differ by as much without any explosion."""

EXPLODED_OVER = Rise(20, 2.0, 0.5)
"""It is over where their average is below this."""

EXPLODED_LOW_STEPS = 10
"""The lowest is an average of so many steps."""

# The loss doesn't move

STILL_STEPS = 100
"""The later half of the steps since the warm-up has so many at least."""

STILL_BLOCKS = 8
"""So many averages are needed to tell a trend from noise."""

STILL_CHANGE = 0.03
"""A loss that moved by less than this share, its uncertainty included, stands still."""

STILL_CHANGE_OVER = 0.06
"""One that moved by more than this is on its way again."""

STILL_UNFALLEN = 0.9
"""A loss above this share of what it began at has never fallen."""

STILL_SMALL = 0.3
"""A loss below this share of what it began at has fallen far enough to stand still."""

STILL_TINY = 0.05
"""So small a loss has nowhere left to fall."""

STILL_EVALUATIONS = 2
"""So many evaluations in a row without a better one are needed."""

BETTER = 0.01
"""A score counts as better from this share of difference on."""

STILL_LEFT = 0.2
"""With less than this share of the run left it isn't worth saying that it stands still."""

# No step

SILENT_SECONDS = 90.0
"""Without a step for so long, something may be stuck."""

SILENT_STEPS = 5.0
"""Or as long as so many steps, where those take longer."""

SILENT_FIRST = 2.0
"""The first step may take so many times as long: kernels are chosen, caches are empty. So may the second."""

SILENT_PHASES = {
    None: 180.0,  # libraries are imported, from a disk that may be slow
    Phase.LOADING_DATA: 180.0,
    Phase.LOADING_MODEL: 600.0,  # it may come from the Hub, over a line that stalls
    Phase.TOKENIZING: 180.0,
    Phase.COMPILING: 180.0,
    Phase.EVALUATING: 180.0,
    Phase.SAVING: 180.0,  # a full cache is flushed to a slow disk
}
"""In these nothing is told for as long as they take. Without a word and without work for so long, they may be stuck."""

IDLE = 0.02
"""A process that uses less than this share of one core does nothing."""

SLEPT_SECONDS = 15.0
"""Nobody looks for so long unless the computer slept; that time is nobody's silence."""

# Disk

DISK_FREE = 2 << 30
"""Below so much free space operating systems begin to misbehave."""

DISK_CHECKPOINTS = 2.0
"""And a checkpoint is written beside the one it replaces, so room for two."""

DISK_OVER = 1.25
"""With so many times the limit free again, the message goes."""

# Battery

BATTERY_LOW = 0.3
"""Below this share a battery under full load lasts well under an hour."""

BATTERY_OVER = 0.35
"""And above this one it isn't low any more."""

UNPLUGGED_SECONDS = 10.0
"""A plug that is moved from one socket to the next is out for less."""


# --- Evaluation scores


class Scores:
    """The best of each metric so far. `since_better` counts the evaluations after the last that bettered any of them.

    `best_step` is that evaluation's step, `count` is how many there were.
    """

    def __init__(self) -> None:
        self._best: dict[str, float] = {}
        self.count = 0
        self.best_step = 0
        self.since_better = 0

    def add(self, event: Evaluated) -> None:
        """Take in one evaluation."""
        self.count += 1
        better = [
            name
            for name, value in event.metrics.items()
            if value is not None and self._is_better(name, value)
        ]
        for name in better:
            self._best[name] = event.metrics[name] or 0.0
        if better:
            self.best_step, self.since_better = event.step, 0
        else:
            self.since_better += 1

    def _is_better(self, name: str, value: float) -> bool:
        best = self._best.get(name)
        if best is None:
            return True
        gain = best - value if name in LESS_IS_BETTER else value - best
        return gain > BETTER * abs(best)


# --- State of the attempt


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
    last_losses: deque[float] = field(default_factory=lambda: deque(maxlen=EXPLODED_OVER.steps))
    """The last finite ones."""
    bad_loss: BadLoss | None = None
    scores: Scores = field(default_factory=Scores)
    checkpoints: list[CheckpointSaved] = field(default_factory=list)
    """Those of this attempt that are still there, the oldest first: the engine keeps the newest only."""
    good_checkpoint: CheckpointSaved | None = None
    """The last one of them that was saved while the losses were numbers, or had been for long again."""
    devices: dict[Source, deque[DeviceSampled]] = field(default_factory=dict)
    gpu_busy: deque[float] = field(default_factory=lambda: deque(maxlen=int(STARVING_SECONDS)))
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
        if self.now and slept > SLEPT_SECONDS:
            self.heard = min(self.heard + slept, now)  # what was told on waking has not slept
            self.devices.clear()
        self.now = max(self.now, now)

    def look_at_process(self, busy: float | None) -> None:
        """Say how busy the engine's process has been since it is looked at: as a share of one core."""
        self.engine_busy = busy
        if self.phase is not Phase.TRAINING and busy is not None and busy >= IDLE:
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
        elif bad is None or bad.finite_since >= FINITE_AGAIN:
            self.bad_loss = BadLoss(step, loss)
        else:
            self.bad_loss = replace(bad, finite_since=0)

    def _add_checkpoint(self, event: CheckpointSaved) -> None:
        others = [kept for kept in self.checkpoints if kept.path != event.path]
        self.checkpoints = [*others, event][-self._most_checkpoints :]
        bad = self.bad_loss
        if bad is None or bad.finite_since >= FINITE_AGAIN:
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
