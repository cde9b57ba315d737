"""How long texts are, without reading them: from the offsets of their Arrow column."""

from typing import Any

import pyarrow.compute as pc

TOKENS = "input_ids"


def lengths_of(samples: Any) -> list[int] | None:
    """Tokens of each sample of a `datasets.Dataset`, in its order; None for samples that are no texts.

    Trainer would make Python lists of every sample for it at the start of a run.
    """
    from datasets import Dataset

    if not isinstance(samples, Dataset) or TOKENS not in samples.column_names:
        return None
    column = samples.with_format("arrow")[:][TOKENS]  # as a table, so that a selection of rows is heeded
    return list(pc.list_value_length(column).to_pylist())
