"""From samples to a batch. Workers import this module, so it imports nothing that is slow or large."""

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch

from core.base.errors import UserError
from core.engine.data import NO_LABEL

# --- Keeps float64 from devices that don't have it


Collator = Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]]

WITHOUT_FLOAT64 = ("mps",)
"""Kinds of devices that have no float64."""


@dataclass(frozen=True)
class SinglePrecision:
    """A collator whose batches hold float32 where the samples held float64; it can be sent to spawned workers."""

    collate: Collator

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate, still on the CPU, and cast; everything but float64 is left as it is."""
        batch = self.collate(samples)
        for name, value in list(batch.items()):
            if isinstance(value, torch.Tensor) and value.dtype == torch.float64:
                batch[name] = value.float()
        return batch


def collator_for(kind: str, collator: Collator) -> Collator:
    """`collator` as a device of this kind (`cuda`, `mps`, `cpu`) needs it."""
    return SinglePrecision(collator) if kind in WITHOUT_FLOAT64 else collator


# --- From samples to a batch. Workers import this module


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


# --- Processes that prepare batches: how they are started, what they are sent


PRELOADED = ("core.engine.data.batches",)
"""What the fork server imports once, before it forks the workers: torch above all."""

REFUSED = "refused"
"""The key under which a worker sends a `UserError` in place of a batch."""


def start_method(system: str) -> str:
    """How workers are started: `forkserver` or `spawn`, never `fork`.

    By the time there are workers the engine runs threads (OpenMP, tokenizers, Arrow), holds a CUDA context or a Metal
    device; a fork copies their locks without the threads that would release them. Trainer itself would fork on MPS.

    Args:
        system: As `platform.system()` says it: `Linux`, `Darwin`, `Windows`.
    """
    return "forkserver" if system == "Linux" else "spawn"


@dataclass(frozen=True)
class SentSamples:
    """A data set on its way to workers: what stops the person's run comes back whole.

    torch makes a text of any exception of a worker, so that the title, the detail and the fixes of a `UserError` would
    be lost in a traceback.
    """

    samples: Any

    def __len__(self) -> int:
        return len(self.samples)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples of one batch, or the one error that keeps them back."""
        try:
            if hasattr(self.samples, "__getitems__"):
                return list(self.samples.__getitems__(indices))
            return [self.samples[index] for index in indices]
        except UserError as error:
            return [error]


@dataclass(frozen=True)
class SentCollator:
    """The collator that goes with `SentSamples`."""

    collate: Collator

    def __call__(self, samples: list[Any]) -> dict[str, Any]:
        """A batch, or the error under its key."""
        first = samples[0]
        return {REFUSED: first} if isinstance(first, UserError) else self.collate(samples)


def received(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch as it is.

    Raises:
        UserError: The worker sent one in place of it.
    """
    error = batch.get(REFUSED)
    if error is not None:
        raise error
    return batch


def begin_worker(_worker: int) -> None:
    """Called in each worker as it starts.

    Its random numbers get the seed that Trainer would give them; Trainer's own function would import transformers.
    """
    signal.signal(signal.SIGTERM, _leave_to_engine)
    threading.Thread(target=_end_with_engine, name="end-with-engine", daemon=True).start()
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _leave_to_engine(number: int, _frame: FrameType | None) -> None:
    """A shutdown asks every process to end: the engine needs its workers until it has saved. It asks a second time."""
    signal.signal(number, signal.SIG_DFL)


def _end_with_engine() -> None:
    """Wait until the engine is gone, then end.

    torch's own watchdog looks at the worker's parent. That is the fork server, which in turn waits for the workers: a
    killed engine would leave them all behind.
    """
    engine = multiprocessing.parent_process()
    if engine is not None:
        engine.join()
        os._exit(1)


# --- Batches of conversations, packed or not, and of pairs of answers. Workers import this


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
