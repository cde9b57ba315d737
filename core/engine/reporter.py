"""The engine's pen: writes what happens into the run's `events.jsonl`."""

import contextlib
import math
import os
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import msgspec

from core.base.ceiling import say
from core.base.errors import DoesntFit, Fix, UserError
from core.runs.event_log import EventWriter, current_attempt
from core.runs.events import (
    Event,
    Level,
    MessageRaised,
    Outcome,
    Phase,
    PhaseChanged,
    RunFinished,
    RunStarted,
    StepFinished,
    split_non_finite,
)
from core.runs.folder import RunFolder
from core.runs.progress import Progress
from core.runs.status import DOESNT_FIT, PAUSED_ITSELF, RunStory

if TYPE_CHECKING:
    import torch

    from core.engine.devices.memory import DeviceMemory
    from core.engine.training.trainer import WatchedTrainer


# --- The engine's pen: writes what happens into the run's `events.jsonl`


READ_IN = {
    Phase.LOADING_DATA: "{}",
    Phase.LOADING_MODEL: "The model {}",
    Phase.TOKENIZING: "Tokenizing",
}
"""What of a stranger's is read in which phase, by its detail."""


class Reporter:
    """The only writer of a run's events. A new one on the same folder begins the next attempt.

    What is written is also said on standard error, in the words of the command line, so that the log can be read.

    `attempt` counts the attempts on the folder, this one included. `listeners` are called with each event once it is
    written, in whatever thread wrote it: they must be quick.

    Args:
        run: The run's folder; None: a dry run has none, and only standard error hears of it.
    """

    def __init__(self, run: RunFolder | None) -> None:
        self.attempt = 1 if run is None else current_attempt(run)
        self.listeners: list[Callable[[Event], None]] = []
        self._writer = None if run is None else EventWriter(run.events_file, attempt=self.attempt)
        self._lock = threading.RLock()  # a warning raised while one event is written may become another
        self._begun = time.monotonic()
        self._story = RunStory()
        self._log = Progress(self._story, sys.stderr)

    @property
    def story(self) -> RunStory:
        """What has been written so far comes to; to be read only."""
        return self._story

    def write(self, *events: Event) -> None:
        """Append events, those that are known together at once: each access to the file takes time. Any thread may."""
        with self._lock:
            events = tuple(map(self._with_duration, events))
            if self._writer is not None:
                self._writer.write(*events)
            for event in events:
                self._story.apply(event)
                with contextlib.suppress(OSError):  # the log can't be written: the events tell all of it
                    self._log.show(event)
                for listener in tuple(self.listeners):
                    listener(event)

    def _with_duration(self, event: Event) -> Event:
        """The event; the end of the attempt with how long that was."""
        if not isinstance(event, RunFinished):
            return event
        return msgspec.structs.replace(event, worked=time.monotonic() - self._begun)

    def start(self, versions: dict[str, str], from_step: int = 0) -> None:
        """Begin the attempt."""
        self.write(RunStarted(from_step=from_step, pid=os.getpid(), versions=versions))

    def phase(self, phase: Phase, detail: str = "") -> None:
        """Say what the engine is busy with from now on, where that is news."""
        say(READ_IN[phase].format(detail) if phase in READ_IN else "")
        if (phase, detail) != (self._story.phase, self._story.phase_detail):
            self.write(PhaseChanged(phase=phase, detail=detail))

    def note(self, message_id: str, title: str, detail: str = "") -> None:
        """Mention something that changes nothing."""
        self.write(MessageRaised(id=message_id, level=Level.INFO, title=title, detail=detail))

    def warn(self, message_id: str, title: str, detail: str = "", fixes: tuple[Fix, ...] = ()) -> None:
        """Warn of something that makes the run worse."""
        self.write(MessageRaised(id=message_id, level=Level.WARNING, title=title, detail=detail, fixes=fixes))

    def pause(self, error: UserError) -> None:
        """Say why the run can't go on for now, and end the attempt as paused."""
        self._end(error, PAUSED_ITSELF, Outcome.PAUSED)

    def fail(self, error: UserError) -> None:
        """Say why the run can't go on, and end it as failed."""
        self._end(error, DOESNT_FIT if isinstance(error, DoesntFit) else "failed", Outcome.FAILED)

    def _end(self, error: UserError, message_id: str, outcome: Outcome) -> None:
        with contextlib.suppress(OSError):
            self._log.say(str(error))
        self.write(
            MessageRaised(
                id=message_id, level=Level.ERROR, title=error.title, detail=error.detail, fixes=error.fixes
            ),
            RunFinished(state=outcome, steps=self._story.step),
        )


# --- Where the time of an optimizer step goes: waiting for data, forward, backward, optimizer


SHARE = 0.01
"""Taking steps apart may cost this share of the training time."""

LEAST = 10
"""At most one step in so many is taken apart where that costs anything, and the first so many never are."""

