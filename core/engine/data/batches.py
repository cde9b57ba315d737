"""From samples to a batch. Workers import this module, so it imports nothing that is slow or large."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from core.engine.data.lengths import NO_LABEL

BY_TOKEN = ("input_ids", "token_type_ids", "attention_mask")
"""What every sample has one number a token of; labels may come one a token, too."""


def stack(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Collate samples of equal size: pixel_values [batch, 3, H, W] and labels [batch]."""
    return {
        "pixel_values": torch.stack([sample["pixel_values"] for sample in samples]),
        "labels": torch.tensor([sample["labels"] for sample in samples]),
    }


@dataclass(frozen=True)
class PadTexts:
    """Collates token ids into int64 [batch, tokens], as transformers' DataCollatorWithPadding does.

    It knows what a tokenizer pads with, not the tokenizer: that would be sent to each worker, transformers with it.

    Args:
        pad_id: The token that fills up.
        pad_type: Its token type.
        on_left: Whether a row is filled up at its beginning.
        length: Tokens of every row; None: as many as the longest of the batch.
    """

    pad_id: int
    pad_type: int = 0
    on_left: bool = False
    length: int | None = None

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Make one batch; what isn't by token becomes a tensor [batch] of its own type."""
        lengths = [len(sample["input_ids"]) for sample in samples]
        width = max(self.length or 0, *lengths)
        filling = {"input_ids": self.pad_id, "token_type_ids": self.pad_type, "labels": NO_LABEL}
        return {
            name: self._padded(samples, name, width, filling.get(name, 0))
            if name in BY_TOKEN or isinstance(samples[0][name], list)
            else torch.tensor([sample[name] for sample in samples])
            for name in samples[0]
        }

    def _padded(self, samples: list[dict[str, Any]], name: str, width: int, filling: int) -> torch.Tensor:
        rows: Any = np.full((len(samples), width), filling, dtype=np.int64)
        for row, sample in zip(rows, samples, strict=True):
            values = sample[name]
            if self.on_left:
                row[width - len(values) :] = values
            else:
                row[: len(values)] = values
        return torch.from_numpy(rows)


def pad_as(tokenizer: Any, length: int | None = None) -> PadTexts:
    """The collator that pads as this tokenizer does.

    Args:
        tokenizer: One with a padding token.
        length: Tokens of every row; None: as many as the longest of the batch.
    """
    return PadTexts(
        pad_id=tokenizer.pad_token_id,
        pad_type=tokenizer.pad_token_type_id,
        on_left=tokenizer.padding_side == "left",
        length=length,
    )


@dataclass(frozen=True)
class StackBlocks:
    """Collates rows of equal length into int64 [batch, tokens]; every token is said, so that the labels are the same.

    There is no attention mask: nothing is padding, and attention is faster without.
    """

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Make one batch."""
        tokens = torch.from_numpy(
            np.stack([np.asarray(sample["input_ids"], dtype=np.int64) for sample in samples])
        )
        return {"input_ids": tokens, "labels": tokens.clone()}
