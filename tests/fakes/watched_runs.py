"""Runs made up second by second, what a watchdog says to them, and runs with nothing wrong that might look like it."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from msgspec.structs import replace

from core.monitor.keeper import Watchdog
from core.options import RunOptions
from core.options.catalogue import with_changes
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
from tests.fakes.runs import digits_options, what_ran

GB = 1 << 30
MB = 1 << 20

OPTIONS = with_changes(digits_options(), {"training.learning_rate": 1e-3})


@dataclass
class Computer:
    """What is sampled of a computer each second; None: it can't be read."""

    used: int = 9 * GB
    swap: int = 0
    busy: float = 0.97
    gpu: DeviceSampled | None = None
    battery: BatterySampled | None = None
    disk: DiskSampled | None = field(default_factory=lambda: DiskSampled(free=200 * GB, total=500 * GB))

    def samples(self, now: float) -> list[Event]:
        memory = MemorySampled(
            source=Source.SYSTEM,
            bytes=self.used,
            ceiling=16 * GB,
            swap=self.swap,
            pressure=Pressure.NORMAL,
        )
        processor = DeviceSampled(source=Source.SYSTEM, name="CPU", busy=self.busy)
        found = (memory, processor, self.gpu, self.battery, self.disk)
        return [replace(event, time=now) for event in found if event is not None]


