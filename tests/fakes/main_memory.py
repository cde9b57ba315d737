"""What torchao's CPUOffloadOptimizer promises, on one device: an optimizer of optimizers that steps on copies.

Written against torchao's README; the real one asserts CUDA. Like it, this one never calls `Optimizer.__init__`.
"""

from typing import Any

import torch


class CPUOffloadOptimizer(torch.optim.Optimizer):
    def __init__(
        self,
        params: Any,
        optimizer_class: Any = torch.optim.AdamW,
        *,
        minimal_size: int = 4096,
        **kwargs: Any,
    ) -> None:
        self.optim_dict: dict[torch.nn.Parameter, torch.optim.Optimizer] = {}
        self.d_opt: torch.optim.Optimizer | None = None
        small = []
        for group in params:
            rest = {name: value for name, value in group.items() if name != "params"}
            large = [weight for weight in group["params"] if weight.numel() >= minimal_size]
            for weight in large:
                copy = torch.nn.Parameter(weight.detach().clone())
                self.optim_dict[weight] = optimizer_class([{"params": [copy], **rest}], **kwargs)
            small.append({"params": [w for w in group["params"] if w.numel() < minimal_size], **rest})
        self.d_opt = optimizer_class(small, **kwargs)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        inside = [*self.optim_dict.values(), self.d_opt]
        return [group for part in inside if part is not None for group in part.param_groups]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.d_opt.step()
        for weight, part in self.optim_dict.items():
            [copy] = part.param_groups[0]["params"]
            copy.grad = weight.grad.clone()
            part.step()
            weight.copy_(copy)

    def zero_grad(self, set_to_none: bool = True) -> None:
        assert set_to_none
        for weight in self.optim_dict:
            weight.grad = None
        self.d_opt.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        offloaded = [part.state_dict() for part in self.optim_dict.values()]
        return {"offloaded": offloaded, "on-device": self.d_opt.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, state in zip(self.optim_dict.values(), state_dict["offloaded"], strict=True):
            part.load_state_dict(state)
        self.d_opt.load_state_dict(state_dict["on-device"])
