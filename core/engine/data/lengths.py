"""The columns of tokenized texts, and how long texts are, without reading them: from the offsets of a column."""

from typing import Any

import pyarrow.compute as pc

TOKENS = "input_ids"
NO_LABEL = -100
"""The label of a token that is not learned from, as torch's cross entropy and transformers have it."""
PAIR = PROMPT, CHOSEN, REJECTED = "prompt_ids", "chosen_ids", "rejected_ids"


def lengths_of(samples: Any) -> list[int] | None:
    """Tokens of each sample of a `datasets.Dataset`, in its order; None for samples that are no texts.

    Of a pair of answers the longer one counts, with the prompt: both get rows of that length. Trainer would make lists
    of every sample for it at the start of a run.
    """
    from datasets import Dataset

    if not isinstance(samples, Dataset):
        return None
    names = set(samples.column_names)
    if TOKENS not in names and not names.issuperset(PAIR):
        return None
    table = samples.with_format("arrow")[:]  # as a table, so that a selection of rows is heeded
    if TOKENS in names:
        return list(pc.list_value_length(table[TOKENS]).to_pylist())
    prompt, chosen, rejected = (pc.list_value_length(table[name]) for name in PAIR)
    return list(pc.add(prompt, pc.max_element_wise(chosen, rejected)).to_pylist())
