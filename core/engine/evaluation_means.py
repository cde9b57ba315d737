"""Means over an evaluation whose batches weigh differently."""

from collections import defaultdict


class Means:
    """Adds up figures of batches, each by its weight: learned tokens, or samples."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._weight = 0.0

    def add(self, weight: float, **figures: float) -> None:
        """Take in one batch; one that weighs nothing says nothing."""
        if weight:
            self._weight += weight
            for name, value in figures.items():
                self._sums[name] += weight * value

    def all(self) -> dict[str, float]:
        """The means by name; empty where nothing was added."""
        return {name: value / self._weight for name, value in self._sums.items()}
