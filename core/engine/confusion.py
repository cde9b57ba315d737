"""Which labels a classifier takes for which others."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from core.predictions import MOST_LABELS


class Confusion(msgspec.Struct, frozen=True, kw_only=True):
    """A confusion matrix: `counts[i][j]` samples of `labels[i]` were taken for `labels[j]`.

    Of more than 50 labels, those with most errors are kept, in their order; `left_out` counts the others.
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    left_out: int = 0


def confusion(
    predicted: Sequence[int], true: Sequence[int], labels: Sequence[str], most: int = MOST_LABELS
) -> Confusion:
    """Count which labels were taken for which.

    Args:
        predicted: The index of the label that was answered, for each sample.
        true: The index of the right one; what lies outside `labels`, such as -100, is passed over.
        labels: All labels.
        most: So many labels are kept.
    """
    answers, truth = np.asarray(predicted, dtype=np.int64), np.asarray(true, dtype=np.int64)
    counted = (truth >= 0) & (truth < len(labels))
    pairs, numbers = np.unique(np.stack([truth[counted], answers[counted]]), axis=1, return_counts=True)
    kept = _worst(pairs, numbers, len(labels), most)
    place = np.full(len(labels), -1)
    place[kept] = np.arange(len(kept))
    rows, columns = place[pairs[0]], place[pairs[1]]
    inside = (rows >= 0) & (columns >= 0)
    counts: Any = np.zeros((len(kept), len(kept)), dtype=np.int64)
    counts[rows[inside], columns[inside]] = numbers[inside]
    return Confusion(
        labels=tuple(labels[index] for index in kept),
        counts=tuple(tuple(row) for row in counts.tolist()),
        left_out=len(labels) - len(kept),
    )


def confusion_of(prediction: Any, labels: Sequence[str]) -> Confusion:
    """The same from transformers' EvalPrediction: `predictions` of logits [..., labels], `label_ids` [...].

    Where logits have been condensed to answers, `predictions` are indices of labels, in the shape of `label_ids`.
    """
    found, true = prediction.predictions, np.asarray(prediction.label_ids)
    found = found[0] if isinstance(found, tuple) else found
    answers = found if found.ndim == true.ndim else np.argmax(found, axis=-1)
    return confusion(answers.ravel(), true.ravel(), labels)


def _worst(pairs: Any, numbers: Any, labels: int, most: int) -> Any:
    """Indices, ascending, of the labels that were missed or wrongly answered most often; of all, where they are few."""
    if labels <= most:
        return np.arange(labels)
    wrong = pairs[0] != pairs[1]
    errors = np.bincount(pairs[0][wrong], numbers[wrong], labels) + np.bincount(
        pairs[1][wrong], numbers[wrong], labels
    )
    return np.sort(np.argsort(-errors, kind="stable")[:most])
