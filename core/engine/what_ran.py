"""States what actually ran, from the live objects and not from the request."""

from typing import Any

import torch

from core.choices import Attention
from core.engine.batches_ran import batches_ran
from core.engine.devices import Choice
from core.engine.models.adapters import describe_adapter
from core.engine.models.parts import base_of, count, is_packed, weights_of
from core.engine.optimizer_state import (
    bare,
    decayed_parameters,
    optimizer_name,
    optimizer_numbers,
    state_bytes,
)
from core.engine.process_settings import process_ran
from core.engine.trainer import WatchedTrainer
from core.engine.zero_process import describe_zero, zero_loss_scale
from core.events import WhatRan


def what_ran(trainer: WatchedTrainer, choice: Choice) -> WhatRan:
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
        autocast_dtype=trainer.first_batch.autocast_dtype,
        optimizer=optimizer_name(optimizer),
        optimizer_numbers=optimizer_numbers(optimizer),
        optimizer_state_bytes=sum(state.values()),
        optimizer_state=state,
        decayed_parameters=None if trainer.deepspeed else decayed_parameters(optimizer),
        loss_scale=scaler.get_scale() if scaler is not None else zero_loss_scale(trainer.deepspeed),
        trainable_parameters=sum(count(parameter) for parameter in parameters if parameter.requires_grad),
        total_parameters=sum(map(count, parameters)),
        adapter=describe_adapter(model),
        packed_parameters=sum(count(parameter) for parameter in parameters if is_packed(parameter)),
        attention=" + ".join(trainer.first_batch.attention) or None,
        recomputed=trainer.first_batch.recomputed,
        **vars(batches_ran(trainer)),
        **vars(process_ran(choice.kind)),
        fell_back=tuple(trainer.fell_back),
        deepspeed=describe_zero(trainer.deepspeed),
        compiled=trainer.compilation.label if trainer.compilation else "",
        compile_seconds=trainer.compilation.seconds if trainer.compilation else None,
        reasons=choice.reasons | _reason_of_attention(choice, base_of(model), trainer.first_batch.attention),
    )


def _reason_of_attention(choice: Choice, model: Any, called: tuple[str, ...]) -> dict[str, str]:
    if choice.settled.model.attention is not Attention.SDPA or called != (Attention.EAGER,):
        return {}
    has_sdpa = getattr(model, "_supports_sdpa", False)
    its_own = "sdpa was set, and this model has it, but its own code computed attention in the first batch"
    return {"model.attention": its_own if has_sdpa else "this model has no sdpa; its own runs"}


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