class MadeUpRun:
    """Writes down what happens: `events` are all of it, in the order of time.

    Args:
        steps: How many are planned.
        device: What it computes on.
        from_step: The step from which a resumed run continues.
        workers: Data loader workers.
    """

    def __init__(self, *, steps: int, device: str = "cpu", from_step: int = 0, workers: int = 0) -> None:
        self.events: list[Event] = []
        self.computer = Computer()
        self.now = 10_000.0
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
        self.add(RunStarted(from_step=from_step, attempt=self._attempt))
        self.phase(Phase.LOADING_MODEL)
        self.wait(6.0)
        self.add(
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

    def add(self, event: Event) -> None:
        self.events.append(replace(event, time=self.now))

    def phase(self, phase: Phase) -> None:
        self.add(PhaseChanged(phase=phase))

    def wait(self, seconds: float) -> None:
        """Let time pass, with its samples."""
        until = self.now + seconds
        while self._sampled + 1.0 <= until:
            self._sampled += 1.0
            self.events += self.computer.samples(self._sampled)
        self.now = until

    def sleep(self, seconds: float) -> None:
        """The computer sleeps: it isn't sampled."""
        self.now += seconds
        self._sampled = self.now

    def steps(self, count: int, seconds: float, *, data: float | None = 0.02) -> None:
        """So many steps of about these seconds; `data` is the share of waiting for it."""
        for _ in range(count):
            self.a_step(seconds * self.chance.uniform(0.9, 1.15), data=data)

    def a_step(
        self, seconds: float, *, loss: float | None = None, data: float | None = 0.02, compiling: float = 0.0
    ) -> None:
        """A step; its loss falls with noise unless it is given."""
        if compiling:
            self.phase(Phase.COMPILING)
            self.wait(compiling)
            self.phase(Phase.TRAINING)
        self.wait(seconds)
        self.step += 1
        value, non_finite = split_non_finite(self.falling() if loss is None else loss)
        self.add(
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
            self.add(self._what_ran())

    def falling(self, noise: float = 0.15) -> float:
        """A loss on its way from 2.3 to 0.3."""
        share = self.step / self._planned
        return (0.3 + 2.0 * 0.05**share) * (1 + noise * self.chance.gauss(0, 1))

    def evaluate(self, loss: float | None = None, seconds: float = 8.0) -> None:
        """An evaluation, which gets better unless `loss` is given."""
        self.phase(Phase.EVALUATING)
        self.wait(seconds)
        found = self.falling(0.01) if loss is None else loss
        metrics = {"eval_loss": found, "eval_accuracy": 1 - found / 3}
        self.add(Evaluated(step=self.step, epoch=1.0, metrics=metrics, seconds=seconds))
        self.phase(Phase.TRAINING)

    def save(self, size: int = 134 * MB) -> None:
        """A checkpoint."""
        self.phase(Phase.SAVING)
        self.wait(1.5)
        path = f"checkpoints/checkpoint-{self.step}"
        self.add(CheckpointSaved(step=self.step, path=path, bytes=size, seconds=1.5))
        self.phase(Phase.TRAINING)

    def finish(self, state: Outcome = Outcome.FINISHED) -> None:
        """The end, with the seconds after it."""
        self.add(RunFinished(state=state, steps=self.step))
        self.wait(2.0)

    def _what_ran(self) -> WhatRan:
        workers = tuple(range(100, 100 + self._workers))
        return what_ran(device=self._device, autocast_dtype="bfloat16", effective_batch=32, workers=workers)


class FakeActivity:
    """A process that uses `busy` of a core; counts how often that is read."""

    def __init__(self, busy: float | None = None) -> None:
        self.busy = busy
        self.reads = self.resets = 0

    def read(self) -> float | None:
        self.reads += 1
        return self.busy

    def reset(self) -> None:
        self.resets += 1


class FakePrograms:
    """Other programs that take these shares of the CPU, `at` so many calls of `read`."""

    def __init__(self, shares: dict[str, float], at: Callable[[int], bool] = lambda _call: True) -> None:
        self.shares, self._at = shares, at
        self.reads = 0

    def read(self) -> dict[str, float]:
        self.reads += 1
        return self.shares if self._at(self.reads) else {}

    def reset(self) -> None:
        pass


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
    run: MadeUpRun | Iterable[Event],
    *,
    options: RunOptions | None = OPTIONS,
    activity: FakeActivity | None = None,
    others: FakePrograms | None = None,
    cores: int = 8,
) -> Watched:
    """Hand a run's events to a watchdog second by second, as the keeper does."""
    watchdog = Watchdog(options, activity=activity, others=others, cores=cores)
    messages: list[Event] = []
    events = sorted(run.events if isinstance(run, MadeUpRun) else run, key=attrgetter("time"))
    for second, group in groupby(events, key=lambda event: int(event.time)):
        messages += watchdog.take(list(group), second + 1.0)
    return Watched(messages)


# --- Runs with nothing wrong


GPU = DeviceSampled(
    source=Source.NVML,
    name="NVIDIA RTX 4090",
    busy=0.97,
    power=380,
    power_limit=450,
    temperature=71,
    clock=2600,
    clock_limit=2800,
    throttled=(),
)
RESTING_GPU = replace(GPU, busy=0.02, power=25, temperature=45, clock=210)


def long() -> MadeUpRun:
    """An hour, with evaluations and checkpoints between; at last the loss is low and stays there."""
    run = MadeUpRun(steps=1800)
    for _ in range(12):
        run.steps(150, 1.5)
        run.evaluate(seconds=40)
        run.save(1200 * MB)
    return run


def compiling() -> MadeUpRun:
    """The first step compiles for minutes, a later one again, for a batch of another shape."""
    run = MadeUpRun(steps=400, device="cuda:0")
    run.computer.gpu = RESTING_GPU
    run.a_step(4.0, compiling=200.0)
    run.computer.gpu = GPU
    run.steps(200, 0.3)
    run.a_step(0.5, compiling=120.0)
    run.steps(198, 0.3)
    return run


def noisy() -> MadeUpRun:
    """A loss that jumps about and falls slowly beneath."""
    run = MadeUpRun(steps=2000)
    for _ in range(10):
        for _ in range(200):
            run.a_step(0.25, loss=abs(run.falling(noise=0.6)))
        run.evaluate()
    return run


def laptop() -> MadeUpRun:
    """A laptop that is plugged in, its plug moved once, warm but not too warm, on a small disk."""
    run = MadeUpRun(steps=600, device="mps")
    plugged = BatterySampled(share=0.25, is_plugged=True)
    run.computer.disk = DiskSampled(free=6 * GB, total=256 * GB)
    run.computer.gpu = DeviceSampled(source=Source.APPLE, name="Apple M3", busy=0.95, thermal=1)
    run.computer.battery = plugged
    run.steps(300, 0.8)
    run.save(1 * GB)
    run.computer.battery = BatterySampled(share=0.25, is_plugged=False)
    run.steps(4, 0.8)
    run.computer.battery = plugged
    run.steps(296, 0.8)
    return run


def resting() -> MadeUpRun:
    """A GPU that clocks down whenever the CPU evaluates, and is at its cap of power while it trains."""
    run = MadeUpRun(steps=1200, device="cuda:0")
    for _ in range(6):
        run.computer.gpu = replace(GPU, power=449, clock=2450, throttled=("power cap",))
        run.steps(200, 0.2, data=0.45)  # the loop waits for data while the GPU has work left
        run.computer.gpu = RESTING_GPU
        run.evaluate(seconds=100)
    return run


def resumed() -> MadeUpRun:
    """A run that was stopped and goes on from its checkpoint, its loss low from the first step on."""
    run = MadeUpRun(steps=1500)
    run.steps(500, 0.3)
    run.save()
    run.finish(Outcome.STOPPED)
    run.wait(300)
    run.begin(from_step=500)
    run.steps(500, 0.3)
    run.evaluate()
    run.steps(500, 0.3)
    return run


def slow() -> MadeUpRun:
    """Twenty seconds a step, forty for some, and a computer that slept for an hour within one."""
    run = MadeUpRun(steps=80)
    run.a_step(70.0)
    run.steps(30, 20.0)
    run.a_step(40.0)
    run.sleep(3600)
    run.a_step(20.0)
    run.steps(47, 20.0)
    return run


def with_workers() -> MadeUpRun:
    """Workers prepare the data: each epoch begins with a wait for the first batch."""
    run = MadeUpRun(steps=900, device="cuda:0", workers=4)
    run.computer.gpu = GPU
    for _ in range(9):
        run.a_step(3.0, data=0.95)
        run.steps(99, 0.35, data=0.05)
        run.evaluate()
    return run


HEALTHY: dict[str, Callable[[], MadeUpRun]] = {
    made.__name__: made for made in (long, compiling, noisy, laptop, resting, resumed, slow, with_workers)
}
