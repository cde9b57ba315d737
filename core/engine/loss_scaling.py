"""Keeps gradient accumulation right.

Trainer 5.23 leaves it to the model to divide the loss by `num_items_in_batch` whenever the model's forward takes
`**kwargs`; many models take them and ignore that argument (Bert, DistilBert and Llama sequence classification among
them), and with N accumulation steps loss and gradients come out N times too large (transformers issue #47688).

Divided by the accumulation steps instead, each batch of a step counts alike. That is right where each has as many
labels; where tokens are labelled, a batch of few words would count as much as one of many. `loss_by_label` lets every
label count alike, as in one large batch.

The router's loss of a mixture of experts is an average over a batch, which its model adds whole to a loss that it has
divided by the step's items: `share_router_loss` lets the batches of a step share it, as TRL does.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from core.engine.data.lengths import NO_LABEL
from core.engine.models.parts import base_of

ROUTER_WEIGHTS = ("router_aux_loss_coef", "aux_loss_coef")
"""What models of transformers call the weight of the router's loss; the latter is JetMoE's."""
MANY_ITEMS = 1 << 30


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


def loss_by_label(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """Cross entropy for `Trainer.compute_loss_func`: its sum over a batch's labels, divided by those of the whole step.

    Args:
        outputs: What the model returned: "logits" [batch, tokens, classes].
        labels: [batch, tokens] of class indices, -100 where there is none.
        num_items_in_batch: Labels in all batches of the step; None: in this one.
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
    """Weigh the router's loss by one over `batches`, those of the step, wherever `model` learns."""
    inner = base_of(model)
    for name in ROUTER_WEIGHTS:
        if weight := getattr(inner, name, None):

            def share(*_: Any, name: str = name, weight: float = weight) -> None:
                setattr(inner, name, weight / batches() if inner.training else weight)

            model.register_forward_pre_hook(share)


def _takes_any_keyword(model: torch.nn.Module) -> bool:
    parameters = inspect.signature(model.forward).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _divides_by_items(model: torch.nn.Module, batch: dict[str, Any]) -> bool:
    """Whether more items make the loss smaller; a router's loss stays, however many there are.

    Where nothing is labelled, a sum is 0 and a mean is NaN.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        one = model(**batch, num_items_in_batch=1)["loss"]
        many = model(**batch, num_items_in_batch=MANY_ITEMS)["loss"]
    model.train(was_training)
    return bool(one == 0 or many < one * 0.999)
