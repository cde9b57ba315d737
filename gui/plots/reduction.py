"""A long line drawn with few points: the lowest and the highest of each pixel column.

pyqtgraph's own peak mode drops up to a column at the end, where a live chart has its newest sample, and
blanks a column that holds one NaN. Here both are kept; a column of nothing but NaN stays a gap.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.intp]


def group_size(first: int, last: int, columns: int) -> int:
    """Of the rows from `first` up to `last`, how many share a pixel column so that there are no more than `columns`.

    A power of two, of which groups begin at multiples: those of a line that grows or moves stay as they are, and the
    picture doesn't shimmer.
    """
    size = 1 << (-(-(last - first) // columns) - 1).bit_length()
    while (last - 1) // size - first // size >= columns:
        size *= 2
    return size


def extremes(groups: Floats) -> tuple[Places, Places]:
    """Places of the lowest and the highest value in each row; NaN counts only where there is nothing else."""
    gaps = np.isnan(groups)
    if not gaps.any():
        return groups.argmin(axis=1), groups.argmax(axis=1)
    return np.where(gaps, np.inf, groups).argmin(axis=1), np.where(gaps, -np.inf, groups).argmax(axis=1)
