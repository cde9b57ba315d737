"""Trainer for running text: evaluated by its loss alone, which says how surprising a held-out text is."""

from typing import Any

import torch

from core.engine.evaluation_means import Means
from core.engine.surprise import HeldOut, surprise
from core.engine.trainer import WatchedTrainer


class LanguageTrainer(WatchedTrainer):
    """Learns to say the next token. `held_out` is the text it is evaluated on.

    Logits are never gathered: those of a small text would take more memory than the model.
    """

    def __init__(self, *args: Any, held_out: HeldOut | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held_out = held_out
        self._means = Means()

    def count_tokens(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """All of them: blocks have no padding."""
        return torch.tensor(inputs["input_ids"].numel())

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate as Trainer does, each batch weighed by its tokens."""
        self._means = Means()
        found = super().evaluation_loop(*args, **kwargs)
        means = self._means.all()
        if means:
            told = {**means, **surprise(means["loss"], self._held_out)}
            found.metrics.update({f"eval_{name}": value for name, value in told.items()})
        return found

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The loss of a batch, as Trainer computes it."""
        found = super().compute_loss(model, inputs, *args, **kwargs)
        if not model.training:
            loss = found[0] if isinstance(found, tuple) else found
            self._means.add(inputs["labels"][:, 1:].numel(), loss=float(loss))
        return found
