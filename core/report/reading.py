"""A run read from its folder for a page: its story, and the lines of its charts."""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from core.event_files import EventReader
from core.events import AnyEvent, Evaluated, MemorySampled, RunStarted, Source, StepFinished
from core.prediction_story import PredictionStory
from core.report.series import Line
from core.run_folder import RunFolder
from core.work_clock import WorkClock


@dataclass
class RunLines:
    """What changes over a run: by step, and memory by the seconds worked. Take its events in the order of time."""

    loss: Line = field(default_factory=lambda: Line("each step"))
    seconds: Line = field(default_factory=lambda: Line("each step"))
    learning_rate: Line = field(default_factory=lambda: Line("learning rate"))
    evaluations: list[Evaluated] = field(default_factory=list)
    process: Line = field(default_factory=lambda: Line("this run"))
    system: Line = field(default_factory=lambda: Line("all programs"))
    device: Line = field(default_factory=lambda: Line("this run, on the GPU"))
    ceiling: int | None = None
    device_ceiling: int | None = None
    predictions: PredictionStory = field(default_factory=PredictionStory)
    clock: WorkClock = field(default_factory=WorkClock)

    def take(self, event: AnyEvent) -> None:
        """Add one event."""
        if self.clock.begins_with(event):
            self.clock.begin(event)
        self.predictions.apply(event)
        match event:
            case RunStarted():
                self._go_on(event.from_step)
            case StepFinished():
                self._take_step(event)
            case Evaluated():
                self.evaluations.append(event)
            case MemorySampled():
                self._take_memory(event, self.clock.at(event))
        self.clock.go_on((event,))

    def _go_on(self, step: int) -> None:
        """Steps beyond the one an attempt goes on from no longer count."""
        for line in (self.loss, self.seconds, self.learning_rate):
            line.cut(step)
        self.evaluations = [found for found in self.evaluations if found.step <= step]

    def _take_step(self, event: StepFinished) -> None:
        loss = event.loss_value
        self.loss.add(event.step, loss if loss is not None and math.isfinite(loss) else math.nan)
        self.seconds.add(event.step, event.seconds)
        self.learning_rate.add(event.step, event.learning_rate)

    def _take_memory(self, event: MemorySampled, seconds: float) -> None:
        match event.source:
            case Source.PROCESS:
                self.process.add(seconds, event.bytes)
            case Source.SYSTEM:
                self.system.add(seconds, event.bytes)
                self.ceiling = event.ceiling or self.ceiling
            case Source.TORCH:
                self.device.add(seconds, event.reserved if event.reserved is not None else event.bytes)
                self.device_ceiling = event.ceiling or self.device_ceiling


def read_lines(run: RunFolder) -> RunLines:
    """Go through a run's events and machine samples once; what can't be read is passed over."""
    found = RunLines()
    for event in _events(run):
        found.take(event)
    return found


def _events(run: RunFolder) -> Iterator[AnyEvent]:
    files = (_lines(run.events_file), _lines(run.machine_file))
    yield from heapq.merge(*files, key=attrgetter("time"))


def _lines(path: Path) -> Iterator[AnyEvent]:
    reader = EventReader(path)
    while not reader.is_at_end:
        yield from reader.read()
