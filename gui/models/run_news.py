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
    `steps` are the numbers of the `rows`, shape (n,). `origin` is when the run started, in unix seconds.
    """

    origin: float
    events: tuple[Event, ...]
    steps: Floats
    rows: StepRows
    losses: LossRows
    memory: Growth
    devices: Growth


@dataclass(frozen=True)
class RunNews:
    """What the window is told: what happened since it last was, and what all so far amounts to."""

    story: RunStory
    batches: list[Batch]


class NewsMaker:
    """Folds a run's events into batches. Add events in their order; take what they amount to now and then."""

    def __init__(self) -> None:
        self._origin: float | None = None
        self._memory = MemoryHistory()
        self._devices = DeviceHistory()
        self._memory_growing = Growing(self._memory)
        self._devices_growing = Growing(self._devices)
        self._done: list[Batch] = []
        self._count = 0
        self._begin_attempt()

    def __len__(self) -> int:
        """How many events were added since they were last taken."""
        return self._count

    def add(self, events: Sequence[Event]) -> None:
        """Fold events."""
        self._count += len(events)
        first = 0
        for place, event in enumerate(events):
            if isinstance(event, RunStarted):
                self._add_some(events[first:place])
                self._close()
                self._begin_attempt()
                first = place
        self._add_some(events[first:])

    def take(self) -> list[Batch]:
        """What was folded since the last call."""
        self._close()
        self._count = 0
        taken, self._done = self._done, []
        return taken

    def _begin_attempt(self) -> None:
        self._median = RunningMedian()
        self._begin_batch()

    def _begin_batch(self) -> None:
        self._columns = StepColumns(self._median)
        self._events: list[Event] = []
        self._is_empty = True

    def _add_some(self, events: Sequence[Event]) -> None:
        """Fold events of one attempt."""
        if not events:
            return
        self._is_empty = False
        origin = self._origin = events[0].time if self._origin is None else self._origin
        steps = [event for event in events if isinstance(event, StepFinished)]
        self._columns.add(steps, origin)
        if len(steps) == len(events):
            return
        for event in events:
            if not isinstance(event, StepFinished):
                self._add_other(event, event.time - origin)

    def _add_other(self, event: Event, clock: float) -> None:
        if isinstance(event, (RunPlanned, *SAMPLES)):
            self._memory.apply(event, clock)
            self._devices.apply(event, clock)
        if not isinstance(event, SAMPLES):
            self._events.append(event)

    def _close(self) -> None:
        if self._is_empty or self._origin is None:
            return
        steps, rows, losses = self._columns.take()
        memory, devices = self._memory_growing.take(), self._devices_growing.take()
        self._done.append(Batch(self._origin, tuple(self._events), steps, rows, losses, memory, devices))
        self._begin_batch()
