"""A run as its engine and its keeper tell it, on a clock of its own, and what a watchdog says to it."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from core.monitor.keeper import Watchdog
from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions, TrainingOptions
from core.runs.events import (
    BatterySampled,
    CheckpointSaved,
    DeviceSampled,
    DiskSampled,
    Evaluated,
    Event,
    MemorySampled,
    MessageRaised,
    MessageWithdrawn,
    Outcome,
    Phase,
    PhaseChanged,
    Pressure,
    RunFinished,
    RunPlanned,
    RunStarted,
    Source,
    StepFinished,
    WhatRan,
    split_non_finite,
)

GB = 1 << 30
MB = 1 << 20

OPTIONS = RunOptions(
    task=Task.IMAGE_CLASSIFICATION,
    model=ModelOptions(source="torchvision:resnet18", pretrained=False),
    data=DataOptions(train="builtin:digits"),
    training=TrainingOptions(learning_rate=1e-3),
    output=OutputOptions(name="Digits"),
)


@dataclass
class Computer:
    """What is sampled of a computer each second; None: it can't be read."""

    used: int = 9 * GB
    swap: int = 0
    gpu: DeviceSampled | None = None
    battery: BatterySampled | None = None
    disk: DiskSampled | None = field(default_factory=lambda: DiskSampled(free=200 * GB, total=500 * GB))

    def samples(self, now: float) -> list[Event]:
        found: list[Event | None] = [
            MemorySampled(source=Source.PROCESS, bytes=2 * GB),
            MemorySampled(
                source=Source.SYSTEM,
                bytes=self.used,
                ceiling=16 * GB,
                swap=self.swap,
                pressure=Pressure.NORMAL,
            ),
            DeviceSampled(source=Source.SYSTEM, name="CPU", busy=0.9),
            self.gpu,
            self.battery,
            self.disk,
        ]
        return [at(event, now) for event in found if event is not None]


def at(event: Event, now: float) -> Event:
    """The same event at another time."""
    from msgspec.structs import replace

    return replace(event, time=now)


