"""The steps of a run: where their time goes, and their figures as events."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from core.engine.reporter import Reporter
from core.runs.events import StepFinished, split_non_finite

# --- The parts of an optimizer step


FIRST, EVERY = 10, 100
"""On a GPU, one step in `EVERY` is measured, the first after `FIRST` steps.

A measured step takes at most twice as long, as this process waits for the device after each part: 1 % in all.
"""

Wait = Callable[[], None]


class StepPart(StrEnum):
    """A part of an optimizer step. Accumulated batches add up.

    - `DATA`: fetching its batches.
    - `FORWARD`: moving them to the device, the model, the loss.
    - `BACKWARD`: the gradients; with DeepSpeed also the new weights, which it computes in the same call.
    - `OPTIMIZER`: clipping, the new weights, the learning rate schedule, zeroing the gradients.
    """

    DATA = "data_seconds"
    FORWARD = "forward_seconds"
    BACKWARD = "backward_seconds"
    OPTIMIZER = "optimizer_seconds"


class StepParts:
    """Measures the parts of the current step.

    Call `begin` before a step (again, if something else came between), `skip` where a part begins, `lap` where it ends
    and `end` after the step. `wait` waits for the device; None if it computes synchronously.
    """

    def __init__(self, wait: Wait | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.is_asynchronous = wait is not None
        self._wait = wait
        self._clock = clock
        self._until_measured = FIRST
        self._is_measured = False
        self._mark = 0.0
        self._spent = dict.fromkeys(StepPart, 0.0)
        self._fetched: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether the next step will be measured by waiting for the device, which has to be idle before."""
        return self.is_asynchronous and self._until_measured == 0

    def begin(self) -> None:
        self._is_measured = self.is_due
        self._spent = dict.fromkeys(StepPart, 0.0)
        self._fetched = None
        self.skip()

    def skip(self) -> None:
        """Leaves out the time since the last part ended."""
        self._mark = self._clock()

    def lap(self, part: StepPart) -> None:
        """Adds the time since the last part ended, or since `skip`, to `part`."""
        if self._is_measured and self._wait is not None:
            self._wait()
        now = self._clock()
        self._spent[part] += now - self._mark
        self._mark = now

    def end(self) -> dict[str, float | None]:
        """Ends the step; returns the parts in seconds by the fields of `StepFinished`, None if not measured."""
        self._until_measured = EVERY - 1 if self._is_measured else max(0, self._until_measured - 1)
        if not self.is_asynchronous or self._is_measured:
            return {part.value: seconds for part, seconds in self._spent.items()}
        return {**dict.fromkeys((part.value for part in StepPart), None), StepPart.DATA.value: self._fetched}

    def timed(self, loader: Any) -> None:
        """Measures the time that torch's `loader` is waited for, on devices that compute asynchronously.

        There, the time until Trainer has its batches says little: copying them may wait for all steps before.
        """
        if self.is_asynchronous:
            iterate = loader.__iter__
            loader.__iter__ = lambda: self._fetch(iterate)  # accelerate's loader calls it by this name

    def _fetch(self, iterate: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        start = self._clock()
        batches = iterate()  # starts the workers
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self._fetched = (self._fetched or 0.0) + self._clock() - start
            yield batch
            start = self._clock()


# --- The figures of steps


FLUSH_SECONDS = 0.2
"""Figures of steps are read together at most this often: each time waits for the device."""

Fetch = Callable[[list[Sequence[Any]]], list[list[float]]]
"""Reads lists of scalars from the device at once."""


def numbers(lists: list[Sequence[Any]]) -> list[list[float]]:
    """Returns lists of scalars as numbers: `Fetch` where nothing is gained by reading them at once."""
    return [[float(scalar) for scalar in scalars] for scalars in lists]


@dataclass(frozen=True)
class StepOnDevice:
    """A step that has just ended, with its figures still on the device.

    Attributes:
        event: What is known without them; its `seconds` include compiling.
        losses: Scalars that add up to its loss.
        tokens: Scalars that add up to its tokens without padding; empty if it has none.
        grad_norm: The norm of its gradients before clipping; None if there is none.
    """

    event: StepFinished
    losses: Sequence[Any]
    tokens: Sequence[Any] = ()
    grad_norm: Any = None


class StepLog:
    """Collects steps and writes them as `step_finished` events.

    Where a device computes asynchronously, the time that reading figures waits for it is shared among the steps read
    that were not measured by waiting already. If `is_exact`, the figures of each step are read at its end.
    """

    def __init__(
        self,
        reporter: Reporter,
        parts: StepParts,
        fetch: Fetch = numbers,
        sample_memory: Callable[[], object] = lambda: None,
        *,
        is_exact: bool = False,
    ) -> None:
        self._flush_seconds = 0.0 if is_exact else FLUSH_SECONDS
        self.non_finite_in_a_row = 0
        self._reporter = reporter
        self._parts = parts
        self._fetch = fetch
        self._sample_memory = sample_memory
        self._losses: list[float] = []
        self._samples = 0
        self._seconds = 0.0
        self._steps: list[StepOnDevice] = []
        self._flushed = time.monotonic()

    def add(self, step: StepOnDevice) -> None:
        """Adds the step that has just ended; writes all, if the last write is long enough ago."""
        event, parts = step.event, self._parts.end()
        if event.compile_seconds:
            event = msgspec.structs.replace(event, seconds=event.seconds - event.compile_seconds)
        else:
            event = msgspec.structs.replace(event, **parts)
        self._steps.append(StepOnDevice(event, step.losses, step.tokens, step.grad_norm))
        if time.monotonic() - self._flushed >= self._flush_seconds:
            self.flush()

    @property
    def samples_per_second(self) -> float | None:
        """Samples per second of the steps, without evaluation, saving and compilation; None before a step."""
        return self._samples / self._seconds if self._seconds > 0 else None

    def take_mean_loss(self) -> float | None:
        """Returns the mean loss of the steps written since the last call; None if there were none."""
        losses, self._losses = self._losses, []
        return sum(losses) / len(losses) if losses else None

    def flush(self) -> None:
        events = self._read()
        for event in events:
            if not event.compile_seconds:
                self._samples += event.samples
                self._seconds += event.seconds
            self.non_finite_in_a_row = self.non_finite_in_a_row + 1 if event.non_finite else 0
            if event.loss is not None:
                self._losses.append(event.loss)
        if events:
            self._reporter.write(*events)
        self._sample_memory()
        self._flushed = time.monotonic()

    def _read(self) -> list[StepFinished]:
        """Returns the events of the steps, with their figures from the device."""
        steps, self._steps = self._steps, []
        start = time.perf_counter()
        losses = self._fetch([step.losses for step in steps])
        tokens = self._fetch([step.tokens for step in steps])
        norms = [None if step.grad_norm is None else float(step.grad_norm) for step in steps]
        waited = time.perf_counter() - start
        # a measured step was waited for when it ended
        unmeasured = 0
        if self._parts.is_asynchronous:
            unmeasured = sum(step.event.forward_seconds is None for step in steps)
        events = []
        for step, batch_losses, batch_tokens, norm in zip(steps, losses, tokens, norms, strict=True):
            loss, non_finite = split_non_finite(sum(batch_losses))
            share = waited / unmeasured if unmeasured and step.event.forward_seconds is None else 0.0
            event = msgspec.structs.replace(
                step.event,
                seconds=step.event.seconds + share,
                tokens=int(sum(batch_tokens)) if batch_tokens else None,
                loss=loss,
                grad_norm=split_non_finite(norm)[0],
                non_finite=non_finite,
            )
            events.append(event)
        return events
