"""Random tokens for timing: `synthetic:SAMPLESxLENGTH`, or `synthetic:SAMPLESxSHORTEST-LONGEST`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data import CHOSEN, NO_LABEL, PROMPT, REJECTED, TOKENS
from core.engine.data.splits import NO_EVALUATION
from core.options import RunOptions
from core.options.choices import Task
from core.options.sources import parse_synthetic, synthetic, synthetic_lengths

if TYPE_CHECKING:
    from datasets import Dataset

CLASSES = ("0", "1")


def random_samples(options: RunOptions, vocabulary: int, longest: int) -> "Dataset | None":
    """The random samples of a run, as its task's collator takes them; None if it trains on real ones.

    Labels are half 0 and half 1, random numbers, or one of two classes for each token. In conversations the first half
    of a row is the prompt, in pairs the prompt of two answers.

    Args:
        options: The run's.
        vocabulary: The number of token ids.
        longest: The most tokens the model can see.

    Raises:
        DataError: They are longer, or there is evaluation data.
    """
    from datasets import Dataset

    data, task = options.data, options.task
    parsed = parse_synthetic(data.train)
    if parsed is None:
        return None
    samples, length = parsed
    shortest, _rest = synthetic_lengths(data.train) or (length, length)
    if data.eval:
        raise DataError(
            _("Random texts can't be evaluated"),
            _("{train} has made-up labels, which {eval} can't have.").format(
                train=data.train, eval=data.eval
            ),
            (NO_EVALUATION,),
        )
    if length > longest:
        fitting = synthetic(samples, longest, min(shortest, longest))
        raise DataError(
            _("Random texts of {length:,} tokens are too long for this model").format(length=length),
            _("{train}: the model's maximum length is {longest:,} tokens.").format(
                train=data.train, longest=longest
            ),
            (Fix(_("Use texts of {longest:,} tokens").format(longest=longest), {"data.train": fitting}),),
        )
    samples = min(samples, data.max_train_samples or samples)
    random = np.random.default_rng(options.training.seed)
    prompt = length // 2
    if task is Task.PREFERENCE:
        widths = {PROMPT: prompt, CHOSEN: length - prompt, REJECTED: length - prompt}
        return Dataset.from_dict(
            {name: list(random.integers(0, vocabulary, (samples, width))) for name, width in widths.items()}
        )
    ids = random.integers(0, vocabulary, (samples, length))
    if task is Task.CAUSAL_LM:
        return Dataset.from_dict({TOKENS: list(ids)})
    if task is Task.CHAT:
        learned = np.where(np.arange(length) < prompt, NO_LABEL, ids)
        return Dataset.from_dict({TOKENS: list(ids), "labels": list(learned)})
    labels: Any = random.permutation(np.arange(samples) % len(CLASSES))
    if task is Task.TEXT_REGRESSION:
        labels = random.random(samples)
    columns: dict[str, Any] = {TOKENS: list(ids), "attention_mask": list(np.ones_like(ids)), "labels": labels}
    if task is Task.TOKEN_CLASSIFICATION:
        columns["labels"] = list(random.integers(0, len(CLASSES), ids.shape))
    if shortest < length:
        sizes = random.integers(shortest, length + 1, samples)
        for name, rows in columns.items():
            if isinstance(rows, list):
                columns[name] = [row[:size] for row, size in zip(rows, sizes, strict=True)]
    return Dataset.from_dict(columns)
