"""What a live optimizer is and holds: read from its objects, whoever made it."""

from collections.abc import Iterator
from typing import Any

import torch

EIGHT_BITS = 8
OWN = ("torch", "transformers")
"""Packages whose optimizers go by their class alone."""
FLAGS = ("fused", "foreach", "capturable", "amsgrad", "maximize")
"""What PyTorch's optimizers keep in each group of parameters."""


def bare(optimizer: Any) -> Any:
    """The optimizer inside accelerate's wrapper, and inside DeepSpeed's."""
    found = getattr(optimizer, "optimizer", optimizer)
    return found.optimizer if type(found).__module__.startswith("deepspeed.") else found


def optimizer_name(optimizer: Any) -> str:
    """Its class and what the class doesn't tell, such as "AdamW, fused" or "AdamW, 8-bit, paged (bitsandbytes)"."""
    kind = type(optimizer)
    package = kind.__module__.partition(".")[0]
    words = [kind.__name__]
    words += [flag for flag in FLAGS if any(group.get(flag) for group in optimizer.param_groups)]
    if getattr(getattr(optimizer, "args", None), "optim_bits", None) == EIGHT_BITS:
        words.append("8-bit")
    if getattr(optimizer, "is_paged", False):
        words.append("paged")
    return ", ".join(words) + ("" if package in OWN else f" ({package})")


def optimizer_numbers(optimizer: Any) -> dict[str, float]:
    """What it runs with of the numbers of `TrainingOptions`, by their names, in a group that decays where one does."""
    group = max(optimizer.param_groups, key=lambda one: one.get("weight_decay", 0.0))
    betas = dict(zip(("beta1", "beta2"), group.get("betas", ()), strict=False))
    found = {
        "learning_rate": group.get("initial_lr"),
        **betas,
        "epsilon": group.get("eps"),
        "momentum": group.get("momentum"),
        "weight_decay": group.get("weight_decay"),
    }
    return {
        name: float(number) for name, number in found.items() if isinstance(number, (float, torch.Tensor))
    }


def state_bytes(optimizer: Any, kind: str | None = None) -> dict[str, int]:
    """Bytes of its state by dtype, such as `{"uint8": 4096}`. A table that many weights share counts once.

    Args:
        optimizer: A bare one.
        kind: Only what lies on devices of this kind (`cuda`, `mps`, `cpu`); None: wherever it lies.
    """
    found: dict[str, int] = {}
    counted = set()
    for tensor in _state_tensors(optimizer):
        here = kind is None or tensor.device.type == kind
        if here and tensor.numel() and tensor.data_ptr() not in counted:
            counted.add(tensor.data_ptr())
            name = str(tensor.dtype).removeprefix("torch.")
            found[name] = found.get(name, 0) + tensor.numel() * tensor.element_size()
    return found


def decayed_parameters(optimizer: Any) -> int:
    """How many parameters weight decay reaches."""
    return sum(
        parameter.numel()
        for group in optimizer.param_groups
        if group.get("weight_decay")
        for parameter in group["params"]
    )


def _state_tensors(optimizer: Any) -> Iterator[torch.Tensor]:
    for part in _parts(optimizer):
        for state in part.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    yield from _plain(value)


def _parts(optimizer: Any) -> tuple[Any, ...]:
    """The optimizers inside: torchao's `CPUOffloadOptimizer` has one a tensor, and one for all small tensors."""
    if not hasattr(optimizer, "optim_dict"):
        return (optimizer,)
    return (*optimizer.optim_dict.values(), *([optimizer.d_opt] if optimizer.d_opt else []))


def _plain(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors a tensor is made of: torchao's 8-bit states say they are fp32 and consist of codes and scales."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()
    for name in names:
        yield from _plain(getattr(tensor, name))
