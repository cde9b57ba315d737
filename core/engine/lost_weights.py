"""Weights that are no numbers any more: nothing was learned then, and nothing is saved over what there was."""

from typing import Any

import torch

from core.errors import Fix, UserError


def lost_weights(arguments: Any, why: str) -> UserError:
    """What ends the run, with what to try instead.

    Args:
        arguments: Trainer's.
        why: How it was noticed.
    """
    rate = arguments.learning_rate
    fixes = [Fix(f"Lower the learning rate to {rate / 10:g}", {"training.learning_rate": rate / 10})]
    if arguments.bf16 or arguments.fp16 or arguments.tf32:
        fixes.append(Fix("Compute in fp32", {"device.precision": "fp32"}))
    return UserError(
        "The loss is no longer a number",
        f"{why} The usual cause is a learning rate that is too high (it was {rate:g}). What was saved before is "
        "as it was.",
        tuple(fixes),
    )


def refuse_lost_weights(model: torch.nn.Module, arguments: Any) -> None:
    """Make sure that what is to be saved can be used.

    Raises:
        UserError: A weight that learns is NaN or infinite.
    """
    for name, weight in model.named_parameters():
        if weight.requires_grad and not bool(torch.isfinite(weight).all()):
            raise lost_weights(
                arguments, f"The weights {name} are NaN or infinite, so that nothing can be saved."
            )
