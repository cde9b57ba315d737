"""States what actually ran, from the live objects and not from the request."""

from typing import Any

import torch

from core.engine.devices import Choice
from core.engine.models.adapters import describe_adapter
from core.engine.models.parts import base_of, count, is_packed, weights_of
from core.engine.optimizer_state import bare, decayed_parameters, optimizer_name, state_bytes
from core.engine.trainer import WatchedTrainer
from core.events import WhatRan


class AutocastWitness:
    """Sees, from inside the model's forward, which dtype autocast computes in; `dtype` is None without autocast.

    It listens on the model's parts: accelerate wraps the model's own forward, so a hook on the model itself runs
    before autocast begins.
    """

    def __init__(self, model: torch.nn.Module, device_kind: str) -> None:
        self.dtype: str | None = None
        self._device_kind = device_kind
        self._hooks = [part.register_forward_pre_hook(self._look) for part in base_of(model).children()]

    def _look(self, _part: torch.nn.Module, _inputs: Any) -> None:
        if torch.is_autocast_enabled(self._device_kind):
            self.dtype = _dtype_name(torch.get_autocast_dtype(self._device_kind))
        for hook in self._hooks:
            hook.remove()


def what_ran(trainer: WatchedTrainer, choice: Choice, witness: AutocastWitness) -> WhatRan:
    """Read the live trainer after its first step. Sizes are exact: bytes and numbers of parameters."""
    model = trainer.model
    parameters = [weight for _, weight in weights_of(model)]
    dtypes = sorted({_dtype_name(parameter.dtype) for parameter in parameters})
    optimizer = bare(trainer.optimizer)
    state = state_bytes(optimizer)
    scaler = trainer.accelerator.scaler
    device = str(parameters[0].device)
    return WhatRan(
        device=choice.label if device == choice.name else device,
        device_name=choice.title,
        parameter_dtype=" + ".join(dtypes),
        autocast_dtype=witness.dtype,
        optimizer=optimizer_name(optimizer),
        optimizer_state_bytes=sum(state.values()),
        optimizer_state=state,
        decayed_parameters=decayed_parameters(optimizer),
        loss_scale=scaler.get_scale() if scaler is not None else None,
        trainable_parameters=sum(count(parameter) for parameter in parameters if parameter.requires_grad),
        total_parameters=sum(map(count, parameters)),
        adapter=describe_adapter(model),
        packed_parameters=sum(count(parameter) for parameter in parameters if is_packed(parameter)),
        effective_batch=trainer.get_total_train_batch_size(trainer.args),
        attention=getattr(getattr(model, "config", None), "_attn_implementation", None),
        reasons=choice.reasons,
    )


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
