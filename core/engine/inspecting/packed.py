"""How many rows conversations take when several share one, counted as TRL packs them: best fit, the longest first."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def packed_rows(lengths: Sequence[int], length: int) -> int:
    """The rows that packing makes of samples with so many tokens each, with at most `length` tokens in a row.

    A sample goes into the fullest row that has room for it, or else into a new one (TRL's strategy `bfd`).
    """
    rows = 0
    widest = max(lengths, default=0)
    size = min(length, len(lengths) * widest)
    with_room: Any = np.zeros(size + 1, dtype=np.int64)
    for tokens in sorted(lengths, reverse=True):
        fitting = np.flatnonzero(with_room[tokens:])
        if len(fitting):
            room = tokens + int(fitting[0])
            with_room[room] -= 1
        else:
            room = size
            rows += 1
        with_room[room - tokens] += 1
    return rows
