"""Attention where no gradients are recorded, which Apple's GPU may compute wrongly."""

from functools import partial
from typing import Any

import torch

from core.engine.devices.check import CAUSAL, sees_later_tokens
from core.engine.devices.choose import ResolvedRun
from core.engine.devices.computing import COMPUTED_IN
from core.engine.models.parts import base_of
from core.options.choices import Attention


def has_causal_sdpa(model: Any) -> bool:
    """Returns whether a model computes attention with torch's sdpa, and lets no token see later ones."""
    if getattr(getattr(base_of(model), "config", None), "_attn_implementation", "") != Attention.SDPA:
        return False
    said = [part.is_causal for part in model.modules() if hasattr(part, "is_causal")]
    return any(said) or not said  # transformers takes attention that says nothing as causal


def eager_without_gradients(model: Any) -> None:
    """Lets a model with sdpa use eager attention in evaluations, as a reference and when it writes.

    The body switches it, because PEFT calls the forward of what is around without its hooks.
    """

    def switch(attention: Attention, body: Any, *_rest: Any) -> None:
        if not torch.is_grad_enabled():
            body.config._attn_implementation = attention.value

    body = base_of(model).base_model
    body.register_forward_pre_hook(partial(switch, Attention.EAGER))
    body.register_forward_hook(partial(switch, Attention.SDPA), always_call=True)
    body.evaluates_eagerly = True


def evaluates_eagerly(model: Any) -> bool:
    """Returns whether `eager_without_gradients` was called for a model."""
    return getattr(getattr(base_of(model), "base_model", None), "evaluates_eagerly", False)


def cure_causal_attention(model: Any, resolved: ResolvedRun) -> bool:
    """Uses eager attention where no gradients are recorded, if sdpa is wrong there in the model's half precision."""
    if resolved.kind != "mps" or not has_causal_sdpa(model):
        return False
    dtypes = {COMPUTED_IN.get(resolved.precision), *(weight.dtype for weight in model.parameters())}
    is_wrong = any(sees_later_tokens("mps", dtype) for dtype in CAUSAL if dtype in dtypes)
    if is_wrong:
        eager_without_gradients(model)
    return is_wrong
