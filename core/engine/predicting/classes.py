"""Labels, numbers and labels by word: what encoders and vision models say of an example."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from core.engine.data.lengths import NO_LABEL
from core.engine.entities import OUTSIDE
from core.engine.predicting.speaker import in_portions, logits_of
from core.predictions import Example, Said

Collator = Callable[[list[dict[str, Any]]], dict[str, Any]]


@dataclass(frozen=True)
class Classes:
    """Samples that get one label each."""

    examples: tuple[Example, ...]
    samples: list[dict[str, Any]]
    collator: Collator
    labels: tuple[str, ...]

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """The most likely label of each, and how likely it is."""
        chances = _logits(model, self.samples, self.collator).softmax(-1)
        best = chances.max(-1)
        return tuple(
            Said(text=self.labels[label], sure=chance, right=label == int(sample["labels"]))
            for sample, label, chance in zip(
                self.samples, best.indices.tolist(), best.values.tolist(), strict=True
            )
        )


@dataclass(frozen=True)
class Numbers:
    """Samples that get a number each."""

    examples: tuple[Example, ...]
    samples: list[dict[str, Any]]
    collator: Collator

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """The number of each; how near is near enough nobody knows."""
        numbers = _logits(model, self.samples, self.collator).reshape(len(self.samples), -1)[:, 0]
        return tuple(Said(text=number_words(number)) for number in numbers.tolist())


@dataclass(frozen=True)
class WordLabels:
    """Texts whose words get a label each."""

    examples: tuple[Example, ...]
    samples: list[dict[str, Any]]
    collator: Collator
    labels: tuple[str, ...]
    tokenizer: Any

    def say(self, model: Any, is_asked_to_stop: Callable[[], bool]) -> tuple[Said, ...]:
        """The labelled words of each."""
        asked = (logits_of(model, self.collator(list(some))) for some in in_portions(self.samples))
        guesses = [row for logits in asked for row in logits.argmax(-1).tolist()]
        return tuple(self._said(sample, guess) for sample, guess in zip(self.samples, guesses, strict=True))

    def _said(self, sample: dict[str, Any], guesses: list[int]) -> Said:
        kept = guesses[: len(sample["labels"])]
        pairs = list(zip(sample["labels"], kept, strict=True))
        right = all(guess == label for label, guess in pairs if label != NO_LABEL)
        return Said(text=tagged_words(sample, kept, self.labels, self.tokenizer), right=right)


def _logits(model: Any, samples: list[dict[str, Any]], collator: Collator) -> torch.Tensor:
    """Those of all samples, [samples, labels]."""
    return torch.cat([logits_of(model, collator(list(some))) for some in in_portions(samples)])


def number_words(value: float) -> str:
    """A number as it is shown: three decimals at most."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def tagged_words(sample: dict[str, Any], tags: list[int], labels: tuple[str, ...], tokenizer: Any) -> str:
    """The words of a sample that have a tag other than O, as `word [TAG]`; a dash where none has."""
    said = [
        f"{word} [{labels[tag]}]" for word, tag in _words(sample, tags, tokenizer) if labels[tag] != OUTSIDE
    ]
    return ", ".join(said) or "–"


def _words(sample: dict[str, Any], tags: list[int], tokenizer: Any) -> Iterator[tuple[str, int]]:
    """Each word with its tag: it begins at a token with a label, and goes on over those without one."""
    special = set(tokenizer.all_special_ids)
    tokens, tag = [], None
    for token, label, guess in zip(sample["input_ids"], sample["labels"], tags, strict=True):
        if label != NO_LABEL:
            if tag is not None:
                yield tokenizer.decode(tokens).strip(), tag
            tokens, tag = [token], guess
        elif tag is not None and token not in special:
            tokens.append(token)
    if tag is not None:
        yield tokenizer.decode(tokens).strip(), tag
