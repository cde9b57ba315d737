"""Everything of a run that is drawn over time: series over steps, and samples of memory and processors over seconds.

The thread that reads a run folds its steps into columns (`NewsReader`), the window adds these to a `RunHistory`: so a
thousand steps cost the window no more than one.
"""

import bisect
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter, itemgetter
from typing import Literal

import numpy as np

from core.monitor.system_rules import held_back
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
    Pressure,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
)
from core.runs.status import Interruption, PredictionLog, RunStatus, WorkClock
from gui.charts.series import Floats, Series


class MarkKind(StrEnum):
    """What happened."""

    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


_LEVELS = {Level.INFO: MarkKind.NOTE, Level.WARNING: MarkKind.WARNING, Level.ERROR: MarkKind.ERROR}


@dataclass(frozen=True)
class Mark:
    """One moment, in seconds since the run's start. `step` is what it came after, None where it belongs to none."""

    clock: float
    kind: MarkKind
    step: int | None = None
    title: str = ""


MEDIAN_STEPS = 51


class RunningMedian:
    """Median of the last `MEDIAN_STEPS` values, kept sorted so that adding one is cheap."""

    def __init__(self) -> None:
        self._window: deque[float] = deque()
        self._sorted: list[float] = []

    def of(self, values: list[float]) -> list[float]:
        """Take in values and give the median after each of them."""
        window, ordered, found = self._window, self._sorted, []
        for value in values:
            window.append(value)
            bisect.insort(ordered, value)
            if len(window) > MEDIAN_STEPS:
                del ordered[bisect.bisect_left(ordered, window.popleft())]
            found.append(ordered[len(ordered) // 2])
        return found


class Smoothing(StrEnum):
    """How much a loss is smoothed."""

    OFF = "off"
    LIGHT = "light"
    STRONG = "strong"


MOST_WEIGHT = 0.5
"""The most that a new loss weighs in the smoothed one: about the last 3 losses."""

SMOOTHING = {Smoothing.LIGHT: (20, 0.1), Smoothing.STRONG: (10, 0.02)}
"""A new loss weighs the first number divided by how many there are: a loss that still falls steeply is smoothed little;
but never less than the second: about the last 20 losses, or the last 100."""


def smoothed(values: Floats, before: float | None, count: int, smoothing: Smoothing) -> Floats:
    """Exponential means that follow `values`, NaN where these are; after a gap they start anew. Shape (n,).

    Args:
        values: What is new. Shape (n,).
        before: The mean up to it; None or NaN to start anew.
        count: How many values it is made of.
        smoothing: How much a new value weighs.
    """
    settling, least = SMOOTHING[smoothing]
    places = np.arange(count + 1, count + 1 + len(values))
    weights = np.maximum(least, np.minimum(MOST_WEIGHT, settling / places))
    found, mean = [], math.nan if before is None else before
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        # comparing with itself finds NaN, a million times
        mean = mean + weight * (value - mean) if mean == mean and value == value else value  # noqa: PLR0124
        found.append(mean)
    return np.array(found, np.float64)


Throttling = tuple[float, float, tuple[str, ...]]
"""From and to, in seconds since the run's start, and why the clock was held down."""

ON_GPU = ("cuda", "mps")
"""What the names of devices begin with that are GPUs."""


class Picture:
    """Series over seconds worked; they stay empty where nobody measures the figure."""

    def series(self) -> list[Series]:
        """All of them, in the order of their making."""
        return [value for value in vars(self).values() if isinstance(value, Series)]

    def __len__(self) -> int:
        return max(map(len, self.series()))

    @property
    def last_clock(self) -> float:
        """Seconds from the start to the newest moment."""
        return max(series.last_x or 0.0 for series in self.series())


class DevicePicture(Picture):
    """One processor; NaN is a gap.

    `busy` is 0 to 1, `power` watts, `temperature` degrees Celsius, `clock` MHz, `thermal` macOS' level of thermal
    pressure from 0 to 4. `power_limit` and `clock_limit` are the last ones reported. `throttled` has what counts
    only: a GPU at its power cap works as it should.
    """

    def __init__(self) -> None:
        self.name = ""
        self.busy = Series()
        self.power = Series()
        self.temperature = Series()
        self.clock = Series()
        self.thermal = Series()
        self.power_limit: float | None = None
        self.clock_limit: float | None = None
        self.throttled: list[Throttling] = []
        self._is_throttled = False

    def add(self, sample: DeviceSampled, clock: float) -> None:
        """Add a moment, `clock` seconds after the run's start."""
        self.name = sample.name or self.name
        self.power_limit = sample.power_limit or self.power_limit
        self.clock_limit = sample.clock_limit or self.clock_limit
        measured = (sample.busy, sample.power, sample.temperature, sample.clock, sample.thermal)
        for series, value in zip(self.series(), measured, strict=True):
            if value is not None or len(series):
                series.append(clock, math.nan if value is None else value)
        reasons = held_back(sample)
        if self._is_throttled:  # until a sample says otherwise
            begun, _, before = self.throttled[-1]
            self.throttled[-1] = begun, clock, before
            self._is_throttled = reasons == before
        if reasons and not self._is_throttled:
            self.throttled.append((clock, clock, reasons))
            self._is_throttled = True

    def interrupt(self, clock: float) -> None:
        """Part the lines at `clock`: the next attempt begins, and nobody sampled before it."""
        self._is_throttled = False
        for series in self.series():
            if len(series):
                series.append(clock, math.nan)


class DeviceHistory:
    """All that is drawn of a run's processors. Apply its events in order; read at any time.

    `battery` (0 to 1) and `disk_free` (bytes) are over seconds since the start, too; `is_on_gpu` says where the run
    computes.
    """

    def __init__(self) -> None:
        self.gpu = DevicePicture()
        self.cpu = DevicePicture()
        self.battery = Series()
        self.disk_free = Series()
        self.is_on_gpu = False
        self._attempt = 1

    @property
    def picture(self) -> DevicePicture:
        """The one to look at: the GPU where the run computes on it and it tells of itself, else the CPU."""
        return self.gpu if self.is_on_gpu and len(self.gpu) else self.cpu

    def apply(self, event: Event, clock: float) -> None:
        """Add one event, `clock` seconds after the run's start; others than of devices are welcome too."""
        if isinstance(event, DeviceSampled) and event.attempt != self._attempt:
            self._attempt = event.attempt
            for picture in (self.gpu, self.cpu):
                picture.interrupt(clock)
        match event:
            case RunPlanned():
                self.is_on_gpu = event.device.startswith(ON_GPU)
            case DeviceSampled(source=Source.SYSTEM):
                self.cpu.add(event, clock)
            case DeviceSampled():
                self.gpu.add(event, clock)
            case BatterySampled():
                self.battery.append(clock, event.share)
            case DiskSampled():
                self.disk_free.append(clock, event.free)


LEVELS = {Pressure.NORMAL: 0.0, Pressure.WARN: 1.0, Pressure.CRITICAL: 2.0}
"""Pressure as a number that can be drawn; NaN where it isn't known."""


class MemoryPicture(Picture):
    """One memory and who holds it, as the tops of bands that lie one on the other; in bytes.

    From below: `tensors` of this run, what torch's allocator or Metal's driver has `held` for them, all of this `run`,
    and what everyone has `used`; what lies between that and the `ceiling` is free. `limit` is what the run may have at
    most where that is less than the ceiling.
    """

    def __init__(self) -> None:
        self.tensors = Series()
        self.held = Series()
        self.run = Series()
        self.used = Series()
        self.ceiling: int | None = None
        self.limit: int | None = None

    def add(self, clock: float, *, torch: MemorySampled | None, run: int | None, used: int | None) -> None:
        """Add a moment.

        Args:
            clock: Seconds since the run's start.
            torch: What torch holds of this memory; None: nothing is told.
            run: All that the run holds; what torch holds is part of it.
            used: What everyone holds, which is never less than what the run does.
        """
        held = 0 if torch is None else max(torch.bytes, torch.reserved or 0)
        if torch is not None:
            self.tensors.append(clock, torch.bytes)
            self.held.append(clock, held)
        if run is not None or torch is not None:
            self.run.append(clock, max(run or 0, held))
        if used is not None:
            self.used.append(clock, max(used, run or 0, held))

    def interrupt(self, clock: float) -> None:
        """Let the run hold nothing again at `clock`: its next attempt begins."""
        for series in (self.tensors, self.held, self.run):
            if len(series):
                series.append(clock, 0.0)


class MemoryHistory:
    """All that is drawn of a run's memory. Apply its events in order; read at any time.

    `computer` is the main memory: on a Mac, and wherever else a GPU shares it, with what the GPU holds of it. `card`
    is the memory of a graphics card that has its own. `swap`, `compressed` and `pressure` (as in `LEVELS`) are those of
    the computer. `is_on_card` says whether the run computes on a card; None: that isn't known yet.

    The keeper samples process, graphics card and computer one after the other, the computer last: its sample closes a
    moment. What torch last told stands until it tells otherwise.
    """

    def __init__(self) -> None:
        self.computer = MemoryPicture()
        self.card = MemoryPicture()
        self.swap = Series()
        self.compressed = Series()
        self.pressure = Series()
        self._torch: MemorySampled | None = None
        self._process: int | None = None
        self.is_on_card: bool | None = None
        self._has_driver = False
        self._attempt = 1

    @property
    def picture(self) -> MemoryPicture:
        """What to look at: the card's memory where the run computes on one, else the computer's."""
        return self.card if len(self.card) and self.is_on_card is not False else self.computer

    @property
    def is_of_card(self) -> bool:
        """Whether the picture is that of a graphics card."""
        return self.picture is self.card

    def apply(self, event: Event, clock: float) -> None:
        """Add one event, `clock` seconds after the run's start; others than of memory are welcome too."""
        if isinstance(event, MemorySampled) and event.attempt != self._attempt:
            self._begin_attempt(event.attempt, clock)
        match event:
            case RunPlanned():
                self.is_on_card = event.device.startswith("cuda")
            case MemorySampled(source=Source.TORCH):
                self._on_torch(event, clock)
            case MemorySampled(source=Source.PROCESS):
                self._process = event.bytes
            case MemorySampled(source=Source.NVML):
                self._has_driver = True
                self.card.ceiling = event.ceiling or self.card.ceiling
                self.card.add(clock, torch=self._torch, run=event.own, used=event.bytes)
            case MemorySampled(source=Source.SYSTEM):
                self._on_system(event, clock)

    def _begin_attempt(self, attempt: int, clock: float) -> None:
        self._attempt = attempt
        self._torch = self._process = None
        for picture in (self.computer, self.card):
            picture.interrupt(clock)

    def _on_torch(self, event: MemorySampled, clock: float) -> None:
        self._torch = event
        if event.unified:
            self.is_on_card = False
            self.computer.limit = event.ceiling
        elif not self._has_driver:
            self.card.ceiling = event.ceiling
            self.card.add(clock, torch=event, run=None, used=None)

    def _on_system(self, event: MemorySampled, clock: float) -> None:
        shared = self._torch if self._torch is not None and self._torch.unified else None
        held = shared.reserved or shared.bytes if shared is not None else 0
        run = None if self._process is None else self._process + held
        self.computer.ceiling = event.ceiling or self.computer.ceiling
        self.computer.add(clock, torch=shared, run=run, used=event.bytes)
        if event.swap is not None:
            self.swap.append(clock, event.swap)
        if event.compressed is not None:
            self.compressed.append(clock, event.compressed)
        level = math.nan if event.pressure is None else LEVELS[event.pressure]
        self.pressure.append(clock, level)


PARTS = ("data_seconds", "forward_seconds", "backward_seconds", "optimizer_seconds")
"""The parts of a step, as `StepFinished` names them, in the order of their doing."""

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

SAMPLES = (MemorySampled, DeviceSampled, BatterySampled, DiskSampled)

SAMPLE_WEIGHT = 16
"""Steps that take the window as long as one sample."""


@dataclass(frozen=True)
class Batch:
    """What happened in a while, at most one attempt of it.

    `events` are those that are no steps, in their order: a `RunStarted` is the first of them. `clocks` says of each at
    how many seconds of work it came, `interruption` what came before an attempt's first batch. `steps` are the numbers
    of the steps, `columns` what is known of them by the names of `STEP_COLUMNS`. `losses` and `norms` are pairs of
    steps and values, where these are known; NaN where one was no number. `first_non_finite` is the first step whose
    loss was none, and that loss. All arrays have the shape (n,).
    """

    events: tuple[Event, ...]
    clocks: tuple[float, ...]
    interruption: Interruption | None
    steps: Floats
    columns: dict[str, Floats]
    losses: tuple[Floats, Floats]
    norms: tuple[Floats, Floats]
    first_non_finite: tuple[int, float] | None


@dataclass(frozen=True)
class RunNews:
    """What the window is told: what happened since it last was, and what all so far amounts to.

    `is_whole` is false while a long past is still read: `status` is then what the ends of the run's files amount to.
    """

    status: RunStatus
    batches: list[Batch]
    is_whole: bool = True


class NewsReader:
    """Folds a run's events into batches. Add events in their order; take what they amount to now and then."""

    def __init__(self) -> None:
        self._clock = WorkClock()
        self._median = RunningMedian()
        self._interruption: Interruption | None = None
        self._done: list[Batch] = []
        self._weight = 0
        self._begin_batch()

    def __len__(self) -> int:
        """What has been added since the last `take`, in steps that take the window as long."""
        return self._weight

    def add(self, events: Sequence[Event]) -> None:
        first = 0
        for place, event in enumerate(events):
            begins = self._clock.begins_with(event)
            if begins or isinstance(event, RunStarted):
                self._add_some(events[first:place])
                self._close()
                first = place
            if begins:
                self._interruption = self._clock.begin(event)
            if isinstance(event, RunStarted):
                self._median = RunningMedian()
        self._add_some(events[first:])

    def take(self) -> list[Batch]:
        """What was folded since the last call."""
        self._close()
        self._weight = 0
        taken, self._done = self._done, []
        return taken

    def _begin_batch(self) -> None:
        self._steps: list[StepFinished] = []
        self._events: list[Event] = []
        self._clocks: list[float] = []
        self._interruption = None

    def _add_some(self, events: Sequence[Event]) -> None:
        """Fold events of one attempt."""
        steps = [event for event in events if isinstance(event, StepFinished)]
        others = [event for event in events if not isinstance(event, StepFinished)]
        self._clock.go_on(events if others else steps[-1:])
        self._steps += steps
        self._events += others
        self._clocks += map(self._clock.at, others)
        self._weight += len(steps) + SAMPLE_WEIGHT * len(others)

    def _close(self) -> None:
        steps = self._steps
        if not steps and not self._events:
            return
        losses = [step for step in steps if step.loss is not None or step.non_finite is not None]
        norms = [step for step in steps if step.grad_norm is not None]
        bad = next((one for one in losses if not math.isfinite(one.loss_value or 0.0)), None)
        batch = Batch(
            tuple(self._events),
            tuple(self._clocks),
            self._interruption,
            _column(steps, "step"),
            _columns(steps, self._clock.origin, self._median),
            (_column(losses, "step"), _finite(_column(losses, "loss_value"))),
            (_column(norms, "step"), _finite(_column(norms, "grad_norm"))),
            None if bad is None else (bad.step, bad.loss_value or 0.0),
        )
        self._done.append(batch)
        self._begin_batch()


def _columns(steps: list[StepFinished], origin: float, median: RunningMedian) -> dict[str, Floats]:
    seconds = _column(steps, "seconds")
    is_measure = (_column(steps, "compile_seconds") == 0) & (seconds > 0)
    pace = np.full(len(steps), np.nan)
    np.divide(1.0, seconds, out=pace, where=is_measure)
    return {
        "step_clock": _column(steps, "time") - origin,
        "step_epoch": _column(steps, "epoch"),
        "learning_rate": _column(steps, "learning_rate"),
        "step_seconds": seconds,
        "median_seconds": np.array(median.of(seconds.tolist())),
        **{part: _column(steps, part) for part in PARTS},
        "samples_per_second": _column(steps, "samples") * pace,
        "tokens_per_second": _column(steps, "tokens") * pace,
    }


def _column(steps: list[StepFinished], name: str) -> Floats:
    """One figure of all steps; NaN where it isn't known. Shape (n,)."""
    return np.array(list(map(attrgetter(name), steps)), np.float64)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


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
    `step_seconds`, `median_seconds`, the seconds of each of the `PARTS` of a step (NaN where they weren't
    measured), `samples_per_second` and `tokens_per_second` (NaN for a step in which something was compiled).

    All clocks count seconds worked (`WorkClock`): `memory` and `devices` lie over these; `phases` are what the engine
    was busy with, each from so many on, `interruptions` where an attempt went on after a pause, `pauses` what the steps
    had to wait for, `marks` the moments to point out, `predictions` what the model said of its examples.
    """

    def __init__(self) -> None:
        self.loss = Series(np.float32)
        self.smooth_loss = Series(beside=self.loss)
        self.smoother_loss = Series(beside=self.loss)
        self.eval_loss = Series()
        self.metrics: dict[str, Series] = {}
        self.grad_norm = Series(np.float32)
        self.step_clock = Series()
        self.step_epoch = Series(beside=self.step_clock)
        self.learning_rate = Series(np.float32, beside=self.step_clock)
        self.step_seconds = Series(np.float32, beside=self.step_clock)
        self.median_seconds = Series(np.float32, beside=self.step_clock)
        self.data_seconds = Series(np.float32, beside=self.step_clock)
        self.forward_seconds = Series(np.float32, beside=self.step_clock)
        self.backward_seconds = Series(np.float32, beside=self.step_clock)
        self.optimizer_seconds = Series(np.float32, beside=self.step_clock)
        self.samples_per_second = Series(np.float32, beside=self.step_clock)
        self.tokens_per_second = Series(np.float32, beside=self.step_clock)
        self.memory = MemoryHistory()
        self.devices = DeviceHistory()
        self.marks: dict[MarkKind, list[Mark]] = {kind: [] for kind in MarkKind}
        self.predictions = PredictionLog()
        self.phases: list[tuple[float, Phase]] = []
        self.interruptions: list[Interruption] = []
        self.pauses: list[Pause] = []
        self.longest_step: float | None = None
        self.evaluations: list[Evaluated] = []
        self.first_non_finite: tuple[int, float] | None = None
        self._news = NewsReader()

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
        if len(batch.steps):
            for name, values in batch.columns.items():
                getattr(self, name).extend(batch.steps, values)
            self.longest_step = max(float(batch.columns["step_seconds"].max()), self.longest_step or 0.0)
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
                self._start_attempt(event.from_step)
            case Evaluated():
                self._mark(Mark(clock, MarkKind.EVALUATION, event.step))
                self.evaluations.append(event)
                self.pauses.append(Pause(event.step, clock, event.seconds, "evaluation"))
                for name, value in event.metrics.items():
                    series = (
                        self.eval_loss if name == "eval_loss" else self.metrics.setdefault(name, Series())
                    )
                    series.append(event.step, math.nan if value is None else value)
            case CheckpointSaved():
                self._mark(Mark(clock, MarkKind.CHECKPOINT, event.step))
                self.pauses.append(Pause(event.step, clock, event.seconds, "checkpoint"))
            case MessageRaised():
                self._mark(Mark(clock, _LEVELS[event.level], title=event.title))
            case PhaseChanged():
                self.phases.append((clock, event.phase))

    def _mark(self, mark: Mark) -> None:
        self.marks[mark.kind].append(mark)

    def loss_smoothed(self, smoothing: Smoothing) -> Series:
        """The training loss, smoothed by so much."""
        series = {Smoothing.LIGHT: self.smooth_loss, Smoothing.STRONG: self.smoother_loss}
        return series.get(smoothing, self.loss)

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

    def _start_attempt(self, step: int) -> None:
        """A later attempt goes on from `step`."""
        over_steps = (getattr(self, name) for name in STEP_COLUMNS)
        losses = self.loss, self.smooth_loss, self.smoother_loss, self.grad_norm, self.eval_loss
        for series in (*over_steps, *losses, *self.metrics.values()):
            series.cut_after(step)
        self.evaluations = [found for found in self.evaluations if found.step <= step]
        self.pauses = [pause for pause in self.pauses if pause.step <= step]
        for kind, marks in self.marks.items():
            self.marks[kind] = [mark for mark in marks if (mark.step or 0) <= step]
        if self.first_non_finite is not None and self.first_non_finite[0] > step:
            self.first_non_finite = None
