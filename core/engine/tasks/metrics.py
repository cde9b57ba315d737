"""Metrics of evaluations: classification, regression, entities, perplexity and the confusion matrix."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from core.engine.data import NO_LABEL
from core.runs.events import MOST_LABELS, MOST_LISTED, ConfusionCounted, LabelCounted

# --- Classification


TOP, LEAST_FOR_TOP = 5, 20
"""With fewer classes than that, one of the likeliest five is easily the true one."""


def classification_metrics(prediction: Any) -> dict[str, float]:
    """Computes Trainer's metrics from `predictions` [samples, classes] of logits and `label_ids` [samples].

    `accuracy` and `f1`, 0 to 1. With two classes F1 is that of class 1 (as run_glue reports MRPC), and there is
    `matthews`, the correlation coefficient by which CoLA is judged, -1 to 1, 0 if undefined. With more classes F1 is
    their unweighted mean, and with twenty or more there is `top5_accuracy`.
    """
    from sklearn.metrics import accuracy_score, f1_score

    logits, truth = first_of(prediction.predictions), np.asarray(prediction.label_ids)
    answers, classes = np.argmax(logits, axis=-1), logits.shape[-1]
    average = "binary" if classes == 2 else "macro"
    metrics = {
        "accuracy": float(accuracy_score(truth, answers)),
        "f1": float(f1_score(truth, answers, average=average, zero_division=0)),
    }
    if classes == 2:  # of 0 and 1, Matthews' correlation is Pearson's
        correlation = pearson(truth, answers)
        metrics["matthews"] = 0.0 if np.isnan(correlation) else correlation
    if classes >= LEAST_FOR_TOP:
        likeliest = np.argpartition(-logits, TOP - 1, axis=-1)[:, :TOP]
        metrics["top5_accuracy"] = float((likeliest == truth[:, None]).any(axis=-1).mean())
    return metrics


def confusion(
    predicted: Sequence[int], true: Sequence[int], labels: Sequence[str], most: int = MOST_LABELS
) -> ConfusionCounted:
    """Counts pairs of true and predicted labels; the caller sets `step`.

    Args:
        true: The index of the true label; ignored if outside `labels`, such as -100.
        most: Of more labels, only those with the most errors are in the matrix, in their order.
    """
    answers, truth = np.asarray(predicted, dtype=np.int64), np.asarray(true, dtype=np.int64)
    counted = (truth >= 0) & (truth < len(labels))
    pairs, numbers = np.unique(np.stack([truth[counted], answers[counted]]), axis=1, return_counts=True)
    trues, predictions = (np.bincount(side, numbers, len(labels)).astype(int) for side in pairs)
    same = pairs[0] == pairs[1]
    rights = np.bincount(pairs[0][same], numbers[same], len(labels)).astype(int)
    worst = np.argsort(2 * rights - trues - predictions, kind="stable")  # most errors first
    kept: Any = np.sort(worst[:most])
    place = np.full(len(labels), -1)
    place[kept] = np.arange(len(kept))
    rows, columns = place[pairs[0]], place[pairs[1]]
    inside = (rows >= 0) & (columns >= 0)
    counts: Any = np.zeros((len(kept), len(kept)), dtype=np.int64)
    counts[rows[inside], columns[inside]] = numbers[inside]
    return ConfusionCounted(
        step=0,
        labels=tuple(labels[index] for index in kept),
        counts=tuple(tuple(row) for row in counts.tolist()),
        left_out=len(labels) - len(kept),
        of_labels=tuple(
            LabelCounted(
                label=labels[index],
                true=int(trues[index]),
                predicted=int(predictions[index]),
                right=int(rights[index]),
            )
            for index in np.sort(worst[:MOST_LISTED])
        ),
    )


def confusion_of(prediction: Any, labels: Sequence[str]) -> ConfusionCounted:
    """Returns the same from transformers' EvalPrediction: `predictions` of logits [..., labels], `label_ids` [...].

    Token classifiers' `predictions` are label indices already, in the shape of `label_ids`.
    """
    predictions, true = first_of(prediction.predictions), np.asarray(prediction.label_ids)
    answers = predictions if predictions.ndim == true.ndim else np.argmax(predictions, axis=-1)
    return confusion(answers.ravel(), true.ravel(), labels)


def first_of(predictions: Any) -> Any:
    """Returns the logits of a model that returns more."""
    return predictions[0] if isinstance(predictions, tuple) else predictions


# --- Regression


def regression_metrics(prediction: Any) -> dict[str, float]:
    """Computes Trainer's metrics from `predictions` [samples, 1] of numbers and `label_ids` [samples].

    `pearson` and `spearman`, -1 to 1, NaN if undefined, and `mae`, the mean absolute error in the label's unit.
    """
    answers = np.asarray(first_of(prediction.predictions), dtype=np.float64).reshape(-1)
    truth = np.asarray(prediction.label_ids, dtype=np.float64).reshape(-1)
    return {
        "pearson": pearson(truth, answers),
        "spearman": pearson(ranks(truth), ranks(answers)),
        "mae": float(np.mean(np.abs(truth - answers))),
    }


def pearson(one: Any, other: Any) -> float:
    """Returns the linear correlation of two series; NaN if one of them is constant or holds a NaN."""
    one, other = (np.asarray(series, dtype=np.float64) for series in (one, other))
    if not len(one) or np.ptp(one) == 0 or np.ptp(other) == 0 or not np.isfinite([one, other]).all():
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the rank of each value, from 1; equal ones have their mean rank. All NaN if one of them is."""
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return means[which]


