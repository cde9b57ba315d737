"""Random tokens in place of texts, for timing: `synthetic:SAMPLESxLENGTH`."""

from typing import TYPE_CHECKING

import numpy as np

from core.engine.data.labels import NO_EVALUATION
from core.engine.data.text import EncodedTexts
from core.errors import DataError, Fix
from core.options import RunOptions
from core.sources import parse_synthetic, synthetic

if TYPE_CHECKING:
    from datasets import Dataset


def load_random_texts(options: RunOptions, vocab_size: int, longest: int) -> EncodedTexts | None:
    """The random texts a run asks for; None where it trains on real ones. They are never evaluated on.

    Args:
        options: What was asked.
        vocab_size: Token ids are below.
        longest: The most tokens the model can see.

    Raises:
        DataError: The texts are longer than that, or there is evaluation data, which can't have their made-up labels.
    """
    data, asked = options.data, parse_synthetic(options.data.train)
    if asked is None:
        return None
    samples, length = asked
    if data.eval:
        raise DataError(
            "Random texts are never evaluated",
            f"{data.train} has made-up labels; those of {data.eval} mean something else.",
            (NO_EVALUATION,),
        )
    if length > longest:
        raise DataError(
            f"Random texts of {length:,} tokens are too long for this model",
            f"{data.train}: the model sees {longest:,} tokens at most.",
            (Fix(f"Use texts of {longest:,} tokens", {"data.train": synthetic(samples, longest)}),),
        )
    train = random_tokens(
        min(samples, data.max_train_samples or samples), length, vocab_size, options.training.seed
    )
    return EncodedTexts(train, None, ("0", "1"))


def random_tokens(samples: int, length: int, vocab_size: int, seed: int) -> "Dataset":
    """Random token ids, every sample `length` tokens: `input_ids`, `attention_mask` and `labels` (0, 1)."""
    from datasets import Dataset

    random = np.random.default_rng(seed)
    return Dataset.from_dict(
        {
            "input_ids": list(random.integers(0, vocab_size, (samples, length))),
            "attention_mask": list(np.ones((samples, length), dtype=np.int64)),
            "labels": random.permutation(np.arange(samples) % 2),
        }
    )