PLAIN_STEPS = 50
SAMPLED_STEPS = 5
"""Steps remembered, to tell by their medians what sampling costs: one step that others held up must not decide."""

Wait = Callable[[], None]


class Part(Enum):
    """A part of an optimizer step. Accumulated batches add up.

    - `DATA`: fetching its batches.
    - `FORWARD`: moving them to the device, the model, the loss.
    - `BACKWARD`: the gradients; with DeepSpeed the new weights, too, which it computes in the same call.
    - `OPTIMIZER`: clipping, the new weights, the learning rate's schedule, emptying the gradients.
    """

    DATA = auto()
    FORWARD = auto()
    BACKWARD = auto()
    OPTIMIZER = auto()


@dataclass(frozen=True)
class StepTimes:
    """The parts of one step in seconds; None: not measured. They never add up to more than the step."""

    data: float | None = None
    forward: float | None = None
    backward: float | None = None
    optimizer: float | None = None


def wait_for(kind: str) -> Wait | None:
    """What waits until a device of this kind (`cuda`, `mps`, `cpu`) has done all it was given; None: nothing has to."""
    import torch

    if kind == "cuda":
        return torch.cuda.synchronize
    return torch.mps.synchronize if kind == "mps" else None


class Sampling:
    """Which steps are taken apart: one in `every`, so that it costs at most `SHARE` of the training time."""

    def __init__(self) -> None:
        self.every = LEAST
        self._plain: deque[float] = deque(maxlen=PLAIN_STEPS)
        self._costs: deque[float] = deque(maxlen=SAMPLED_STEPS)

    def add_plain(self, seconds: float) -> None:
        """Learn how long a step takes that isn't taken apart."""
        self._plain.append(seconds)

    def add_sampled(self, seconds: float, waits: float) -> None:
        """Learn how long a step took that was.

        Args:
            seconds: The step.
            waits: What it costs to ask the device whether it is done, in seconds: as often as was asked for this step.
        """
        usual = statistics.median(self._plain) if self._plain else 0.0
        if usual <= 0.0:
            return
        self._costs.append(max(0.0, seconds - usual) + waits)
        self.every = max(LEAST, math.ceil(statistics.median(self._costs) / (SHARE * usual)))