def constant_baseline(prediction: Any) -> float | None:
    """Returns what a constant prediction reaches: the accuracy of the most frequent label, or the error of the mean.

    It reads `label_ids` [samples] of transformers' EvalPrediction: label indices, or numbers.
    """
    truth = np.asarray(prediction.label_ids)
    if not truth.size:
        return None
    if np.issubdtype(truth.dtype, np.floating):
        return float(np.mean(np.abs(truth - truth.mean())))
    return float(np.unique(truth, return_counts=True)[1].max() / truth.size) if truth.ndim == 1 else None


# --- Token classification


OUTSIDE = "O"
_PREFIXED = re.compile(r"([BIESLUM])(?:[-_](.*))?")
_BEGINS = "BSU"
_ENDS = "ESLU"


@dataclass(frozen=True)
class Entity:
    """An entity from word `first` to word `last`, inclusive."""

    kind: str
    first: int
    last: int


class TagScheme:
    """How to read the tags of a data set.

    Prefixes (B-PER I-PER; IOB1, BIO, IOBES and BILOU) tell where an entity begins. Without, equal neighbours are one
    entity if some words are outside (`O`); if every word has a tag, as for parts of speech, each word is its own.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        inside = [label for label in labels if label != OUTSIDE]
        self.has_prefixes = bool(inside) and all(_PREFIXED.fullmatch(label) for label in inside)
        self.joins_neighbours = len(inside) < len(labels)

    def entities(self, tags: Sequence[str]) -> set[Entity]:
        """Returns the entities of one text, from the tags of its words."""
        return set(self._entities(tags))

    def _entities(self, tags: Sequence[str]) -> Iterator[Entity]:
        first, previous = 0, ("", "")
        for place, tag in enumerate((*tags, OUTSIDE)):
            current = self._split(tag)
            begins = previous[1] != current[1] or previous[0] in _ENDS or current[0] in _BEGINS
            if current[0] and previous[0] and not begins:
                previous = current
                continue
            if previous[0]:
                yield Entity(previous[1], first, place - 1)
            first, previous = place, current

    def _split(self, tag: str) -> tuple[str, str]:
        """Returns prefix and kind; both empty outside."""
        if tag == OUTSIDE:
            return "", ""
        match = _PREFIXED.fullmatch(tag) if self.has_prefixes else None
        if match:
            return match[1], match[2] or ""
        return ("I" if self.has_prefixes or self.joins_neighbours else "S"), tag


def most_likely(logits: Any, _labels: Any) -> torch.Tensor:
    """Returns label indices [batch, tokens] of logits [batch, tokens, classes], which would fill the memory."""
    indices: torch.Tensor = first_of(logits).argmax(dim=-1)
    return indices


def tag_metrics(labels: tuple[str, ...]) -> Callable[[Any], dict[str, float]]:
    """Returns Trainer's `compute_metrics` for these tags.

    It reads `predictions` [samples, tokens] of label indices and `label_ids` of the same shape, -100 for tokens without
    a label, and returns, 0 to 1: `f1`, `precision` and `recall` of entities (see `TagScheme`), `token_accuracy`.
    """
    scheme = TagScheme(labels)

    def compute(prediction: Any) -> dict[str, float]:
        correct = predicted = true = 0
        for answers, truth in zip(prediction.predictions, prediction.label_ids, strict=True):
            is_word = truth != NO_LABEL
            found, expected = (
                scheme.entities([labels[index] for index in tags[is_word]]) for tags in (answers, truth)
            )
            correct += len(found & expected)
            predicted += len(found)
            true += len(expected)
        words = prediction.label_ids != NO_LABEL
        is_right = prediction.predictions[words] == prediction.label_ids[words]
        return {
            "f1": _ratio(2 * correct, predicted + true),
            "precision": _ratio(correct, predicted),
            "recall": _ratio(correct, true),
            "token_accuracy": float(np.mean(is_right)) if len(is_right) else 0.0,
        }

    return compute


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# --- Language models


class Means:
    """Weighted means of the figures of batches; weights are tokens or samples."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._weight = 0.0

    def add(self, weight: float, **figures: float) -> None:
        if weight:  # figures of an empty batch are NaN
            self._weight += weight
            for name, value in figures.items():
                self._sums[name] += weight * value

    @classmethod
    def of_all(cls, parts: "Iterable[Means]") -> "Means":
        """Returns the means over the batches of all parts."""
        found = cls()
        for part in parts:
            found.add(part._weight, **part.all())
        return found

    def all(self) -> dict[str, float]:
        """Returns the means by name; empty if nothing was added."""
        return {name: value / self._weight for name, value in self._sums.items()}


