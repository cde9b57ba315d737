"""Turns finished optimizer steps into events, reading figures back from the device only a few times a second."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import torch

from core.engine.device_memory import DeviceMemory
from core.engine.reporter import Reporter
from core.engine.step_parts import StepParts, StepTimes
from core.events import StepFinished, split_non_finite

if TYPE_CHECKING:
    from core.engine.trainer import WatchedTrainer

FLUSH_SECONDS = 0.2
"""Figures of steps are fetched together at most this often: each fetch waits for the device."""


@dataclass(frozen=True)
class _Pending:
    """A step whose figures are still on the device. `waits` is what its being taken apart cost beyond its time."""

    event: StepFinished
    losses: list[torch.Tensor]
    grad_norm: torch.Tensor | float | None
    tokens: list[torch.Tensor]
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


def _fetched(tensors: list[list[torch.Tensor]]) -> list[list[float]]:
    """The numbers in lists of scalars, list by list."""
    every = [tensor for some in tensors for tensor in some]
    numbers = iter(torch.stack(every).tolist() if every else ())
    return [[next(numbers) for _ in some] for some in tensors]


class StepLog:
    """Collects steps and writes them as `step_finished` events, each with the time it really ended.

    CUDA and MPS are told of steps faster than they work them off. What is waited for them where figures are fetched
    belongs to the steps fetched, and is shared out among them.
    """

    def __init__(self, reporter: Reporter, memory: DeviceMemory) -> None:
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
