"""Lion in PyTorch, for every device: bitsandbytes has no kernels for Apple GPUs, and isn't in every app."""

from collections.abc import Callable
from typing import Any

import torch


class Lion(torch.optim.Optimizer):
    """Updates weights by the sign of averaged gradients (Chen et al. 2023, arXiv 2302.06675, algorithm 2).

    Attributes of its groups: `lr`, `betas` (of the direction of a step, of the average that is kept), `weight_decay`.
    """

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Updates the weights by their gradients; Trainer gives no closure."""
        for group in self.param_groups:
            rate, (first, second) = group["lr"], group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                if weight not in self.state:
                    self.state[weight]["average"] = torch.zeros_like(weight)
                average = self.state[weight]["average"]
                direction = average.lerp(weight.grad, 1 - first).sign_()
                weight.mul_(1 - rate * group["weight_decay"]).add_(direction, alpha=-rate)
                average.lerp_(weight.grad, 1 - second)
