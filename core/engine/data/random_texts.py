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
    """The random texts a run asks for; None where it trains on real ones.

    Args:
        options: What was asked. Nothing is held out for evaluation; evaluation data of its own may be asked for.
        vocab_size: Token ids are below.
        longest: The most tokens the model can see.

    Raises:
        DataError: The texts are longer than that, or the evaluation data is not random.
    """
    data, seed = options.data, options.training.seed
    if parse_synthetic(data.train) is None:
        return None
    if data.eval and parse_synthetic(data.eval) is None:
        raise DataError(
            "Random training data can't be evaluated on real data",
            f"{data.train} has made-up labels; those of {data.eval} mean something else.",
            (NO_EVALUATION,),
        )
    samples, length = _fitting("data.train", data.train, longest)
    train = random_tokens(min(samples, data.max_train_samples or samples), length, vocab_size, seed)
    held_out = None
    if data.eval:
        samples, length = _fitting("data.eval", data.eval, longest)
        held_out = random_tokens(min(samples, data.max_eval_samples or samples), length, vocab_size, seed + 1)
    return EncodedTexts(train, held_out, ("0", "1"))


def _fitting(path: str, source: str, longest: int) -> tuple[int, int]:
    """Samples and length of a source.

    Raises:
        DataError: The model can't see so much.
    """
    samples, length = parse_synthetic(source) or (0, 0)
    if length > longest:
        raise DataError(
            f"Random texts of {length:,} tokens are too long for this model",
            f"{source}: the model sees {longest:,} tokens at most.",
            (Fix(f"Use texts of {longest:,} tokens", {path: synthetic(samples, longest)}),),
        )
    return samples, length


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
