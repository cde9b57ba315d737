"""Random tokens in place of texts, for timing: `synthetic:SAMPLESxLENGTH`, or `synthetic:SAMPLESxSHORTEST-LONGEST`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from core.base.errors import DataError, Fix
from core.engine.data.labelled_texts import EncodedTexts
from core.engine.data.splits import NO_EVALUATION
from core.options import RunOptions
from core.options.choices import Task
from core.options.sources import parse_synthetic, synthetic, synthetic_lengths

if TYPE_CHECKING:
    from datasets import Dataset
from core.engine.data.chat_samples import Conversations
from core.engine.data.token_cache import CHOSEN, NO_LABEL, PROMPT, REJECTED, TOKENS

# --- Random tokens in place of texts, for timing: `synthetic:SAMPLESxLENGTH`


CLASSES = ("0", "1")


def load_random_texts(options: RunOptions, vocab_size: int, longest: int) -> EncodedTexts | None:
    """The random texts a run asks for; None where it trains on real ones. They are never evaluated on.

    Args:
        options: What was asked.
        vocab_size: Token ids are below.
        longest: The most tokens the model can see.

    Raises:
        DataError: The texts are longer than that, or there is evaluation data, which can't have their made-up labels.
    """
    asked = asked_samples(options, longest)
    if asked is None:
        return None
    shortest, _ = synthetic_lengths(options.data.train) or (asked[1], asked[1])
    train = random_tokens(*asked, vocab_size, options.training.seed, options.task, shortest)
    return EncodedTexts(train, None, CLASSES if options.task.has_labels else ())


def asked_samples(options: RunOptions, longest: int) -> tuple[int, int] | None:
    """How many random samples a run asks for, and their tokens; None where it trains on real ones.

    Raises:
        DataError: As for `load_random_texts`.
    """
    data, asked = options.data, parse_synthetic(options.data.train)
    if asked is None:
        return None
    samples, length = asked
    shortest, _ = synthetic_lengths(data.train) or (length, length)
    if data.eval:
        raise DataError(
            "Random texts are never evaluated",
            f"{data.train} has made-up labels; those of {data.eval} mean something else.",
            (NO_EVALUATION,),
        )
    if length > longest:
        fitting = synthetic(samples, longest, min(shortest, longest))
        raise DataError(
            f"Random texts of {length:,} tokens are too long for this model",
            f"{data.train}: the model sees {longest:,} tokens at most.",
            (Fix(f"Use texts of {longest:,} tokens", {"data.train": fitting}),),
        )
    return min(samples, data.max_train_samples or samples), length


def random_tokens(  # noqa: PLR0917 - in the order of the source they are of
    samples: int,
    length: int,
    vocab_size: int,
    seed: int,
    task: Task = Task.TEXT_CLASSIFICATION,
    shortest: int | None = None,
) -> "Dataset":
    """Random token ids: `input_ids`, `attention_mask` and the task's kind of `labels`.

    Every sample has `length` tokens, or `shortest` to `length`, each number of them as likely.
    """
    from datasets import Dataset

    random = np.random.default_rng(seed)
    ids = random.integers(0, vocab_size, (samples, length))
    labels = _labels(task, ids, random)
    columns = {"input_ids": list(ids), "attention_mask": list(np.ones_like(ids)), "labels": labels}
    if shortest is not None and shortest < length:
        sizes = random.integers(shortest, length + 1, samples)
        columns = {name: _cut(values, sizes) for name, values in columns.items()}
    return Dataset.from_dict(columns)


def _cut(values: Any, sizes: Any) -> Any:
    """Rows, each as long as it is to be; what has one number a sample stays as it is."""
    if not isinstance(values, list):
        return values
    return [row[:size] for row, size in zip(values, sizes, strict=True)]


def _labels(task: Task, ids: Any, random: np.random.Generator) -> Any:
    """Half of them 0 and half 1, a number each, one of two classes a token, or the tokens themselves."""
    if task is Task.TOKEN_CLASSIFICATION:
        return list(random.integers(0, len(CLASSES), ids.shape))
    if task is Task.TEXT_REGRESSION:
        return random.random(len(ids))
    return list(ids) if task.writes_text else random.permutation(np.arange(len(ids)) % len(CLASSES))


# --- Random tokens in place of conversations and pairs, for timing: the first half asks


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
