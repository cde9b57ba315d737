"""How good a classifier is, by scikit-learn, and a model that gives numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOP = 5


def classification_metrics(prediction: Any) -> dict[str, float]:
    """Metrics for `Trainer(compute_metrics=...)`.

    Args:
        prediction: transformers' EvalPrediction: `predictions` [samples, classes] of logits, `label_ids` [samples].

    Returns:
        `accuracy`, `f1` and, where there are more than five classes, `top5_accuracy`, 0 to 1. F1 is that of class 1
        where there are two classes (as run_glue reports MRPC), otherwise the unweighted mean over the classes. Of two
        classes also `matthews`, the correlation by which CoLA is judged, -1 to 1; 0 where truth or guesses are all of
        one class, as scikit-learn has it.
    """
    from sklearn.metrics import accuracy_score, f1_score

    logits = _first(prediction.predictions)
    guesses = np.argmax(logits, axis=-1)
    truth = prediction.label_ids
    classes = logits.shape[-1]
    is_binary = classes == 2
    found = {
        "accuracy": float(accuracy_score(truth, guesses)),
        "f1": float(f1_score(truth, guesses, average="binary" if is_binary else "macro", zero_division=0)),
    }
    if is_binary:  # of 0 and 1, Matthews' correlation is Pearson's
        correlation = pearson(truth, guesses)
        found["matthews"] = 0.0 if np.isnan(correlation) else correlation
    return found | ({"top5_accuracy": _top_five(logits, truth)} if classes > TOP else {})


def _top_five(logits: Any, truth: Any) -> float:
    """How often the right class is among the five that are likeliest."""
    likeliest = np.argpartition(-logits, TOP - 1, axis=-1)[:, :TOP]
    return float((likeliest == np.asarray(truth)[:, None]).any(axis=-1).mean())


def regression_metrics(prediction: Any) -> dict[str, float]:
    """Metrics for `Trainer(compute_metrics=...)`.

    Args:
        prediction: transformers' EvalPrediction: `predictions` [samples, 1] of numbers, `label_ids` [samples].

    Returns:
        `pearson` and `spearman`, -1 to 1, and `mae`, the mean absolute error in the label's own unit. The correlations
        are NaN, which is told as unknown, where truth or guesses are all the same: there is none to speak of.
    """
    guesses = np.asarray(_first(prediction.predictions), dtype=np.float64).reshape(-1)
    truth = np.asarray(prediction.label_ids, dtype=np.float64).reshape(-1)
    return {
        "pearson": pearson(truth, guesses),
        "spearman": pearson(ranks(truth), ranks(guesses)),
        "mae": float(np.mean(np.abs(truth - guesses))),
    }


def pearson(one: Any, other: Any) -> float:
    """The linear correlation of two series; NaN where one of them doesn't vary, or holds a NaN."""
    one, other = (np.asarray(series, dtype=np.float64) for series in (one, other))
    if not len(one) or np.ptp(one) == 0 or np.ptp(other) == 0 or not np.isfinite([one, other]).all():
        return float("nan")
    one, other = (
        (series - series.mean()) / np.linalg.norm(series - series.mean()) for series in (one, other)
    )
    return float(np.clip(one @ other, -1.0, 1.0))


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each value, from 1; equal ones share the mean of their places. NaN where one of them is NaN."""
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return means[which]


def _first(predictions: Any) -> Any:
    """The logits, where a model returns more than these."""
    return predictions[0] if isinstance(predictions, tuple) else predictions
