"""A histogram of how long samples are, with an edge where they are cut off."""

from collections.abc import Sequence

import numpy as np

from core.data_report import Lengths

BARS = 24
TOKENS, CHARACTERS = "tokens", "characters"


def histogram(lengths: Sequence[int], unit: str, limit: int | None = None) -> Lengths | None:
    """Count lengths into bars of a round width; None where there are none.

    Args:
        lengths: Of the samples.
        unit: What is counted.
        limit: Samples longer than this are cut off there; None: none is.
    """
    if not len(lengths):
        return None
    found = np.asarray(lengths)
    longest = int(found.max())
    width = _round_width(longest + 1)
    edges = np.arange(0, longest + width + 1, width)
    if limit is not None and limit < longest:
        edges = np.union1d(edges, [limit + 1])  # so that the bars beyond hold just what is cut off
    counts, _ = np.histogram(found, edges)
    return Lengths(
        unit=unit,
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        longest=longest,
        median=int(np.median(found)),
        limit=limit,
        cut=int((found > limit).sum()) if limit is not None else 0,
    )


def _round_width(span: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... of which `BARS` cover the span."""
    scale = 1
    while True:
        for step in (1, 2, 5):
            if step * scale * BARS >= span:
                return step * scale
        scale *= 10
