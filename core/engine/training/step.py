"""The figures of the current optimizer step, on the device they were computed on."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from accelerate.utils import is_compiled_module

from core.engine.devices.choose import ResolvedRun
from core.engine.devices.computing import wait_for
from core.engine.reporter import Reporter
from core.engine.run.steps import StepPart, StepParts
from core.engine.training.compile import Compilation
from core.engine.training.observe import FirstBatch


class StepFigures:
    """What is known of the current step; nothing here waits for the device.

    Attributes:
        parts: Times the parts of a step; callbacks begin a step and end its optimizer part.
        first_batch: How the run's first batch was computed.
        compilation: The compiled model, if any.
        losses: A detached scalar for each batch, divided by the accumulation steps.
        tokens: A scalar for each batch: its tokens without padding.
        samples: Samples so far.
        grad_norm: The gradient norm before clipping.
        last_samples: Samples of the step before.
    """

    def __init__(self, resolved: ResolvedRun, reporter: Reporter) -> None:
        self.parts = StepParts(wait_for(resolved.kind))
        self.first_batch = FirstBatch(resolved.kind)
        self.compilation: Compilation | None = None
        if resolved.options.device.compile:
            self.compilation = Compilation(resolved, reporter, self.first_batch)
        self._has_computed = False
        self.samples = 0
        self.forget()

    @property
    def compile_seconds(self) -> float:
        return self.compilation.step_seconds if self.compilation is not None else 0.0

    def forget(self) -> None:
        """Begins the next step."""
        self.last_samples = self.samples
        self.losses: list[torch.Tensor] = []
        self.tokens: list[torch.Tensor] = []
        self.samples = 0
        self.grad_norm: torch.Tensor | float | None = None
        if self.compilation is not None:
            self.compilation.forget_step()

    def begin_batch(self, samples: int, tokens: torch.Tensor | None) -> None:
        self.parts.skip()
        self.samples += samples
        if tokens is not None:
            self.tokens.append(tokens)

    def end_batch(self, loss: torch.Tensor) -> None:
        self._has_computed = True
        self.losses.append(loss)
        self.parts.lap(StepPart.BACKWARD)

    def watching(self, model: Any, computed: Any) -> AbstractContextManager[None]:
        """Observes the run's first batch; not a compiled graph, which observing would break and which is read instead.

        Args:
            model: The run's.
            computed: What is computed: the model, or its compiled form.
        """
        if self._has_computed or is_compiled_module(computed):
            return nullcontext()
        return self.first_batch.watching(model)
