"""Turns finished optimizer steps into events, reading figures back from the device only a few times a second."""

import time
from dataclasses import dataclass

import torch

from core.engine.device_memory import DeviceMemory
from core.engine.reporter import Reporter
from core.engine.trainer import WatchedTrainer
from core.events import StepFinished, split_non_finite

FLUSH_SECONDS = 0.2
"""Figures of steps are fetched together at most this often: each fetch waits for the device."""


@dataclass(frozen=True)
class _Pending:
    event: StepFinished
    loss: torch.Tensor
    grad_norm: torch.Tensor | float | None
    tokens: torch.Tensor | None


class StepLog:
    """Collects steps and writes them as `step_finished` events, each with the time it really ended."""

    def __init__(self, reporter: Reporter, memory: DeviceMemory) -> None:
        self.memory = memory
        self._reporter = reporter
        self._samples = 0
        self._seconds = 0.0
        self._pending: list[_Pending] = []
        self._flushed = time.monotonic()
        self.non_finite_in_a_row = 0

    def add(self, trainer: WatchedTrainer, seconds: float, learning_rate: float) -> None:
        """Remember the step that just ended; write it, with those before, if the last write is long enough ago."""
        compiling = trainer.compilation.step_seconds if trainer.compilation else 0.0
        event = StepFinished(
            step=trainer.state.global_step,
            epoch=trainer.state.epoch or 0.0,
            seconds=seconds - compiling,
            compile_seconds=compiling,
            learning_rate=learning_rate,
            samples=trainer.step_samples,
        )
        if not compiling:
            self._samples += trainer.step_samples
            self._seconds += seconds
        loss = torch.stack(trainer.step_losses).sum()
        tokens = torch.stack(trainer.step_tokens).sum() if trainer.step_tokens else None
        self._pending.append(_Pending(event, loss, trainer.grad_norm, tokens))
        trainer.forget_step()
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    @property
    def samples_per_second(self) -> float | None:
        """Samples trained on for each second of steps; evaluation, saving and steps that compiled are left out.

        None before a step.
        """
        return self._samples / self._seconds if self._seconds > 0 else None

    def flush(self) -> None:
        """Write all steps remembered."""
        for pending in self._pending:
            loss, non_finite = split_non_finite(float(pending.loss))
            norm, _ = split_non_finite(None if pending.grad_norm is None else float(pending.grad_norm))
            self.non_finite_in_a_row = self.non_finite_in_a_row + 1 if non_finite else 0
            self._reporter.write(
                StepFinished(
                    time=pending.event.time,
                    step=pending.event.step,
                    epoch=pending.event.epoch,
                    seconds=pending.event.seconds,
                    compile_seconds=pending.event.compile_seconds,
                    learning_rate=pending.event.learning_rate,
                    samples=pending.event.samples,
                    tokens=None if pending.tokens is None else int(pending.tokens),
                    loss=loss,
                    grad_norm=norm,
                    non_finite=non_finite,
                )
            )
        self._pending.clear()
        self.memory.sample()  # for the peak; reports come every second (see `MemoryReports`)
        self._flushed = time.monotonic()
