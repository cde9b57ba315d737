"""How good a classifier is, by scikit-learn, and a model that gives numbers."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from core.engine.data import NO_LABEL
from core.runs.events import MOST_LABELS, ConfusionCounted

# --- Which labels a classifier takes for which others


def confusion(
    predicted: Sequence[int], true: Sequence[int], labels: Sequence[str], most: int = MOST_LABELS
) -> ConfusionCounted:
    """Count which labels were taken for which; `step` is for the caller to tell.

    Of more than `most` labels, those with most errors are kept, in their order.

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
    return ConfusionCounted(
        step=0,
        labels=tuple(labels[index] for index in kept),
        counts=tuple(tuple(row) for row in counts.tolist()),
        left_out=len(labels) - len(kept),
    )


def confusion_of(prediction: Any, labels: Sequence[str]) -> ConfusionCounted:
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


# --- What tags of words say: which words together are one name


OUTSIDE = "O"
_PREFIXED = re.compile(r"([BIESLUM])(?:[-_](.*))?")
_BEGINS = "BSU"
_ENDS = "ESLU"


@dataclass(frozen=True)
class Entity:
    """Words from `first` to `last`, both included, that are one thing of a kind."""

    kind: str
    first: int
    last: int


class TagScheme:
    """How to read the tags of a data set.

    With prefixes (B-PER I-PER; IOB1, BIO, IOBES and BILOU alike) these tell where a name begins. Without, neighbours
    with the same tag are one name where some words are outside (`O`); where every word has a tag, as for parts of
    speech, each word stands for itself.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        inside = [label for label in labels if label != OUTSIDE]
        self.has_prefixes = bool(inside) and all(_PREFIXED.fullmatch(label) for label in inside)
        self.joins_neighbours = len(inside) < len(labels)

    def entities(self, tags: Sequence[str]) -> set[Entity]:
        """The names that the tags of one text's words mark."""
        return set(self._entities(tags))

    def _entities(self, tags: Sequence[str]) -> Iterator[Entity]:
        first, before = 0, ("", "")
        for place, tag in enumerate((*tags, OUTSIDE)):
            prefix, kind = now = self._split(tag)
            if prefix and not self._begins(before, now):
                before = now
                continue
            if before[0]:
                yield Entity(before[1], first, place - 1)
            first, before = place, (prefix, kind)

    def _split(self, tag: str) -> tuple[str, str]:
        """Prefix and kind; no prefix outside."""
        if tag == OUTSIDE:
            return "", ""
        if not self.has_prefixes:
            return ("I" if self.joins_neighbours else "S"), tag
        found = _PREFIXED.fullmatch(tag)
        return (found[1], found[2] or "") if found else ("I", tag)

    def _begins(self, before: tuple[str, str], now: tuple[str, str]) -> bool:
        """Whether a word inside a name begins another one than the word before it was in."""
        return not before[0] or before[1] != now[1] or before[0] in _ENDS or now[0] in _BEGINS


# --- Means over an evaluation whose batches weigh differently


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


# --- How good a classifier is, by scikit-learn, and a model that gives numbers


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


# --- How surprising a model finds a text: its loss in other words


@dataclass(frozen=True)
class HeldOut:
    """How long the held-out text is: the tokens it comes to, and its characters."""

    tokens: int
    characters: int


def perplexity_metrics(loss: float, held_out: HeldOut | None = None) -> dict[str, float]:
    """What a loss says in other words.

    Args:
        loss: The mean over tokens, in nats.
        held_out: The text it was measured on; None where that isn't known.

    Returns:
        `perplexity`, e to the loss, infinite beyond what a float holds; and, where the text is known, the loss as
        `nats_per_character` and `bits_per_character`, which models with different tokenizers can be compared by.
    """
    try:
        found = {"perplexity": math.exp(loss)}
    except OverflowError:
        found = {"perplexity": math.inf}
    if held_out is None or not held_out.characters:
        return found
    nats = loss * held_out.tokens / held_out.characters
    return {**found, "nats_per_character": nats, "bits_per_character": nats / math.log(2)}


# --- Precision, recall and F1 of names found in texts, and how many words got their right label


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
