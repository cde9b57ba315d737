"""The optimizer of a trace: the run's own where torch can follow it, else one that holds as many bytes."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from core.memory.estimate import BESIDE_ON_CPU, STATE, TABLES_IN_32_BITS
from core.options import RunOptions
from core.options.choices import Optimizer

SMALL = 4096
"""Smaller weights keep their state in fp32 in bitsandbytes (`min_8bit_size`) and torchao (`_subclass_zeros`)."""

IN_32_BITS = {
    Optimizer.ADAMW_8BIT: 8,
    Optimizer.PAGED_ADAMW_8BIT: 8,
    Optimizer.ADAMW_8BIT_TORCHAO: 8,
    Optimizer.LION_8BIT: 4,
}
"""Bytes of state for each number of a weight that an 8-bit optimizer keeps track of in fp32."""


class HeldState(torch.optim.Optimizer):
    """Holds a number of bytes for each weight and does nothing: for kernels that know no fake tensors.

    They update in place (bitsandbytes' and torchao's kernels, read); where bitsandbytes has none, it makes copies.

    Args:
        parameters: The weights that learn.
        bytes_for: Bytes of state of one of them.
        copies_for: How many copies of it in fp32 are made while it moves; None: none of any.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        bytes_for: Callable[[torch.nn.Parameter], int],
        copies_for: Callable[[torch.nn.Parameter], int] | None = None,
    ) -> None:
        super().__init__(parameters, {})
        self._bytes_for = bytes_for
        self._copies_for = copies_for or (lambda _: 0)

    def step(self, closure: Any = None) -> None:
        """Make the state where there is none, and let copies come and go."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None and not self.state[weight]:
                    size = self._bytes_for(weight)
                    self.state[weight]["held"] = torch.empty(size, dtype=torch.uint8, device=weight.device)
                if weight.grad is not None:
                    copies = [torch.empty_like(weight) for _ in range(self._copies_for(weight))]
                    del copies


def optimizer_for(model: torch.nn.Module, options: RunOptions, device: torch.device) -> torch.optim.Optimizer:
    """What moves the weights of `model` in a trace.

    Args:
        model: On fake tensors; the weights that learn require gradients.
        options: What is asked, settled.
        device: Where the fake tensors pretend to be.
    """
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    training = options.training
    if options.memory.offload_optimizer and device.type != "cpu":
        return HeldState(learning, lambda _: 0)
    match training.optimizer:
        case Optimizer.ADAMW:
            return torch.optim.AdamW(learning, lr=training.learning_rate, fused=True)
        case Optimizer.ADAM:
            return torch.optim.Adam(learning, lr=training.learning_rate, fused=True)
        case Optimizer.SGD:
            return torch.optim.SGD(
                learning,
                lr=training.learning_rate,
                momentum=training.momentum,
                weight_decay=training.weight_decay,
                foreach=device.type == "cuda",  # what torch chooses where tensors are real
            )
        case Optimizer.ADAFACTOR:
            from transformers.optimization import Adafactor

            return Adafactor(learning, lr=training.learning_rate, scale_parameter=False, relative_step=False)
    tables = {id(part.weight) for part in model.modules() if isinstance(part, torch.nn.Embedding)}
    of_full, of_packed = BESIDE_ON_CPU.get(training.optimizer, (0, 0)) if device.type == "cpu" else (0, 0)

    def is_full(weight: torch.nn.Parameter) -> bool:
        return _is_in_32_bits(training.optimizer, weight, id(weight) in tables)

    return HeldState(
        learning,
        lambda weight: _bytes(training.optimizer, weight, is_full(weight)),
        lambda weight: of_full if is_full(weight) else of_packed,
    )


def _is_in_32_bits(optimizer: Optimizer, weight: torch.nn.Parameter, is_table: bool) -> bool:
    return optimizer in IN_32_BITS and (
        weight.numel() < SMALL or (is_table and optimizer in TABLES_IN_32_BITS)
    )


def _bytes(optimizer: Optimizer, weight: torch.nn.Parameter, is_full: bool) -> int:
    if is_full:
        return IN_32_BITS[optimizer] * weight.numel()
    return math.ceil(STATE[optimizer] * weight.numel())