class StepParts:
    """Adds up the parts of the step that is under way.

    Call `begin` before a step (again, where something else came between), `skip` where a part begins, `lap` where it
    ends and `end` after the step. Before `begin`, nothing is waited for.

    Args:
        wait: Waits for the device, as `wait_for` says.
        clock: Seconds from any beginning.
    """

    def __init__(self, wait: Wait | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.sampling = Sampling()
        self._wait = wait
        self._clock = clock
        self._steps_since = 0
        self._is_sampled = False
        self._mark = 0.0
        self._spent = dict.fromkeys(Part, 0.0)
        self._fetched: float | None = None
        self._laps = 0

    @property
    def is_due(self) -> bool:
        """Whether the next step will be taken apart although that costs something: let the device be idle before it."""
        return self._wait is not None and self._steps_since >= self.sampling.every

    @property
    def is_asynchronous(self) -> bool:
        """Whether the device works on after it was told to."""
        return self._wait is not None

    def begin(self) -> None:
        """A step begins; what was measured since the last one ended belongs to none."""
        self._is_sampled = self.is_due
        self._spent = dict.fromkeys(Part, 0.0)
        self._fetched = None
        self._laps = 0
        self.skip()

    def skip(self) -> None:
        """The time since the last part ended belongs to no part."""
        self._mark = self._clock()

    def lap(self, part: Part) -> None:
        """The time since the last part ended, or since `skip`, belongs to `part`."""
        if self._is_sampled and self._wait is not None:
            self._wait()
            self._laps += 1
        now = self._clock()
        self._spent[part] += now - self._mark
        self._mark = now

    def end(self) -> StepTimes:
        """The step is over; returns its parts."""
        self._steps_since = 0 if self._is_sampled else self._steps_since + 1
        if self._wait is None or self._is_sampled:
            return StepTimes(*(self._spent[part] for part in Part))
        return StepTimes(data=self._fetched)

    def price(self) -> float:
        """What asking the device has cost in this step, in seconds, the device being done; 0 where it wasn't asked."""
        if not self._laps or self._wait is None:
            return 0.0
        begun = self._clock()
        self._wait()
        return (self._clock() - begun) * (self._laps + 1)

    def timed(self, loader: Any) -> None:
        """Time what `loader`, torch's own, is waited for.

        Only where the device works on: there the time until Trainer has its batches says little, because copying them
        to the device may have to wait until that has worked off all steps before.
        """
        if self._wait is not None:
            iterate = loader.__iter__
            loader.__iter__ = lambda: self._fetch(iterate)  # accelerate's loader calls it by this name

    def _fetch(self, iterate: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        begun = self._clock()
        batches = iterate()  # starts the workers
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self._fetched = (self._fetched or 0.0) + self._clock() - begun
            yield batch
            begun = self._clock()


# --- Turns finished optimizer steps into events


FLUSH_SECONDS = 0.2
"""Figures of steps are fetched together at most this often: each fetch waits for the device."""


@dataclass(frozen=True)
class _Pending:
    """A step whose figures are still on the device. `waits` is what its being taken apart cost beyond its time."""

    event: StepFinished
    losses: "list[torch.Tensor]"
    grad_norm: "torch.Tensor | float | None"
    tokens: "list[torch.Tensor]"
    waits: float

    @property
    def was_waited_for(self) -> bool:
        """Whether the device was done with it when its time was taken (on a CPU: always)."""
        return self.event.forward_seconds is not None

    def with_figures(self, losses: list[float], tokens: list[float]) -> StepFinished:
        """The step with its figures: those of its batches, added up."""
        loss, non_finite = split_non_finite(sum(losses))
        norm, _ = split_non_finite(None if self.grad_norm is None else float(self.grad_norm))
        return msgspec.structs.replace(
            self.event,
            tokens=int(sum(tokens)) if tokens else None,
            loss=loss,
            grad_norm=norm,
            non_finite=non_finite,
        )


def read_all(pending: list[_Pending]) -> list[StepFinished]:
    """The steps with their figures, fetched from the device together; waits for it."""
    losses = _fetched([one.losses for one in pending])
    tokens = _fetched([one.tokens for one in pending])
    return [one.with_figures(loss, count) for one, loss, count in zip(pending, losses, tokens, strict=True)]


def _fetched(tensors: "list[list[torch.Tensor]]") -> list[list[float]]:
    """The numbers in lists of scalars, list by list."""
    import torch

    every = [tensor for some in tensors for tensor in some]
    numbers = iter(torch.stack(every).tolist() if every else ())
    return [[next(numbers) for _ in some] for some in tensors]


class StepLog:
    """Collects steps and writes them as `step_finished` events, each with the time it really ended.

    CUDA and MPS are told of steps faster than they work them off. What is waited for them where figures are fetched
    belongs to the steps fetched, and is shared out among them.
    """

    def __init__(self, reporter: Reporter, memory: "DeviceMemory") -> None:
        self.memory = memory
        self._reporter = reporter
        self._samples = 0
        self._seconds = 0.0
        self._pending: list[_Pending] = []
        self._parts: StepParts | None = None
        self._flushed = time.monotonic()
        self.non_finite_in_a_row = 0

    def add(self, trainer: "WatchedTrainer", seconds: float, learning_rate: float) -> None:
        """Remember the step that just ended; write it, with those before, if the last write is long enough ago."""
        compiling = trainer.compilation.step_seconds if trainer.compilation else 0.0
        parts = trainer.parts.end()
        if compiling:
            parts = StepTimes()
        event = StepFinished(
            step=trainer.state.global_step,
            epoch=trainer.state.epoch or 0.0,
            seconds=seconds - compiling,
            compile_seconds=compiling,
            data_seconds=parts.data,
            forward_seconds=parts.forward,
            backward_seconds=parts.backward,
            optimizer_seconds=parts.optimizer,
            learning_rate=learning_rate,
            samples=trainer.step_samples,
        )
        figures = trainer.step_losses, trainer.grad_norm, trainer.step_tokens
        self._pending.append(_Pending(event, *figures, trainer.parts.price()))
        self._parts = trainer.parts
        trainer.forget_step()
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    @property
    def samples_per_second(self) -> float | None:
        """Samples trained on for each second of steps written; evaluation, saving and steps that compiled are left out.

        None before a step.
        """
        return self._samples / self._seconds if self._seconds > 0 else None

    def flush(self) -> None:
        """Write all steps remembered."""
        events = self._read()
        for event in events:
            if not event.compile_seconds:
                self._samples += event.samples
                self._seconds += event.seconds
            self.non_finite_in_a_row = self.non_finite_in_a_row + 1 if event.non_finite else 0
        if events:
            self._reporter.write(*events)
        self.memory.sample()  # for the peak; reports come every second (see `MemoryReports`)
        self._flushed = time.monotonic()

    def _read(self) -> list[StepFinished]:
        """The steps remembered, with their figures and their share of the time they were waited for."""
        pending, self._pending = self._pending, []
        begun = time.perf_counter()
        events = read_all(pending)
        if self._parts is None or not self._parts.is_asynchronous:
            return events
        hurried = sum(not one.was_waited_for for one in pending)
        share = (time.perf_counter() - begun) / max(1, hurried)
        told = []
        for one, event in zip(pending, events, strict=True):
            seconds = event.seconds if one.was_waited_for else event.seconds + share
            told.append(msgspec.structs.replace(event, seconds=seconds))
            if one.was_waited_for:
                self._parts.sampling.add_sampled(seconds, one.waits)
            elif not event.compile_seconds:
                self._parts.sampling.add_plain(seconds)
        return told
