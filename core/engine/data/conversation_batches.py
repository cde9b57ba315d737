"""Batches of conversations, packed or not, and of pairs of answers. Workers import this, so it imports little."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from core.engine.data.batches import PadTexts

LENGTHS = "seq_lengths"
"""The column, by the name TRL gives it, that says how long each conversation of a packed row is."""


@dataclass(frozen=True)
class PadConversations(PadTexts):
    """Collates `input_ids` and `labels` into int64 [batch, tokens], filled up on the right.

    Where rows hold several conversations, `position_ids` begin anew with each in place of an `attention_mask`: by that,
    transformers keeps them from seeing each other (`find_packed_sequence_indices`). Padding stays at position 0.
    """

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Make one batch."""
        batch = super().__call__([_tokens(sample) for sample in samples])
        width = batch["input_ids"].shape[1]
        if LENGTHS in samples[0]:
            rows = [np.concatenate([np.arange(length) for length in sample[LENGTHS]]) for sample in samples]
            return {**batch, "position_ids": _stacked(rows, width)}
        ones = [np.ones(len(sample["input_ids"])) for sample in samples]
        return {**batch, "attention_mask": _stacked(ones, width)}


@dataclass(frozen=True)
class PadPairs(PadTexts):
    """Collates pairs as TRL's DPO takes them: first a row for each better answer, then one for each worse.

    `completion_mask` is 1 where an answer is. Each sample has `prompt_ids`, `chosen_ids` and `rejected_ids`.
    """

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Make one batch of int64 [2 x pairs, tokens]."""
        halves = [(sample["prompt_ids"], sample["chosen_ids"]) for sample in samples]
        halves += [(sample["prompt_ids"], sample["rejected_ids"]) for sample in samples]
        batch = super().__call__([{"input_ids": [*prompt, *answer]} for prompt, answer in halves])
        width = batch["input_ids"].shape[1]
        ones = [np.ones(len(prompt) + len(answer)) for prompt, answer in halves]
        answers = [np.r_[np.zeros(len(prompt)), np.ones(len(answer))] for prompt, answer in halves]
        return {
            **batch,
            "attention_mask": _stacked(ones, width),
            "completion_mask": _stacked(answers, width),
        }


def _tokens(sample: dict[str, Any]) -> dict[str, Any]:
    return {"input_ids": sample["input_ids"], "labels": sample["labels"]}


def _stacked(rows: list[Any], width: int) -> torch.Tensor:
    """Rows of numbers filled up with zeros on the right."""
    found: Any = np.zeros((len(rows), width), dtype=np.int64)
    for row, values in zip(found, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(found)
