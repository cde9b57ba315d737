"""Accuracy and F1 of a classifier, by scikit-learn."""

from typing import Any

import numpy as np


def classification_metrics(prediction: Any) -> dict[str, float]:
    """Metrics for `Trainer(compute_metrics=...)`.

    Args:
        prediction: transformers' EvalPrediction: `predictions` [samples, classes] of logits, `label_ids` [samples].

    Returns:
        `accuracy` and `f1`, 0 to 1. F1 is that of class 1 where there are two classes (as run_glue reports MRPC),
        otherwise the unweighted mean over the classes.
    """
    from sklearn.metrics import accuracy_score, f1_score

    logits = (
        prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    )
    guesses = np.argmax(logits, axis=-1)
    truth = prediction.label_ids
    average = "binary" if logits.shape[-1] == 2 else "macro"
    return {
        "accuracy": float(accuracy_score(truth, guesses)),
        "f1": float(f1_score(truth, guesses, average=average, zero_division=0)),
    }
