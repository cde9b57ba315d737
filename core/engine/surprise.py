"""How surprising a model finds a text: its loss in other words."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class HeldOut:
    """How long the held-out text is: the tokens it comes to, and its characters."""

    tokens: int
    characters: int


def surprise(loss: float, held_out: HeldOut | None = None) -> dict[str, float]:
    """What a loss says in other words.

    Args:
        loss: The mean over tokens, in nats.
        held_out: The text it was measured on; None where that isn't known.

    Returns:
        `perplexity`, e to the loss, infinite beyond what a float holds; and, where the text is known, the loss as
        `nats_per_character` and `bits_per_character`, which models with different tokenizers can be compared by.
    """
    try:
        found = {"perplexity": math.exp(loss)}
    except OverflowError:
        found = {"perplexity": math.inf}
    if held_out is None or not held_out.characters:
        return found
    nats = loss * held_out.tokens / held_out.characters
    return {**found, "nats_per_character": nats, "bits_per_character": nats / math.log(2)}
