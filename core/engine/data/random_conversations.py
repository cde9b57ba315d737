"""Random tokens in place of conversations and pairs, for timing: the first half asks, the second answers."""

import numpy as np

from core.engine.data.conversations.samples import Conversations
from core.engine.data.lengths import CHOSEN, NO_LABEL, PROMPT, REJECTED, TOKENS
from core.engine.data.random_texts import asked_samples
from core.options import RunOptions


def random_conversations(options: RunOptions, vocabulary: int, longest: int) -> Conversations | None:
    """The random conversations a run asks for; None where it learns from real ones.

    Args:
        options: What is asked.
        vocabulary: Token ids are below.
        longest: The most tokens the model can see.

    Raises:
        DataError: They are longer than that, or there is evaluation data.
    """
    from datasets import Dataset

    asked = asked_samples(options, longest)
    if asked is None:
        return None
    tokens = _random(options).integers(0, vocabulary, asked)
    labels = tokens.copy()
    labels[:, : tokens.shape[1] // 2] = NO_LABEL
    return Conversations(Dataset.from_dict({TOKENS: list(tokens), "labels": list(labels)}), None)


def random_pairs(options: RunOptions, vocabulary: int, longest: int) -> Conversations | None:
    """The same of pairs: a prompt, and two answers as long as what is left of the row."""
    from datasets import Dataset

    asked = asked_samples(options, longest)
    if asked is None:
        return None
    samples, length = asked
    shapes = {PROMPT: length // 2, CHOSEN: length - length // 2, REJECTED: length - length // 2}
    random = _random(options)
    columns = {name: list(random.integers(0, vocabulary, (samples, wide))) for name, wide in shapes.items()}
    return Conversations(Dataset.from_dict(columns), None)


def _random(options: RunOptions) -> np.random.Generator:
    return np.random.default_rng(options.training.seed)
