"""What the window is told of a run: folded into columns in the thread that reads it, in batches."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.events import (
    BatterySampled,
    DeviceSampled,
    DiskSampled,
    Event,
    MemorySampled,
    RunPlanned,
    RunStarted,
    StepFinished,
)
from core.story import RunStory
from core.work_clock import Interruption, WorkClock
from gui.models.device_history import DeviceHistory
from gui.models.growth import Growing, Growth
from gui.models.memory_history import MemoryHistory
from gui.models.smoothing import RunningMedian
from gui.models.step_rows import LossRows, StepColumns, StepRows
from gui.plots.reduction import Floats

SAMPLES = (MemorySampled, DeviceSampled, BatterySampled, DiskSampled)


@dataclass(frozen=True)
class Batch:
    """What happened in a while, at most one attempt of it.

    `events` are those that are neither steps nor samples, in their order: a `RunStarted` is the first of them.
    `clocks` says of each at how many seconds of work it came, `interruption` what came before an attempt's first batch.
    `steps` are the numbers of the `rows`, shape (n,).
    """

    events: tuple[Event, ...]
    clocks: tuple[float, ...]
    interruption: Interruption | None
    steps: Floats
    rows: StepRows
    losses: LossRows
    memory: Growth
    devices: Growth


@dataclass(frozen=True)
class RunNews:
    """What the window is told: what happened since it last was, and what all so far amounts to.

    `is_whole` is false while a long past is still read: `story` is then what the ends of the run's files amount to.
    """

    story: RunStory
    batches: list[Batch]
    is_whole: bool = True


class NewsMaker:
    """Folds a run's events into batches. Add events in their order; take what they amount to now and then."""

    def __init__(self) -> None:
        self._clock = WorkClock()
        self._interruption: Interruption | None = None
        self._memory = MemoryHistory()
        self._devices = DeviceHistory()
        self._memory_growing = Growing(self._memory)
        self._devices_growing = Growing(self._devices)
        self._done: list[Batch] = []
        self._count = 0
        self._median = RunningMedian()
        self._begin_batch()

    def __len__(self) -> int:
        """How many events were added since they were last taken."""
        return self._count

    def add(self, events: Sequence[Event]) -> None:
        """Fold events."""
        self._count += len(events)
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
                self._begin_columns()
        self._add_some(events[first:])

    def take(self) -> list[Batch]:
        """What was folded since the last call."""
        self._close()
        self._count = 0
        taken, self._done = self._done, []
        return taken

    def _begin_batch(self) -> None:
        self._begin_columns()
        self._events: list[Event] = []
        self._clocks: list[float] = []
        self._interruption = None
        self._is_empty = True

    def _begin_columns(self) -> None:
        self._columns = StepColumns(self._median)

    def _add_some(self, events: Sequence[Event]) -> None:
        """Fold events of one attempt."""
        if not events:
            return
        self._is_empty = False
        steps = [event for event in events if isinstance(event, StepFinished)]
        self._columns.add(steps, self._clock.origin)
        if len(steps) == len(events):
            self._clock.go_on(steps[-1:])
            return
        self._clock.go_on(events)
        for event in events:
            if not isinstance(event, StepFinished):
                self._add_other(event, self._clock.at(event))

    def _add_other(self, event: Event, clock: float) -> None:
        if isinstance(event, (RunPlanned, *SAMPLES)):
            self._memory.apply(event, clock)
            self._devices.apply(event, clock)
        if not isinstance(event, SAMPLES):
            self._events.append(event)
            self._clocks.append(clock)

    def _close(self) -> None:
        if self._is_empty:
            return
        steps, rows, losses = self._columns.take()
        memory, devices = self._memory_growing.take(), self._devices_growing.take()
        events, clocks = tuple(self._events), tuple(self._clocks)
        self._done.append(Batch(events, clocks, self._interruption, steps, rows, losses, memory, devices))
        self._begin_batch()
