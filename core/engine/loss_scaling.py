"""Keeps gradient accumulation right.

Trainer 5.23 leaves it to the model to divide the loss by `num_items_in_batch` whenever the model's forward takes
`**kwargs`; many models take them and ignore that argument (Bert, DistilBert and Llama sequence classification among
them), and with N accumulation steps loss and gradients come out N times too large (transformers issue #47688).
"""

import inspect
from typing import Any

import torch

from core.engine.models.parts import base_of


def mend_loss_scaling(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
    """Tell Trainer to divide the loss itself where it counts on `model` to do so and `model` does not.

    Args:
        model: Takes `batch` as keyword arguments and returns a mapping with "loss". Its mode is left as it was.
        batch: One small batch with labels, on the model's device.

    Returns:
        Whether the model had to be flagged (`accepts_loss_kwargs = False`, which Trainer reads).
    """
    inner = base_of(model)  # LoRA's wrapper takes any keyword and hands it on; Trainer looks inside, too
    if not _takes_any_keyword(inner) or _divides_by_items(model, batch):
        return False
    inner.accepts_loss_kwargs = False
    return True


def _takes_any_keyword(model: torch.nn.Module) -> bool:
    parameters = inspect.signature(model.forward).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _divides_by_items(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
    """Whether doubling `num_items_in_batch` halves the loss."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        one = model(**batch, num_items_in_batch=1)["loss"]
        two = model(**batch, num_items_in_batch=2)["loss"]
    model.train(was_training)
    return bool(torch.isclose(two * 2, one, rtol=1e-3).item())
