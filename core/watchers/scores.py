"""Whether evaluations still get better."""

from core.events import Evaluated
from core.metrics import LESS_IS_BETTER
from core.watchers import thresholds as limits


class Scores:
    """The best of each metric so far. `since_better` counts the evaluations after the last that bettered any of them.

    `best_step` is that evaluation's step, `count` is how many there were.
    """

    def __init__(self) -> None:
        self._best: dict[str, float] = {}
        self.count = 0
        self.best_step = 0
        self.since_better = 0

    def add(self, event: Evaluated) -> None:
        """Take in one evaluation."""
        self.count += 1
        better = [
            name
            for name, value in event.metrics.items()
            if value is not None and self._is_better(name, value)
        ]
        for name in better:
            self._best[name] = event.metrics[name] or 0.0
        if better:
            self.best_step, self.since_better = event.step, 0
        else:
            self.since_better += 1

    def _is_better(self, name: str, value: float) -> bool:
        best = self._best.get(name)
        if best is None:
            return True
        gain = best - value if name in LESS_IS_BETTER else value - best
        return gain > limits.BETTER * abs(best)