@dataclass(frozen=True)
class ValidationSize:
    """The size of the validation text."""

    tokens: int
    characters: int


def perplexity_metrics(loss: float, held_out: ValidationSize | None = None) -> dict[str, float]:
    """Returns metrics that follow from a loss, the mean over tokens in nats.

    `perplexity`, infinite beyond what a float holds; and, for a known text, `nats_per_character` and
    `bits_per_character`, by which models with different tokenizers can be compared.
    """
    try:
        metrics = {"perplexity": math.exp(loss)}
    except OverflowError:
        metrics = {"perplexity": math.inf}
    if held_out is not None and held_out.characters:
        nats = loss * held_out.tokens / held_out.characters
        metrics |= {"nats_per_character": nats, "bits_per_character": nats / math.log(2)}
    return metrics


def rated_metrics(means: dict[str, float]) -> dict[str, float]:
    """Returns the metrics of KTO from means over answers, which say of each whether it is liked, and its reward.

    The margin between mean rewards is added if there are both liked and other answers, and `baseline`, the accuracy of
    rewarding all answers alike.
    """
    sides = ("liked", "of_liked", "of_others")
    liked, of_liked, of_others = (means.get(name, 0.0) for name in sides)
    metrics = {name: mean for name, mean in means.items() if name not in sides}
    if not 0 < liked < 1:
        return metrics
    margin = of_liked / liked - of_others / (1 - liked)
    return {**metrics, "reward_margin": margin, "baseline": max(liked, 1 - liked)}
