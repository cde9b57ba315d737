"""`transformers.Trainer`, with what Hone needs to see made visible. The training loop is untouched."""

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import is_compiled_module

from core.engine.first_batch import FirstBatch
from core.engine.loading import live_loader
from core.engine.optimizers import norm_parameters
from core.engine.resumable import ResumableTrainer
from core.engine.step_parts import Part, StepParts, wait_for

if TYPE_CHECKING:
    from core.engine.compiling import Compilation


class WatchedTrainer(ResumableTrainer):
    """Keeps what the current optimizer step has seen, without reading anything back from the device.

    `step_losses` holds a detached scalar a batch (already divided by the accumulation steps), `step_samples` counts
    samples, `step_tokens` holds a scalar of unpadded tokens a batch, `grad_norm` the norm before
    clipping; `last_step` are the samples and batches of the step before this one.
    `first_batch` tells how the first batch of the run was computed, `fell_back` names the operators that the CPU has
    computed in MPS's place so far. `compilation` is None where nothing is to be compiled. `parts` are timed up to the
    end of the backward; whoever follows the steps begins them, and ends the optimizer's part.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.first_batch = FirstBatch(self.args.device.type)
        self.parts = StepParts(wait_for(self.args.device.type))
        self.fell_back: list[str] = []
        self.compilation: Compilation | None = None
        self._watches = True
        self.forget_step()

    def forget_step(self) -> None:
        """Begin a new optimizer step."""
        self.last_step = (getattr(self, "step_samples", 0), len(getattr(self, "step_losses", ())))
        self.step_losses: list[torch.Tensor] = []
        self.step_tokens: list[torch.Tensor] = []
        self.step_samples = 0
        self.grad_norm: torch.Tensor | float | None = None
        if self.compilation is not None:
            self.compilation.forget_step()

    def get_train_dataloader(self) -> Any:
        """Trainer's own, with an eye on how long it is waited for."""
        loader = super().get_train_dataloader()
        self.parts.timed(live_loader(loader))
        return loader

    def get_batch_samples(self, *args: Any) -> tuple[list[Any], Any]:
        """The batches of one optimizer step.

        Raises:
            UserError: A worker found a sample that can't be used.
        """
        self.parts.skip()
        found = super().get_batch_samples(*args)
        self.parts.lap(Part.DATA)
        return found

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch, as Trainer computes it."""
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if model.training:  # an evaluation is no part of a step
            self.parts.lap(Part.FORWARD)
        return loss

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Compute one batch forward and backward, as Trainer does, and remember its figures."""
        self.parts.skip()
        self.step_samples += self.count_samples(inputs)
        tokens = self.count_tokens(inputs)
        if tokens is not None:
            self.step_tokens.append(tokens)
        compute = partial(self._compute, inputs=inputs, num_items_in_batch=num_items_in_batch)
        loss = self.compilation.run(model, compute) if self.compilation else compute(model)
        self._watches = False
        self.step_losses.append(loss)
        self.parts.lap(Part.BACKWARD)
        return loss

    def count_samples(self, inputs: dict[str, Any]) -> int:
        """How many samples a batch has."""
        return len(inputs["labels"])

    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """How many tokens a batch has, padding left out, as a scalar on the device; None for images."""
        mask = inputs.get("attention_mask")
        return None if mask is None else mask.sum()

    def _compute(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any) -> torch.Tensor:
        # a compiled graph is read instead: listening would cut it to pieces
        watches = self._watches and not is_compiled_module(model)
        with self.first_batch.watching(self.model) if watches else nullcontext():
            loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        return loss

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        # Trainer hands the norm to its logger only; this is its one way out without logging (and syncing) each step.
        self.grad_norm = super()._get_grad_norm(model, grad_norm)
        return self.grad_norm

    def get_decay_parameter_names(self, model: torch.nn.Module) -> list[str]:
        """Those that Trainer would let decay, without the batch norms it overlooks."""
        norms = norm_parameters(model)
        return [name for name in super().get_decay_parameter_names(model) if name not in norms]

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """No count: walking over all parameters costs 0.3 ms a batch and Hone shows no FLOPs."""
        return 0
