"""How many rows of tokens a text makes that is too long to be counted while somebody waits: judged by a part of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from core.engine.data.splits import held_out_of
from core.engine.inspecting.samples import Sample
from core.engine.inspecting.seeing import token_lengths
from core.engine.inspecting.tokenizers import AtHand
from core.options import RunOptions

STRETCHES = 64
STRETCH_CHARACTERS = 16 << 10
"""A million characters in all: a tokenizer is through with them in well under a second."""


@dataclass(frozen=True)
class Estimate:
    """About how many rows are trained on, and evaluated on (None: that isn't known); and a sentence that says so."""

    train: int
    eval: int | None
    note: str


def stretches(texts: Sequence[str]) -> list[str]:
    """Parts of texts, evenly spread over all of them."""
    ends = list(accumulate(map(len, texts)))
    if not ends:
        return []
    found = []
    for place in np.linspace(0, ends[-1], STRETCHES, endpoint=False).astype(int):
        index = int(np.searchsorted(ends, place, side="right"))
        start = int(place) - (ends[index - 1] if index else 0)
        found.append(texts[index][start : start + STRETCH_CHARACTERS])
    return found


def estimate_rows(options: RunOptions, some: Sequence[str], characters: int, at_hand: AtHand) -> Estimate:
    """About how many rows of tokens a text makes.

    Args:
        options: What is asked.
        some: Parts of the text, evenly chosen.
        characters: Of all of it.
        at_hand: The tokenizer, and how long rows are.
    """
    data = options.data
    part = _first(some, STRETCHES * STRETCH_CHARACTERS)
    samples = [Sample(row, (text,)) for row, text in enumerate(part)]
    tokens = sum(token_lengths(samples, at_hand.tokenizer, lambda _done, _all: None))
    rows = characters * tokens / max(1, sum(map(len, part))) / at_hand.length
    apart = held_out_of(data)
    held_out = 0.0 if apart else rows * data.eval_fraction
    train = _at_most(rows - held_out, data.max_train_samples)
    evaluated = None if apart else _at_most(held_out, data.max_eval_samples)
    return Estimate(
        train,
        evaluated,
        f"About {train:,} rows to train on, judged by a part of the text: the run counts them.",
    )


def _first(texts: Sequence[str], characters: int) -> list[str]:
    """Every so many texts, so that they come to about so many characters."""
    step = max(1, sum(map(len, texts)) // characters)
    return list(texts[::step])


def _at_most(rows: float, limit: int | None) -> int:
    found = max(1, int(rows)) if rows else 0
    return found if limit is None else min(found, limit)
