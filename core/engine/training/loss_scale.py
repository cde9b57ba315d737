"""The scale of the loss under gradient accumulation, for models that don't divide it as Trainer expects."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from core.engine.data import NO_LABEL
from core.engine.models.parts import base_of

ROUTER_WEIGHTS = ("router_aux_loss_coef", "aux_loss_coef")
"""Names of the weight of the router's loss in transformers' models; JetMoE's is the second."""
MANY_ITEMS = 1 << 30


def fix_loss_scaling(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
    """Has Trainer divide the loss if it expects `model` to do so and `model` doesn't.

    Args:
        model: Takes `batch` as keyword arguments and returns a mapping with "loss".
        batch: A small batch with labels, on the model's device.

    Returns:
        Whether the model was flagged (`accepts_loss_kwargs = False`, which Trainer reads).
    """
    inner = base_of(model)  # PEFT's wrapper takes any keyword; Trainer looks inside, too
    parameters = inspect.signature(inner.forward).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if not takes_any or _divides_by_items(model, batch):
        return False
    inner.accepts_loss_kwargs = False
    return True


def _divides_by_items(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
    """Returns whether the loss decreases with `num_items_in_batch`; a router's loss doesn't.

    Without any label, a sum is 0 and a mean is NaN.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        one = model(**batch, num_items_in_batch=1)["loss"]
        many = model(**batch, num_items_in_batch=MANY_ITEMS)["loss"]
    model.train(was_training)
    return bool(one == 0 or many < one * 0.999)


def loss_by_label(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """Computes the cross entropy (`Trainer.compute_loss_func`): the sum over a batch, divided by the step's labels.

    Args:
        outputs: What the model returned: "logits" [batch, tokens, classes].
        labels: [batch, tokens] of class indices, -100 where there is none.
        num_items_in_batch: Labels in all batches of the step; None for this one's.
    """
    logits = outputs["logits"]
    summed = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(),
        labels.reshape(-1),
        ignore_index=NO_LABEL,
        reduction="sum",
    )
    count = (labels != NO_LABEL).sum() if num_items_in_batch is None else num_items_in_batch
    return summed / count


def share_router_loss(model: torch.nn.Module, batches: Callable[[], int]) -> None:
    """Divides the router's loss by `batches()`, those of the step, while `model` trains."""
    inner = base_of(model)
    for name in ROUTER_WEIGHTS:
        if weight := getattr(inner, name, None):

            def share(*_rest: Any, name: str = name, weight: float = weight) -> None:
                setattr(inner, name, weight / batches() if inner.training else weight)

            model.register_forward_pre_hook(share)