class ToldRun:
    """Writes down what happens: `events` are all of it, in the order of time.

    Args:
        steps: How many are planned.
        device: What it computes on.
        from_step: Where a resumed run goes on.
    """

    def __init__(self, *, steps: int, device: str = "cpu", from_step: int = 0, workers: int = 0) -> None:
        self.events: list[Event] = []
        self.computer = Computer()
        self.now = 10_000.0
        self.step = from_step
        self.chance = random.Random(5)
        self._planned = steps
        self._device = device
        self._workers = workers
        self._sampled = self.now
        self._attempt = 0
        self.begin(from_step)

    def begin(self, from_step: int = 0) -> None:
        """An attempt begins: it loads and plans."""
        self._attempt += 1
        self.step = from_step
        self.wait(0.5)
        self.tell(RunStarted(from_step=from_step, attempt=self._attempt))
        self.tell(PhaseChanged(phase=Phase.LOADING_MODEL, detail="torchvision:resnet18"))
        self.wait(6.0)
        self.tell(
            RunPlanned(
                total_steps=self._planned,
                epochs=3.0,
                train_samples=32 * self._planned,
                eval_samples=360,
                effective_batch=32,
                device=self._device,
            )
        )
        self.phase(Phase.TRAINING)

    def tell(self, event: Event) -> None:
        self.events.append(at(event, self.now))

    def phase(self, phase: Phase) -> None:
        self.tell(PhaseChanged(phase=phase))

    def wait(self, seconds: float) -> None:
        """Let time pass, with its samples."""
        until = self.now + seconds
        while self._sampled + 1.0 <= until:
            self._sampled += 1.0
            self.events += self.computer.samples(self._sampled)
        self.now = until

    def sleep(self, seconds: float) -> None:
        """The computer sleeps: nobody samples it."""
        self.now += seconds
        self._sampled = self.now

    def steps(
        self, count: int, seconds: float, *, loss: float | None = None, data: float | None = 0.02
    ) -> None:
        """So many steps: `loss` stays; without it, it falls with noise. `data` is the share of waiting for it."""
        for _ in range(count):
            self.a_step(seconds * self.chance.uniform(0.9, 1.15), loss=loss, data=data)

    def a_step(
        self,
        seconds: float,
        *,
        loss: float | None = None,
        data: float | None = 0.02,
        compiling: float = 0.0,
    ) -> None:
        if compiling:
            self.phase(Phase.COMPILING)
            self.wait(compiling)
            self.phase(Phase.TRAINING)
        self.wait(seconds)
        self.step += 1
        value, non_finite = split_non_finite(self.falling() if loss is None else loss)
        self.tell(
            StepFinished(
                step=self.step,
                epoch=3.0 * self.step / self._planned,
                seconds=seconds,
                compile_seconds=compiling,
                learning_rate=1e-3,
                samples=32,
                data_seconds=None if data is None else data * seconds,
                loss=value,
                non_finite=non_finite,
            )
        )
        if self.step == 1:
            self.tell(self._what_ran())

    def falling(self, noise: float = 0.15) -> float:
        """A loss on its way from 2.3 to 0.3."""
        share = self.step / self._planned
        return (0.3 + 2.0 * 0.05**share) * (1 + noise * self.chance.gauss(0, 1))

    def evaluate(self, loss: float | None = None, seconds: float = 8.0) -> None:
        """An evaluation, which gets better unless `loss` says otherwise."""
        self.phase(Phase.EVALUATING)
        self.wait(seconds)
        found = self.falling(0.01) if loss is None else loss
        self.tell(
            Evaluated(
                step=self.step,
                epoch=1.0,
                metrics={"eval_loss": found, "eval_accuracy": 1 - found / 3},
                seconds=seconds,
            )
        )
        self.phase(Phase.TRAINING)

    def save(self, size: int = 134 * MB) -> None:
        """A checkpoint."""
        self.phase(Phase.SAVING)
        self.wait(1.5)
        path = f"checkpoints/checkpoint-{self.step}"
        self.tell(CheckpointSaved(step=self.step, path=path, bytes=size, seconds=1.5))
        self.phase(Phase.TRAINING)

    def finish(self, state: Outcome = Outcome.FINISHED) -> None:
        """The end, with the seconds after it."""
        self.tell(RunFinished(state=state, steps=self.step))
        self.wait(2.0)

    def _what_ran(self) -> WhatRan:
        return WhatRan(
            device=self._device,
            device_name="Processor",
            parameter_dtype="float32",
            autocast_dtype="bfloat16",
            optimizer="AdamW",
            optimizer_state_bytes=89_453_136,
            trainable_parameters=11_181_642,
            total_parameters=11_181_642,
            effective_batch=32,
            workers=tuple(range(100, 100 + self._workers)),
        )


class FakeActivity:
    """A process that uses `busy` of a core, as far as anybody asks."""

    def __init__(self, busy: float | None = None) -> None:
        self.busy = busy
        self.reads = self.resets = 0

    def read(self) -> float | None:
        self.reads += 1
        return self.busy

    def reset(self) -> None:
        self.resets += 1


@dataclass
class Watched:
    """What a watchdog said to a run."""

    messages: list[Event]

    @property
    def raised(self) -> list[MessageRaised]:
        return [message for message in self.messages if isinstance(message, MessageRaised)]

    @property
    def withdrawn(self) -> list[str]:
        return [message.id for message in self.messages if isinstance(message, MessageWithdrawn)]

    @property
    def one(self) -> MessageRaised:
        [message] = self.raised
        return message


def watch(
    events: Iterable[Event],
    *,
    options: RunOptions | None = OPTIONS,
    activity: FakeActivity | None = None,
    cores: int = 8,
) -> Watched:
    """Hand the events to a watchdog second by second, as the keeper does."""
    watchdog = Watchdog(options, activity=activity, cores=cores)
    said: list[Event] = []
    for second, group in groupby(sorted(events, key=attrgetter("time")), key=lambda event: int(event.time)):
        said += watchdog.take(list(group), second + 1.0)
    return Watched(said)
