"""Collators and worker processes. Workers import this module, so it imports nothing slow or large."""

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch

from core.base.errors import UserError
from core.engine.data import NO_LABEL

Collator = Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]]

# --- Collators


BY_TOKEN = ("input_ids", "token_type_ids", "attention_mask")
"""Columns with a number per token; labels may have one, too."""


def stack(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Collates samples of equal size: pixel_values [batch, 3, H, W] and labels [batch]."""
    return {
        "pixel_values": torch.stack([sample["pixel_values"] for sample in samples]),
        "labels": torch.tensor([sample["labels"] for sample in samples]),
    }


def _padded(rows: Iterable[Any], width: int, value: int = 0, *, on_left: bool = False) -> torch.Tensor:
    """Pads rows to int64 [rows, width]."""
    rows = list(rows)
    padded: Any = np.full((len(rows), width), value, dtype=np.int64)
    for row, values in zip(padded, rows, strict=True):
        row[width - len(values) if on_left else 0 :][: len(values)] = values
    return torch.from_numpy(padded)


@dataclass(frozen=True)
class PadTexts:
    """Collates token ids into int64 [batch, tokens], as transformers' DataCollatorWithPadding does.

    It has the padding of a tokenizer instead of the tokenizer, which would be sent to each worker with transformers.

    Args:
        pad_type: Its token type.
        length: Tokens of every row; None pads to the longest of the batch.
        multiple: Its length is rounded up to a multiple of this, but not beyond `most`.
    """

    pad_id: int
    pad_type: int = 0
    on_left: bool = False
    length: int | None = None
    multiple: int = 1
    most: int = 0

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Returns columns that aren't by token become tensors [batch] of their own type."""
        longest = max(self.length or 0, *(len(sample["input_ids"]) for sample in samples))
        width = max(longest, min(-(-longest // self.multiple) * self.multiple, self.most))
        padding = {"input_ids": self.pad_id, "token_type_ids": self.pad_type, "labels": NO_LABEL}
        batch = {}
        for name, first in samples[0].items():
            values = [sample[name] for sample in samples]
            if name in BY_TOKEN or isinstance(first, list):
                batch[name] = _padded(values, width, padding.get(name, 0), on_left=self.on_left)
            else:
                batch[name] = torch.tensor(values)
        return batch


def pad_as(tokenizer: Any, length: int | None = None, **rounding: int) -> PadTexts:
    """Returns the collator that pads as this tokenizer does."""
    on_left = tokenizer.padding_side == "left"
    return PadTexts(tokenizer.pad_token_id, tokenizer.pad_token_type_id, on_left, length, **rounding)


@dataclass(frozen=True)
class StackBlocks:
    """Collates rows of equal length into int64 [batch, tokens], which are the labels, too.

    There is no padding and no attention mask: attention is faster without.
    """

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        rows = [np.asarray(sample["input_ids"], dtype=np.int64) for sample in samples]
        tokens = torch.from_numpy(np.stack(rows))
        return {"input_ids": tokens, "labels": tokens.clone()}


LENGTHS = "seq_lengths"
"""TRL's column with the length of each conversation of a packed row."""


@dataclass(frozen=True)
class PadConversations(PadTexts):
    """Collates `input_ids` and `labels` into int64 [batch, tokens].

    For packed rows, `position_ids` that restart with each conversation replace the `attention_mask`: transformers keeps
    the conversations apart by them (`find_packed_sequence_indices`). Padding has position 0.
    """

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        batch = super().__call__(
            [{name: sample[name] for name in ("input_ids", "labels")} for sample in samples]
        )
        width = batch["input_ids"].shape[1]
        if LENGTHS in samples[0]:
            rows = [np.concatenate([np.arange(length) for length in sample[LENGTHS]]) for sample in samples]
            return {**batch, "position_ids": _padded(rows, width)}
        masks = (np.ones(len(sample["input_ids"])) for sample in samples)
        return {**batch, "attention_mask": _padded(masks, width)}


@dataclass(frozen=True)
class PadPairs(PadTexts):
    """Collates `prompt_ids`, `chosen_ids` and `rejected_ids` into int64 [2 x pairs, tokens], as TRL's DPO takes them.

    The better answers come first. `completion_mask` is 1 at the tokens of an answer.
    """

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        rows = [(sample["prompt_ids"], sample["chosen_ids"]) for sample in samples]
        return self.collate([*rows, *((sample["prompt_ids"], sample["rejected_ids"]) for sample in samples)])

    def collate(self, rows: list[tuple[list[int], list[int]]]) -> dict[str, torch.Tensor]:
        """Collates prompts with their answers."""
        batch = PadTexts.__call__(self, [{"input_ids": [*prompt, *answer]} for prompt, answer in rows])
        width = batch["input_ids"].shape[1]
        attended = (np.ones(len(prompt) + len(answer)) for prompt, answer in rows)
        answers = (np.r_[np.zeros(len(prompt)), np.ones(len(answer))] for prompt, answer in rows)
        return {
            **batch,
            "attention_mask": _padded(attended, width),
            "completion_mask": _padded(answers, width),
        }


@dataclass(frozen=True)
class PadRated(PadPairs):
    """Collates `prompt_ids`, `completion_ids` and a bool `label` as TRL's KTO takes them, int64 [answers, tokens].

    `KL_…` are each prompt with the answer before it in the batch, cut after `most` tokens. TRL makes these rows before
    training, which fixes the order of the samples.
    """

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        prompts, answers = ([sample[name] for sample in samples] for name in ("prompt_ids", "completion_ids"))
        others = zip(prompts, [answers[-1], *answers[:-1]], strict=True)
        apart = [(prompt, answer[: self.most - len(prompt)]) for prompt, answer in others]
        return {
            **self.collate(list(zip(prompts, answers, strict=True))),
            **{f"KL_{name}": rows for name, rows in self.collate(apart).items()},
            "label": torch.tensor([sample["label"] for sample in samples]),
        }


# --- How batches are made, in the words of `WhatRan`


GROUPED = "grouped by length"
LONGEST = "each batch's longest"


def padded_to(collator: Any) -> str:
    """Returns the length of rows; empty for images. Collators that wrap another have it as `collate`."""
    while not isinstance(collator, PadTexts):
        collator = getattr(collator, "collate", None)
        if collator is None:
            return ""
    return longest_to(collator.multiple) if collator.length is None else f"{collator.length:,} tokens"


def longest_to(multiple: int) -> str:
    """Returns `WhatRan.padded_to` of rows that aren't of a fixed length."""
    return LONGEST if multiple == 1 else f"{LONGEST}, to multiples of {multiple}"


# --- Worker processes: how they are started, and what they are sent


PRELOADED = ("core.engine.data.batches",)
"""Imported once by the fork server, with torch, before it forks the workers."""

REFUSED = "refused"
"""The key of a `UserError` that a worker sends instead of a batch."""


def start_method(system: str) -> str:
    """Returns how workers are started: `forkserver` or `spawn`, never `fork`.

    By the time there are workers, the engine runs threads (OpenMP, tokenizers, Arrow) and holds a CUDA context or a
    Metal device: a fork copies their locks without the threads that would release them. Trainer would fork on MPS.

    Args:
        system: `platform.system()`: `Linux`, `Darwin` or `Windows`.
    """
    return "forkserver" if system == "Linux" else "spawn"


@dataclass(frozen=True)
class SentSamples:
    """A data set for workers, with a `UserError` as the only sample of a batch that can't be read.

    torch turns any other exception of a worker into text, and the title and the fixes would be lost.
    """

    samples: Any

    def __len__(self) -> int:
        return len(self.samples)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        try:
            if hasattr(self.samples, "__getitems__"):
                return list(self.samples.__getitems__(indices))
            return [self.samples[index] for index in indices]
        except UserError as error:
            return [error]


@dataclass(frozen=True)
class SentCollator:
    """The collator for `SentSamples`."""

    collate: Collator

    def __call__(self, samples: list[Any]) -> dict[str, Any]:
        first = samples[0]
        return {REFUSED: first} if isinstance(first, UserError) else self.collate(samples)


def received(batch: dict[str, Any]) -> dict[str, Any]:
    """Returns the batch, or raises the error that a worker sent in its place.

    Raises:
        UserError: The worker sent one instead.
    """
    error = batch.get(REFUSED)
    if error is not None:
        raise error
    return batch


def begin_worker(_worker: int) -> None:
    """Sets up a worker process, with the seed Trainer would set; Trainer's own function would import transformers."""
    signal.signal(signal.SIGTERM, _ignore_once)
    threading.Thread(target=_exit_with_engine, name="exit-with-engine", daemon=True).start()
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _ignore_once(number: int, _frame: FrameType | None) -> None:
    """Ignores the first SIGTERM: at shutdown every process gets one, but the engine needs its workers to save."""
    signal.signal(number, signal.SIG_DFL)


def _exit_with_engine() -> None:
    """Exits when the engine does.

    torch's own watchdog watches the worker's parent: the fork server, which outlives a killed engine.
    """
    engine = multiprocessing.parent_process()
    if engine is not None:
        engine.join()
        os._exit(1)
