"""A long line drawn with few points: the lowest and the highest of each pixel column.

pyqtgraph's own peak mode drops up to a column at the end, where a live chart has its newest sample, and
blanks a column that holds one NaN. This one keeps both; a column of nothing but NaN stays a gap.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.intp]


def visible_slice(x: Floats, low: float, high: float) -> slice:
    """The points from `low` to `high`, and one more at either side: the line runs out of the picture."""
    first = int(np.searchsorted(x, low, side="left"))
    last = int(np.searchsorted(x, high, side="right"))
    return slice(max(0, first - 1), min(len(x), last + 1))


def reduce(x: Floats, y: Floats, columns: int) -> tuple[Floats, Floats]:
    """Draw the same picture with fewer points.

    Args:
        x: Positions, ascending, finite. Shape (n,).
        y: Values, NaN for a gap. Shape (n,).
        columns: Pixel columns at hand.

    Returns:
        At most `2 * columns + 1` points in the order of `x`: each column's lowest and highest, and always the
        newest. The arrays themselves where there are few enough points already.
    """
    columns = max(1, columns)
    if len(x) <= 2 * columns:
        return x, y
    # A power of two: the columns of a growing line stay where they are, and the picture doesn't shimmer.
    size = 1 << (-(-len(x) // columns) - 1).bit_length()
    full = len(x) // size
    low, high = _extremes(y[: full * size].reshape(full, size))
    starts: Places = np.arange(full) * size
    picked = np.stack((starts + np.minimum(low, high), starts + np.maximum(low, high)), axis=1).ravel()
    rest = full * size
    if rest < len(x):
        tail_low, tail_high = _extremes(y[rest:].reshape(1, -1))
        tail = np.concatenate((tail_low, tail_high, [len(x) - rest - 1])) + rest
        picked = np.concatenate((picked, np.unique(tail)))
    elif picked[-1] != len(x) - 1:
        picked = np.append(picked, len(x) - 1)
    return x[picked], y[picked]


def _extremes(blocks: Floats) -> tuple[Places, Places]:
    """Places of the lowest and the highest value in each row; NaN counts only where there is nothing else."""
    gaps = np.isnan(blocks)
    if not gaps.any():
        return blocks.argmin(axis=1), blocks.argmax(axis=1)
    return np.where(gaps, np.inf, blocks).argmin(axis=1), np.where(gaps, -np.inf, blocks).argmax(axis=1)
