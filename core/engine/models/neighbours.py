"""Whether conversations in one packed row see each other, found out by letting the model read two."""

from typing import Any

import torch

from core.engine.models.parts import base_of
from core.engine.reporter import Reporter
from core.errors import Fix

FIRST, SECOND = (1, 2, 3, 4), (5, 6, 7, 8)
"""Two texts of four tokens, which any vocabulary has."""


def sees_neighbours(model: Any) -> bool:
    """Whether what stands before a conversation in its row changes what the model makes of it.

    transformers draws the borders by `position_ids` that begin anew, where it makes the masks; models with masks or a
    memory of their own, such as recurrent ones, don't heed them. The second text is read alone, behind the first as if
    both were one, and behind it with positions of its own: that has to be as good as alone.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            alone, of_one, behind = (
                _read(model, tokens, positions)[-len(SECOND) :]
                for tokens, positions in (
                    (SECOND, range(4)),
                    ((*FIRST, *SECOND), range(8)),
                    ((*FIRST, *SECOND), (*range(4), *range(4))),
                )
            )
    finally:
        model.train(was_training)
    return bool((behind - alone).abs().max() > 0.1 * (of_one - alone).abs().max())


def _read(model: Any, tokens: Any, positions: Any) -> torch.Tensor:
    device = next(model.parameters()).device
    ids, places = (torch.tensor([list(numbers)], device=device) for numbers in (tokens, positions))
    logits: torch.Tensor = model(input_ids=ids, position_ids=places, use_cache=False).logits[0]
    return logits.float()


def warn_if_neighbours_show(model: Any, reporter: Reporter) -> None:
    """Say so where packing lets conversations see each other."""
    if sees_neighbours(model):
        reporter.warn(
            "packed-neighbours",
            "Conversations in one row see each other",
            f"{type(base_of(model)).__name__} doesn't heed where one begins: each reads those before it, too.",
            (Fix("Don't pack them", {"data.packing": False}),),
        )
