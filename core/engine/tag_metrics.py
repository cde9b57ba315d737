"""Precision, recall and F1 of names found in texts, and how many words got their right label."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from core.engine.data.lengths import NO_LABEL
from core.engine.entities import TagScheme


def most_likely(logits: Any, _labels: Any) -> torch.Tensor:
    """The class index of each token, [batch, tokens], of logits [batch, tokens, classes] that would fill the memory."""
    scores: torch.Tensor = logits[0] if isinstance(logits, tuple) else logits
    return scores.argmax(dim=-1)


def tag_metrics(labels: tuple[str, ...]) -> Callable[[Any], dict[str, float]]:
    """What `Trainer(compute_metrics=...)` takes, where the tags of words have these names.

    It reads `predictions` [samples, tokens] of class indices and `label_ids` of the same shape, -100 at every token
    that no label belongs to, and gives 0 to 1: `f1`, `precision` and `recall` of names (see `TagScheme`), 0 where there
    is none; `token_accuracy` of words.
    """
    scheme = TagScheme(labels)

    def compute(prediction: Any) -> dict[str, float]:
        shared = guessed = true = 0
        for guesses, truth in zip(prediction.predictions, prediction.label_ids, strict=True):
            is_word = truth != NO_LABEL
            found, right = (
                scheme.entities([labels[index] for index in tags[is_word]]) for tags in (guesses, truth)
            )
            shared, guessed, true = shared + len(found & right), guessed + len(found), true + len(right)
        words = prediction.label_ids != NO_LABEL
        is_right = prediction.predictions[words] == prediction.label_ids[words]
        precision, recall = _share(shared, guessed), _share(shared, true)
        return {
            "f1": _share(2 * shared, guessed + true),
            "precision": precision,
            "recall": recall,
            "token_accuracy": float(np.mean(is_right)) if len(is_right) else 0.0,
        }

    return compute


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
