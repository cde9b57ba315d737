"""Reports at each evaluation which labels were taken for which."""

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from core.engine.confusion import Confusion, confusion_of
from core.engine.reporter import Reporter
from core.events import ConfusionCounted


class MixedUp(TrainerCallback):
    """Stands in for a classifier's metrics, which alone see every prediction, and tells afterwards what it saw.

    Args:
        metrics: What it stands in for.
        labels: What is told apart.
        reporter: Hears of it.
    """

    def __init__(
        self, metrics: Callable[[Any], dict[str, float]], labels: tuple[str, ...], reporter: Reporter
    ) -> None:
        self._metrics = metrics
        self._labels = labels
        self._reporter = reporter
        self._seen: Confusion | None = None

    def __call__(self, prediction: Any) -> dict[str, float]:
        """The metrics, as they are."""
        self._seen = confusion_of(prediction, self._labels)
        return self._metrics(prediction)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report what the evaluation has seen."""
        if self._seen is None:
            return
        self._reporter.write(
            ConfusionCounted(
                step=state.global_step,
                labels=self._seen.labels,
                counts=self._seen.counts,
                left_out=self._seen.left_out,
            )
        )
        self._seen = None
