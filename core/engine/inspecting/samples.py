"""Some rows evenly chosen out of many, by which is told how long they are, and the first of them to be shown."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MOST_SAMPLED = 20_000
SHOWN = 20


@dataclass(frozen=True)
class Sample:
    """A usable row: its number in the file, what the model reads of it, and the answer."""

    row: int
    inputs: tuple[str, ...]
    answer: Any = None


@dataclass
class Sampled:
    """Usable rows that were chosen: the first ones, and some of all.

    Args:
        rows: How many rows there are.
    """

    rows: int
    first: list[Sample] = field(default_factory=list)
    evenly: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = min(self.rows, MOST_SAMPLED)
        self._chosen: Any = np.arange(count) * self.rows // max(1, count)

    @property
    def is_all(self) -> bool:
        """Whether every row was chosen."""
        return self.rows <= MOST_SAMPLED

    def wants(self, places: Sequence[int]) -> list[int]:
        """Which of these rows, by position, were chosen; `places` are their indices in the table, in order."""
        if not len(places):
            return []
        return np.flatnonzero(np.isin(places, self._chosen, assume_unique=True)).tolist()
